"""Errors of an evaluation next to the explorer, which opens its rows in the run's own model: served, or as files.

A row's link carries its text, its label and the way back to the explorer, in the address's fragment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, urlencode

from glassformer.errors import GlassformerError
from glassformer.evaluation.error_analysis.page import EvaluatedRows, explorer_texts, true_label
from glassformer.evaluation.evaluate import chance_remark
from glassformer.evaluation.groups import group_names
from glassformer.evaluation.runs import VALIDATION, EvaluatedSplit
from glassformer.explorer.report_server import Explored, ReportServer, explorer_address, one_page
from glassformer.explorer.session_runs import SessionFactory, SessionRuns
from glassformer.explorer.standalone_page import StandalonePage
from glassformer.reports.page import command_line, report_page, shown_command, shown_place, write_page
from glassformer.reports.report import Display
from glassformer.tasks.predictions import sort_by_loss

MAX_LAYER_BYTES = 2_000_000
"""Maximum bytes of exact layers in the explorer page of a row."""


def serve_errors(split: EvaluatedSplit, port: int | None = None) -> ReportServer:
    """Serve the error analysis of a split next to the explorer. Raises: ConfigError: the port is taken."""
    rows = evaluated_rows(split, explorer=explorer_of(split, split.report.name))
    return ReportServer(one_page([rows]), port, explored=explored_split(split))


def explorer_of(split: EvaluatedSplit, name: str) -> str:
    """The address of the explorer of a run on a server of reports; "" = it has no network to look into.

    Args:
        name: of the run there
    """
    return "" if split.run.scorer is not None else explorer_address(name)


def explored_split(split: EvaluatedSplit) -> Explored:
    """What the explorer shows of a run, and begins with: the row with the highest loss."""

    def explored(name: str) -> tuple[SessionFactory, Sequence[str]]:
        return split.run.model.session_factory(), first_texts(split)

    return explored


def first_texts(split: EvaluatedSplit) -> list[str]:
    """What the explorer begins with: the row with the highest loss."""
    return explorer_texts((sort_by_loss(split.records) or split.records)[0])


def evaluated_rows(
    split: EvaluatedSplit,
    pages: Mapping[int, str] | None = None,
    *,
    explorer: str = "",
    first: int | None = None,
    whole: bool = True,
) -> EvaluatedRows:
    """The error analysis of a split.

    Args:
        pages: index of a prediction → its explorer page, of a file
        explorer, first, whole: as of `EvaluatedRows`
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
    model, review = "" if split.run.scorer is not None else str(split.run.folder), review_command(split)
    return EvaluatedRows(split.report, split.records, model, pages or {}, groups, first, whole, review, explorer)


def review_command(split: EvaluatedSplit) -> str:
    """The command that reads a sheet with corrections of a split, up to the sheet."""
    rows = ["--data", *split.data] if split.data else [] if split.name == VALIDATION else ["--part", split.name]
    return shown_command(["glassformer", "review", "in", str(split.run.folder), *rows, "--output", "corrected.jsonl"])


def save_errors_page(
    split: EvaluatedSplit, path: Path, look: int = 0, progress: Callable[[int, int], None] | None = None
) -> list[str]:
    """Write the page of a split as an HTML file.

    Args:
        look, progress: as of `write_with_explorer`
    Returns: the explorer's pages, relative to the folder of the file.
    """
    return write_with_explorer(split, path, look, lambda pages: [evaluated_rows(split, pages)], progress)


def write_with_explorer(
    split: EvaluatedSplit,
    path: Path,
    look: int,
    reports: Callable[[Mapping[int, str]], Sequence[Display]],
    progress: Callable[[int, int], None] | None = None,
) -> list[str]:
    """Write a page at once; then an explorer page for each of the worst rows, and the links to those that are there.

    Who interrupts it has the page, with links to the explorer's pages that were written until then, and how many.

    Args:
        look: how many rows
        reports: of the page, by index of a prediction → its explorer page
        progress: called with how many of these pages are done, and of all
    Returns: the explorer's pages, relative to the folder of the file.
    """
    write_page(path, report_page(*reports({})))
    written: dict[int, str] = {}
    try:
        for index, page in _explorer_pages(split, look, path, progress):
            written[index] = page
    except BaseException:  # Ctrl-C too
        pages = f"{len(written)} of its {min(look, len(split.records))} worst rows have a page of the explorer"
        split.report.notes.append(f"this page was interrupted: {pages}; the same command writes all")
        write_page(path, report_page(*reports(written)))
        raise
    if written:
        write_page(path, report_page(*reports(written)))
    return sorted(written.values())


def _explorer_pages(
    split: EvaluatedSplit, count: int, path: Path, progress: Callable[[int, int], None] | None
) -> Iterator[tuple[int, str]]:
    """Write an explorer page for each of the rows with the highest loss, into a folder next to a file.

    Returns: index of a prediction, and its page, relative to the folder of the file.
    """
    records = sort_by_loss(split.records)[:count]
    if not records:
        return
    folder = path.parent / f"{path.stem}-look"
    folder.mkdir(parents=True, exist_ok=True)
    runs = SessionRuns(split.run.model.session_factory())
    doubt = chance_remark(split.report)
    try:
        for done, record in enumerate(records):
            if progress is not None:
                progress(done, len(records))
            texts, file = explorer_texts(record), f"row-{record.index}.html"
            # A text that is too long to look into gets no page; the row shows the command, which says why.
            with suppress(GlassformerError):
                session = runs.begin(texts).result()
                label = {"row": shown_place(record.where), "true": true_label(record)}
                label |= {"doubt": doubt} if doubt else {}
                back = f"../{quote(path.name, errors='surrogateescape')}#at={record.index}"
                start = urlencode({"v": 1, **label, "back": back}, errors="replace")
                page = StandalonePage(
                    session, runs.facts, texts, cap_bytes=MAX_LAYER_BYTES, start=start, command=command_line()
                )
                page.save(folder / file)
                yield record.index, f"{folder.name}/{file}"
    finally:
        runs.stop()
        with suppress(OSError):  # it has pages
            folder.rmdir()
