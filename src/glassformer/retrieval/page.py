"""The page of a store: ask its documents, and see why each passage was retrieved; the models stay in memory.

    GET  /  /static/…               the page (web/src/views/ask.tsx); nothing in it is secret
    POST /api/view/store            what there is to ask
    POST /api/view/ask              the answer, its passages, their scores and ranks
    POST /api/view/passage          a passage in its file, compared with the question token by token

The answers are reports, sent as binary frames (`explorer/registry.py`).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlencode

import numpy as np
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from glassformer.errors import DataError, UnsupportedError
from glassformer.explorer import http
from glassformer.explorer.app import static_routes
from glassformer.explorer.http import Guard
from glassformer.explorer.registry import request_of
from glassformer.explorer.server import LocalPage
from glassformer.inspect.token_match import TokenMatch, token_match
from glassformer.inspect.tokens import Token
from glassformer.reports.page import exact_command
from glassformer.reports.report import Report
from glassformer.reports.table import Table
from glassformer.retrieval.answer import Answer, AnyReader, ask
from glassformer.retrieval.options import AskOptions
from glassformer.retrieval.passage import PassageMatch, with_headings
from glassformer.retrieval.retriever import Retriever
from glassformer.version import __version__

OWN_VIEWS = ("store", "ask", "passage")
LISTED_PLACES = 500
"""Folders and files, and names of metadata, that a page offers."""


class DocumentsPage(LocalPage):
    """The page of a store, served from `serve` to the end of a `with`.

    Args:
        retriever: its store is named on the page
        reader: reads the passages; None = the nearest sentence answers
        options: of all questions; what the page asks replaces some of them
        question: that the page opens with; "" = none
        name: of the store
        theme: light or dark; None = that of the system
    """

    def __init__(
        self,
        retriever: Retriever,
        *,
        reader: AnyReader | None = None,
        options: AskOptions | None = None,
        question: str = "",
        name: str = "",
        theme: str | None = None,
    ) -> None:
        super().__init__()
        self.retriever, self.reader, self.options = retriever, reader, options or AskOptions()
        self.question, self.name, self.theme = question, name, theme
        self.turn = threading.Lock()

    @property
    def url(self) -> str:
        start = {"q": self.question, "theme": self.theme or ""}
        fragment = urlencode({name: value for name, value in start.items() if value}, errors="replace")
        return f"{self.address}#token={self._token}" + (f"&{fragment}" if fragment else "")

    def serve(self, port: int | None = None) -> None:
        """Start the server. Raises: ConfigError: the port is taken. PageMissingError: the page was not built."""
        self.serve_app(self._app(), port)

    def _app(self) -> ASGIApp:
        async def view(request: Request) -> Response:
            name = request.path_params["name"]
            asked, wanted = request_of(name, await http.body(request))
            if name not in OWN_VIEWS:
                raise UnsupportedError(f"the page of a store has no view {name!r}; allowed: {', '.join(OWN_VIEWS)}")
            return await http.frame(request, lambda: asked.frame(name, self, wanted))

        routes = [*static_routes("ask"), Route("/api/view/{name}", http.json_errors(view), methods=["POST"])]
        app = Starlette(routes=routes, exception_handlers={HTTPException: http.http_error})
        return Guard(app, self._token, exact_command())


@dataclass(frozen=True, kw_only=True, repr=False)
class StoreFacts(Report, kind="store-facts"):
    """What a page says of its store.

    model, reader, reranker: names of models; "" = there is none
    folders: that a search can be limited to, and files; the first of many
    metadata: names of metadata that documents or passages have
    """

    name: str
    document_count: int
    passage_count: int
    model: str
    reader: str
    reranker: str
    folders: list[str] = field(default_factory=list)
    metadata: list[str] = field(default_factory=list)
    version: str = __version__

    def tables(self) -> list[Table]:
        names = ("document_count", "passage_count", "model", "reader", "reranker")
        return [Table([self.name, ""], [[name, str(getattr(self, name))] for name in names], left=2)]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class PassageContext(Report, kind="passage-context"):
    """A passage in its file, and how similar its tokens are to those of a question.

    before, after: passages next to it in the document
    tokens: of the question, and of the passage with its headings; empty = there is no model that makes vectors
    cells: their cosines [Q, P] float32
    score: MaxSim
    """

    id: int
    before: list[PassageMatch] = field(default_factory=list)
    after: list[PassageMatch] = field(default_factory=list)
    tokens: tuple[tuple[Token, ...], tuple[Token, ...]] = ((), ())
    cells: np.ndarray
    score: float

    def tables(self) -> list[Table]:
        return TokenMatch(tokens=self.tokens, cells=self.cells).tables()


def _page(scene: Any) -> DocumentsPage:
    """Raises: UnsupportedError: the page of a model."""
    if not isinstance(scene, DocumentsPage):
        raise UnsupportedError("this page is of a model, and has no documents; run glassformer look with a store")
    return scene


def described(scene: Any) -> StoreFacts:
    """What there is to ask."""
    page = _page(scene)
    counts, settings = page.retriever.store.counts(), page.retriever.store.settings
    files = sorted(page.retriever.store.documents())
    folders = sorted({parent.as_posix() for file in files for parent in PurePosixPath(file).parents} - {"."})
    return StoreFacts(
        name=page.name, document_count=counts.documents, passage_count=counts.passages,
        model="" if page.retriever.embedder is None else settings.model or "",
        reader="" if page.reader is None else page.options.reader or "a reader",
        reranker="" if page.retriever.reranker is None else page.options.rerank or "a cross-encoder",
        folders=[*(f"{folder}/" for folder in folders), *files][:LISTED_PLACES],
        metadata=page.retriever.store.metadata_names()[:LISTED_PLACES],
    )  # fmt: skip


def answered(scene: Any, *, question: str, late_interaction: int, **search: Any) -> Answer:
    """The answer to a question. Raises: as `ask`.

    Args:
        search: options of the search; where they ask for nothing, those of the page
    """
    page = _page(scene)
    options = replace(
        page.options, late_interaction=late_interaction, **{name: value for name, value in search.items() if value}
    )
    with page.turn:
        return ask(question, page.retriever, options, reader=page.reader)


def explained(scene: Any, *, question: str, id: int) -> PassageContext:
    """A passage, and what is around it. Raises: DataError: it is gone."""
    page = _page(scene)
    store, embedder = page.retriever.store, page.retriever.embedder
    matches = store.matches([id])
    if not matches:
        raise DataError("this passage is gone: its file has changed since the question was asked; ask again")
    before, after = store.neighbours(id)
    match = TokenMatch(tokens=((), ()), cells=np.zeros((0, 0), np.float32))
    if embedder is not None:
        with page.turn:
            (passage,) = embedder.passage_tokens([with_headings(matches[0].headings, matches[0].text)])
            match = token_match(embedder.question_tokens(question), passage)
    return PassageContext(id=id, before=before, after=after, tokens=match.tokens, cells=match.cells, score=match.score)
