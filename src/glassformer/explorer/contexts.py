"""Contexts view: where in an indexed corpus a layer, a head or a neuron does the same as at a token of the session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from glassformer.errors import UnsupportedError
from glassformer.explorer.describe import model_facts
from glassformer.explorer.registry import Reading, fields_of, frame_of
from glassformer.explorer.requests import ContextsRequest
from glassformer.explorer.session_runs import SessionFactory
from glassformer.explorer.standalone_page import StandalonePage
from glassformer.files.schema import parse
from glassformer.inspect.corpus.options import CorpusSearchOptions
from glassformer.inspect.corpus.search import position_of
from glassformer.inspect.session import Session
from glassformer.loaded_model import LoadedModel
from glassformer.reports.page import command_line

if TYPE_CHECKING:
    from glassformer.explorer.scene import Scene
    from glassformer.inspect.corpus import CorpusSearch


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


def searched_corpus(factory: SessionFactory, model: LoadedModel, folder: str | Path | None) -> SessionFactory:
    """The factory with a corpus to search in. Raises: DataError: no index, a damaged one, or of another model."""
    if folder is None:
        return factory
    from glassformer.inspect.corpus import CorpusSearch

    corpus = CorpusSearch(model, folder)
    return replace(factory, corpus=corpus, facts=replace(factory.facts, corpus=corpus_facts(corpus)))


def contexts(scene: Scene, **asked: Any) -> dict[str, Any]:
    """Where in the corpus a layer, a head or a neuron does the same. Raises: as `search`."""
    corpus = scene.runs.factory.corpus
    return search(corpus, None if asked["by"] == "neuron" else scene.session, asked)


def search(corpus: CorpusSearch | None, session: Session | None, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The contexts that a request asks for, as JSON.

    Raises: UnsupportedError: no corpus was given. DataError: what is not in the index, or not in the session.
    """
    if corpus is None:
        raise UnsupportedError("this page has no corpus; run glassformer look with --corpus INDEX")
    by, layer, number, count = (asked[name] for name in ("by", "layer", "number", "count"))
    if by == "neuron":
        return corpus.neuron(layer, number, attention=asked["head"], count=count).to_dict()
    assert session is not None
    options = {"layer": layer} if by == "layer" else {"head": (layer, number)}
    return corpus.contexts(session, asked["token"], attention=asked["head"], count=count, **options).to_dict()


def search_page(corpus: CorpusSearch, text: str, options: CorpusSearchOptions) -> StandalonePage:
    """The standalone page of a text, opened on the search that options ask for."""
    assert options.token is not None
    session = corpus.session(text)
    at = position_of(session.streams["text"], options.token)
    by, (layer, number) = ("layer", (options.layer, None)) if options.head is None else ("head", options.head)
    shown = options.attention or options.head or (0, 0)
    fields = {"by": by, "layer": layer, "number": number, "token": at, "head": shown}
    return contexts_page(corpus, session, parse(ContextsRequest, fields))


def contexts_page(corpus: CorpusSearch, session: Session, request: ContextsRequest) -> StandalonePage:
    """The standalone page of a session, opened on a search of the corpus."""
    facts = replace(model_facts(corpus.model), corpus=corpus_facts(corpus))
    layer, head = request.head
    state = {"view": "contexts", "l": layer, "h": head, "q": request.token, "by": request.by, "cl": request.layer}
    frame = frame_of("contexts", search(corpus, session, vars(request)))
    return StandalonePage(
        session,
        facts,
        session.texts,
        start=urlencode({"v": 1, **state}),
        readings=[Reading("contexts", fields_of(request), frame)],
        command=command_line(),
    )
