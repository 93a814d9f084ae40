"""A part of a run as it was judged: its report and records from the run's folder, made there where they are missing.

part = judged_part(open_run("runs/mood"))                  the rows it was validated on
part = judged_part(run, "train")                           those it learnt from: where else labels may be wrong
part = judged_part(run, data=["test.csv"])                 others
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from glassformer.data.rows import Rows
from glassformer.errors import DataError, nearest
from glassformer.evaluation.evaluate import RECORDS, REPORT, Evaluation
from glassformer.evaluation.report import Report
from glassformer.evaluation.runs import EVALUATION, VALIDATION, Run, name_of
from glassformer.files.strict_json import read_object
from glassformer.runs.folder import MODEL
from glassformer.tasks.classify.labels import names_in
from glassformer.tasks.predictions import Record, read_records

TRAIN = "train"
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Part:
    """What was judged, and what came of it.

    name: of the part, as its folder is called · data: files, where the rows are not the run's own
    """

    run: Run
    name: str
    data: list[str] | None
    report: Report
    records: list[Record]

    def labels(self) -> list[str]:
        """The names of the labels that the model knows."""
        return names_in(read_object(self.run.folder / MODEL / "config.json", DataError))

    def rows(self) -> Rows:
        """The rows themselves, with all their columns.

        Raises: DataError: they are not those that were judged (any more).
        """
        rows = rows_of_part(self.run, self.name, self.data)
        if rows.fingerprint != self.report.data.get("fingerprint"):
            raise DataError(
                f"{rows.file(0)}: its rows are not those that were judged; the file was changed, or is another one: "
                "evaluate again"
            )
        return rows


def judged_part(
    run: Run,
    name: str = VALIDATION,
    data: list[str] | None = None,
    tell: Tell = lambda said: None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Part:
    """What is in the run's folder of a part; where nothing is, the model is asked now.

    Args:
        name: validation, train, or what `evaluate --data` has called it
        data: other files than the run's; without a name of its own such a part is called as the first
        tell: called with what should be known: that it is judged now, that the model is newer than what is read
        progress: of that, called with the rows done and all
    Raises: DataError: there is no such part.
    """
    if data and name == VALIDATION:
        name = name_of(data[0])
    place = run.place(name)
    if not (place / REPORT).is_file() or not (place / RECORDS).is_file():
        tell(f"{run.folder}: has no evaluation of {name!r} yet; judging it now")
        _judged_now(run, name, data, progress).save(place)
    elif _newer(run.folder / MODEL / "model.safetensors", place / REPORT):
        tell(f"{place}: is older than the model; `glassformer evaluate {run.folder}` judges it anew")
    report, records = Report.load(place / REPORT), read_records(place / RECORDS)
    if not records:
        raise DataError(f"{place / RECORDS}: is empty; evaluate again")
    return Part(run, name, data, report, records)


def rows_of_part(run: Run, name: str, data: list[str] | None) -> Rows:
    """The rows of a part. Raises: DataError: there is no such part, or it has no rows."""
    if data:
        return run.rows(data)
    if name == TRAIN:
        return run.parts[0]
    if name != VALIDATION:
        there = sorted(path.parent.name for path in (run.folder / EVALUATION).glob(f"*/{REPORT}"))
        known = list(dict.fromkeys([VALIDATION, TRAIN, *there]))
        if name in there:
            files = ", ".join(Report.load(run.place(name) / REPORT).data.get("files", []))
            raise DataError(
                f"{run.place(name)}: its rows are from files of their own ({files}); name them too: --data FILE "
                f"--part {name}"
            )
        raise DataError(
            f"no part {name!r} of {run.folder}; there are {', '.join(known)}{nearest(name, known)}; give other rows "
            "with --data FILE"
        )
    return run.rows()


def _judged_now(
    run: Run, name: str, data: list[str] | None, progress: Callable[[int, int], None]
) -> Evaluation:
    rows, done = rows_of_part(run, name, data), 0

    def count(more: int) -> None:
        nonlocal done
        done += more
        progress(done, len(rows))

    own = name == VALIDATION and not data
    return run.evaluate(None if own else rows, baselines=name != TRAIN, progress=count)


def _newer(one: Path, other: Path) -> bool:
    return one.is_file() and one.stat().st_mtime > other.stat().st_mtime
