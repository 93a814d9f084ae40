"""The routes: the page's own files, runs, and one address a view.

GET  /  /static/…                                        the page; nothing in it is secret
POST /api/runs  {"texts": […]}                           a line a step: {"done", "of"} … {"ready"} or {"error"}
GET  /api/overview|lines|tile|row|neuron?s=SESSION&…     a frame
GET  /api/page?s=SESSION                                 the session as one HTML file
"""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any

import torch
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from glassformer.errors import DataError, GlassformerError
from glassformer.explorer import static, views
from glassformer.explorer.describe import describe
from glassformer.explorer.guard import Guard, refusal
from glassformer.explorer.page import Page
from glassformer.explorer.query import Query
from glassformer.explorer.runs import Run, Runs, SessionGone

log = logging.getLogger(__name__)

MOST_BODY = 1_000_000
"""Bytes of texts; no model here reads more."""
MOST_DRAINED = 64_000_000
"""Bytes of a body that is too long, read all the same, so that its sender gets to hear why it is refused."""
WORTH_GZIP = 1_000
BETWEEN_LOOKS = 0.02
"""Seconds between two looks at how far a pass has come."""

Endpoint = Callable[[Request], Awaitable[Response]]
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


def build(runs: Runs, token: str, texts: Sequence[str]) -> ASGIApp:
    """The application.

    Args:
        token: what callers of /api must know.
        texts: those of a page that names none.
    Raises: PageMissingError: this installation lacks the page's files.
    """
    routes = [
        *(Route(path, endpoint) for path, endpoint in _static_endpoints().items()),
        Route("/api/runs", _caught(_runs(runs, tuple(texts))), methods=["POST"]),
        *(Route(f"/api/{name}", _caught(_view(runs, *view))) for name, view in VIEWS.items()),
        Route("/api/page", _caught(_page(runs))),
    ]
    return Guard(Starlette(routes=routes, exception_handlers={HTTPException: _nothing_here}), token)


def _static_endpoints() -> dict[str, Endpoint]:
    endpoints = {f"/static/{name}": _static(name, content) for name, content in static.files().items()}
    return {"/": endpoints["/static/index.html"], **endpoints}


def _static(name: str, content: bytes) -> Endpoint:
    packed = gzip.compress(content, 9, mtime=0)  # once

    async def endpoint(request: Request) -> Response:
        kind = static.TYPES["." + name.rpartition(".")[2]]
        if _takes_gzip(request):
            return Response(packed, media_type=kind, headers=_PACKED)
        return Response(content, media_type=kind, headers={"vary": "accept-encoding"})

    return endpoint


