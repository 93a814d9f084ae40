"""From rows to a report, beside baselines that answer the same rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from glassformer.data.rows import read_rows
from glassformer.errors import DataError
from glassformer.evaluation.evaluate import PREDICTIONS, REPORT, evaluate
from glassformer.evaluation.report import EvaluationReport
from glassformer.tasks.base import Baseline, Dataset
from glassformer.tasks.metrics.bootstrap import BootstrapMeans
from glassformer.tasks.predictions import Prediction, read_predictions
from tests.tasks.words import Listed
from tests.training.tiny import BERT, Texts, model_of

ROWS = read_rows([{"text": "time", "label": i % 4 == 0} for i in range(80)])


class Yes(Texts):
    """Predicts yes for every row."""

    METRIC = "right"

    def predict(self, rows: Dataset, progress: Callable[[int], None] | None = None) -> Iterator[Prediction]:
        warnings.warn("something was cut", stacklevel=1)
        for index in range(len(rows)):
            label = rows[index]["label"]
            yield Prediction(
                index=index, where=rows.where(index), row={}, label=label, predicted=True, correct=label
            )

    def metrics(self, records: Sequence[Prediction]) -> BootstrapMeans:
        return BootstrapMeans(
            {"right": np.array([float(r.predicted == r.label) for r in records])}, {"right": "by hand"}
        )

    def baselines(self, train: Dataset | None, records: Sequence[Prediction]) -> Iterator[Baseline]:
        yield Baseline("no", "says no", [replace(record, predicted=False) for record in records])
        if train is not None:
            yield Baseline("learnt", "knows", [replace(record, predicted=record.label) for record in records])

    def notes(self, records: Sequence[Prediction]) -> list[str]:
        return [f"{len(records)} rows"]


@pytest.fixture
def task() -> Yes:
    return Yes(model_of(BERT, "text-classification"))


def test_a_report_and_what_it_rests_on(task: Yes, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what is warned of becomes a note
        found = evaluate("classify", task, ROWS, train=ROWS, resamples=200, files=["a.csv"], seed=7)
    report = found.report
    assert report.metrics["right"].value == 0.25 and report.notes == ["something was cut", "80 rows"]
    assert {name: standing.metrics["right"].value for name, standing in report.baselines.items()} == {
        "no": 0.75,
        "learnt": 1.0,
    }
    apart = report.baselines["no"].difference
    assert apart is not None and apart.value == -0.5 and apart.leaves_out_zero
    assert report.data == {"files": ["a.csv"], "rows": 80, "fingerprint": ROWS.fingerprint}
    found.save(tmp_path / "evaluation" / "test")
    assert EvaluationReport.load(tmp_path / "evaluation" / "test" / REPORT) == report
    assert read_predictions(tmp_path / "evaluation" / "test" / PREDICTIONS) == found.predictions


def test_without_baselines_and_without_training_rows(task: Yes) -> None:
    assert not evaluate("classify", task, ROWS, baselines=False, resamples=5).report.baselines
    assert list(evaluate("classify", task, ROWS, resamples=5).report.baselines) == ["no"]


def test_an_empty_part(task: Yes) -> None:
    with pytest.raises(DataError, match="no row to evaluate; the split is empty"):
        evaluate("classify", task, Listed())
