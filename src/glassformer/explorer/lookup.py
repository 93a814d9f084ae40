"""Embedding look-ups of the head view: a token's row of the table, and that it is a one-hot row's product with it.

GET /api/lookup?s=SESSION&stream=NAME&token=N        JSON, of `Lookup`
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from glassformer.errors import DataError
from glassformer.explorer.http import Query, json_errors
from glassformer.explorer.session_runs import SessionRuns
from glassformer.inspect.lookup import Lookup, embedding_table, look_up
from glassformer.inspect.session import Session

MAX_STORED, MAX_NUMBERS = 32, 2**26
"""Tokens that a standalone page has look-ups of, and numbers of the largest table that it has them of."""


def lookup_of(session: Session, stream: str, token: int) -> Lookup:
    """The look-up of a token of a stream. Raises: DataError: there is no such token, or no table."""
    tokens = session.streams.get(stream, [])
    if not 0 <= token < len(tokens):
        raise DataError(f"there is no token {token} of {stream!r}; there are {len(tokens)}")
    return look_up(session, stream, [tokens[token].id])[0]


def stored_lookups(session: Session) -> dict[str, list[dict[str, Any]]]:
    """What a standalone page has of them: the first different tokens of each stream, where its table is small."""
    stored = {}
    for stream, tokens in session.streams.items():
        table = embedding_table(session, stream)
        if table is not None and table.weight.numel() <= MAX_NUMBERS:
            ids = list(dict.fromkeys(token.id for token in tokens))[:MAX_STORED]
            stored[stream] = [asdict(each) for each in look_up(session, stream, ids)]
    return stored


def lookup_routes(runs: SessionRuns) -> list[Route]:
    """The route."""

    async def lookup(request: Request) -> Response:
        query = Query(request.query_params.multi_items())
        id, stream, token = query.text("s"), query.text("stream"), query.integer("token")
        query.reject_unknown()
        return JSONResponse(await run_in_threadpool(lambda: asdict(lookup_of(runs.get(id).result(), stream, token))))

    return [Route("/api/lookup", json_errors(lookup))]
