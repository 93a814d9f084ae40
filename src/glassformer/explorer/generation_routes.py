"""HTTP routes of the generation view: generate, branch, stop, token distributions, attention."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from glassformer.errors import DataError
from glassformer.explorer import responses
from glassformer.explorer.describe import describe
from glassformer.explorer.distributions import distribution
from glassformer.explorer.query import Query
from glassformer.explorer.responses import Lines, json_errors
from glassformer.explorer.session_runs import SessionRuns
from glassformer.explorer.traces import OPTION_LIMITS, StoredTrace, TraceJob, TraceStore, check_options
from glassformer.files import safe_repr


def generation_routes(runs: SessionRuns, traces: TraceStore, default_text: str) -> list[Route]:
    """The routes.

    Args:
        default_text: the prompt of a request that names none: the text that the page was opened with.
    """

    async def write(request: Request) -> Response:
        fields = await responses.body(request)
        stored, job = await run_in_threadpool(
            _begin if "w" not in fields else _branch, traces, fields, default_text
        )
        return responses.stream(request, _lines(stored, job))

    async def stop(request: Request) -> Response:
        fields = _check_fields(await responses.body(request), w=str)
        return JSONResponse({"stopped": traces.stop(fields["w"])})

    async def attention(request: Request) -> Response:
        fields = _check_fields(await responses.body(request), w=str, node=int)
        stored, node = traces.get(fields["w"]), fields["node"]
        run = await run_in_threadpool(runs.attend, stored.trace, node)

        def describe_session() -> dict[str, Any]:
            session = describe(run.result(), runs.facts, run.texts, run.id)
            return {**session, "generated": stored.location(node)}

        return responses.stream(request, responses.progress(run, describe_session))

    async def distribution_frame(request: Request) -> Response:
        query = Query(request.query_params.multi_items())
        w, node = query.text("w"), query.integer("node")
        count = None if query.optional("count") is None else query.integer("count")
        query.reject_unknown()
        stored = traces.get(w)
        return await responses.frame(request, lambda: distribution(stored.trace, w=w, node=node, count=count))

    return [
        Route("/api/write", json_errors(write), methods=["POST"]),
        Route("/api/stop", json_errors(stop), methods=["POST"]),
        Route("/api/attend", json_errors(attention), methods=["POST"]),
        Route("/api/distribution", json_errors(distribution_frame)),
    ]


def _begin(traces: TraceStore, fields: dict[str, Any], default_text: str) -> tuple[StoredTrace, TraceJob]:
    """Start generation from a prompt.

    Raises: DataError: an invalid request, or a prompt that would have a file read.
    """
    fields = _check_fields(fields, prompt=(str, type(None)), options=dict)
    prompt = default_text if fields["prompt"] is None else fields["prompt"]
    responses.check_characters(prompt)
    if traces.model.family.modality is not None and prompt != default_text:
        # The prompt of such a model is the path of a file: a page must not be able to read any file of this machine.
        raise DataError(
            f"this page listens to one {traces.model.family.modality}; for another, run glassformer look with its file"
        )
    stored = traces.begin(prompt, fields["options"])
    return stored, traces.write(stored)


def _branch(traces: TraceStore, fields: dict[str, Any], default_text: str) -> tuple[StoredTrace, TraceJob]:
    """Start generation from a node of a stored trace, with forced tokens first."""
    fields = _check_fields(
        {"options": None, **fields}, w=str, node=int, tokens=list, options=(dict, type(None))
    )
    stored = traces.get(fields["w"])
    after, tokens = fields["node"], fields["tokens"]
    options = stored.options
    if fields["options"] is not None:
        options = stored.trace.resolve_options(**check_options(fields["options"]))
    if len(tokens) > OPTION_LIMITS["max_new_tokens"]:
        raise DataError(
            f"{len(tokens):,} forced tokens; at most {OPTION_LIMITS['max_new_tokens']:,} are allowed"
        )
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
            await asyncio.sleep(responses.POLL_SECONDS)
    finally:
        job.stop()


def _check_fields(fields: dict[str, Any], **kinds: Any) -> dict[str, Any]:
    """Validate the fields of a request: all present, none unknown, each of its type.

    Raises: DataError: a field is missing, unknown, or of another type.
    """
    for name in fields.keys() - kinds.keys():
        raise DataError(f"the request names {safe_repr(name)}; it takes {', '.join(kinds)}")
    for name, kind in kinds.items():
        if name not in fields:
            raise DataError(f"the request lacks {name!r}; it takes {', '.join(kinds)}")
        if not isinstance(fields[name], kind) or isinstance(fields[name], bool):
            raise DataError(f"{name} is {safe_repr(fields[name])}, which has the wrong type")
    return fields
