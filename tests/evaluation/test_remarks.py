"""Remarks of a report: a baseline that is better than the model, and whether its training loss still fell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from glassformer.evaluation.evaluate import EvaluationReport, SystemResult
from glassformer.evaluation.remarks import beaten_by, loss_remarks
from glassformer.runs.event_log import EventLog, event_log_path
from glassformer.tasks.metrics.metric import Interval


def beside(difference: Interval | None, metric: str = "accuracy") -> EvaluationReport:
    """A report of a model that lies so far above its baseline."""
    return EvaluationReport(
        task="classify", name="mood", data={"rows": 9}, metric=metric, higher=metric != "wer",
        metrics={metric: Interval(0.5)}, methods={},
        baselines={"bag of words": SystemResult(about="", metrics={metric: Interval(0.6)}, difference=difference)},
    )  # fmt: skip


def remark(report: EvaluationReport) -> str:
    return " ".join(beaten_by(report.baselines, report.metric))


def test_a_baseline_that_is_better_is_said_with_its_interval() -> None:
    said = remark(beside(Interval(-0.1, -0.15, -0.05)))
    assert said.startswith(
        "the baseline 'bag of words' is better than the model, by 0.100 [0.050, 0.150]; train longer"
    )
    assert "by 0.100 [-0.050, 0.250], which chance may explain; " in remark(beside(Interval(-0.1, -0.25, 0.05)))
    assert "by 0.100 [0.050, 0.150]; " in remark(beside(Interval(0.1, 0.05, 0.15), "wer")), "less is better"
    for none in (Interval(0.1, 0.05, 0.15), Interval(0.0, -0.1, 0.1), Interval(float("nan")), None):
        assert remark(beside(none)) == ""


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (lambda step: 3 - step / 100, "2.37 in the third quarter of the steps, 2.12 in the last"),
        (lambda step: 2.0, ""),
        (lambda step: 2 - 1e-5 * step, ""),
        (lambda step: float("nan"), ""),
    ],
)
def test_whether_the_loss_still_fell(tmp_path: Path, loss: Callable[[int], float], said: str) -> None:
    beaten = beside(Interval(-0.1, -0.15, -0.05))
    assert loss_remarks(beaten, tmp_path) == [], "there is no log"
    with EventLog(event_log_path(tmp_path)) as log:
        for step in range(1, 101):
            log.write("step", step=step, loss=loss(step), lr=0.1, grad_norm=1.0, epoch=0.1, tokens=9, tokens_per_s=9.0)
    assert loss_remarks(beaten, tmp_path) == ([f"the training loss still fell: {said}"] if said else [])
    assert loss_remarks(beside(Interval(0.1, 0.05, 0.15)), tmp_path) == [], "the model is better"
