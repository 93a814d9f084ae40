"""Similarity view: two texts, each encoded by itself, as a token × token map whose cells sum to the cosine.

GET /api/similarity?s=SESSION        a frame
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from glassformer.errors import DataError, UnsupportedError
from glassformer.explorer import http
from glassformer.explorer.binary_frames import encode
from glassformer.explorer.http import Query, json_errors
from glassformer.explorer.session_runs import SessionRuns
from glassformer.explorer.standalone_page import frame_block


def similarity_frame(runs: SessionRuns, texts: Sequence[str]) -> bytes:
    """The similarity of two texts, distributed over their tokens. [A, B]

    Raises: UnsupportedError: the model makes no vectors of texts. DataError: one text.
    """
    explain = runs.factory.explain_similarity
    if explain is None:
        raise UnsupportedError(f"this {runs.facts.family!r} model makes no vectors of texts that could be compared")
    if len(texts) != 2:
        raise DataError("a similarity is that of two texts; write a second text")
    explained = explain(*texts)
    fields = {
        "measure": explained.measure,
        "similarity": explained.similarity,
        "tokens": [[asdict(token) for token in tokens] for tokens in explained.tokens],
        "notes": list(explained.notes),
    }
    return encode("similarity", {"cells": explained.cells}, fields)


def similarity_blocks(runs: SessionRuns, texts: Sequence[str]) -> list[str]:
    """What a standalone page has of it: nothing, where there are no two texts, or no vectors of them."""
    if runs.factory.explain_similarity is None or len(texts) != 2:
        return []
    return [frame_block("similarity", similarity_frame(runs, texts))]


def similarity_routes(runs: SessionRuns) -> list[Route]:
    """The route."""

    async def similarity(request: Request) -> Response:
        query = Query(request.query_params.multi_items())
        id = query.text("s")
        query.reject_unknown()
        return await http.frame(request, lambda: similarity_frame(runs, runs.get(id).texts))

    return [Route("/api/similarity", json_errors(similarity))]
