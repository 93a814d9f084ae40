"""Resolve model names: a local folder, the Hugging Face Hub cache, or a verified download; data sets of the examples.

resolve("org/name") ─> find.py    a local folder, for which no Hub client is imported; the files that make a model
                       fetch.py   the Hub cache, else a download, one of three that open a connection;
                                  the checksum of each file; damaged ones are quarantined
fetch_data_set("emotion") ─> data_sets.py   verified files of `data/sets.yaml`, next to the models
"""

from __future__ import annotations

from glassformer.hub.find import resolve

__all__ = ["resolve"]
