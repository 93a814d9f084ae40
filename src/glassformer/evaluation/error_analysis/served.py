"""A report of an evaluation next to the explorer, which opens its rows in the run's own model: served, or as files.

GET  /errors  /page.css  /page.js       the page without its data, which needs no key
GET  /api/report/errors                 its data; needs the key
all others                              the explorer (explorer/app.py)

A row's link carries its text to the explorer as the explorer's own links do, in the address's fragment.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from starlette.routing import Route

from glassformer.errors import GlassformerError
from glassformer.evaluation.error_analysis.page import EvaluatedRows, explorer_texts
from glassformer.evaluation.groups import group_names
from glassformer.evaluation.runs import VALIDATION, EvaluatedSplit
from glassformer.explorer import http
from glassformer.explorer.server import PageServer
from glassformer.explorer.session_runs import SessionRuns
from glassformer.explorer.standalone_page import StandalonePage
from glassformer.model import Model
from glassformer.reports.page import (
    command_line,
    page_title,
    part_data,
    report_page,
    served_files,
    served_page,
    shown_command,
    write_page,
)
from glassformer.reports.report import Display
from glassformer.tasks.predictions import sort_by_loss

MAX_LAYER_BYTES = 2_000_000
"""Maximum bytes of exact layers in the explorer page of a row."""


class ServedReports(PageServer):
    """A local server of the page of reports and of the explorer, until it is closed.

    Args:
        reports: of the page
        model: that the explorer shows
        port: None = a free one
        name: of the page, its path
        title: None = those of the reports
        texts: that the explorer begins with
    Raises: ConfigError: the port is taken.
    """

    def __init__(
        self,
        reports: Sequence[Display],
        model: Model,
        port: int | None = None,
        *,
        name: str = "errors",
        title: str | None = None,
        texts: Sequence[str] = (),
    ) -> None:
        super().__init__(SessionRuns(model.session_factory()))
        self._name = name
        data = json.dumps(part_data(*reports, title=page_title(reports) if title is None else title), allow_nan=False)
        style, script = served_files()
        routes = [
            Route(f"/{name}", http.static_text(served_page(), "text/html")),
            Route("/page.css", http.static_text(style, "text/css")),
            Route("/page.js", http.static_text(script, "text/javascript")),
            Route(f"/api/report/{name}", http.static_text(data, "application/json")),
        ]
        # A row whose input is no text and no file, such as bytes of Parquet, opens the explorer with none.
        self.begin(texts or [""], port, routes)

    @property
    def url(self) -> str:
        return f"{self.address}{self._name}#token={self._token}"


def serve_errors(split: EvaluatedSplit, port: int | None = None) -> ServedReports:
    """Serve the error analysis of a split next to the explorer. Raises: ConfigError: the port is taken."""
    return ServedReports([evaluated_rows(split)], split.run.model, port, texts=first_texts(split))


def first_texts(split: EvaluatedSplit) -> list[str]:
    """What the explorer begins with: the row with the highest loss."""
    return explorer_texts((sort_by_loss(split.records) or split.records)[0])


def evaluated_rows(
    split: EvaluatedSplit, pages: Mapping[int, str] | None = None, *, first: int | None = None, whole: bool = True
) -> EvaluatedRows:
    """The error analysis of a split.

    Args:
        pages: index of a prediction → its explorer page, of a file; None = the explorer is served next to it
        first, whole: as of `EvaluatedRows`
    """
    by = split.report.groups
    groups = (
        ()
        if by is None
        else [
            tuple(map(by.shown_name, names if isinstance(names, tuple) else (names,)))
            for names in group_names(split.rows(), by.column)
        ]
    )
    model = "" if pages is None else str(split.run.folder)
    return EvaluatedRows(split.report, split.records, model, pages or {}, groups, first, whole, review_command(split))


def review_command(split: EvaluatedSplit) -> str:
    """The command that reads a sheet with corrections of a split, up to the sheet."""
    rows = ["--data", *split.data] if split.data else [] if split.name == VALIDATION else ["--part", split.name]
    return shown_command(["glassformer", "review", "in", str(split.run.folder), *rows, "--output", "corrected.jsonl"])


def save_errors_page(
    split: EvaluatedSplit, path: Path, look: int = 0, progress: Callable[[int, int], None] | None = None
) -> list[str]:
    """Write the page of a split as an HTML file.

    Args:
        look: how many rows, the worst, get an explorer page next to it
    Returns: the explorer's pages, relative to the folder of the file.
    """
    pages = write_explorer_pages(split, look, path, progress)
    write_page(path, report_page(evaluated_rows(split, pages)))
    return sorted(pages.values())


def write_explorer_pages(
    split: EvaluatedSplit, count: int, path: Path, progress: Callable[[int, int], None] | None = None
) -> dict[int, str]:
    """Write an explorer page for each of the rows with the highest loss, into a folder next to a file.

    Returns: index of a prediction → its page, relative to the folder of the file.
    """
    records = sort_by_loss(split.records)[:count]
    if not records:
        return {}
    folder = path.parent / f"{path.stem}-look"
    folder.mkdir(parents=True, exist_ok=True)
    runs, written = SessionRuns(split.run.model.session_factory()), {}
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
