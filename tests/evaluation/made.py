"""Runs that nobody trained: a folder with a configuration, a report and records, made by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import yaml

from glassformer.evaluation.report import Report, Standing
from glassformer.tasks.metrics.bootstrap import Sampled, intervals
from glassformer.tasks.metrics.intervals import Interval
from glassformer.tasks.predictions import Record, write_records


class Right(Sampled):
    """The share of rows that are right."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.methods = {"accuracy": "by hand"}
        self.right = np.array([bool(record.right) for record in records])

    def __len__(self) -> int:
        return len(self.right)

    def figures(self, times: np.ndarray) -> dict[str, np.ndarray]:
        return {"accuracy": (times * self.right).sum(-1) / times.sum(-1)}


class RightJudge:
    """A judge without a model."""

    def judged(self, records: Sequence[Record]) -> Right:
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
    records = [Record(index=i, where="", row={}, label=1, said=int(x), right=x) for i, x in enumerate(right)]
    write_records(place / "examples.jsonl", records)
    dummy = Standing(
        about="always 1", figures={"accuracy": Interval(0.25)}, difference=Interval(0.5, 0.4, 0.6)
    )
    Report(
        task=task,
        name=folder.name,
        data={"files": ["a.csv"], "rows": len(right), "fingerprint": fingerprint},
        metric="accuracy",
        higher=True,
        figures=intervals(Right(records), 100),
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
