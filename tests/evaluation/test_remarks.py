"""Remarks of a report: a baseline that is better than the model, and whether its training loss still fell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from glassformer.evaluation.evaluate import (
    EvaluationReport,
    SystemResult,
    beaten_by,
    beside_baselines,
    chance_remark,
    loss_remarks,
)
from glassformer.runs.folder import EventLog, event_log_path
from glassformer.tasks.metrics.metric import Interval, PerClassReport


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
    assert remark(beside(Interval(-0.1, -0.25, 0.05))).startswith(
        "the baseline 'bag of words' is not distinguishable from the model: its accuracy is better by "
        "0.100 [-0.050, 0.250]; train longer"
    )
    assert "by 0.100 [0.050, 0.150]; " in remark(beside(Interval(0.1, 0.05, 0.15), "wer")), "less is better"
    for none in (Interval(0.1, 0.05, 0.15), Interval(0.0, -0.1, 0.1), Interval(float("nan")), None):
        assert remark(beside(none)) == ""


@pytest.mark.parametrize(
    ("difference", "metric", "words"),
    [
        (Interval(0.001, -0.1, 0.1), "accuracy", "not distinguishable from the baseline"),
        (Interval(-0.1, -0.25, 0.05), "accuracy", "not distinguishable from the baseline"),
        (Interval(0.1), "accuracy", "not distinguishable from the baseline"),
        (Interval(0.1, 0.05, 0.15), "accuracy", "better than the baseline"),
        (Interval(0.1, 0.05, 0.15), "wer", "worse than the baseline"),
        (Interval(-0.1, -0.15, -0.05), "accuracy", "worse than the baseline"),
        (Interval(0.0, 0.0, 0.0), "accuracy", "the same as the baseline"),
        (None, "accuracy", "the baseline"),
    ],
)
def test_the_model_is_better_than_a_baseline_only_beyond_chance(
    difference: Interval | None, metric: str, words: str
) -> None:
    assert beside_baselines(beside(difference, metric)) == f"{metric} 0.500; {words} “bag of words” (0.600) on 9 rows"


def guessed(low: float | None, confusion: list[list[int]] | None = None) -> EvaluationReport:
    """A classifier whose Matthews correlation has this lower end of its interval."""
    matthews = Interval(0.1) if low is None else Interval(0.1, low, 0.2)
    return replace(
        beside(Interval(0.0, -0.1, 0.1)),
        metrics={"accuracy": Interval(0.5, 0.4, 0.6), "matthews": matthews},
        classes=PerClassReport(names=["calm", "joy"], scores={}, confusion=confusion or [[2, 1], [3, 4]]),
    )


def test_a_classifier_near_chance_is_said_to_be_with_its_interval_and_the_most_frequent_class() -> None:
    said = (
        "Hardly better than chance: accuracy 0.500 [0.400, 0.600], and always “joy” has 0.700; the Matthews "
        "correlation is 0.100 [0.000, 0.200], and that of a guess 0."
    )
    assert chance_remark(guessed(0.0)) == said
    assert beside_baselines(guessed(0.0)).endswith(f"on 9 rows. {said.removesuffix('.')}")
    assert chance_remark(guessed(0.001)) == "", "beyond chance"
    assert chance_remark(guessed(None)) == "", "one row says nothing"
    assert chance_remark(replace(guessed(0.0), classes=None)) == chance_remark(beside(None)) == ""


def test_it_stands_beside_the_baseline_with_the_best_value() -> None:
    report = beside(Interval(-0.1, -0.15, -0.05))
    others = {
        name: SystemResult(about="", metrics={"accuracy": Interval(value)}, difference=Interval(0.4, 0.3, 0.5))
        for name, value in (("dummy", 0.1), ("broken", float("nan")))
    }
    assert "worse than the baseline “bag of words”" in beside_baselines(
        replace(report, baselines={**others, **report.baselines})
    )
    assert beside_baselines(replace(report, baselines={})) == "accuracy 0.500"


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
