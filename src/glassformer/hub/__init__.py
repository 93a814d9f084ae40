"""Finding model folders: on this machine, in the Hub cache, or on the Hub; verified before first use.

resolve("org/name") ─> find.py    a folder here? then that, and nothing else is even imported
                       fetch.py   the Hub cache, else a download: the only module that opens a connection
                       files.py   which files of a repository are worth fetching
                       verify.py  the digest each file must have; damaged ones are put aside
"""

from __future__ import annotations

from glassformer.hub.find import resolve

__all__ = ["resolve"]
