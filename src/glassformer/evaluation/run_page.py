"""The page of a run as reports: what happened, its metrics, errors, curves and settings; `look RUN`, and of a folder.

metrics     next to baselines, per class      curves       the loss and the main metric; others folded
errors      as `glassformer errors` has them  settings     of the training, folded
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from glassformer.errors import DataError, GlassformerError
from glassformer.evaluation.compare.compare import compare
from glassformer.evaluation.error_analysis.served import (
    evaluated_rows,
    explored_split,
    explorer_of,
    write_with_explorer,
)
from glassformer.evaluation.evaluate import PREDICTIONS, EvaluationReport, beside_baselines
from glassformer.evaluation.runs import EvaluatedSplit, saved_split
from glassformer.explorer.report_server import ReportServer
from glassformer.explorer.session_runs import SessionFactory
from glassformer.files import read_json_object
from glassformer.reports.charts import SavedModel
from glassformer.reports.kinds import read_reports
from glassformer.reports.report import Display
from glassformer.reports.table import Table
from glassformer.runs.curves import RunSettings, TrainingCurves, best_validation, outcome, subtitle
from glassformer.runs.folder import MODEL, saved_steps
from glassformer.runs.history import RunHistory, read_run
from glassformer.runs.run_list import REPORT, find_runs, named_runs, run_names, stamp
from glassformer.tasks.metrics.metric import Interval

MAX_COMPARED_BYTES = 2_000_000_000
"""Of the weights of models that are compared when a page is opened: their task computes the metrics."""
FIRST_ROWS, LINKED_ROWS = 10, 5
"""Rows that are shown until one asks for all, and those with an explorer page next to a file."""
NO_ROWS = "It has no rows yet: `glassformer evaluate RUN` predicts its validation rows, and shows them here."
OTHER_ROWS = (
    "They were evaluated on other rows, so their metrics do not say which is better: `glassformer compare` with --data "
    "evaluates them on the same."
)
NOT_COMPARED = "Runs whose validation rows are not predicted yet, which `glassformer evaluate RUN` does"
NO_ROWS_YET = "Its validation rows are predicted when it has ended, and are shown here then, the worst first."


@dataclass(frozen=True, repr=False)
class RunVerdict(Display):
    """What happened in a run, in a sentence, and the metrics of its best model."""

    report: EvaluationReport
    history: RunHistory

    @property
    def page_title(self) -> str:
        return self.history.name

    @property
    def caption(self) -> str:
        """`classify · 600 steps in 1:02. Best f1 0.7 at step 500.`; without steps `classify by naive-bayes`."""
        best = best_validation(self.history, self.report.metric)
        if self.history.stepless:
            method = self.history.options.get("method")
            return f"{self.report.task} by {method['name']}" if isinstance(method, dict) else self.report.task
        return f"{self.report.task} · {subtitle([self.history])}{f'. {best}' if best else ''}"

    @property
    def finding(self) -> str:
        """`f1 0.700 [0.600, 0.800]; better than the baseline “most frequent” (0.300) on 30 rows. It ended at step …`"""
        return f"{beside_baselines(self.report)}. {outcome(self.history)}".strip()

    def tables(self) -> list[Table]:
        return self.report.tables()

    def page_tables(self) -> list[Table]:
        """The main metric next to baselines; the others folded, as the rows below say more of the errors."""
        first, *others = self.report.page_tables()
        return [first, *(replace(table, folded=True) for table in others)]

    def remarks(self) -> list[str]:
        return [*self.report.remarks(), *self.history.left_out]


def run_reports(
    split: EvaluatedSplit,
    history: RunHistory | None = None,
    *,
    pages: Mapping[int, str] | None = None,
    explorer: str = "",
) -> list[Display]:
    """The reports of the page of a run.

    Args:
        split: rows of the run, evaluated
        history: what its event log says, None = read now
        pages: index of a prediction → its explorer page, of a file
        explorer: the address of the explorer of its model, where it is served next to the page
    """
    history = history or read_run(split.run.folder)
    errors = evaluated_rows(split, pages, explorer=explorer, first=FIRST_ROWS, whole=False)
    verdict, settings = RunVerdict(split.report, history), RunSettings([history])
    if history.stepless:
        return [verdict, errors, settings]
    saved = [saved_model(split.run.folder, history, f"#{errors.title}")]
    return [verdict, errors, TrainingCurves([history], whole=False, saved=saved), settings]


def reports_of_folder(
    folder: Path,
    history: RunHistory | None = None,
    explorer: Callable[[EvaluatedSplit], str] = lambda split: "",
    no_rows: str = "",
) -> list[Display]:
    """The reports of the page of a run as far as it has come: without rows, its curves.

    Args:
        history: what its event log says, None = read now
        explorer: the address of the explorer of its model, where it is served next to the page
        no_rows: why it has no rows, where it was not evaluated and that is known
    Raises: DataError: there is no run, or its log is damaged.
    """
    history = history or read_run(folder)
    try:
        split = saved_split(folder)
    except GlassformerError as error:
        return [TrainingCurves([history], notes=[f"Its rows cannot be shown: {error}"])]
    if split is not None:
        return run_reports(split, history, explorer=explorer(split))
    if (folder / REPORT).is_file():
        return [TrainingCurves([history]), *read_reports(folder / REPORT)]
    return [curves_alone(folder, history, no_rows)]


def saved_model(folder: Path, history: RunHistory, rows: str, group: str = "") -> SavedModel:
    """The model that a run kept: that of its best validation, or of its last step.

    Args:
        rows, group: as of `SavedModel`
    """
    at = history.last if history.best is None else history.best
    states = saved_steps(folder)
    removed = [step for step in history.checkpoints if step != at and step not in states]
    others = [step for step in states if step != at]
    return SavedModel(at=at, rows=rows, states=others, removed=removed, group=group)


def serve_run(folder: Path, port: int | None = None, note: str = "") -> ReportServer:
    """Serve the page of a run next to the explorer; what the run writes meanwhile comes onto it.

    Args:
        note: why it has no rows
    Raises: ConfigError: the port is taken.
    """
    each = FolderPages(folder, note)
    [name] = run_names(folder, [folder])

    def page(where: str) -> list[Display]:
        return each.pages(where or f"run/{name}")

    return ReportServer(page, port, explored=each.explored, stamp=each.stamp)


def paired_difference(best: Path, following: Path, metric: str) -> Interval | None:
    """How far a metric of a run lies above that of another, over the rows that both were evaluated on.

    Returns: None: other rows, no predictions, or models so large that loading them takes a while
    """
    return _paired_difference(best, following, metric, stamp([best, following]))


@lru_cache(256)
def _paired_difference(best: Path, following: Path, metric: str, state: str) -> Interval | None:
    if not comparable([best, following]):
        return None
    _, second, *_ = compare([following, best]).systems
    return second.differences.get(metric)


def comparable(folders: Sequence[Path]) -> bool:
    """Whether runs were evaluated on the same rows, with their predictions, and their models are loaded in a moment."""
    rows = set(_fingerprints(folders))
    size = sum(path.stat().st_size for folder in folders for path in (folder / MODEL).glob("*.safetensors"))
    return len(rows) == 1 and None not in rows and size <= MAX_COMPARED_BYTES


def _fingerprints(folders: Sequence[Path]) -> list[str | None]:
    """Of the rows that each run was evaluated on; None = it was not, or is without its predictions."""
    reports = [folder / REPORT for folder in folders]
    about = [
        read_json_object(path, DataError).get("data")
        if path.is_file() and path.with_name(PREDICTIONS).is_file()
        else None
        for path in reports
    ]
    return [each.get("fingerprint") if isinstance(each, dict) else None for each in about]


def run_address(name: str) -> str:
    """The path of the page of a run of a folder."""
    return f"/run/{quote(name)}"


def model_in_folder(name: str, folder: Path, history: RunHistory) -> SavedModel:
    """The model that a run of a folder kept; its rows are on the run's own page, where they were evaluated."""
    return saved_model(folder, history, run_address(name) if (folder / REPORT).is_file() else "", name)


