"""The page: one file, nothing fetched, every text only text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from glassformer.evaluation.compare.compare import compare
from glassformer.evaluation.compare.comparison import ComparedSystem, Comparison
from glassformer.reports.page import report_data, report_page
from glassformer.tasks.metrics.metric import Interval
from tests.reports.packed import unpacked

pytest.importorskip("rouge_score", reason="needs rouge-score: pip install 'glassformer[evaluate]'")

EVIL = '<script>alert("x")</script> & <img src=x onerror=y>'


def test_one_file_in_which_texts_are_texts() -> None:
    rows = [{"article": f"{EVIL} number {i}", "highlights": [EVIL, "number"]} for i in range(5)]
    systems = {f"lead {EVIL}": list, "short": lambda texts: [text[:9] for text in texts]}
    result = compare(systems, rows, examples=2)
    text, data = report_page(result), report_data(result)
    assert text.count("<script") == text.count("</script>") == 4 and "<img" not in text
    assert "default-src 'none'" in text and "u-over" not in unpacked(text), "no chart of series, no program for it"
    assert [table["caption"] for table in data["tables"]][:1] == ["ROUGE-1 f"]
    assert len(data["tables"]) == 4 + 1, "the metrics; the costs"
    assert all(len(table["rows"]) == 2 for table in data["tables"][:4])
    assert [each["title"] for each in data["passages"]] == [
        "What they wrote, the list: row 0",
        "What they wrote, the list: row 1",
    ]
    for i, each in enumerate(data["passages"]):
        assert each["source"] == f"{EVIL} number {i}", "the whole text"
        assert [x["text"] for x in each["texts"]] == [EVIL, "number", f"{EVIL} number {i}", EVIL[:9]]
    assert any("differences are to lead" in line for line in (data["heading"], *data["remarks"]))


def test_one_row_one_system() -> None:
    data = report_data(compare({"echo": list}, [{"article": "a", "highlights": "b"}], examples=0))
    assert not data["passages"] and data["finding"] == ""
    assert all("difference" not in table["headings"] for table in data["tables"])


def compared(*differences: Interval | None, higher: bool = True, values: tuple[float, ...] = (0.5, 0.6)) -> Comparison:
    systems = [
        ComparedSystem(name=name, metrics={"f1": Interval(value)}, differences={"f1": each} if each else {})
        for name, value, each in zip("abc", values, (None, *differences), strict=False)
    ]
    return Comparison(task="t", caption="", systems=systems, shown={"f1": 2}, metric="f1", higher=higher)


@pytest.mark.parametrize(
    ("result", "finding"),
    [
        (compared(Interval(0.1, 0.05, 0.15)), "b has a better f1 than a, by 0.10 [0.05, 0.15]."),
        (
            compared(Interval(0.1, -0.05, 0.25)),
            "b has a better f1 than a, by 0.10 [-0.05, 0.25], which may be chance: the interval includes 0.",
        ),
        (compared(Interval(0.1, 0.05, 0.15), higher=False), "a has a better f1 than b, by 0.10 [0.05, 0.15]."),
        (
            compared(Interval(-0.2, -0.3, -0.1), Interval(-0.1, -0.2, -0.05), values=(0.5, 0.3, 0.4)),
            "a has a better f1 than c, by 0.10 [0.05, 0.20].",
        ),
        (compared(Interval(0.0, 0.0, 0.0), values=(0.5, 0.5)), "a and b have the same f1."),
        (compared(None), ""),
        (compared(values=(0.5,)), ""),
    ],
)
def test_the_finding_names_the_best_and_whether_it_may_be_chance(result: Comparison, finding: str) -> None:
    assert result.finding == finding


def test_the_finding_names_a_baseline_that_is_better_than_the_best_run() -> None:
    def with_baseline(value: float, difference: Interval, first: float = 0.7) -> str:
        result = compared(Interval(0.6 - first, -0.2, -0.05), values=(first, 0.6))
        baseline = ComparedSystem(
            name="bag of words", metrics={"f1": Interval(value)}, differences={"f1": difference}, seeds=0
        )
        return replace(result, systems=[*result.systems, baseline]).finding

    assert with_baseline(0.8, Interval(0.1, 0.02, 0.18)).endswith(
        " The baseline “bag of words” is better than a, by 0.10 [0.02, 0.18]."
    )
    assert with_baseline(0.71, Interval(0.01, -0.1, 0.12)).endswith("by 0.01 [-0.10, 0.12], which may be chance.")
    assert "baseline" not in with_baseline(0.65, Interval(-0.05, -0.1, 0.0))
    assert with_baseline(0.8, Interval(0.3, 0.2, 0.4), first=0.5).endswith(
        " The baseline “bag of words” has a better one (0.80)."
    ), "its difference to the best run is not known"
