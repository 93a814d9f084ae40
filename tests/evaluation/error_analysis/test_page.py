"""The error analysis as a report: what its page holds, of very many rows some, and its tables without a script."""

from __future__ import annotations

import re
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from glassformer.errors import DataError
from glassformer.evaluation.error_analysis import page as page_module
from glassformer.evaluation.error_analysis import served
from glassformer.evaluation.error_analysis.page import EvaluatedRows
from glassformer.evaluation.error_analysis.served import save_errors_page
from glassformer.evaluation.runs import EvaluatedSplit, TrainedRun
from glassformer.reports.page import report_page
from glassformer.runs.config import parse_config
from glassformer.tasks.types import Prediction
from tests.evaluation.judged_run import EVIL, NAMES, classified, report, tagged
from tests.reports.packed import data_of, unpacked


def rows_of(records: list[Prediction], name: str = "mood") -> EvaluatedRows:
    task = "tag" if "tokens" in records[0].row else "classify"
    return EvaluatedRows(report(task, records, name=name), records)


def held(records: list[Prediction]) -> dict[str, Any]:
    """The data of its page."""
    (found,) = data_of(report_page(rows_of(records)))["reports"]
    return dict(found)


def test_nothing_in_it_comes_from_elsewhere_or_can_run() -> None:
    names = [f"{name}{EVIL}" for name in NAMES]
    text = report_page(rows_of(classified(names=names, text=EVIL), name=EVIL))
    assert "<img" not in text and text.count("<script") == text.count("</script>") == 4
    assert set(re.findall(r"https?://[^\s\"'`]*", unpacked(text))) == {"http://www.w3.org/2000/svg"}
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy and "default-src 'none'" in policy[1] and "unsafe" not in policy[1]
    assert ' style="' not in text, "which the policy would refuse"
    rows = data_of(text)["reports"][0]["browser"]["rows"]
    assert rows[0]["texts"][0][1].startswith(EVIL)


def test_it_begins_with_what_is_wrong_and_where_the_model_stands() -> None:
    assert rows_of(classified()).finding == (
        "4 of 30 rows are wrong (13.3%), most often anger as joy (4 rows). accuracy 0.700 [0.600, 0.800]; better than "
        "the baseline “most frequent” (0.300) on 30 rows."
    )
    part = replace(rows_of(tagged()), whole=False)
    assert part.finding == "2 of 2 rows are wrong (100.0%), most often B-LOC as O (1 word)."
    number = replace(classified(1)[0], label=3.5, predicted=2.0, correct=None, details={})
    assert rows_of([number]).finding.startswith("accuracy 0.700")


def test_without_a_script_it_has_the_tables_of_the_terminal() -> None:
    text = report_page(rows_of(classified(6)))
    without = text[text.index("<noscript>") : text.index("</noscript>")]
    assert all(caption in without for caption in ("Highest loss", "Confusion matrix", "By label", "always joy"))


def test_of_very_many_rows_the_worst_and_the_best_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "MAX_ROWS", 500)
    records = classified(600)
    found = held(records)
    rows = found["browser"]["rows"]
    assert len(rows) == 500 and "100 between them are left out" in found["heading"]
    losses = sorted((x.loss for x in records if x.loss is not None), reverse=True)
    assert rows[0]["loss"] == pytest.approx(losses[0], 1e-4)
    assert rows[-1]["loss"] == pytest.approx(losses[-1], 1e-4)


def test_of_long_texts_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "MAX_CHARACTERS", 900)
    (row, *_) = held(classified(3, text="x" * 1_000))["browser"]["rows"]
    assert len(row["texts"][0][1]) == 300 and row["whole"] == 1_002 and "look" not in row


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
    cases: list[tuple[list[Prediction], str, dict[str, Any]]] = [
        ([several], "labels", {"true": ["bug"], "scores": [["bug", 0.2]], "correct": False}),
        ([number], "number", {"true": ["3.5"], "predicted": ["2"]}),
        ([text], "texts", {"true": ["b"], "predicted": ["c"], "values": [["chrF", 9.0]], "look": ["a", "c"]}),
        (tagged(), "tags", {"words": ["Jeff", "saw", "Rome"], "losses": [0.5, 0.25, 2.0], "loss": 2.75}),
    ]
    for records, kind, expected in cases:
        browser = held(records)["browser"]
        assert browser["kind"] == kind and expected.items() <= browser["rows"][0].items()


class Session:
    """An explorer that has nothing to compute."""

    facts = None

    def __init__(self, factory: object) -> None:
        pass

    def begin(self, texts: object) -> Session:
        return self

    def result(self) -> Session:
        return self

    def stop(self) -> None:
        pass


@pytest.mark.parametrize("until", [0, 1, 2])
def test_who_interrupts_the_explorers_pages_has_the_page_with_those_that_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until: int
) -> None:
    html, written = tmp_path / "errors.html", []

    class Page:
        def __init__(self, *given: object, **options: object) -> None:
            pass

        def save(self, path: Path) -> None:
            assert html.is_file(), "the page is there before those that it leads to"
            if len(written) == until:
                raise KeyboardInterrupt
            path.write_text("page")
            written.append(f"errors-look/{path.name}")

    monkeypatch.setattr(served, "SessionRuns", Session)
    monkeypatch.setattr(served, "StandalonePage", Page)
    monkeypatch.setattr(TrainedRun, "model", types.SimpleNamespace(session_factory=lambda: None))
    run = TrainedRun(tmp_path, parse_config({"task": "classify", "output": "x", "model": "m", "data": {"train": "a"}}))
    split = EvaluatedSplit(run, "validation", None, report("classify", classified()), classified())
    with pytest.raises(KeyboardInterrupt):
        save_errors_page(split, html, look=3)
    [shown] = data_of(html.read_text())["reports"]
    browser = shown["browser"]
    assert any(f"this page was interrupted: {until} of its 3 worst rows have" in text for text in shown["remarks"])
    assert {row["page"] for row in browser["rows"] if "page" in row} == set(written) and len(written) == until
    assert sorted(path.name for path in tmp_path.iterdir()) == ["errors-look", "errors.html"][until == 0 :]


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    run = TrainedRun(tmp_path, parse_config({"task": "classify", "output": "x", "model": "m", "data": {"train": "a"}}))
    split = EvaluatedSplit(run, "validation", None, report("classify", classified()), classified())
    with pytest.raises(DataError, match="the page cannot be written: No such file"):
        save_errors_page(split, tmp_path / "nowhere" / "page.html")
