"""The ASGI application (Starlette): static files, forward passes, and one route per view.

GET  /  /static/…                                        the page; nothing in it is secret
POST /api/runs    {"texts": […]}                         a line a step: {"done", "of"} … {"ready"} or {"error"}
GET  /api/overview|lines|tile|row|neuron?s=SESSION&…     a frame
POST /api/write   {"prompt", "options"} or {"w", "node", "tokens"}    {"trace"}, {"step"} … {"ready"} or {"error"}
POST /api/attend  {"w", "node"}                          as runs: the session of a prompt and its generated text
POST /api/stop    {"w"}
POST /api/patch, /api/sweep                            activation patching (patches.py)
POST /api/lens, /api/attribution                       logit lens and attribution (readings.py)
GET  /api/distribution?w=TRACE&node=N                  a frame
GET  /api/similarity, /api/contexts, /api/lookup         of similarity.py, contexts.py and lookup.py
GET  /api/page?s=SESSION or ?w=TRACE&node=N            the session, or the generation trace, as one HTML file
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from glassformer.errors import DataError
from glassformer.explorer import http, views
from glassformer.explorer.contexts import contexts_block, contexts_routes, read_query
from glassformer.explorer.describe import describe
from glassformer.explorer.http import Endpoint, Guard, Lines, Query, json_errors
from glassformer.explorer.lookup import lookup_routes
from glassformer.explorer.patches import patch_routes
from glassformer.explorer.readings import reading_routes
from glassformer.explorer.session_runs import SessionRun, SessionRuns
from glassformer.explorer.similarity import similarity_blocks, similarity_routes
from glassformer.explorer.standalone_page import MEDIA_TYPES, StandalonePage, generation_page, page_files
from glassformer.explorer.traces import OPTION_LIMITS, StoredTrace, TraceJob, TraceStore, check_options
from glassformer.explorer.views import distribution

View = tuple[Callable[..., bytes], Callable[[Query], dict[str, Any]]]

VIEWS: dict[str, View] = {
    "overview": (
        views.overview,
        lambda q: {"map": q.text("map"), "layer": q.integer("layer"), "exact": q.flag("exact")},
    ),
    "lines": (
        views.lines,
        lambda q: {
            "map": q.text("map"),
            "layers": q.span("layers"),
            "heads": q.integers("heads"),
            "mix": q.text("mix", "each"),
            "rows": q.span("rows"),
            "count": q.integer("count", 32),
            "keys": q.strings("keys"),
        },
    ),
    "tile": (
        views.tile,
        lambda q: {
            **_head(q),
            "level": q.integer("level"),
            "row": q.integer("row"),
            "column": q.integer("column"),
            "companding": q.text("companding", "linear"),
        },
    ),
    "row": (views.row, lambda q: {**_head(q), "query": q.integer("query")}),
    "neuron": (views.neuron, lambda q: {**_head(q), "query": q.integer("query"), "keys": q.span("keys")}),
}
"""View name → its function, and the parser of its query parameters."""


def _head(query: Query) -> dict[str, Any]:
    return {"map": query.text("map"), "layer": query.integer("layer"), "head": query.integer("head")}


def build(
    runs: SessionRuns,
    traces: TraceStore,
    token: str,
    texts: Sequence[str],
    extra_routes: Sequence[Route] = (),
) -> ASGIApp:
    """The application.

    Args:
        token: access token required by /api.
        texts: the texts of a request that names none.
        extra_routes: further routes to serve beside the explorer, behind the same access control.
    Raises: PageMissingError: this installation lacks the page's files.
    """
    routes = [
        *(Route(path, endpoint) for path, endpoint in _static_endpoints().items()),
        Route("/api/runs", json_errors(_runs(runs, tuple(texts))), methods=["POST"]),
        *(Route(f"/api/{name}", json_errors(_view(runs, *view))) for name, view in VIEWS.items()),
        Route("/api/page", json_errors(_page(runs, traces))),
        *generation_routes(runs, traces, texts[0]),
        *patch_routes(runs),
        *similarity_routes(runs),
        *contexts_routes(runs),
        *reading_routes(runs),
        *lookup_routes(runs),
        *extra_routes,
    ]
    return Guard(Starlette(routes=routes, exception_handlers={HTTPException: http.http_error}), token)


def _static_endpoints() -> dict[str, Endpoint]:
    endpoints = {f"/static/{name}": _static(name, content) for name, content in page_files().items()}
    return {"/": endpoints["/static/index.html"], **endpoints}


def _static(name: str, content: bytes) -> Endpoint:
    compressed = gzip.compress(content, 9, mtime=0)  # compressed once, not per request

    async def endpoint(request: Request) -> Response:
        kind = MEDIA_TYPES["." + name.rpartition(".")[2]]
        if http.accepts_gzip(request):
            return Response(compressed, media_type=kind, headers=http.GZIP_HEADERS)
        return Response(content, media_type=kind, headers={"vary": "accept-encoding"})

    return endpoint


def _view(runs: SessionRuns, answer: Callable[..., bytes], read: Callable[[Query], dict[str, Any]]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        query = Query(request.query_params.multi_items())
        id, parameters = query.text("s"), read(query)
        query.reject_unknown()
        return await http.frame(request, lambda: answer(runs.get(id).result(), **parameters))

    return endpoint


def _page(runs: SessionRuns, traces: TraceStore) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        query = Query(request.query_params.multi_items())
        if query.optional("w") is None:
            id, asked = query.text("s"), None if query.optional("by") is None else read_query(query)
            query.reject_unknown()
            page = await run_in_threadpool(_session_page, runs, runs.get(id), asked)
        else:
            stored, node = traces.get(query.text("w")), query.integer("node")
            query.reject_unknown()
            page = await run_in_threadpool(generation_page, runs, stored, node)
            id = stored.id
        name = f"glassformer-{id[:8]}.html"
        return StreamingResponse(
            http.logged(page.parts()),
            media_type="text/html",
            headers={"content-disposition": f'attachment; filename="{name}"'},
        )

    return endpoint


def _session_page(runs: SessionRuns, run: SessionRun, asked: dict[str, Any] | None) -> StandalonePage:
    """The page of a session, with the similarity of its texts, and with the contexts that are on screen."""
    session = run.result()
    blocks = [] if asked is None else [contexts_block(runs.factory.corpus, session, asked)]
    extra = [*similarity_blocks(runs, run.texts), *blocks]
    readings = tuple(run.readings.values())
    return StandalonePage(session, runs.facts, run.texts, sweeps=run.sweeps or None, extra=extra, readings=readings)


def _runs(runs: SessionRuns, default_texts: tuple[str, ...]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        texts = _texts(await http.body(request)) or default_texts
        if runs.facts.modality is not None and texts[0] != default_texts[0]:
            # The text of such a model is the path of a file: a page must not be able to read any file of this machine.
            raise DataError(
                f"this page looks at one {runs.facts.modality}; for another, run glassformer look with its file"
            )
        if texts != default_texts:  # which the user of this machine has chosen
            await run_in_threadpool(runs.check_length, texts)
        run = runs.begin(texts)
        return http.stream(
            request, http.progress(run, lambda: run.blocks_done, lambda: describe(run.result(), runs.facts, run.texts))
        )

    return endpoint


def _texts(fields: dict[str, Any]) -> tuple[str, ...] | None:
    """Parse the texts of a request; None where it names none.

    Raises: DataError: it is neither {"texts": [one or two]} nor {}.
    """
    if fields == {}:
        return None
    texts = fields.get("texts") if len(fields) == 1 else None
    if not isinstance(texts, list) or len(texts) not in (1, 2) or not all(isinstance(t, str) for t in texts):
        raise DataError('the request must be {"texts": [one text or two]}, or {} for the text it began with')
    http.check_characters("".join(texts))
    return tuple(texts)


def generation_routes(runs: SessionRuns, traces: TraceStore, default_text: str) -> list[Route]:
    """The routes.

    Args:
        default_text: the prompt of a request that names none: the text that the page was opened with.
    """

    async def write(request: Request) -> Response:
        fields = await http.body(request)
        if "w" not in fields:
            stored, job = await run_in_threadpool(_begin, traces, fields, default_text, runs.facts.modality)
        else:
            stored, job = await run_in_threadpool(_branch, traces, fields)
        return http.stream(request, _lines(stored, job))

    async def stop(request: Request) -> Response:
        fields = http.check_fields(await http.body(request), w=str)
        return JSONResponse({"stopped": traces.stop(fields["w"])})

    async def attention(request: Request) -> Response:
        fields = http.check_fields(await http.body(request), w=str, node=int)
        stored, node = traces.get(fields["w"]), fields["node"]
        run = await run_in_threadpool(runs.attend, stored.trace, node)

        def describe_session() -> dict[str, Any]:
            session = describe(run.result(), runs.facts, run.texts, run.id)
            return {**session, "generated": stored.location(node)}

        return http.stream(request, http.progress(run, lambda: run.blocks_done, describe_session))

    async def distribution_frame(request: Request) -> Response:
        query = Query(request.query_params.multi_items())
        w, node = query.text("w"), query.integer("node")
        count = None if query.optional("count") is None else query.integer("count")
        query.reject_unknown()
        stored = traces.get(w)
        return await http.frame(request, lambda: distribution(stored.trace, w=w, node=node, count=count))

    return [
        Route("/api/write", json_errors(write), methods=["POST"]),
        Route("/api/stop", json_errors(stop), methods=["POST"]),
        Route("/api/attend", json_errors(attention), methods=["POST"]),
        Route("/api/distribution", json_errors(distribution_frame)),
    ]


def _begin(
    traces: TraceStore, fields: dict[str, Any], default_text: str, modality: str | None
) -> tuple[StoredTrace, TraceJob]:
    """Start generation from a prompt.

    Raises: DataError: an invalid request, or a prompt that would have a file read.
    """
    fields = http.check_fields(fields, prompt=(str, type(None)), options=dict)
    prompt = default_text if fields["prompt"] is None else fields["prompt"]
    http.check_characters(prompt)
    if modality is not None and prompt != default_text:
        # The prompt of such a model is the path of a file: a page must not be able to read any file of this machine.
        raise DataError(f"this page listens to one {modality}; for another, run glassformer look with its file")
    stored = traces.begin(prompt, fields["options"])
    return stored, traces.write(stored)


def _branch(traces: TraceStore, fields: dict[str, Any]) -> tuple[StoredTrace, TraceJob]:
    """Start generation from a node of a stored trace, with forced tokens first."""
    fields = http.check_fields({"options": None, **fields}, w=str, node=int, tokens=list, options=(dict, type(None)))
    stored = traces.get(fields["w"])
    after, tokens = fields["node"], fields["tokens"]
    options = stored.options
    if fields["options"] is not None:
        options = stored.trace.resolve_options(**check_options(fields["options"]))
    if len(tokens) > OPTION_LIMITS["max_new_tokens"]:
        raise DataError(f"{len(tokens):,} forced tokens; at most {OPTION_LIMITS['max_new_tokens']:,} are allowed")
    stored.trace.check_branch(after, tokens)
    return stored, traces.write(stored, options, after=after, tokens=tokens)


async def _lines(stored: StoredTrace, job: TraceJob) -> Lines:
    """The lines of a job as they come; a client that disconnects stops the job."""
    try:
        yield {"trace": stored.description}
        while True:
            finished = job.finished  # read before the lines: one queued between the two would be lost
            for line in job.take():
                yield line
            if finished:
                return
            await asyncio.sleep(http.POLL_SECONDS)
    finally:
        job.stop()
