"""The ASGI application (Starlette): static files, forward passes, generation, and one route for all views.

GET  /  /static/…                                        the page; nothing in it is secret
POST /api/runs    {"texts": […]}                         a line a step: {"done", "of"} … {"ready"} or {"error"}
POST /api/view/NAME {"s": SESSION, …}                    a view (registry.py): its frame, or lines … {"ready": {"key"}}
GET  /api/frame?s=SESSION&key=KEY                        the frame of a view that took time
POST /api/write   {"prompt", "options"} or {"w", "node", "tokens"}    {"trace"}, {"step"} … {"ready"} or {"error"}
POST /api/attend  {"w", "node"}                          as runs: the session of a prompt and its generated text
POST /api/stop    {"w"}
GET  /api/openapi.json                                   the requests of all views
GET  /api/page?s=SESSION or ?w=TRACE&node=N            the session, or the generation trace, as one HTML file
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from glassformer.errors import DataError
from glassformer.explorer import http
from glassformer.explorer.describe import describe
from glassformer.explorer.http import Endpoint, Guard, Lines, json_errors
from glassformer.explorer.lesson_views import lesson_views
from glassformer.explorer.registry import Reading, has_report_views, openapi, request_of
from glassformer.explorer.requests import (
    BranchRequest,
    FrameRequest,
    NodeRequest,
    PageRequest,
    TextsRequest,
    TraceRequest,
    WriteRequest,
)
from glassformer.explorer.scene import ViewJobs
from glassformer.explorer.session_runs import SessionRun, SessionRuns
from glassformer.explorer.similarity import similarity_readings
from glassformer.explorer.standalone_page import MEDIA_TYPES, SCRIPT, StandalonePage, page_files
from glassformer.explorer.traces import StoredTrace, TraceJob, TraceStore, check_options
from glassformer.files import safe_repr
from glassformer.files.schema import parse, parse_query
from glassformer.generation.served_options import limits
from glassformer.reports.page import element, report_files


def build(
    jobs: ViewJobs,
    token: str,
    texts: Sequence[str],
    extra_routes: Sequence[Route] = (),
) -> ASGIApp:
    """The application as it is served: the files of the page too, and access control.

    Args:
        token: access token required by /api.
        others: as `application`.
    Raises: PageMissingError: this installation lacks the page's files.
    """
    return Guard(application(jobs, texts, [*static_routes(), *extra_routes]), token)


def application(jobs: ViewJobs, texts: Sequence[str], extra_routes: Sequence[Route] = ()) -> ASGIApp:
    """What a page asks for, for those who may ask it.

    Args:
        jobs: the views of the page, its sessions and generation traces.
        texts: the texts of a request that names none.
        extra_routes: further routes alongside.
    """
    runs, traces = jobs.runs, jobs.traces
    routes = [
        Route("/api/runs", json_errors(_runs(runs, tuple(texts))), methods=["POST"]),
        Route("/api/view/{name}", json_errors(_view(jobs)), methods=["POST"]),
        Route("/api/frame", json_errors(_frame(jobs))),
        Route("/api/openapi.json", lambda request: JSONResponse(openapi())),
        Route("/api/page", json_errors(_page(jobs))),
        *generation_routes(runs, traces, texts[0]),
        *extra_routes,
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: http.http_error})


def static_routes(program: str = "app", path: str = "/") -> list[Route]:
    """The files of a page, and the page.

    Args:
        program: app, the explorer; or ask, the page of a store of documents
        path: of the page
    Raises: PageMissingError: this installation lacks the page's files.
    """
    files = page_files()
    if program != "app":
        own = {"/app.css": f"/{program}.css", SCRIPT: element("script", src=f"/static/{program}.js")}
        for explorers, its in own.items():
            files["index.html"] = files["index.html"].replace(explorers.encode(), its.encode())
    # Views of plug-ins are drawn by the program of reports.
    if program == "app" and has_report_views():
        style, script = report_files(None)
        files["reports.css"], files["reports.js"] = style.encode(), script.encode()
        files["index.html"] = files["index.html"].replace(
            SCRIPT.encode(),
            '<link rel="stylesheet" href="/static/reports.css">\n'
            f"{element('script', src='/static/reports.js')}\n{SCRIPT}".encode(),
        )
    endpoints = {f"/static/{name}": _static(name, content) for name, content in files.items()}
    return [Route(each, endpoint) for each, endpoint in {path: endpoints["/static/index.html"], **endpoints}.items()]


def _static(name: str, content: bytes) -> Endpoint:
    compressed = gzip.compress(content, 9, mtime=0)  # compressed once, not per request

    async def endpoint(request: Request) -> Response:
        kind = MEDIA_TYPES["." + name.rpartition(".")[2]]
        if http.accepts_gzip(request):
            return Response(compressed, media_type=kind, headers=http.GZIP_HEADERS)
        return Response(content, media_type=kind, headers={"vary": "accept-encoding"})

    return endpoint


def _view(jobs: ViewJobs) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        name, fields = request.path_params["name"], await http.body(request)
        id = fields.pop("s", "")
        if not isinstance(id, str):
            raise DataError(f"s is {safe_repr(id)}; it must be the id of a session")
        view, wanted = request_of(name, fields)
        if view.quick:
            return await http.frame(request, lambda: view.frame(name, jobs.scene(id), wanted))
        job = await run_in_threadpool(jobs.begin, id, name, view, wanted)
        return http.stream(request, http.progress(job, lambda: job.steps_done, lambda: {"key": job.result().key}))

    return endpoint


def _frame(jobs: ViewJobs) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        wanted = parse_query(FrameRequest, request.query_params.multi_items())
        return await http.frame(request, lambda: jobs.frame(wanted.s, wanted.key))

    return endpoint


def _page(jobs: ViewJobs) -> Endpoint:
    runs, traces = jobs.runs, jobs.traces

    async def endpoint(request: Request) -> Response:
        wanted = parse_query(PageRequest, request.query_params.multi_items())
        tabs = () if wanted.view is None else (wanted.view,)
        written = None
        if wanted.s is not None:
            id, run = wanted.s, runs.get(wanted.s)
        else:
            assert wanted.w is not None and wanted.node is not None
            stored = traces.get(wanted.w)
            id, run, written = stored.id, runs.begin((stored.trace.prompt,)), (stored, wanted.node)
        page = await run_in_threadpool(_session_page, jobs, run, written, tabs=tabs)
        name = f"glassformer-{id[:8]}.html"
        return StreamingResponse(
            http.logged(page.parts()),
            media_type="text/html",
            headers={"content-disposition": f'attachment; filename="{name}"'},
        )

    return endpoint


def _session_page(
    jobs: ViewJobs, run: SessionRun, generated: tuple[StoredTrace, int] | None = None, *, tabs: Sequence[str] = ()
) -> StandalonePage:
    """The page of a session, with the map of embeddings, the views that took time, and the similarity of its texts; of
    a lesson also what its steps show.

    Args:
        generated: a text that was written after that of the session, and its last node
    """
    runs, corpus = jobs.runs, jobs.maps.corpus
    run.result()
    shown: list[Reading] = []
    start, attended = "", None
    if runs.factory.lesson is not None:
        shown, generated = lesson_views(jobs.scene(run.id), None if generated is None else generated[0])
        start = "" if tabs else "v=1&tour=1"
    elif generated is not None:
        stored, node = generated
        start, attended = "v=1&view=generate", runs.attend(stored.trace, node) if node else None
    readings = {each.key: each for each in [*similarity_readings(runs, run.texts), *shown, *run.readings.values()]}
    return StandalonePage(
        run.result(),
        runs.facts,
        run.texts,
        start=start,
        generated=generated,
        written=attended,
        readings=list(readings.values()),
        corpus=corpus,
        lesson=runs.factory.lesson,
        compare=runs.factory.explain_similarity,
        tabs=tabs,
    )


def _runs(runs: SessionRuns, default_texts: tuple[str, ...]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        texts = tuple(parse(TextsRequest, await http.body(request)).texts or default_texts)
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
        return JSONResponse({"stopped": traces.stop(parse(TraceRequest, await http.body(request)).w)})

    async def attention(request: Request) -> Response:
        wanted = parse(NodeRequest, await http.body(request))
        stored, node = traces.get(wanted.w), wanted.node
        run = await run_in_threadpool(runs.attend, stored.trace, node)

        def describe_session() -> dict[str, Any]:
            session = describe(run.result(), runs.facts, run.texts, run.id)
            return {**session, "generated": stored.location(node)}

        return http.stream(request, http.progress(run, lambda: run.blocks_done, describe_session))

    return [
        Route("/api/write", json_errors(write), methods=["POST"]),
        Route("/api/stop", json_errors(stop), methods=["POST"]),
        Route("/api/attend", json_errors(attention), methods=["POST"]),
    ]


def _begin(
    traces: TraceStore, fields: dict[str, Any], default_text: str, modality: str | None
) -> tuple[StoredTrace, TraceJob]:
    """Start generation from a prompt.

    Raises: DataError: an invalid request, or a prompt that would have a file read.
    """
    wanted = parse(WriteRequest, fields)
    prompt = default_text if wanted.prompt is None else wanted.prompt
    if modality is not None and prompt != default_text:
        # The prompt of such a model is the path of a file: a page must not be able to read any file of this machine.
        raise DataError(f"this page listens to one {modality}; for another, run glassformer look with its file")
    return traces.begin_writing(prompt, wanted.options)


def _branch(traces: TraceStore, fields: dict[str, Any]) -> tuple[StoredTrace, TraceJob]:
    """Start generation from a node of a stored trace, with forced tokens first."""
    wanted = parse(BranchRequest, fields)
    stored = traces.get(wanted.w)
    after, tokens = wanted.node, list(wanted.tokens)
    options = stored.options
    if wanted.options is not None:
        options = stored.trace.resolve_options(**check_options(wanted.options))
    most = limits()["max_new_tokens"].most
    if len(tokens) > most:
        raise DataError(f"{len(tokens):,} forced tokens; at most {most:,} are allowed")
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
