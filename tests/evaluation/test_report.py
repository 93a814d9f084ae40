"""Reports: written, read again, shown; what is no report is refused."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from glassformer.errors import ConfigError, DataError
from glassformer.evaluation.report import EvaluationReport, SystemResult
from glassformer.tasks.base import PerClassReport
from glassformer.tasks.metrics.intervals import Interval


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


def test_reports_of_former_keys_are_read() -> None:
    values = report_of().to_dict()
    values["figures"] = values.pop("metrics")
    values["baselines"]["most frequent"]["figures"] = values["baselines"]["most frequent"].pop("metrics")
    report = EvaluationReport.from_dict(values)
    values["classes"]["each"] = values["classes"].pop("scores")
    assert EvaluationReport.from_dict(values) == report == report_of()
    with pytest.warns(DeprecationWarning, match="use metrics"):
        assert report.figures == report.metrics


def test_what_is_no_report(tmp_path: Path) -> None:
    whole = report_of().to_dict()
    for changes, message in (
        ({"format": 2}, "no report of format 1"),
        ({"metric": "f2"}, "its main metric, 'f2', is none of its metrics"),
        ({"metrics": {"f1": 0.8}}, "expected names and values"),
        ({"data": {}}, "data.rows is None"),
        ({"data": {"rows": "many"}}, "data.rows is 'many'"),
        ({"more": 1}, "'more' is no option"),
    ):
        with pytest.raises(ConfigError, match=message):
            EvaluationReport.from_dict({**whole, **changes})
    for values in ([], None, "text"):
        with pytest.raises(ConfigError, match="no report"):
            EvaluationReport.from_dict(values)  # type: ignore[arg-type]
    for text in ("", "[]", '{"format": 1}', "\x00\xff"):
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
        "accuracy  0.850",
        "class 2  –          –       –      0",
        "1,200",
        "f1 by scikit-learn 1.9.1, average='weighted'; others by numpy 2",
        "note: no row is 'class 2'",
    ):
        assert said in text
    assert "better by" in text and "better by" not in str(replace(report_of(), baselines={}))


def test_many_classes_show_both_ends() -> None:
    table = report_of(40).class_table()
    assert table is not None
    names = [row[0] for row in table[1]]
    assert len(names) == 11 and names[0] == "class 38" and names[5] == "…" and names[-1] == "class 39"
    few = report_of(12).class_table()
    assert few is not None and len(few[1]) == 12
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
            "<mood>": {"figure": {"value": 0.8, "low": 0.7, "high": 0.9}},
            "most frequent": {
                "figure": {"value": 0.2, "low": 0.1, "high": 0.3},
                "better": {"value": 0.6, "low": 0.5, "high": 0.7},
            },
        },
    }
