"""`glassformer look STORE`: the page of a store of documents, served until Ctrl-C."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

from glassformer.cli.look_page import wait_until_stopped
from glassformer.cli.screen import notes
from glassformer.errors import ConfigError, DataError
from glassformer.explorer.options import LookOptions
from glassformer.files.schema import given
from glassformer.loading import Loading
from glassformer.progress import spinner
from glassformer.retrieval.options import AskOptions
from glassformer.retrieval.postgres_database import is_address, shown_address


def look_at_store(store: str, questions: list[str], look: LookOptions, loading: Loading, *, json: bool) -> None:
    """Serve the page of a store, which opens with a question if one is given.

    Raises: ConfigError: an option of the explorer's page. DataError: two questions.
    """
    look.check_store()
    if look.html is not None:
        raise ConfigError(
            "the page of a store asks it, so it is served; as a file: glassformer ask QUESTION --store "
            f"{quote(shown_address(store))} --html {quote(str(look.html))}"
        )
    if len(questions) > 1:
        raise DataError(f"a store is asked one question at a time, got {len(questions)}; put it in quotes")
    options = AskOptions(reader=look.reader, rerank=look.rerank)
    with notes(repeats=False):
        with spinner("loading the models"):
            from glassformer.retrieval.answer import load_reader
            from glassformer.retrieval.page import DocumentsPage
            from glassformer.retrieval.retriever import Retriever

            of_store = given(loading)
            retriever = Retriever.open(store, reranker=look.rerank, **of_store)
            language = retriever.store.settings.language
            reader = None if look.reader is None else load_reader(options, language, **{**of_store, "revision": None})
        page = DocumentsPage(
            retriever, reader=reader, options=options, question=" ".join(questions), name=_name(store),
            theme=look.theme,
        )  # fmt: skip
        with page:
            page.serve(look.port)
            wait_until_stopped(page, look.browser, json=json)


def _name(store: str) -> str:
    """The name of a store on its page: that of its folder, or the address of its database without a password."""
    return shown_address(store) if is_address(store) else Path(store).expanduser().resolve().name
