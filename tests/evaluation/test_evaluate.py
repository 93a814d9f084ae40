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
from glassformer.evaluation import evaluate
from glassformer.evaluation.evaluate import RECORDS, REPORT
from glassformer.evaluation.report import Report
from glassformer.tasks.base import Rows
from glassformer.tasks.evaluator import Baseline, Judge
from glassformer.tasks.metrics.bootstrap import Means
from glassformer.tasks.predictions import Record, read_records
from tests.tasks.words import Listed
from tests.training.tiny import BERT, Texts, model_of

ROWS = read_rows([{"text": "time", "label": i % 4 == 0} for i in range(80)])


class Yes(Judge):
    """Says yes to every row."""

    METRIC = "right"

    def records(self, rows: Rows, progress: Callable[[int], None] | None = None) -> Iterator[Record]:
        warnings.warn("something was cut", stacklevel=1)
        for index in range(len(rows)):
            label = rows[index]["label"]
            yield Record(index=index, where=rows.where(index), row={}, label=label, said=True, right=label)

    def judged(self, records: Sequence[Record]) -> Means:
        return Means({"right": np.array([float(r.said == r.label) for r in records])}, {"right": "by hand"})

    def baselines(self, train: Rows | None, records: Sequence[Record]) -> Iterator[Baseline]:
        yield Baseline("no", "says no", [replace(record, said=False) for record in records])
        if train is not None:
            yield Baseline("learnt", "knows", [replace(record, said=record.label) for record in records])

    def notes(self, records: Sequence[Record]) -> list[str]:
        return [f"{len(records)} rows"]


@pytest.fixture
def judge() -> Yes:
    return Yes(Texts(model_of(BERT, "text-classification")))


def test_a_report_and_what_it_rests_on(judge: Yes, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what is warned of becomes a note
        found = evaluate("classify", judge, ROWS, train=ROWS, resamples=200, files=["a.csv"], seed=7)
    report = found.report
    assert report.figures["right"].value == 0.25 and report.notes == ["something was cut", "80 rows"]
    assert {name: standing.figures["right"].value for name, standing in report.baselines.items()} == {
        "no": 0.75,
        "learnt": 1.0,
    }
    apart = report.baselines["no"].difference
    assert apart is not None and apart.value == -0.5 and apart.leaves_out_zero
    assert report.data == {"files": ["a.csv"], "rows": 80, "fingerprint": ROWS.fingerprint}
    found.save(tmp_path / "evaluation" / "test")
    assert Report.load(tmp_path / "evaluation" / "test" / REPORT) == report
    assert read_records(tmp_path / "evaluation" / "test" / RECORDS) == found.records


def test_without_baselines_and_without_training_rows(judge: Yes) -> None:
    assert not evaluate("classify", judge, ROWS, baselines=False, resamples=5).report.baselines
    assert list(evaluate("classify", judge, ROWS, resamples=5).report.baselines) == ["no"]


def test_an_empty_part(judge: Yes) -> None:
    with pytest.raises(DataError, match="no row to judge; the part to judge on is empty"):
        evaluate("classify", judge, Listed())
