"""The routes: the page's own files, runs, and one address a view.

GET  /  /static/…                                        the page; nothing in it is secret
POST /api/runs    {"texts": […]}                         a line a step: {"done", "of"} … {"ready"} or {"error"}
GET  /api/overview|lines|tile|row|neuron?s=SESSION&…     a frame
POST /api/write   {"prompt", "options"} or {"w", "node", "tokens"}    {"writing"}, {"step"} … {"ready"} or {"error"}
POST /api/attend  {"w", "node"}                          as runs: the session of a prompt and what was written
POST /api/stop    {"w"}
GET  /api/distribution?w=WRITING&node=N                  a frame
GET  /api/page?s=SESSION or ?w=WRITING&node=N            the session, or the writing, as one HTML file
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from glassformer.errors import DataError
from glassformer.explorer import answers, static, views
from glassformer.explorer.answers import Endpoint, caught
from glassformer.explorer.describe import describe
from glassformer.explorer.guard import Guard
from glassformer.explorer.page import Page, written_page
from glassformer.explorer.query import Query
from glassformer.explorer.runs import Runs
from glassformer.explorer.write_routes import write_routes
from glassformer.explorer.writings import Writings

View = tuple[Callable[..., bytes], Callable[[Query], dict[str, Any]]]

VIEWS: dict[str, View] = {
    "overview": (
        views.overview,
        lambda q: {"map": q.text("map"), "layer": q.whole("layer"), "exact": q.flag("exact")},
    ),
    "lines": (
        views.lines,
        lambda q: {
            "map": q.text("map"),
            "layers": q.span("layers"),
            "heads": q.wholes("heads"),
            "mix": q.text("mix", "each"),
            "rows": q.span("rows"),
            "count": q.whole("count", 32),
            "keys": q.words("keys"),
        },
    ),
    "tile": (
        views.tile,
        lambda q: {
            **_head(q),
            "level": q.whole("level"),
            "row": q.whole("row"),
            "column": q.whole("column"),
            "companding": q.text("companding", "linear"),
        },
    ),
    "row": (views.row, lambda q: {**_head(q), "query": q.whole("query")}),
    "neuron": (views.neuron, lambda q: {**_head(q), "query": q.whole("query"), "keys": q.span("keys")}),
}
"""Of each view: the function, and its parameters."""


def _head(query: Query) -> dict[str, Any]:
    return {"map": query.text("map"), "layer": query.whole("layer"), "head": query.whole("head")}


def build(
    runs: Runs, writings: Writings, token: str, texts: Sequence[str], more: Sequence[Route] = ()
) -> ASGIApp:
    """The application.

    Args:
        token: what callers of /api must know.
        texts: those of a page that names none.
        more: routes of whoever serves something beside the explorer, behind the same guard.
    Raises: PageMissingError: this installation lacks the page's files.
    """
    routes = [
        *(Route(path, endpoint) for path, endpoint in _static_endpoints().items()),
        Route("/api/runs", caught(_runs(runs, tuple(texts))), methods=["POST"]),
        *(Route(f"/api/{name}", caught(_view(runs, *view))) for name, view in VIEWS.items()),
        Route("/api/page", caught(_page(runs, writings))),
        *write_routes(runs, writings, texts[0]),
        *more,
    ]
    return Guard(Starlette(routes=routes, exception_handlers={HTTPException: answers.nothing_here}), token)


def _static_endpoints() -> dict[str, Endpoint]:
    endpoints = {f"/static/{name}": _static(name, content) for name, content in static.files().items()}
    return {"/": endpoints["/static/index.html"], **endpoints}


def _static(name: str, content: bytes) -> Endpoint:
    packed = gzip.compress(content, 9, mtime=0)  # once

    async def endpoint(request: Request) -> Response:
        kind = static.TYPES["." + name.rpartition(".")[2]]
        if answers.takes_gzip(request):
            return Response(packed, media_type=kind, headers=answers.PACKED)
        return Response(content, media_type=kind, headers={"vary": "accept-encoding"})

    return endpoint


def _view(runs: Runs, answer: Callable[..., bytes], read: Callable[[Query], dict[str, Any]]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        query = Query(request.query_params.multi_items())
        id, parameters = query.text("s"), read(query)
        query.done()
        return await answers.frame(request, lambda: answer(runs.get(id).result(), **parameters))

    return endpoint


def _page(runs: Runs, writings: Writings) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        query = Query(request.query_params.multi_items())
        if query.maybe("w") is None:
            id = query.text("s")
            query.done()
            run = runs.get(id)
            page = Page(run.result(), runs.facts, run.texts)
        else:
            kept, node = writings.get(query.text("w")), query.whole("node")
            query.done()
            page = await run_in_threadpool(written_page, runs, kept, node)
            id = kept.id
        name = f"glassformer-{id[:8]}.html"
        return StreamingResponse(
            answers.logged(page.parts()),
            media_type="text/html",
            headers={"content-disposition": f'attachment; filename="{name}"'},
        )

    return endpoint


def _runs(runs: Runs, own: tuple[str, ...]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        texts = _texts(await answers.body(request)) or own
        if runs.facts.opens is not None and texts[0] != own[0]:
            # who may ask for a text may not have any file of this machine read
            raise DataError(
                f"this page looks at one {runs.facts.opens}; for another, run glassformer look with its file"
            )
        run = runs.begin(texts)
        return answers.stream(
            request, answers.progress(run, lambda: describe(run.result(), runs.facts, run.texts))
        )

    return endpoint


def _texts(asked: dict[str, Any]) -> tuple[str, ...] | None:
    """The texts that a request asks for; None where it names none.

    Raises: DataError: it is not {"texts": [one or two]} nor {}.
    """
    if asked == {}:
        return None
    texts = asked.get("texts") if len(asked) == 1 else None
    if not isinstance(texts, list) or len(texts) not in (1, 2) or not all(isinstance(t, str) for t in texts):
        raise DataError('the request must be {"texts": [one text or two]}, or {} for the text it began with')
    answers.check_characters("".join(texts))
    return tuple(texts)
