"""Evaluated splits of a run: report and predictions from the run folder, evaluated now where they are missing.

split = evaluated_split(open_run("runs/mood"))         the validation split
split = evaluated_split(run, "train")                  the training split: where labels may be wrong, too
split = evaluated_split(run, data=["test.csv"])        other files
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from glassformer.data.rows import RowSequence
from glassformer.errors import DataError, nearest
from glassformer.evaluation.evaluate import PREDICTIONS, REPORT, Evaluation
from glassformer.evaluation.report import EvaluationReport
from glassformer.evaluation.runs import EVALUATION, VALIDATION, TrainedRun, evaluation_name
from glassformer.files.strict_json import read_json_object
from glassformer.runs.folder import MODEL
from glassformer.tasks.classify.kinds import label_names
from glassformer.tasks.predictions import Prediction, read_predictions

TRAIN = "train"
Notify = Callable[[str], None]


@dataclass(frozen=True)
class EvaluatedSplit:
    """A split with its report and predictions.

    name: of the split and its folder · data: files, where the rows are not the run's own
    """

    run: TrainedRun
    name: str
    data: list[str] | None
    report: EvaluationReport
    records: list[Prediction]

    def labels(self) -> list[str]:
        """The names of the model's labels."""
        return label_names(read_json_object(self.run.folder / MODEL / "config.json", DataError))

    def rows(self) -> RowSequence:
        """Read its rows, with all their columns.

        Raises: DataError: they are not (any more) those that were evaluated.
        """
        rows = split_rows(self.run, self.name, self.data)
        if rows.fingerprint != self.report.data.get("fingerprint"):
            raise DataError(
                f"{rows.file(0)}: its rows are not those that were evaluated; the file was changed, or is another one: "
                "evaluate again"
            )
        return rows


def evaluated_split(
    run: TrainedRun,
    name: str = VALIDATION,
    data: list[str] | None = None,
    notify: Notify = lambda message: None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> EvaluatedSplit:
    """Read the evaluation of a split from the run folder; where there is none, the model is evaluated now.

    Args:
        name: validation, train, or the name that `evaluate --data` has given
        data: other files than the run's; without a name such a split is named after the first
        notify: called with messages: that it is evaluated now, or that the model is newer than the report
        progress: of the evaluation, called with the rows done and their total
    Raises: DataError: there is no such split.
    """
    if data and name == VALIDATION:
        name = evaluation_name(data[0])
    folder = run.evaluation_folder(name)
    if not (folder / REPORT).is_file() or not (folder / PREDICTIONS).is_file():
        notify(f"{run.folder}: has no evaluation of {name!r} yet; evaluating it now")
        _evaluate_now(run, name, data, progress).save(folder)
    elif _is_newer(run.folder / MODEL / "model.safetensors", folder / REPORT):
        notify(f"{folder}: is older than the model; `glassformer evaluate {run.folder}` evaluates it again")
    report, records = EvaluationReport.load(folder / REPORT), read_predictions(folder / PREDICTIONS)
    if not records:
        raise DataError(f"{folder / PREDICTIONS}: is empty; evaluate again")
    return EvaluatedSplit(run, name, data, report, records)


def split_rows(run: TrainedRun, name: str, data: list[str] | None) -> RowSequence:
    """Read the rows of a split. Raises: DataError: there is no such split, or it has no rows."""
    if data:
        return run.read_rows(data)
    if name == TRAIN:
        return run.splits[0]
    if name != VALIDATION:
        evaluated = sorted(path.parent.name for path in (run.folder / EVALUATION).glob(f"*/{REPORT}"))
        known = list(dict.fromkeys([VALIDATION, TRAIN, *evaluated]))
        if name in evaluated:
            files = ", ".join(
                EvaluationReport.load(run.evaluation_folder(name) / REPORT).data.get("files", [])
            )
            raise DataError(
                f"{run.evaluation_folder(name)}: its rows are from files of their own ({files}); "
                f"name them too: --data FILE --part {name}"
            )
        raise DataError(
            f"no split {name!r} of {run.folder}; there are {', '.join(known)}{nearest(name, known)}; give other rows "
            "with --data FILE"
        )
    return run.read_rows()


def _evaluate_now(
    run: TrainedRun, name: str, data: list[str] | None, progress: Callable[[int, int], None]
) -> Evaluation:
    rows, done = split_rows(run, name, data), 0

    def count(more: int) -> None:
        nonlocal done
        done += more
        progress(done, len(rows))

    own = name == VALIDATION and not data
    return run.evaluate(None if own else rows, baselines=name != TRAIN, progress=count)


def _is_newer(one: Path, other: Path) -> bool:
    return one.is_file() and one.stat().st_mtime > other.stat().st_mtime
