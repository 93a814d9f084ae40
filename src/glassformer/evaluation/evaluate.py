"""Evaluate a model: its predictions and those of baselines, scored on the same rows, in a report."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from glassformer.errors import DataError
from glassformer.evaluation.report import EvaluationReport, SystemResult
from glassformer.runs.environment import describe_environment
from glassformer.tasks.base import Dataset, Progress, Task
from glassformer.tasks.metrics.bootstrap import differences, intervals
from glassformer.tasks.metrics.intervals import RESAMPLES
from glassformer.tasks.metrics.metric import greater_is_better
from glassformer.tasks.predictions import Prediction, write_predictions

REPORT, PREDICTIONS = "report.json", "examples.jsonl"


@dataclass(frozen=True)
class Evaluation:
    """A report, and the predictions it rests on."""

    report: EvaluationReport
    predictions: list[Prediction]

    def save(self, folder: str | Path) -> None:
        """Write `report.json` and `examples.jsonl` into a folder, which is made."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        self.report.save(Path(folder) / REPORT)
        write_predictions(Path(folder) / PREDICTIONS, self.predictions)


def evaluate(
    task_name: str,
    task: Task,
    rows: Dataset,
    *,
    train: Dataset | None = None,
    name: str = "model",
    files: list[str] | None = None,
    seed: int | None = None,
    baselines: bool = True,
    resamples: int = RESAMPLES,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate a model on rows, beside its baselines. What is warned of meanwhile stands among the report's notes.

    Args:
        task_name: as in `glassformer train` · task: of the model, with its options: `task.for_evaluation(beams=5)`
        train: the training rows, which baselines learn from; without them only those that learn nothing
        name: of the model · files: where the rows are from · seed: of its training
        resamples: of the bootstrap · progress: called with how many more rows are done
    Raises: DataError: no rows, or one that cannot be evaluated.
    """
    if not len(rows):
        raise DataError("there is no row to evaluate; the split is empty")
    results: dict[str, SystemResult] = {}
    with _user_warnings() as messages:
        start = perf_counter()
        predictions = list(task.predict(rows, progress))
        seconds = perf_counter() - start
        metrics = task.metrics(predictions)
        for baseline in task.baselines(train, predictions) if baselines else ():
            of_baseline = task.metrics(baseline.predictions)
            results[baseline.name] = SystemResult(
                about=baseline.about,
                metrics=intervals(of_baseline, resamples),
                difference=differences(metrics, of_baseline, resamples).get(task.METRIC),
            )
    report = EvaluationReport(
        task=task_name,
        name=name,
        data={"files": files or [], "rows": len(rows), "fingerprint": rows.fingerprint},
        metric=task.METRIC,
        higher=greater_is_better(task.METRIC),
        metrics=intervals(metrics, resamples),
        methods=dict(metrics.methods),
        baselines=results,
        classes=task.per_class(predictions),
        notes=[*messages, *task.notes(predictions)],
        seed=seed,
        seconds=seconds,
        environment=describe_environment(task.model.device),
    )
    return Evaluation(report, predictions)


@contextmanager
def _user_warnings() -> Iterator[list[str]]:
    """The warnings meant for users, such as that texts were cut, as texts; the others go on."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield messages
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            messages.append(str(warning.message))
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
