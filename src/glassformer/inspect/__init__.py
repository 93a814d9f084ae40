"""Looking into a network: what it is made of, what it costs, and every number of a pass."""

from __future__ import annotations

from glassformer.inspect.head import Head
from glassformer.inspect.memory import Memory, Use, memory
from glassformer.inspect.overview import Overview
from glassformer.inspect.reading import Reading, Token, read_texts, read_translation
from glassformer.inspect.session import AttentionMap, Session
from glassformer.inspect.sizes import Size, sizes
from glassformer.inspect.summary import Part, Summary, TensorRow, Weight, summary
from glassformer.inspect.trace import Layer, TapRow, folded, trace

__all__ = [
    "AttentionMap",
    "Head",
    "Layer",
    "Memory",
    "Overview",
    "Part",
    "Reading",
    "Session",
    "Size",
    "Summary",
    "TapRow",
    "TensorRow",
    "Token",
    "Use",
    "Weight",
    "folded",
    "memory",
    "read_texts",
    "read_translation",
    "sizes",
    "summary",
    "trace",
]
