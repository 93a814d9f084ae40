"""Resolve model names: a local folder, the Hugging Face Hub cache, or a verified download.

resolve("org/name") ─> find.py    a local folder, for which no Hub client is imported; the files that make a model
                       fetch.py   the Hub cache, else a download, the only module that opens a connection;
                                  the checksum of each file; damaged ones are quarantined
"""

from __future__ import annotations

from glassformer.hub.find import resolve

__all__ = ["resolve"]
