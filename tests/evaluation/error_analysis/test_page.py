"""The page as a file: self-contained, nothing in it can run but its own script, and thousands of rows have an end."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from glassformer.errors import DataError
from glassformer.evaluation.error_analysis.page import MAX_ROWS, ErrorsPage
from glassformer.tasks.types import Prediction
from tests.evaluation.judged_run import EVIL, NAMES, classified, report, tagged
from tests.reports.packed import unpacked


def held(text: str) -> dict[str, object]:
    found = re.search(r'<script type="application/json" id="records">(.*?)</script>', text, re.S)
    assert found
    return dict(json.loads(found[1]))


def page(records: list[Prediction], name: str = "mood") -> str:
    task = "tag" if "tokens" in records[0].row else "classify"
    return ErrorsPage(report(task, records, name=name), records).standalone()


def test_nothing_in_it_comes_from_elsewhere_or_can_run() -> None:
    names = [f"{name}{EVIL}" for name in NAMES]
    text = page(classified(names=names, text=EVIL), name=EVIL)
    assert "<img" not in text and text.count("<script") == text.count("</script>") == 3
    assert set(re.findall(r"https?://[^\s\"']*", unpacked(text))) == {"http://www.w3.org/2000/svg"}
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy and "default-src 'none'" in policy[1] and "unsafe" not in policy[1]
    assert ' style="' not in text, "which the policy would refuse"
    rows = held(text)["rows"]
    assert isinstance(rows, list) and rows[0]["row"]["text"].startswith(EVIL)


def test_of_very_many_rows_the_worst_and_the_best_are_kept() -> None:
    records = classified(6_000)
    text = page(records)
    rows = held(text)["rows"]
    assert isinstance(rows, list) and len(rows) == MAX_ROWS
    assert "1,000 between them are left out" in text
    losses = sorted((x.loss for x in records if x.loss is not None), reverse=True)
    assert rows[0]["loss"] == pytest.approx(losses[0], 1e-4)
    assert rows[-1]["loss"] == pytest.approx(losses[-1], 1e-4)


def test_every_kind_of_label_has_a_page() -> None:
    first = classified(1)[0]
    several = replace(first, label=["bug"], predicted=[], correct=False, details={"scores": {"bug": 0.2}})
    number = replace(first, label=3.5, predicted=2.0, correct=None, details={})
    text = Prediction(
        index=0,
        where="x",
        row={"source": "a"},
        label=["b"],
        predicted="c",
        details={"metrics": {"chrF": 9.0}},
    )
    for records, kind in [([several], "labels"), ([number], "number"), ([text], "texts"), (tagged(), "tags")]:
        assert held(page(records))["kind"] == kind


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the page cannot be written: No such file"):
        ErrorsPage(report("classify", classified()), classified()).save(tmp_path / "nowhere" / "page.html")
