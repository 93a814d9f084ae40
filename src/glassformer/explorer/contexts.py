"""Contexts view: where in an indexed corpus a layer, a head or a neuron does the same as at a token of the session.

GET /api/contexts?s=SESSION&by=layer|head&layer=L&number=H&token=T&head=L.H&count=N        JSON
GET /api/contexts?s=SESSION&by=neuron&layer=L&number=N&head=L.H&count=N
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from glassformer.errors import DataError, UnsupportedError
from glassformer.explorer.describe import model_facts
from glassformer.explorer.http import Query, json_errors
from glassformer.explorer.session_runs import SessionFactory, SessionRuns
from glassformer.explorer.standalone_page import StandalonePage, json_block
from glassformer.inspect.session import Session
from glassformer.pretrained import PretrainedModel
from glassformer.reports.page import command_line

if TYPE_CHECKING:
    from glassformer.inspect.corpus import CorpusSearch

BY = ("layer", "head", "neuron")


def corpus_facts(corpus: CorpusSearch) -> dict[str, Any]:
    """What an index holds, for the page."""
    settings = corpus.index.settings
    return {
        "source": settings.source,
        "rows": settings.rows,
        "tokens": len(corpus.index),
        "layers": list(settings.layers),
        "heads": [list(head) for head in settings.heads],
        "neurons": list(settings.neurons),
        "neuron_width": settings.neuron_width,
    }


def searched_corpus(factory: SessionFactory, model: PretrainedModel, folder: str | Path | None) -> SessionFactory:
    """The factory with a corpus to search in. Raises: DataError: no index, a damaged one, or of another model."""
    if folder is None:
        return factory
    from glassformer.inspect.corpus import CorpusSearch

    corpus = CorpusSearch(model, folder)
    return replace(factory, corpus=corpus, facts=replace(factory.facts, corpus=corpus_facts(corpus)))


def contexts(corpus: CorpusSearch | None, session: Session, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The contexts that a request asks for, as JSON.

    Raises: UnsupportedError: no corpus was given. DataError: what is not in the index, or not in the session.
    """
    if corpus is None:
        raise UnsupportedError("this page has no corpus; run glassformer look with --corpus INDEX")
    by, layer, number, count = (asked[name] for name in ("by", "layer", "number", "count"))
    if by == "neuron":
        return corpus.neuron(layer, number, attention=asked["head"], count=count).to_dict()
    options = {"layer": layer} if by == "layer" else {"head": (layer, number)}
    return corpus.contexts(session, asked["token"], attention=asked["head"], count=count, **options).to_dict()


def read_query(query: Query) -> dict[str, Any]:
    """The parameters of a search. Raises: DataError: one that is missing or something else."""
    by = query.text("by")
    if by not in BY:
        raise DataError(f"by is {by!r}; allowed: {', '.join(BY)}")
    layer, _, head = query.text("head").partition(".")
    if not (layer.isdecimal() and head.isdecimal()):
        raise DataError("head must be layer.head, such as 4.9")
    return {
        "by": by,
        "layer": query.integer("layer"),
        "number": None if by == "layer" else query.integer("number"),
        "token": None if by == "neuron" else query.integer("token"),
        "head": (int(layer[:6]), int(head[:6])),
        "count": query.integer("count", 20),
    }


def contexts_block(corpus: CorpusSearch | None, session: Session, asked: Mapping[str, Any]) -> str:
    """A search and what it brought, for a standalone page. Raises: as `contexts`."""
    head = f"{asked['head'][0]}.{asked['head'][1]}"
    return json_block("contexts", {"query": {**asked, "head": head}, "result": contexts(corpus, session, asked)})


def contexts_page(corpus: CorpusSearch, session: Session, asked: Mapping[str, Any]) -> StandalonePage:
    """The standalone page of a session, opened on a search of the corpus. Args: asked: as `read_query` gives it"""
    facts = replace(model_facts(corpus.model), corpus=corpus_facts(corpus))
    layer, head = asked["head"]
    state = {"view": "contexts", "l": layer, "h": head, "q": asked["token"], "by": asked["by"], "cl": asked["layer"]}
    return StandalonePage(
        session,
        facts,
        session.texts,
        start=urlencode({"v": 1, **state}),
        extra=[contexts_block(corpus, session, asked)],
        command=command_line(),
    )


def contexts_routes(runs: SessionRuns) -> list[Route]:
    """The route."""

    async def search(request: Request) -> Response:
        query = Query(request.query_params.multi_items())
        id, asked = query.text("s"), read_query(query)
        query.reject_unknown()
        session = runs.get(id).result()
        return JSONResponse(await run_in_threadpool(contexts, runs.factory.corpus, session, asked))

    return [Route("/api/contexts", json_errors(search))]
