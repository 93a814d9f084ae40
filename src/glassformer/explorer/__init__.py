"""The attention explorer: a web page that visualises every attention head of a model.

    look.py              model.look(…)                    page_server.py        address, access token, start and stop
    server.py            local HTTP server, browser       guard.py              access control
    app.py               HTTP routes                      generation_routes.py  HTTP routes of text generation
    query.py             query string parsing             responses.py          compression, streams, errors
    session_runs.py      forward passes, session cache    describe.py           a session as JSON
    traces.py            generation jobs, trace store     distributions.py      next-token distributions
    views.py             view functions: session → frame  binary_frames.py      binary frame format
    standalone_page.py   one HTML file                    static.py             files built by web/

The numbers come from `glassformer.inspect`; nothing here computes attention.
"""

from __future__ import annotations

from glassformer.explorer.look import Look, look

__all__ = ["Look", "look"]
