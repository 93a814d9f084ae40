"""The explorer: a page on which people look at every attention head of their model.

    look.py      model.look(…) and what it gives back                 served.py   a page's address, its begin and end
    serve.py     a server on this machine, a browser to open
    app.py       the routes        guard.py   who may call them       query.py    parameters, read strictly
    runs.py      passes under way and sessions kept                   describe.py a session in JSON
    views.py     one function a view: session → frame                 frames.py   arrays and their names in one piece
    writings.py  texts under way and kept                             write_routes.py  their routes
    odds.py      what could follow a token, as a frame                answers.py  what all answers share
    page.py      the whole session as one HTML file                   static.py   what web/ builds

The numbers come from `glassformer.inspect`; nothing here computes attention.
"""

from __future__ import annotations

from glassformer.explorer.look import Look, look

__all__ = ["Look", "look"]