@dataclass(frozen=True)
class FolderPages:
    """The pages of the runs of a folder, and what the explorer shows of their models.

    folder: of the runs, as `RunList.read` names them
    no_rows: why runs without an evaluation have no rows
    """

    folder: Path
    no_rows: str = ""

    def pages(self, where: str) -> list[Display]:
        """The page of a run, `run/NAME`; or that of several together, `run/NAME//NAME`.

        Raises: DataError: there is no such run (any more), or its log is damaged.
        """
        folders = named_runs(self.folder, where.removeprefix("run/").split("//"))
        histories = [read_run(folder, name) for name, folder in folders.items()]
        if len(histories) > 1:
            saved = map(model_in_folder, folders, folders.values(), histories)
            rows = dict(zip(folders, _fingerprints(list(folders.values())), strict=True))
            apart = len(set(rows.values()) - {None}) > 1
            missing = [name for name, fingerprint in rows.items() if fingerprint is None]
            notes = [OTHER_ROWS] * apart + ([f"{NOT_COMPARED}: {', '.join(missing)}."] if missing else [])
            curves = TrainingCurves(histories, saved=list(saved), notes=notes)
            if not comparable(list(folders.values())):
                return [curves]
            return [compare(dict(folders)), curves]
        [(name, folder)], [history] = folders.items(), histories
        return reports_of_folder(folder, history, lambda split: explorer_of(split, name), self.no_rows)

    def stamp(self, where: str) -> str:
        """A text that is another where the reports of a page may be."""
        names = where.removeprefix("run/").split("//")
        return stamp(named_runs(self.folder, names).values() if where else find_runs(self.folder))

    def explored(self, name: str) -> tuple[SessionFactory, Sequence[str]]:
        """As of `ReportServer`. Raises: DataError: there is no such run. WeightsError: it has no model."""
        folder = named_runs(self.folder, [name])[name]
        split = saved_split(folder)
        if split is None:
            raise DataError(f"{name}: its rows were not evaluated; `glassformer evaluate` it")
        return explored_split(split)(name)


def curves_alone(folder: Path, history: RunHistory, no_rows: str = "") -> TrainingCurves:
    """The page of a run whose rows are not evaluated; `no_rows`: why, where it is known."""
    note = NO_ROWS_YET if history.state.name == "running" else no_rows or NO_ROWS
    return TrainingCurves([history], notes=[note], saved=[saved_model(folder, history, "")])


def save_run_page(split: EvaluatedSplit, path: Path, progress: Callable[[int, int], None] | None = None) -> list[str]:
    """Write the page of a run as an HTML file, and next to it the explorer's pages of the rows with the highest loss.

    Args:
        progress: as of `write_with_explorer`
    Returns: the explorer's pages, relative to the folder of the file.
    """
    linked = 0 if split.run.scorer is not None else LINKED_ROWS  # of what is no network there is nothing to look into
    history = read_run(split.run.folder)
    return write_with_explorer(split, path, linked, lambda pages: run_reports(split, history, pages=pages), progress)
