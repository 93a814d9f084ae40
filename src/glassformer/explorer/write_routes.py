"""The routes of the generation view: write, branch, stop, what could follow, and what was looked at."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from glassformer.errors import DataError
from glassformer.explorer import answers
from glassformer.explorer.answers import Lines, caught
from glassformer.explorer.describe import describe
from glassformer.explorer.odds import distribution
from glassformer.explorer.query import Query
from glassformer.explorer.runs import Runs
from glassformer.explorer.writings import MOST, Kept, Work, Writings, options_of
from glassformer.files import shown


def write_routes(runs: Runs, writings: Writings, own: str) -> list[Route]:
    """The routes.

    Args:
        own: the text that the page was opened with.
    """

    async def write(request: Request) -> Response:
        asked = await answers.body(request)
        kept, work = await run_in_threadpool(_begun if "w" not in asked else _branched, writings, asked, own)
        return answers.stream(request, _lines(kept, work))

    async def stop(request: Request) -> Response:
        asked = _fields(await answers.body(request), w=str)
        return JSONResponse({"stopped": writings.stop(asked["w"])})

    async def attend(request: Request) -> Response:
        asked = _fields(await answers.body(request), w=str, node=int)
        kept, node = writings.get(asked["w"]), asked["node"]
        run = await run_in_threadpool(runs.attend, kept.writing, node)

        def ready() -> dict[str, Any]:
            session = describe(run.result(), runs.facts, run.texts, run.id)
            return {**session, "written": kept.place(node)}

        return answers.stream(request, answers.progress(run, ready))

    async def odds(request: Request) -> Response:
        query = Query(request.query_params.multi_items())
        w, node = query.text("w"), query.whole("node")
        count = None if query.maybe("count") is None else query.whole("count")
        query.done()
        kept = writings.get(w)
        return await answers.frame(request, lambda: distribution(kept.writing, w=w, node=node, count=count))

    return [
        Route("/api/write", caught(write), methods=["POST"]),
        Route("/api/stop", caught(stop), methods=["POST"]),
        Route("/api/attend", caught(attend), methods=["POST"]),
        Route("/api/distribution", caught(odds)),
    ]


def _begun(writings: Writings, asked: dict[str, Any], own: str) -> tuple[Kept, Work]:
    """A new tree.

    Raises: DataError: it is not asked for as it must be; a prompt that would have a file read.
    """
    given = _fields(asked, prompt=(str, type(None)), options=dict)
    prompt = own if given["prompt"] is None else given["prompt"]
    answers.check_characters(prompt)
    if writings.model.family.opens is not None and prompt != own:
        # who may ask for a text may not have any file of this machine read
        raise DataError(
            f"this page listens to one {writings.model.family.opens}; for another, run glassformer look with its file"
        )
    kept = writings.begin(prompt, given["options"])
    return kept, writings.write(kept)


def _branched(writings: Writings, asked: dict[str, Any], own: str) -> tuple[Kept, Work]:
    """A branch in a tree that is kept."""
    given = _fields({"options": None, **asked}, w=str, node=int, tokens=list, options=(dict, type(None)))
    kept = writings.get(given["w"])
    after, tokens = given["node"], given["tokens"]
    options = kept.asked
    if given["options"] is not None:
        options = kept.writing.asked(**options_of(given["options"]))
    if len(tokens) > MOST["max_new_tokens"]:
        raise DataError(
            f"{len(tokens):,} tokens are said by hand; at most {MOST['max_new_tokens']:,} are taken"
        )
    kept.writing.check_branch(after, tokens)
    return kept, writings.write(kept, options, after=after, tokens=tokens)


async def _lines(kept: Kept, work: Work) -> Lines:
    """What comes of it; who goes away ends it."""
    try:
        yield {"writing": kept.about}
        while True:
            over = work.over  # before the last look, lest a line come between the two
            for line in work.take():
                yield line
            if over:
                return
            await asyncio.sleep(answers.BETWEEN_LOOKS)
    finally:
        work.stop()


def _fields(asked: dict[str, Any], **kinds: Any) -> dict[str, Any]:
    """A request's fields, all of them, each of its kind.

    Raises: DataError: one is missing, unknown, or of another kind.
    """
    for name in asked.keys() - kinds.keys():
        raise DataError(f"the request names {shown(name)}; it takes {', '.join(kinds)}")
    for name, kind in kinds.items():
        if name not in asked:
            raise DataError(f"the request lacks {name!r}; it takes {', '.join(kinds)}")
        if not isinstance(asked[name], kind) or isinstance(asked[name], bool):
            raise DataError(f"{name} is {shown(asked[name])}, which is of another kind than it must be")
    return asked
