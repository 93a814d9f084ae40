"""Metrics by the values of a column: sorted, compared with all other rows, honest about what is too little."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from glassformer.data.rows import read_rows
from glassformer.errors import DataError
from glassformer.evaluation.error_analysis.page import EvaluatedRows
from glassformer.evaluation.evaluate import EvaluationReport
from glassformer.evaluation.groups import MAX_SHOWN, MIN_ROWS, MetricsByGroup, group_names, metrics_by_group
from glassformer.reports.page import report_page
from glassformer.tasks.metrics.metric import BootstrapSums
from glassformer.tasks.transcribe.scores import scores_of
from glassformer.tasks.types import Prediction
from tests.evaluation.judged_run import EVIL, classified, report
from tests.evaluation.made import AccuracyTask
from tests.reports.packed import data_of


class Heard:
    """Recognition of speech, of which the word errors are known."""

    METRIC = "wer"

    def metrics(self, predictions: Sequence[Prediction]) -> BootstrapSums:
        counts = np.array([x.details["counts"] for x in predictions], dtype=np.float64)
        return scores_of(counts, predictions, "basic")


class Accuracy(AccuracyTask):
    METRIC = "accuracy"


def heard(*rows: tuple[int, int], **details: Any) -> list[Prediction]:
    """A prediction for each pair of word errors and words."""
    return [
        Prediction(
            index=i, where=f"clips.csv: line {i + 2}", row={}, label="", predicted="",
            details={"counts": [wrong, words, wrong, 3 * words], "seconds": 0.5, **details},
        )
        for i, (wrong, words) in enumerate(rows)
    ]  # fmt: skip


def by_speaker(sources: dict[str | None, list[tuple[int, int]]], resamples: int = 200) -> MetricsByGroup:
    names = [name for name, rows in sources.items() for _ in rows]
    predictions = heard(*(row for rows in sources.values() for row in rows))
    return metrics_by_group(Heard(), predictions, "speaker", names, resamples)  # type: ignore[arg-type]


def test_the_worst_first_and_what_stands_out_by_distance_times_size() -> None:
    found = by_speaker(
        {
            "good": [(0, 4)] * 38 + [(1, 4)] * 2,
            "bad": [(2, 4)] * 20,  # every second word of 80
            "large": [(1, 4), (0, 4)] * 200,  # an eighth of 1,600
            "few": [(4, 4)] * (MIN_ROWS - 1),
            None: [(0, 1)],
        }
    )
    assert [group.name for group in found.groups] == ["few", "bad", "large", "good", None]
    few, bad, large, good, nobody = found.groups
    assert bad.metrics["wer"].value == 0.5 and bad.amounts == {"words": 80, "seconds": 10} and bad.rows == 20
    assert good.metrics["wer"].low is not None and good.worse_by is None, "it is better than all rows together"
    assert few.worse_by is None and nobody.worse_by is None, "too few"
    others = (2 + 200 + 4 * 9) / (160 + 1600 + 36 + 1)
    assert bad.worse_by is not None and bad.worse_by.value == pytest.approx(0.5 - others)
    assert bad.excess == pytest.approx(80 * (0.5 - others)) and bad.worse_by.low is not None and bad.worse_by.low > 0
    assert found.outliers == [bad] and large.worse_by is None

    table = found.table()
    headings, rows = table.headings, table.rows
    assert headings == ["by speaker", "rows", "words", "seconds", "wer", "cer"]
    assert rows[1][:4] == ["bad", "20", "80", "10.0"] and rows[4][0] == "(no speaker)"
    assert rows[1][4].startswith("0.500 [") and rows[1][5].startswith("0.167 [")
    text = str(found)
    assert f"bad: its wer is worse than that of all other rows by {bad.worse_by.written(3)}; times 80 words" in text
    assert f"2 groups of fewer than {MIN_ROWS} rows: too few to say what stands out" in text


def test_much_sound_is_told_in_hours() -> None:
    long = [replace(x, details={**x.details, "seconds": 1_800.0}) for x in heard(*[(1, 4)] * 5)]
    found = metrics_by_group(Heard(), long, "speaker", list("aaaab"), 20)  # type: ignore[arg-type]
    table = found.table()
    headings, rows = table.headings, table.rows
    assert headings[3] == "hours" and [row[3] for row in rows] == ["2.00", "0.50"]
    assert found.groups[0].amounts["seconds"] == 7_200


def test_a_large_source_that_is_somewhat_worse_comes_before_a_small_one_that_is_bad() -> None:
    found = by_speaker({"good": [(0, 4)] * 400, "small": [(4, 4)] * 10, "large": [(2, 4)] * 200})
    assert [group.name for group in found.groups] == ["small", "large", "good"]
    assert [group.name for group in found.outliers] == ["large", "small"]


def test_nothing_beyond_chance() -> None:
    draw = np.random.default_rng(0)
    found = by_speaker({name: [(int(x), 4) for x in draw.integers(0, 3, 30)] for name in "abc"})
    assert not found.outliers and "no speaker is worse than all others beyond chance" in str(found)
    assert any(group.worse_by is not None for group in found.groups)


def test_where_more_is_better() -> None:
    right = [True] * 90 + [False] * 10 + [True] * 5 + [False] * 15
    predictions = [Prediction(index=i, where="", row={}, label=1, predicted=1, correct=x) for i, x in enumerate(right)]
    found = metrics_by_group(Accuracy(), predictions, "author", ["a"] * 100 + ["b"] * 20, 200)  # type: ignore[arg-type]
    worst = found.groups[0]
    assert worst.name == "b" and worst.worse_by is not None and worst.worse_by.value == pytest.approx(0.9 - 0.25)
    assert found.outliers == [worst] and worst.excess == pytest.approx(20 * 0.65)
    assert found.table().headings == ["by author", "rows", "accuracy"] and "times 20 rows that is 13.0" in str(found)


def test_one_source_and_sources_without_words() -> None:
    found = by_speaker({"only": [(1, 4)] * 12})
    assert found.groups[0].worse_by is None
    assert found.sentences() == ["all rows have one speaker: there is nothing to compare it with"]

    found = by_speaker({"speech": [(0, 4)] * 12, "noise": [(3, 0)] * 12})
    assert [group.name for group in found.groups] == ["speech", "noise"] and not found.groups[1].metrics
    assert found.table().rows[1] == ["noise", "12", "0", "6.0", "–", "–"]
    assert "1 group without any words: no wer" in str(found) and not found.outliers
    found = by_speaker({"speech": [(1, 4)] * 12, "noise": [(0, 0)] * 12})
    assert found.groups[0].worse_by is None, "the others have no words"


def test_of_many_sources_the_worst_are_shown() -> None:
    found = by_speaker({f"speaker {i}": [(i % 3, 4)] * MIN_ROWS for i in range(MAX_SHOWN + 5)}, resamples=20)
    rows = found.table().rows
    assert len(found.groups) == MAX_SHOWN + 5 and len(rows) == MAX_SHOWN + 1 and rows[-1][0] == "… 5 more"
    assert "of a hundred similar, three or four stand out by chance" in str(found)


def test_a_long_text_is_one_row_of_several_stretches() -> None:
    predictions = heard(*[(1, 4)] * 4)
    with pytest.raises(DataError, match="do not say which row they are of; evaluate the model again"):
        metrics_by_group(Heard(), predictions, "book", ["a", "b"], 20)  # type: ignore[arg-type]
    stretches = [heard((i, 4), row=i // 3)[0] for i in range(4)]
    found = metrics_by_group(Heard(), stretches, "book", ["a", "b"], 20)  # type: ignore[arg-type]
    assert [(group.name, group.rows, group.amounts["words"]) for group in found.groups] == [("b", 1, 4), ("a", 1, 12)]


def test_predictions_that_an_earlier_version_saved_have_no_seconds() -> None:
    predictions = heard(*[(1, 4)] * 4)
    del predictions[2].details["seconds"]
    assert dict(Heard().metrics(predictions).amounts) == {"words": 16}


def test_groups_of_rows() -> None:
    rows = read_rows([{"a": "x", "n": 1}, {"a": " ", "n": 2}, {"a": None, "n": 1}])
    assert group_names(rows, "a") == ["x", None, None] and group_names(rows, "n") == ["1", "2", "1"]
    with pytest.raises(DataError, match=r"no column 'speakr'; nearest: 'speaker'.*--by names one of them"):
        group_names(read_rows([{"speaker": "x"}]), "speakr")
    lists = read_rows(
        [{"tags": ["a"]}, {"tags": ["b", "a", "b"]}, {"tags": []}, {"tags": ["", None, 3]}, {"tags": None}]
    )
    assert group_names(lists, "tags") == ["a", ("b", "a"), None, "3", None]
    for value in ({"a": 1}, [["a"]], [{"a": 1}]):
        with pytest.raises(
            DataError, match=r"'tags' is .*; rows are grouped by a text or a number, or by each of a list"
        ):
            group_names(read_rows([{"tags": value}]), "tags")
    with pytest.raises(DataError, match="no row has a value in 'a'; there is nothing to group by"):
        group_names(read_rows([{"a": ""}]), "a")


def test_a_row_of_several_groups_is_in_each_of_them() -> None:
    names = [("bug", "docs")] * 10 + ["bug"] * 20 + ["docs"] * 20 + [None]  # type: ignore[list-item]
    found = metrics_by_group(Heard(), heard(*[(4, 4)] * 10, *[(0, 4)] * 41), "labels", names, 50)  # type: ignore[arg-type]
    rows = {group.name: (group.rows, group.metrics["wer"].value) for group in found.groups}
    assert rows == {"bug": (30, pytest.approx(1 / 3)), "docs": (30, pytest.approx(1 / 3)), None: (1, 0)}
    bug = next(group for group in found.groups if group.name == "bug")
    assert bug.worse_by is not None and bug.worse_by.value == pytest.approx(1 / 3)  # than the 21 rows without it
    assert "a row with several labels is in each of their groups" in str(found)

    found = metrics_by_group(Heard(), heard(*[(1, 4)] * 20), "labels", [("all", "some")] * 12 + ["all"] * 8, 20)  # type: ignore[arg-type]
    assert {group.name: group.rows for group in found.groups} == {"all": 20, "some": 12}


def test_in_a_report_and_on_its_page() -> None:
    found = by_speaker({f"<{EVIL}>": [(4, 4)] * 20, "good": [(0, 4)] * 50, "noise": [(1, 0)]})
    records = classified()
    whole = EvaluationReport(**{**vars(report("classify", records)), "groups": found})
    again = EvaluationReport.from_dict(json.loads(json.dumps(whole.to_dict(), allow_nan=False)))
    assert again == whole and again.groups is not None and again.groups.outliers == [found.groups[0]]
    assert not math.isnan(again.groups.groups[0].metrics["wer"].value)
    assert "by speaker" in str(whole) and "&lt;&lt;/script&gt;" in whole._repr_html_()
    html = report_page(EvaluatedRows(whole, records, groups=[("good",)] * len(records)))
    (page,) = data_of(html)["reports"]
    assert any("is worse than that of all other rows" in remark for remark in page["remarks"]) and "<img" not in html
    assert [table["chooses"] for table in page["tables"] if table["caption"] == "By speaker"] == ["group"]
    assert (page["browser"]["grouped_by"], page["browser"]["rows"][0]["groups"]) == ("speaker", ["good"])
    assert "By speaker" not in report_page(EvaluatedRows(report("classify", records), records))
