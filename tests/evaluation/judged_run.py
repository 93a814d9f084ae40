"""Folders of runs that were evaluated, without a model: what pages, tables and sheets are made from."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from glassformer.data.rows import read_rows
from glassformer.evaluation.evaluate import EvaluationReport, SystemResult
from glassformer.runs.config import config_yaml, parse_config
from glassformer.tasks.metrics.metric import Interval
from glassformer.tasks.predictions import write_predictions
from glassformer.tasks.types import Prediction

NAMES = ["anger", "joy", "love"]
EVIL = "</script><img src=x onerror=alert(1)>&\"'"


def classified(count: int = 30, names: list[str] = NAMES, text: str = "time flies") -> list[Prediction]:
    """Rows of which every third is wrong; the further down, the higher the loss."""
    records = []
    for i in range(count):
        label = names[i % len(names)]
        said = names[(i + (i % 9 == 0)) % len(names)]
        true = 0.9 - 0.8 * i / count if said == label else 0.3 - 0.2 * i / count
        scores = {said: 1 - true, label: true} if said != label else {said: true}
        records.append(
            Prediction(
                index=i, where=f"val.csv: line {i + 2}", row={"text": f"{text} {i}"}, label=label, predicted=said,
                correct=label == said, loss=-math.log(true), details={"scores": scores},
            )
        )  # fmt: skip
    return records


def tagged() -> list[Prediction]:
    """Two rows of words; the model did not read the last word of the second."""
    return [
        Prediction(
            index=0, where="val.conll: line 1", row={"tokens": ["Jeff", "saw", "Rome"]},
            label=["B-PER", "O", "B-LOC"], predicted=["B-PER", "O", "O"], correct=False, loss=0.9,
            details={"losses": [0.5, 0.25, 2.0]},
        ),
        Prediction(
            index=1, where="val.conll: line 5", row={"tokens": ["Rome", "saw", "=Jeff", "1996-08-22"]},
            label=["B-LOC", "O", "B-PER", "O"], predicted=["B-LOC", "O", "B-LOC", "O"], correct=False, loss=0.5,
            details={"losses": [0.25, 0.125, 1.0, None]},
        ),
    ]  # fmt: skip


def report(task: str, records: list[Prediction], fingerprint: str = "", name: str = "mood") -> EvaluationReport:
    metric = "f1" if task == "tag" else "accuracy"
    return EvaluationReport(
        task=task, name=name, data={"files": ["val.csv"], "rows": len(records), "fingerprint": fingerprint},
        metric=metric, higher=True, metrics={metric: Interval(0.7, 0.6, 0.8)}, methods={},
        baselines={"most frequent": SystemResult(
            about="always joy", metrics={metric: Interval(0.3, 0.2, 0.4)}, difference=Interval(0.4, 0.3, 0.5),
        )},
    )  # fmt: skip


def write_run(
    folder: Path,
    task: str,
    rows: list[dict[str, Any]],
    records: list[Prediction],
    names: list[str],
    **data: Any,
) -> Path:
    """A run whose validation rows are `rows`, in JSON lines, and were evaluated as `records` say."""
    folder.mkdir(parents=True)
    for name in ("train", "val"):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder.parent / f"{name}.jsonl").write_text(lines)
    run = folder / "run"
    (run / "model").mkdir(parents=True)
    told = {"train": "train.jsonl", "validation": "val.jsonl", "folder": str(folder.parent), **data}
    config = parse_config({"task": task, "output": str(run), "model": "nowhere", "data": told})
    (run / "config.yaml").write_text(config_yaml(config))
    (run / "model" / "config.json").write_text(json.dumps({"id2label": dict(enumerate(names))}))
    place = run / "evaluation" / "validation"
    place.mkdir(parents=True)
    report(task, records, read_rows(str(folder.parent / "val.jsonl")).fingerprint).save(place / "report.json")
    write_predictions(place / "examples.jsonl", records)
    return run
