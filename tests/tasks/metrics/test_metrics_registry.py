"""One line adds a metric: reports have it with its interval, for baselines and groups too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer.data.rows import read_rows
from glassformer.errors import ConfigError, DataError
from glassformer.evaluation.evaluate import evaluate
from glassformer.plugins import register
from glassformer.runs.config import TrainingOptions
from glassformer.tasks.base import Task, metrics_of
from glassformer.tasks.metrics.metric import METRICS, RowMetric, greater_is_better
from glassformer.tasks.registry import task_class
from glassformer.training.trainer import Trainer
from tests.tasks.words import WORDS, tiny

ROWS = [{"text": " ".join(WORDS[i : i + 3]), "label": ["a", "bb", "cccc"][i % 3], "by": "xy"[i % 2]} for i in range(12)]


@pytest.fixture
def registered() -> Iterator[None]:
    yield
    for name in [*METRICS]:
        del METRICS[name]


@pytest.fixture
def task() -> Task:
    kind, rows = task_class("classify"), read_rows(ROWS)
    config = kind.head_config(rows, {}, own=False, columns=None, options={})
    return kind(tiny("bert", kind.HEAD, "bert", **config)).for_evaluation()


def letters(predicted: Any, label: Any) -> float:
    return abs(len(predicted) - len(label))


def test_one_line_adds_a_metric(registered: None, task: Task) -> None:
    before = evaluate("classify", task, read_rows(ROWS), resamples=30)
    register("metrics", "letters", RowMetric(letters, ["classify"], greater_is_better=False, method="letters too many"))
    found = evaluate("classify", task, read_rows(ROWS), train=read_rows(ROWS), by="by", resamples=30)
    report, expected = found.report, np.mean([letters(x.predicted, x.label) for x in found.predictions])
    assert report.metrics["letters"].value == pytest.approx(expected) and report.metrics["letters"].high is not None
    assert report.methods["letters"] == "letters too many" and not greater_is_better("letters")
    assert report.baselines and all("letters" in each.metrics for each in report.baselines.values())
    assert report.groups is not None and all("letters" in group.metrics for group in report.groups.groups)
    assert {name: x for name, x in report.metrics.items() if name != "letters"} == before.report.metrics
    assert (report.metric, report.classes) == (before.report.metric, before.report.classes)


def test_other_tasks_do_not_have_it(registered: None, task: Task) -> None:
    register("metrics", "letters", RowMetric(letters, ["tag", "summarise"]))
    predictions = list(task.predict(read_rows(ROWS)))
    assert "letters" not in metrics_of(task, predictions).methods
    register("metrics", "everywhere", RowMetric(lambda predicted, label: np.float32(1)))
    assert metrics_of(task, predictions).values()["everywhere"] == 1


def test_what_is_no_metric_is_refused(registered: None, task: Task) -> None:
    predictions = list(task.predict(read_rows(ROWS)))
    with pytest.raises(ConfigError, match="it must be a glassformer"):
        register("metrics", "letters", letters)
    register("metrics", "accuracy", RowMetric(letters, ["classify"]))
    with pytest.raises(ConfigError, match="the task has a metric 'accuracy'; register yours by another name"):
        metrics_of(task, predictions)
    del METRICS["accuracy"]
    for wrong in (None, "1", float("nan"), True):
        METRICS["wrong"] = RowMetric(lambda predicted, label, value=wrong: value)  # type: ignore[misc]
        with pytest.raises(DataError, match=r"the metric 'wrong' is .*; it must be a finite number"):
            metrics_of(task, predictions)
    METRICS["wrong"] = RowMetric(letters, ["clasify"])
    with pytest.raises(ConfigError, match="nearest: 'classify'"):
        metrics_of(task, predictions)


def test_validation_has_it_and_chooses_the_best_model_by_it(registered: None, task: Task, tmp_path: Path) -> None:
    register("metrics", "letters", RowMetric(letters, ["classify"], greater_is_better=False))
    rows = read_rows(ROWS)
    options, examples = TrainingOptions(steps=2, batch_size=4, seed=1, metric="letters"), task.encode(rows)
    trainer = Trainer(task.model, task, options, train=examples, validation=examples, folder=tmp_path / "run")
    validated = trainer.validate()
    expected = np.mean([letters(x.predicted, x.label) for x in task.predict(rows)])
    assert validated["letters"] == pytest.approx(expected, abs=1e-12) and "accuracy" in validated
    assert "letters" in trainer.train().metrics
    register("metrics", "accuracy", RowMetric(letters, ["classify"]))
    with pytest.raises(ConfigError, match="validation has a metric 'accuracy'; register yours by another name"):
        trainer.validate()
