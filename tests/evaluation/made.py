"""Runs that nobody trained: a folder with a configuration, a report and records, made by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import yaml

from glassformer.evaluation.evaluate import EvaluationReport, SystemResult
from glassformer.tasks.metrics.metric import Bootstrap, Interval, intervals
from glassformer.tasks.predictions import write_predictions
from glassformer.tasks.types import Prediction


class Right(Bootstrap):
    """The share of rows that are right."""

    def __init__(self, records: Sequence[Prediction]) -> None:
        self.methods = {"accuracy": "by hand"}
        self.right = np.array([bool(record.correct) for record in records])

    def __len__(self) -> int:
        return len(self.right)

    def scores(self, resample_counts: np.ndarray) -> dict[str, np.ndarray]:
        return {"accuracy": (resample_counts * self.right).sum(-1) / resample_counts.sum(-1)}


class AccuracyTask:
    """A task without a model."""

    METRIC = "accuracy"

    def metrics(self, records: Sequence[Prediction]) -> Right:
        return Right(records)


def make_run(
    folder: Path,
    right: Sequence[bool],
    *,
    seed: int = 0,
    task: str = "classify",
    fingerprint: str = "rows",
    seconds: float | None = None,
) -> Path:
    """A run that said the right thing of these rows."""
    place = folder / "evaluation" / "validation"
    place.mkdir(parents=True)
    config = {"task": task, "output": str(folder), "data": {"train": "a.csv"}, "model": "none"}
    (folder / "config.yaml").write_text(yaml.safe_dump({**config, "training": {"seed": seed}}))
    records = [Prediction(index=i, where="", row={}, label=1, predicted=int(x), correct=x) for i, x in enumerate(right)]
    write_predictions(place / "examples.jsonl", records)
    dummy = SystemResult(about="always 1", metrics={"accuracy": Interval(0.25)}, difference=Interval(0.5, 0.4, 0.6))
    EvaluationReport(
        task=task,
        name=folder.name,
        data={"files": ["a.csv"], "rows": len(right), "fingerprint": fingerprint},
        metric="accuracy",
        higher=True,
        metrics=intervals(Right(records), 100),
        methods={"accuracy": "by hand"},
        baselines={"<most> frequent": dummy},
        seed=seed,
        seconds=2.0,
    ).save(place / "report.json")
    if seconds is not None:
        (folder / "model").mkdir()
        facts = {"seconds": seconds, "cpu_seconds": 2 * seconds, "steps": 60, "parameters": 1_234}
        (folder / "model" / "metrics.json").write_text(json.dumps(facts))
    return folder
