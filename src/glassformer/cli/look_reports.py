"""`glassformer look` of what has no text to look into: a run, a study, a search, a data file, the JSON of a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.cli.look_page import wait_until_stopped
from glassformer.cli.options import in_options
from glassformer.cli.screen import note, notes, print_json, progress_of, say, say_saved
from glassformer.cli.stopped import pages_stopped, saying_where_stopped
from glassformer.errors import DataError, GlassformerError
from glassformer.explorer.options import LookOptions
from glassformer.files import as_path
from glassformer.loading import Loading
from glassformer.progress import spinner
from glassformer.reports.page import check_html_path, page_path, report_page, write_page
from glassformer.reports.report import Display

if TYPE_CHECKING:
    from glassformer.explorer.report_server import Pages


def look_at_report(path: str, texts: list[str], page: LookOptions, loading: Loading, *, json: bool) -> None:
    """The page of a report's JSON, by its kind. Raises: DataError: invalid JSON, or a report of another version."""
    from glassformer.reports.kinds import read_reports

    _show(lambda: read_reports(path), path, texts, page, json)


def look_at_results(path: str, texts: list[str], page: LookOptions, loading: Loading, *, json: bool) -> None:
    """The page of a study or of a hyperparameter search, also while it runs."""
    from glassformer.runs.unfinished import results, results_stamp

    folder = as_path(path, "folder")
    _show(lambda: results(folder), path, texts, page, json, stamp=lambda where: results_stamp(folder))


def look_at_data(path: str, texts: list[str], page: LookOptions, loading: Loading, *, json: bool) -> None:
    """The page of `data inspect` of a data file. Raises: DataError: as `inspect_files`."""
    from glassformer.data.files import inspect_files

    _show(lambda: [inspect_files([Path(path)])], path, texts, page, json)


def look_at_runs(path: str, texts: list[str], page: LookOptions, loading: Loading, *, json: bool) -> None:
    """The page of a folder of runs; where it is served, each of them has a page, and several have one together."""
    from glassformer.evaluation.run_page import FolderPages, model_in_folder, paired_difference
    from glassformer.runs.run_list import RunList

    def runs() -> list[Display]:
        with progress_of("runs") as bar:
            address, model = ("/run/", model_in_folder) if page.html is None else ("", None)
            return [RunList.read(path, bar, address=address, difference=paired_difference, model=model)]

    each = FolderPages(as_path(path, "folder"))
    _show(runs, path, texts, page, json, each.pages, explored=each.explored, stamp=each.stamp)


def look_at_run(path: str, texts: list[str], page: LookOptions, loading: Loading, *, json: bool) -> None:
    """The page of a run: training curves, report, errors, and the explorer on its best model.

    Of one that trains, or has no rows to evaluate, it is that of the curves.

    Raises: ConfigError: an option of the explorer's page, which goes with a text. DataError: nothing is logged yet.
    """
    from glassformer.cli.errors import evaluated
    from glassformer.evaluation.options import RowOptions
    from glassformer.evaluation.run_page import curves_alone, save_run_page, serve_run
    from glassformer.runs.history import read_run

    page.check_run()
    page.check_model()
    html = None if page.html is None else page_path(page.html, "run.html")
    folder, split, problem = as_path(path, "folder"), None, ""
    history = read_run(folder)
    if history.state.name != "running":
        try:
            split = evaluated(folder, RowOptions())
        except GlassformerError as error:  # it has no rows, no metrics, no model, or is of another version
            problem = f"Its rows cannot be shown: {error}"
            note(problem)
    if html is None:
        with serve_run(folder, page.port, problem) as served:
            wait_until_stopped(served, page.browser, json=json)
        return
    pages: list[str] = []
    if split is None:
        write_page(html, report_page(curves_alone(folder, history, problem)))
    else:
        title = f"{html.name}, then the explorer's pages of its worst rows"
        with saying_where_stopped(pages_stopped(html)), progress_of(title) as bar:
            pages = save_run_page(split, html, bar)
    if json:
        print_json({"out": str(html), "pages": pages}, indent=None)
    else:
        say_saved(html, pages)


def _show(
    read: Callable[[], Sequence[Display]],
    path: str,
    texts: list[str],
    options: LookOptions,
    json: bool,
    pages: Pages | None = None,
    **served: Any,
) -> None:
    """Serve the page of reports until Ctrl-C, or write it as an HTML file.

    Args:
        read: the reports, which are read again when the page is loaded again
        pages: those of other paths of the server, to which the page has links
        served: other arguments of the server
    Raises: DataError: a text, which goes with a model. ConfigError: an option of the explorer.
    """
    options.check_report()
    if texts:
        raise DataError(f"a text is looked at in a model, and {path} is none; name a model before the text")
    if options.html is not None:
        check_html_path(options.html)
    with notes():
        first = read()
    if options.html is not None:
        write_page(options.html, report_page(*first, wording=in_options))
        print_json({"out": str(options.html)}, indent=None) if json else say(f"saved in {options.html}")
        return
    with spinner("starting"):
        from glassformer.explorer.report_server import ReportServer, one_page

    def page(where: str) -> Sequence[Display]:
        return pages(where) if where and pages is not None else one_page(read())(where)

    with ReportServer(page, options.port, wording=in_options, **served) as server:
        wait_until_stopped(server, options.browser, json=json)