def _view(runs: Runs, answer: Callable[..., bytes], read: Callable[[Query], dict[str, Any]]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        query = Query(request.query_params.multi_items())
        id, parameters = query.text("s"), read(query)
        query.done()

        def compute() -> tuple[bytes, bool]:
            frame = answer(runs.get(id).result(), **parameters)
            packed = gzip.compress(frame, 4, mtime=0) if wanted and len(frame) >= WORTH_GZIP else frame
            return (packed, True) if len(packed) < 0.9 * len(frame) else (frame, False)

        wanted = _takes_gzip(request)
        content, packed = await run_in_threadpool(compute)
        return Response(content, media_type="application/octet-stream", headers=_PACKED if packed else None)

    return endpoint


def _page(runs: Runs) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        query = Query(request.query_params.multi_items())
        id = query.text("s")
        query.done()
        run = runs.get(id)
        page = Page(run.result(), runs.facts, run.texts)
        name = f"glassformer-{id[:8]}.html"
        return StreamingResponse(
            _logged(page.parts()),
            media_type="text/html",
            headers={"content-disposition": f'attachment; filename="{name}"'},
        )

    return endpoint


def _logged(parts: Iterator[str]) -> Iterator[str]:
    """A failure in the middle breaks the download off, which is how a browser learns that it is not whole."""
    try:
        yield from parts
    except Exception as error:
        _sentence(error)
        raise


# ------------------------------------------------------------------------------------------------------- runs


def _runs(runs: Runs, own: tuple[str, ...]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        texts = _texts(await _body(request)) or own
        if runs.facts.opens is not None and texts[0] != own[0]:
            # who may ask for a text may not have any file of this machine read
            raise DataError(
                f"this page looks at one {runs.facts.opens}; for another, run glassformer look with its file"
            )
        run = runs.begin(texts)
        if _takes_gzip(request):
            return StreamingResponse(
                _packed(_lines(run, runs)), media_type="application/x-ndjson", headers=_PACKED
            )
        return StreamingResponse(_lines(run, runs), media_type="application/x-ndjson")

    return endpoint


async def _lines(run: Run, runs: Runs) -> AsyncIterator[bytes]:
    """How far the pass has come, whenever it has come further; at last the session, or why there is none."""
    shown = (0, 0)
    while not run.over:
        if run.at != shown:
            shown = run.at
            yield _line({"done": shown[0], "of": shown[1]})
        await asyncio.sleep(BETWEEN_LOOKS)
    try:
        yield _line({"ready": describe(run.result(), runs.facts, run.texts)})
    except Exception as error:
        yield _line({"error": _sentence(error)[1]})


def _line(words: dict[str, Any]) -> bytes:
    return json.dumps(words, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


async def _packed(lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """A gzip stream that can be read up to each line's end as soon as the line is sent."""
    packer = zlib.compressobj(6, wbits=31)
    async for line in lines:
        yield packer.compress(line) + packer.flush(zlib.Z_SYNC_FLUSH)
    yield packer.flush()


async def _body(request: Request) -> bytes:
    """The body, up to the limit. Raises: HTTPException: it is longer."""
    kept, size = bytearray(), 0
    async for part in request.stream():
        size += len(part)
        if size <= MOST_BODY:
            kept += part
        elif size > MOST_DRAINED:
            break
    if size > MOST_BODY:
        raise HTTPException(
            413, f"the text is too long: at most {MOST_BODY:,} bytes are taken; give a part of it"
        )
    return bytes(kept)


def _texts(body: bytes) -> tuple[str, ...] | None:
    """The texts that a body asks for; None where it names none.

    Raises: DataError: it is not {"texts": [one or two]} nor {}.
    """
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise DataError(f"the request is no JSON: {error}") from error
    if asked == {}:
        return None
    texts = asked.get("texts") if isinstance(asked, dict) and len(asked) == 1 else None
    if not isinstance(texts, list) or len(texts) not in (1, 2) or not all(isinstance(t, str) for t in texts):
        raise DataError('the request must be {"texts": [one text or two]}, or {} for the text it began with')
    try:
        "".join(texts).encode()
    except UnicodeEncodeError as error:
        raise DataError(
            "the text holds half of a surrogate pair, which is no character; leave it out"
        ) from error
    return tuple(texts)


# ----------------------------------------------------------------------------------------------------- errors


def _caught(endpoint: Endpoint) -> Endpoint:
    """The endpoint, with every failure as a line of JSON; the server lives on."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except (HTTPException, ClientDisconnect):
            raise
        except Exception as error:
            return refusal(*_sentence(error))

    return answer


def _sentence(error: Exception) -> tuple[int, str]:
    """Status and message of a failure; what is a bug goes to the log too."""
    match error:
        case SessionGone():
            return 410, str(error)
        case GlassformerError():
            return 400, str(error)
        case MemoryError() | torch.OutOfMemoryError():
            return 400, "there is not enough memory for this; give a shorter text"
    what = f"{type(error).__name__}: {error}"
    log.error("%s; this is a bug in glassformer; run again with --debug to see where", what)
    log.debug("where it happened", exc_info=error)
    return 500, f"{what}; this is a bug in glassformer: please report it with what you did"


async def _nothing_here(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = f"{request.url.path}: there is nothing here" if error.status_code == 404 else error.detail
    return refusal(error.status_code, message)


# -------------------------------------------------------------------------------------------------------- gzip

_PACKED = {"content-encoding": "gzip", "vary": "accept-encoding"}


def _takes_gzip(request: Request) -> bool:
    """Does the client say so? `gzip;q=0` says no."""
    for part in request.headers.get("accept-encoding", "").split(","):
        name, _, quality = part.partition(";")
        if name.strip().lower() in ("gzip", "*"):
            return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
