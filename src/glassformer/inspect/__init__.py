"""Looking into a network: what it is made of and what it costs."""

from __future__ import annotations

from glassformer.inspect.summary import Part, Summary, TensorRow, Weight, summary

__all__ = ["Part", "Summary", "TensorRow", "Weight", "summary"]
