"""What happened in a run, from its log alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from glassformer.runs.curves import main_metric, verdict
from glassformer.runs.folder import EventLog, event_log_path
from glassformer.runs.history import RunHistory, read_run

RISING, FALLING = [0.9, 0.6, 0.5, 0.6, 0.7], [0.9, 0.6, 0.5, 0.4, 0.3]
REST: dict[str, Any] = {"epoch": 1.0, "lr": 1e-3, "grad_norm": 1.0, "tokens": 1, "tokens_per_s": 9.0}
BETTER, WORSE = [0.5, 0.6, 0.7, 0.8, 0.9], [0.5, 0.6, 0.9, 0.8, 0.7]


def run(
    folder: Path,
    losses: list[float],
    scores: list[float],
    *,
    planned: int | None = 50,
    metric: str | None = "f1",
    patience: int | None = None,
    ended: bool = True,
    training_loss: float = -0.01,
) -> RunHistory:
    """A run with a validation every ten steps, whose training loss changes by so much a step."""
    best = max(scores) if metric != "loss" else -min(losses)
    folder.mkdir(exist_ok=True)
    with EventLog(event_log_path(folder)) as log:
        options: dict[str, Any] = {"training": {"patience": patience}}
        log.write("begin", steps=planned, metric=metric, options=options)
        for step in range(1, 10 * len(losses) + 1):
            loss = 1 + training_loss * step
            log.write(
                "step", step=step, epoch=step / 50, loss=loss, lr=1e-3, grad_norm=1.0, tokens=step, tokens_per_s=9.0
            )
            if step % 10 == 0:
                loss, score = losses[step // 10 - 1], scores[step // 10 - 1]
                is_best = (score if metric != "loss" else -loss) == best
                log.write("validation", step=step, metrics={"loss": loss, "f1": score}, best=is_best)
        if ended:
            log.write("end", steps=step)
    return read_run(folder)


STILL = "Still improving at its last validation: more steps may help."
OVER = "Overfitting since step 30: the validation loss rose from 0.5 to 0.7 while the training loss fell."
OVER_BELOW_0 = OVER.replace("0.5 to 0.7", "-0.5 to -0.2")
SINCE = "No better since step 30, in 2 validations."
WHOLE = "It ended at step 50, as planned."
RUNNING = "It is at step 50 of 90, about 0:04 of steps left."
EARLY = "Early stopping ended it at step 50 of 90, after 2 validations without improvement."
AT_30 = "Best f1 0.9 at step 30 of"


@pytest.mark.parametrize(
    ("losses", "scores", "options", "words"),
    [
        (FALLING, BETTER, {}, f"Best f1 0.9 at step 50. {STILL} {WHOLE}"),
        (RISING, WORSE, {}, f"{AT_30} 50. {OVER} {WHOLE}"),
        (RISING, WORSE, {"training_loss": 0.01}, f"{AT_30} 50. {SINCE} {WHOLE}"),
        (FALLING, WORSE, {"planned": 90, "patience": 2}, f"{AT_30} 90. {SINCE} {EARLY}"),
        (FALLING, WORSE, {"planned": 90, "patience": 3}, f"{AT_30} 90. {SINCE} It ended at step 50 of 90."),
        (FALLING, BETTER, {"planned": 90, "ended": False}, f"Best f1 0.9 at step 50 of 90. {STILL} {RUNNING}"),
        (RISING, BETTER, {"metric": "loss"}, f"Best loss 0.5 at step 30 of 50. {OVER} {WHOLE}"),
        # 2% on a few rows is no overfitting, nor is one validation that is higher
        ([0.9, 0.5, 0.2698, 0.2725, 0.2752], WORSE, {}, f"{AT_30} 50. {SINCE} {WHOLE}"),
        ([0.9, 0.6, 0.5, 0.51, 0.7], WORSE, {}, f"{AT_30} 50. {SINCE} {WHOLE}"),
        ([-0.1, -0.4, -0.5, -0.3, -0.2], WORSE, {}, f"{AT_30} 50. {OVER_BELOW_0} {WHOLE}"),
        ([0.9, 0.5], [0.5, 0.6], {"planned": None}, "Best f1 0.6 at step 20. It ended at step 20."),
    ],
)
def test_it_says_the_best_value_the_trend_and_the_end(
    tmp_path: Path, losses: list[float], scores: list[float], options: dict[str, Any], words: str
) -> None:
    assert verdict(run(tmp_path, losses, scores, **options)) == words


def test_a_report_that_leads_with_another_metric_than_chose_the_model_is_said(tmp_path: Path) -> None:
    best = run(tmp_path, FALLING, WORSE)
    assert verdict(best, "f1_weighted").startswith(
        "The report leads with f1_weighted, but f1 chose the model: best f1 0.9 at step 30 of 50. No better since"
    )
    assert verdict(best, "f1") == verdict(best)


def test_the_main_metric_of_an_older_log_is_that_whose_best_value_is_the_best_of_the_run(tmp_path: Path) -> None:
    assert main_metric(run(tmp_path / "a", FALLING, WORSE, metric=None)) == "f1"
    assert main_metric(run(tmp_path / "b", RISING, BETTER, metric="loss")) == "loss"


def test_a_log_without_steps_or_validations_says_no_more_than_it_has(tmp_path: Path) -> None:
    with EventLog(event_log_path(tmp_path)) as log:
        log.write("begin", steps=9, metric="f1", options={})
    assert verdict(read_run(tmp_path)) == "No step is logged yet."
    with EventLog(event_log_path(tmp_path)) as log:
        log.write("step", step=1, loss=1.0, **REST)
    assert verdict(read_run(tmp_path)).startswith("It is at step 1 of 9")


@pytest.mark.parametrize(
    ("holder", "words"),
    [
        ("", "It was stopped at step 50 of 90; the same command resumes it."),
        (None, "Its log is at step 50 of 90, with nothing written for over 1 day; if it was stopped, the same command"),
    ],
)
def test_a_run_that_does_not_train_any_more_says_what_is_known(tmp_path: Path, holder: str | None, words: str) -> None:
    run(tmp_path, FALLING, BETTER, planned=90, ended=False)
    if holder is not None:
        (tmp_path / "lock").write_text(holder)
    os.utime(event_log_path(tmp_path), (1_700_000_000, 1_700_000_000))
    assert words in verdict(read_run(tmp_path))
