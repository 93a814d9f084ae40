"""From rows to a report, next to baselines that answer the same rows."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer import progress
from glassformer.data.rows import read_rows
from glassformer.errors import ConfigError, DataError
from glassformer.evaluation.evaluate import (
    PREDICTIONS,
    REPORT,
    EvaluationReport,
    SystemResult,
    distinct_metrics,
    equal_metrics,
    evaluate,
)
from glassformer.tasks.metrics.metric import BootstrapMeans, Interval, PerClassReport
from glassformer.tasks.predictions import read_predictions
from glassformer.tasks.types import Baseline, Dataset, Prediction
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
            yield Prediction(index=index, where=rows.where(index), row={}, label=label, predicted=True, correct=label)

    def metrics(self, records: Sequence[Prediction]) -> BootstrapMeans:
        return BootstrapMeans(
            {"right": np.array([float(r.predicted == r.label) for r in records])}, {"right": "by hand"}
        )

    def baselines(self, train: Dataset | None, records: Sequence[Prediction]) -> Iterator[Baseline]:
        warnings.warn("a baseline cut something", stacklevel=1)
        yield Baseline("no", "says no", [replace(record, predicted=False) for record in records])
        if train is not None:
            yield Baseline("learnt", "knows", [replace(record, predicted=record.label) for record in records])

    def notes(self, records: Sequence[Prediction]) -> list[str]:
        return [f"{len(records)} rows"]


@pytest.fixture
def task() -> Yes:
    return Yes(model_of(BERT, "text-classification"))


def test_baselines_show_progress_where_the_model_does(
    task: Yes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "log_seconds", 0.0)
    evaluate("classify", task, ROWS, train=ROWS, resamples=10, progress=lambda done: None)
    assert capsys.readouterr().err.splitlines() == ["baselines: 1", "baselines: 2"]
    evaluate("classify", task, ROWS, train=ROWS, resamples=10)
    assert capsys.readouterr().err == ""


def test_a_report_and_what_it_rests_on(task: Yes, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what is warned of becomes a note
        found = evaluate("classify", task, ROWS, train=ROWS, resamples=200, files=["a.csv"], seed=7)
    report = found.report
    assert report.metrics["right"].value == 0.25 and report.notes[:3] == [
        "something was cut",
        "baselines: a baseline cut something",
        "80 rows",
    ]
    # Of two baselines that are better, the best.
    assert report.notes[3].startswith("the baseline 'learnt' is better than the model, by 0.750 [0.6")
    assert report.notes[3].endswith(
        "]; train longer (--epochs), with another learning rate (--learning-rate), or on more rows"
    )
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


# ---------------------------------------------------------------- reports: written, read again, shown; or refused


def report_of(classes: int = 3, **changes: Any) -> EvaluationReport:
    names = [f"class {i}" for i in range(classes)]
    each: dict[str, dict[str, float | None]] = {
        name: {"precision": 0.5, "recall": i / classes, "f1": i / classes, "support": 1_200.0}
        for i, name in enumerate(names)
    }
    each[names[-1]] = {"precision": None, "recall": None, "f1": None, "support": 0.0}
    given: dict[str, Any] = {
        "task": "classify",
        "name": "<mood>",
        "data": {"files": ["test.csv"], "rows": 2_000, "fingerprint": "0a"},
        "metric": "f1",
        "higher": True,
        "metrics": {"f1": Interval(0.8, 0.7, 0.9), "accuracy": Interval(0.85)},
        "methods": {"f1": "scikit-learn 1.9.1, average='weighted'", "accuracy": "numpy 2"},
        "baselines": {
            "most frequent": SystemResult(
                about="says <one>",
                metrics={"f1": Interval(0.2, 0.1, 0.3)},
                difference=Interval(0.6, 0.5, 0.7),
            )
        },
        "classes": PerClassReport(names=names, scores=each, confusion=[[0] * classes] * classes),
        "notes": ["no row is 'class 2'"],
        "seed": 3,
    }
    return EvaluationReport(**{**given, **changes})


def test_there_and_back(tmp_path: Path) -> None:
    report = report_of()
    report.save(tmp_path / "report.json")
    assert EvaluationReport.load(tmp_path / "report.json") == report
    lost = report_of(metrics={"f1": Interval(math.nan, None, math.inf)})
    again = EvaluationReport.from_dict(json.loads(json.dumps(lost.to_dict(), allow_nan=False)))
    assert math.isnan(again.metrics["f1"].value) and again.metrics["f1"].high is None


def test_what_is_no_report(tmp_path: Path) -> None:
    whole = report_of().to_dict()
    for changes, message in (
        ({"version": 2}, "version 2; supported: 1"),
        ({"kind": "seeds"}, "expected a report of kind 'evaluation'"),
        ({"metric": "f2"}, "its main metric, 'f2', is none of its metrics"),
        ({"metrics": {"f1": 0.8}}, "expected names and values"),
        ({"data": {}}, "data.rows is None"),
        ({"data": {"rows": "many"}}, "data.rows is 'many'"),
        ({"more": 1}, "'more' is no option"),
    ):
        with pytest.raises(ConfigError, match=message):
            EvaluationReport.from_dict({**whole, **changes})
    for values in ([], None, "text"):
        with pytest.raises(ConfigError, match="expected a report of kind"):
            EvaluationReport.from_dict(values)  # type: ignore[arg-type]
    for text in ("", "[]", '{"kind": "evaluation", "version": 1}', "\x00\xff"):
        (tmp_path / "broken.json").write_text(text)
        with pytest.raises(DataError, match=r"broken\.json"):
            EvaluationReport.load(tmp_path / "broken.json")
    with pytest.raises(DataError):
        EvaluationReport.load(tmp_path / "missing.json")


def test_as_text() -> None:
    text = str(report_of())
    for said in (
        "<mood> on 2,000 rows of test.csv",
        "most frequent  0.200 [0.100, 0.300]  +0.600 [+0.500, +0.700]  says <one>",
        "accuracy   0.850",
        "class 2  –          –       –            0",
        "1,200",
        "f1 by scikit-learn 1.9.1, average='weighted'; accuracy by numpy 2",
        "note: no row is 'class 2'",
    ):
        assert said in text
    assert "better by" in text and "better by" not in str(replace(report_of(), baselines={}))


def test_each_metric_is_said_to_be_computed_as_it_is() -> None:
    """A metric of a plug-in does not describe those of the task."""
    methods = {"f1": "scikit-learn 1.9.1, average='weighted'", "accuracy": "scikit-learn 1.9.1"}
    methods |= {"near": "mean number of seasons, of four, between the two", "wer": "jiwer 4, words", "cer": "jiwer 4"}
    assert replace(report_of(), methods=methods).method == (
        "f1 by scikit-learn 1.9.1, average='weighted'; near by mean number of seasons, of four, between the two; "
        "wer, cer by jiwer 4"
    )


def test_one_number_is_shown_once_whatever_its_names() -> None:
    half, third = Interval(0.5, 0.4, 0.6), Interval(1 / 3)
    own = {"accuracy": half, "f1_macro": third, "f1_micro": half, "recall_weighted": Interval(0.5 + 1e-15, 0.4, 0.6)}
    same = {"f1_micro": ["accuracy", "recall_weighted"], "f1_macro": []}
    assert distinct_metrics([own], "f1_micro") == same
    assert equal_metrics([own, own], "accuracy") == ["accuracy is also f1_micro, recall_weighted"]
    other = {**own, "f1_micro": third}  # they differ in one system
    assert list(distinct_metrics([own, other], "accuracy")) == ["accuracy", "f1_macro", "f1_micro"]
    assert distinct_metrics([{"loss": Interval(math.nan)}, {}], "loss") == {"loss": []}
    report = EvaluationReport(
        task="classify", name="mood", data={"rows": 2}, metric="f1_macro", higher=True, metrics=own, methods={}
    )
    assert [row[0] for row in report.tables()[0].rows] == ["mood"]
    assert report.other_metrics_table().rows == [["accuracy", "0.500 [0.400, 0.600]"]]
    assert "accuracy is also f1_micro, recall_weighted" in str(report)


def test_many_classes_show_both_ends() -> None:
    table = report_of(40).class_table()
    assert table is not None
    names = [row[0] for row in table.rows]
    assert len(names) == 11 and names[0] == "class 38" and names[5] == "…" and names[-1] == "class 39"
    few = report_of(12).class_table()
    assert few is not None and len(few.rows) == 12
    assert "precision" not in str(EvaluationReport(**{**vars(report_of()), "classes": None}))


def test_in_a_notebook_texts_are_escaped() -> None:
    page = report_of()._repr_html_()
    assert "&lt;mood&gt;" in page and "<mood>" not in page and "no row is" in page and "class 0" in page


def test_beside() -> None:
    assert report_of().card_comparison() == {
        "metric": "f1",
        "method": "scikit-learn 1.9.1, average='weighted'",
        "rows": 2_000,
        "systems": {
            "<mood>": {"value": {"value": 0.8, "low": 0.7, "high": 0.9}},
            "most frequent": {
                "value": {"value": 0.2, "low": 0.1, "high": 0.3},
                "better": {"value": 0.6, "low": 0.5, "high": 0.7},
            },
        },
    }
