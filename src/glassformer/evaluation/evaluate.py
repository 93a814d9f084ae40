"""From rows to a report: the model is asked once, the baselines too, and all are judged on the same rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from glassformer.errors import DataError
from glassformer.evaluation.report import Report, Standing
from glassformer.runs.environment import environment
from glassformer.tasks.base import Rows
from glassformer.tasks.evaluator import Judge
from glassformer.tasks.metrics.bootstrap import differences, intervals
from glassformer.tasks.metrics.intervals import RESAMPLES
from glassformer.tasks.predictions import Record, write_records

REPORT, RECORDS = "report.json", "examples.jsonl"


@dataclass(frozen=True)
class Evaluation:
    """A report, and what it rests on."""

    report: Report
    records: list[Record]

    def save(self, folder: str | Path) -> None:
        """Write `report.json` and `examples.jsonl` into a folder, which is made."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        self.report.save(Path(folder) / REPORT)
        write_records(Path(folder) / RECORDS, self.records)


def evaluate(
    task: str,
    judge: Judge,
    rows: Rows,
    *,
    train: Rows | None = None,
    name: str = "model",
    files: list[str] | None = None,
    seed: int | None = None,
    baselines: bool = True,
    resamples: int = RESAMPLES,
    progress: Callable[[int], None] | None = None,
) -> Evaluation:
    """Judge a model on rows, beside its baselines. What is warned of meanwhile stands among the report's notes.

    Args:
        train: what it learnt from, which the baselines learn from too; without it only those that learn nothing
        name: of the model · files: where the rows are from · seed: of its training
        resamples: how many samples the intervals are drawn from · progress: called with how many more rows are done
    Raises: DataError: no rows, or one that cannot be judged.
    """
    if not len(rows):
        raise DataError("there is no row to judge; the part to judge on is empty")
    standings: dict[str, Standing] = {}
    with _heard() as told:
        began = perf_counter()
        records = list(judge.records(rows, progress))
        seconds = perf_counter() - began
        judged = judge.judged(records)
        for baseline in judge.baselines(train, records) if baselines else ():
            other = judge.judged(baseline.records)
            apart = differences(judged, other, resamples)
            standings[baseline.name] = Standing(
                about=baseline.about,
                figures=intervals(other, resamples),
                difference=apart.get(judge.METRIC),
            )
    report = Report(
        task=task,
        name=name,
        data={"files": files or [], "rows": len(rows), "fingerprint": rows.fingerprint},
        metric=judge.METRIC,
        higher=judge.HIGHER,
        figures=intervals(judged, resamples),
        methods=dict(judged.methods),
        baselines=standings,
        classes=judge.classes(records),
        notes=[*told, *judge.notes(records)],
        seed=seed,
        seconds=seconds,
        environment=environment(judge.model.device),
    )
    return Evaluation(report, records)


@contextmanager
def _heard() -> Iterator[list[str]]:
    """The warnings meant for users, such as that texts were cut, as texts; the others go on."""
    told: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield told
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            told.append(str(warning.message))
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
