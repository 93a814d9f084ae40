"""The error analysis page next to the explorer, which opens its rows in the run's own model: served, or as files.

GET  /errors  /errors/page.css  /errors/page.js     the page without rows, which needs no key
GET  /api/errors                                    the rows; needs the key
all others                                           the explorer (explorer/app.py)

A row's link carries its text to the explorer as the explorer's own links do, in the address's fragment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from html import escape
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from glassformer.errors import GlassformerError
from glassformer.evaluation.error_analysis.page import ErrorsPage, explorer_texts
from glassformer.evaluation.runs import EvaluatedSplit
from glassformer.explorer.http import Endpoint
from glassformer.explorer.server import PageServer
from glassformer.explorer.session_runs import SessionRuns
from glassformer.explorer.standalone_page import StandalonePage
from glassformer.model import Model
from glassformer.reports.page import command_line
from glassformer.tasks.predictions import sort_by_loss
from glassformer.tasks.types import Prediction

MAX_LAYER_BYTES = 2_000_000
"""Maximum bytes of exact layers in the explorer page of a row."""


class ServedErrors(PageServer):
    """A local server of the page and the explorer, until it is closed.

    Args:
        page: of the errors, or one around it
        name: its path
        model: that the explorer shows
        port: None = a free one
    Raises: ConfigError: the port is taken.
    """

    def __init__(self, page: ErrorsPage, model: Model, port: int | None = None, *, name: str = "errors") -> None:
        super().__init__(SessionRuns(model.session_factory()))
        routes = [
            Route(f"/{name}", _static(_page_shell(page.title, name), "text/html")),
            Route(f"/{name}/page.css", _static(page.style, "text/css")),
            Route(f"/{name}/page.js", _static(page.script, "text/javascript")),
            Route(f"/api/{name}", _static(page.body(served=True), "text/html")),
        ]
        self._name = name
        # A row whose input is no text and no file, such as bytes of Parquet, opens the explorer with none.
        self.begin(explorer_texts(page.rows[0]) or [""], port, routes)

    @property
    def url(self) -> str:
        return f"{self.address}{self._name}#token={self._token}"


def errors_page(split: EvaluatedSplit, pages: Mapping[int, str] | None = None) -> ErrorsPage:
    """The page of a split.

    Args:
        pages: index of a prediction → its explorer page
    """
    return ErrorsPage(split.report, split.records, model=str(split.run.folder), pages=dict(pages or {}))


def save_errors_page(
    split: EvaluatedSplit, path: Path, look: int = 0, progress: Callable[[int, int], None] | None = None
) -> list[str]:
    """Write the page of a split as an HTML file.

    Args:
        look: how many rows, the worst, get an explorer page next to it
    Returns: the explorer's pages, relative to the folder of the file.
    """
    folder, worst = path.parent / f"{path.stem}-look", sort_by_loss(split.records)[:look]
    pages = write_explorer_pages(split.run.model, worst, folder, progress) if worst else {}
    errors_page(split, pages).save(path)
    return sorted(pages.values())


def write_explorer_pages(
    model: Model,
    records: Sequence[Prediction],
    folder: Path,
    progress: Callable[[int, int], None] | None = None,
) -> dict[int, str]:
    """Write an explorer page for each of these predictions into a folder, which is created.

    Returns: index of a prediction → its page, relative to the parent of the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    runs, written = SessionRuns(model.session_factory()), {}
    try:
        for done, record in enumerate(records, start=1):
            texts, file = explorer_texts(record), f"row-{record.index}.html"
            # A text that is too long to look into gets no page; the row shows the command, which says why.
            with suppress(GlassformerError):
                session = runs.begin(texts).result()
                page = StandalonePage(session, runs.facts, texts, cap_bytes=MAX_LAYER_BYTES, command=command_line())
                page.save(folder / file)
                written[record.index] = f"{folder.name}/{file}"
            if progress is not None:
                progress(done, len(records))
    finally:
        runs.stop()
    return written


def _static(content: str, kind: str) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        return Response(content.encode("utf-8", "replace"), media_type=kind)

    return endpoint


def _page_shell(title: str, name: str) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f'<title>{escape(title)}</title><link rel="stylesheet" href="/{name}/page.css"></head>\n'
        f'<body><main><p class="dim">Fetching the page …</p></main><script src="/{name}/page.js"></script>'
        "</body></html>\n"
    )
