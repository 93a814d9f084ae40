"""The attention explorer: a web page that visualises every attention head of a model.

    look.py              model.look(…)                    server.py             page server: port, token, browser
    app.py               HTTP routes                      http.py               access control, queries, streams, errors
    session_runs.py      forward passes, session cache    describe.py           a session as JSON
    traces.py            generation jobs, trace store     sound.py              transcription job, its routes and page
    views.py             view functions: session → frame  binary_frames.py      binary frame format
    similarity.py        similarity of two texts          contexts.py           searches of a corpus
    standalone_page.py   one HTML file; the files built by web/

The numbers come from `glassformer.inspect`; nothing here computes attention.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from glassformer.files.lazy import LazyPackage

if TYPE_CHECKING:
    from glassformer.explorer.look import Look, look

__all__ = ["Look", "look"]

_LAZY = {
    "Look": "glassformer.explorer.look",
    "look": "glassformer.explorer.look",
}
"""Imported when used: a command line reads options of this package without torch."""

sys.modules[__name__].__class__ = LazyPackage
