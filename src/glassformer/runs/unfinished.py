"""Studies and searches that are not finished: how much is done, what runs now, and what is known so far.

progress.json     written before each cell or trial, removed after the last; the lock says whether a process goes on
     + study.json, trials.json      results so far ──> Unfinished: "6 of 24 cells are done; now knn, 16 labels, …"
     + runs whose lock is held      ──> TrainingCurves of what trains now
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from glassformer.errors import DataError, GlassformerError
from glassformer.files import counted, read_json_object
from glassformer.files.atomic import write_json
from glassformer.files.lock import holder_lives
from glassformer.files.schema import parse
from glassformer.reports.charts import Chart, Passages
from glassformer.reports.kinds import read_reports
from glassformer.reports.report import Display, plain
from glassformer.reports.table import Table, clock
from glassformer.runs.curves import TrainingCurves
from glassformer.runs.folder import PROGRESS, RESULTS, iterate_runs
from glassformer.runs.history import RunHistory, read_run
from glassformer.runs.run_list import stamp
from glassformer.runs.state import LOCK

MAX_RUNNING = 4
"""Runs whose curves a page shows below the results: one trains at a time, unless a cell trains several."""


@dataclass(frozen=True, kw_only=True)
class PartsDone:
    """How far a study or a search is.

    part: what it consists of: a key of `RESULTS`
    done, planned: how many of them
    current: the one that runs
    since: when that began, in seconds since 1970
    seconds: that each took which this process has done, on average; None = none yet
    """

    part: str
    done: int
    planned: int
    current: str
    since: float
    seconds: float | None = None

    def sentence(self, running: bool, runs: Iterable[RunHistory] = ()) -> str:
        """`6 of 24 cells are done; now knn, 16 labels, since 14:05, at step 30 of 100; about 12:00 left.`"""
        done = f"{self.done:,} of {counted(self.planned, self.part)}"
        if not running:
            return f"Stopped with {done} done, at {self.current}; the same command continues."
        steps = [f"step {run.last:,}" + (f" of {run.planned:,}" if run.planned else "") for run in runs]
        at = f", at {', '.join(steps)}" if steps else ""
        left = f"; about {clock(self.seconds * (self.planned - self.done))} left" if self.seconds else ""
        begun = f"{datetime.fromtimestamp(self.since):%H:%M}"
        return f"{done} {'is' if self.planned == 1 else 'are'} done; now {self.current}, since {begun}{at}{left}."


class ProgressFile:
    """The file that says how far a study or a search is, while it runs.

    Args:
        folder: of its results
        part: what it consists of: cell or trial
        planned: how many of them
    """

    def __init__(self, folder: Path, part: str, planned: int) -> None:
        self.path, self.part, self.planned = folder / PROGRESS, part, planned
        self._before: int | None = None
        self._began = time.time()

    def begin(self, current: str, done: int) -> None:
        """Say what runs now, and how many are done."""
        self._before = done if self._before is None else self._before
        now, new = time.time(), done - self._before
        seconds = (now - self._began) / new if new else None
        progress = PartsDone(
            part=self.part, done=done, planned=self.planned, current=current, since=now, seconds=seconds
        )
        write_json(self.path, plain(progress), DataError)

    def end(self) -> None:
        """All is done."""
        self.path.unlink(missing_ok=True)


@dataclass(frozen=True, repr=False)
class Unfinished(Display):
    """The results so far, below a sentence that says how far it is.

    report: of these results; None = there is none yet
    progress: the sentence
    name: of the folder
    """

    report: Display | None
    progress: str
    name: str

    @property
    def title(self) -> str:
        return str(getattr(self.report, "title", self.name))

    @property
    def caption(self) -> str:
        return "" if self.report is None else self.report.heading

    @property
    def finding(self) -> str:
        """How far it is, then what was found so far."""
        return f"{self.progress} {getattr(self.report, 'finding', '')}".strip()

    def tables(self) -> Iterable[Table]:
        return [] if self.report is None else self.report.tables()

    def page_tables(self) -> Iterable[Table]:
        return [] if self.report is None else self.report.page_tables()

    def charts(self) -> Iterable[Chart]:
        return [] if self.report is None else self.report.charts()

    def passages(self) -> Iterable[Passages]:
        return [] if self.report is None else self.report.passages()

    def remarks(self) -> Iterable[str]:
        return [] if self.report is None else self.report.below

    def page_remarks(self) -> Iterable[str]:
        return [] if self.report is None else self.report.page_remarks()


def results(folder: Path) -> list[Display]:
    """The reports of a study or a search: while it runs, how far it is, and the curves of what trains now.

    Raises: DataError: there are no results and nothing runs, or they are damaged.
    """
    written = [path for name in RESULTS.values() if (path := folder / name).is_file()]
    if not (folder / PROGRESS).is_file():
        return read_reports(written[0] if written else folder / RESULTS["cell"])
    try:
        progress = parse(PartsDone, read_json_object(folder / PROGRESS, DataError))
        path = folder / RESULTS[progress.part]
    except (GlassformerError, KeyError) as error:  # it is not what a study or a search writes
        raise DataError(f"{folder / PROGRESS}: {error}; remove it") from error
    reports = read_reports(path) if path in written else []
    running = holder_lives(folder / LOCK)
    runs = [] if running is False else _training(folder)
    sentence = progress.sentence(running is not False, runs)
    first = Unfinished(reports[0] if reports else None, sentence, folder.resolve().name)
    return [first, *reports[1:], *([TrainingCurves(runs, whole=False)] if runs else [])]


def results_stamp(folder: Path) -> str:
    """Another text where `results` may give others."""
    parts = [str(holder_lives(folder / LOCK)), stamp(_training_folders(folder))]
    for path in (folder / name for name in (*RESULTS.values(), PROGRESS)):
        with suppress(OSError):  # which is not there (yet)
            parts.append(f"{path.name} {path.stat().st_size} {path.stat().st_mtime_ns}")
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=12).hexdigest()


def _training_folders(folder: Path) -> list[Path]:
    return sorted(path for path in iterate_runs(folder) if holder_lives(path / LOCK))[:MAX_RUNNING]


def _training(folder: Path) -> list[RunHistory]:
    """The runs that train now, of which something is logged."""
    histories = []
    for path in _training_folders(folder):
        with suppress(DataError):  # nothing is logged yet, or the folder of the trial was just removed
            histories.append(read_run(path, path.relative_to(folder).as_posix()))
    return histories
