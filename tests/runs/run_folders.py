"""Run folders as trainings write them, in a moment: by the event log's own writer."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from glassformer.runs.folder import EventLog, event_log_path

OLD = 1_700_000_000
"""When the log of a run was last written that no longer trains."""


def make_run(
    folder: Path,
    scores: Sequence[float] | None = (0.5, 0.7),
    *,
    metric: str = "f1",
    interval: tuple[float, float] | None = None,
    planned: int = 20,
    ended: bool = True,
    data: str = "mood.csv",
    losses: Sequence[float] = (2.0, 1.0),
    **training: Any,
) -> Path:
    """A run with one validation for each score, at steps 10, 20, …; None = it has not begun.

    Args:
        interval: of its best score, by an evaluation
    """
    folder.mkdir(parents=True)
    config = {"task": "classify", "output": str(folder), "data": {"train": data}, "training": {"seed": 0, **training}}
    (folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False), "utf-8")
    if scores is None:
        return folder
    best = None
    with EventLog(event_log_path(folder)) as log:
        log.write("begin", steps=planned, metric=metric, options={})
        for step, loss in enumerate(losses, start=1):
            values = {"loss": loss, "lr": 1e-4, "grad_norm": 1.0, "tokens": 100 * step, "tokens_per_s": 50.0}
            log.write("step", step=10 * step, epoch=float(step), **values)
            if step <= len(scores):
                score = scores[step - 1]
                better = best is None or score > best
                best = score if better else best
                log.write("validation", step=10 * step, metrics={"loss": 1 - score, metric: score}, best=better)
        if ended:
            log.write("end", steps=10 * len(losses))
    os.utime(event_log_path(folder), (OLD, OLD))
    if interval is not None:
        report = folder / "evaluation" / "validation" / "report.json"
        report.parent.mkdir(parents=True)
        metrics = {metric: {"value": best, "low": interval[0], "high": interval[1]}}
        report.write_text(json.dumps({"kind": "evaluation", "version": 1, "metrics": metrics}))
    return folder
