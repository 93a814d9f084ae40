"""Scalars of other programs: which tag is which curve or metric of ours."""

from __future__ import annotations

import math

import pytest

from glassformer.runs.scalars import Scalars


@pytest.mark.parametrize("tag", ["loss", "train/loss", "train_loss", "Loss/train", "training/loss", "TRAIN/Loss"])
def test_the_training_loss_has_many_names(tag: str) -> None:
    scalars = Scalars()
    scalars.add(tag, 1, 0.5)
    assert scalars.digest().blocks.last[0, 0] == 0.5


@pytest.mark.parametrize(
    ("tag", "metric"),
    [
        ("eval/f1", "f1"),
        ("validation/f1", "f1"),
        ("val_f1", "f1"),
        ("F1/val", "f1"),
        ("eval/loss", "loss"),
        ("train/accuracy", "train/accuracy"),
        ("reward", "reward"),
        ("eval/", "eval/"),
    ],
)
def test_other_tags_are_metrics(tag: str, metric: str) -> None:
    scalars = Scalars()
    scalars.add(tag, 3, 0.5)
    *_, validation = scalars.digest().events
    assert validation[2]["metrics"] == {metric: 0.5} and validation[2]["step"] == 3


def test_two_tags_of_one_meaning_are_both_kept() -> None:
    scalars = Scalars()
    for value, tag in enumerate(("train/loss", "loss", "eval/f1", "val/f1")):
        scalars.add(tag, 1, float(value))
    digest = scalars.digest()
    assert digest.blocks.last[0, 0] == 0.0
    assert digest.events[-1][2]["metrics"] == {"loss": 1.0, "f1": 2.0, "val/f1": 3.0}


def test_the_best_step_is_that_of_the_first_metric_that_is_no_loss() -> None:
    scalars = Scalars()
    for step, (loss, f1) in enumerate([(0.5, 0.2), (0.1, 0.9), (0.05, 0.9), (0.01, math.nan)], start=1):
        scalars.add("eval/loss", step, loss)
        scalars.add("eval/f1", step, f1)
    events = [event for _, _, event in scalars.digest().events]
    assert events[0]["metric"] == "f1" and [x["best"] for x in events[1:]] == [False, True, False, False]


def test_time_between_steps_is_the_time_of_steps_and_nothing_is_a_digest_too() -> None:
    scalars = Scalars(ended=True)
    for step, time in ((1, 100.0), (2, 101.5), (3, 101.0)):
        scalars.add("loss", step, 1.0, time)
    digest = scalars.digest()
    assert digest.blocks.seconds.tolist() == [0.0, 1.5, 0.0] and digest.last_event == "end"
    assert len(Scalars().digest().blocks) == 0 and Scalars().digest().last_event == ""
