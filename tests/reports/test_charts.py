"""Charts as data: what they hold, the JSON of a page of reports, and what its file carries."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import pytest

from glassformer.reports.charts import (
    Axis,
    BrowserRow,
    Chart,
    Marks,
    PairCounts,
    Passages,
    Point,
    RowBrowser,
    Series,
    SeriesLine,
    TradeOff,
)
from glassformer.reports.page import made_by, report_data, report_files, report_page
from glassformer.reports.report import Report
from glassformer.reports.table import IntervalCell, Table
from tests.reports.packed import data_of, programs_of, unpacked

EVIL = "</script><script>alert(1)</script><!-- \u202eevil\u202c \ud800 \x1b[31m"
SHOWN = r"</script><script>alert(1)</script><!-- \u202eevil\u202c \ud800 \x1b[31m"
NUMBER = IntervalCell("0.91 [0.89, 0.93]", 0.9100001, 0.89, 0.93)


@dataclass(frozen=True, repr=False)
class Sizes(Report, kind="test-sizes"):
    """A report that uses all that a page has."""

    name: str = "sizes"

    title = property(lambda self: self.name)
    caption = property(lambda self: f"about {self.name}")
    finding = property(lambda self: f"{self.name} is best")
    notes = property(lambda self: [self.name])

    def tables(self) -> list[Table]:
        rows = [[self.name, NUMBER], ["other", IntervalCell("+0.1", 0.1, signed=True)]]
        return [Table(["", self.name], rows, self.name, shades=[[0.5], [math.nan]], reference=0, baselines=[1])]

    def charts(self) -> list[Chart]:
        line = SeriesLine(self.name, [1, 2, 3], [0.123456, math.nan, -math.inf], group=self.name, best=2)
        return [
            Series(title=self.name, x_label="step", lines=[line], marks=[Marks(self.name, [2], alert=True)]),
            TradeOff(
                self.name, Axis(self.name, "MB", more=False), Axis("f1"), [Point(self.name, NUMBER, NUMBER, size=2.0)]
            ),
        ]

    def passages(self) -> list[Passages]:
        return [Passages(self.name, [("a", self.name)], references=[("b", "c")], source=self.name)]


class Plain(Sizes):
    """The same without a chart of series."""

    def charts(self) -> list[Chart]:
        return super().charts()[1:]


class Bare(Sizes):
    """The same without a chart."""

    def charts(self) -> list[Chart]:
        return []


def test_the_data_of_a_page_is_strict_json_of_all_that_the_report_has() -> None:
    data = json.loads(json.dumps(report_data(Sizes()), allow_nan=False))
    assert (data["kind"], data["title"], data["heading"], data["finding"], data["remarks"]) == (
        "test-sizes", "sizes", "about sizes", "sizes is best", ["sizes"],
    )  # fmt: skip
    (table,) = data["tables"]
    cell = {"text": "0.91 [0.89, 0.93]", "value": 0.91, "low": 0.89, "high": 0.93, "signed": False}
    assert table["rows"][0] == ["sizes", cell] and table["rows"][1][1]["signed"] is True
    assert (table["shades"], table["reference"], table["baselines"]) == ([[0.5], ["NaN"]], 0, [1])
    series, trade_off = data["charts"]
    (line,) = series["lines"]
    assert line["y"] == [0.1235, "NaN", "−∞"] and (line["x"], line["best"]) == ([1, 2, 3], 2)
    assert series["marks"] == [{"name": "sizes", "group": "", "at": [2], "alert": True}]
    assert trade_off["x"] == {"label": "sizes", "unit": "MB", "log": False, "more": False}
    assert trade_off["points"][0]["x"] == cell and trade_off["points"][0]["size"] == 2
    (passages,) = data["passages"]
    assert [(x["name"], x["text"], x["reference"]) for x in passages["texts"]] == [
        ("b", "c", True), ("a", "sizes", False),
    ]  # fmt: skip


def test_hostile_strings_are_texts_in_each_field() -> None:
    text = report_page(Sizes(EVIL))
    data = data_of(text)
    found = json.dumps(data, ensure_ascii=False)
    assert "\ud800" not in found and "\x1b" not in found
    report = data["reports"][0]
    running = report["passages"][0]
    assert running["source"] == EVIL.replace("\ud800", "\\ud800"), "a text in any script is shown as it is"
    del report["passages"]
    rest = json.dumps(data, ensure_ascii=False)
    assert "\u202e" not in rest and json.dumps(SHOWN)[1:-1] in rest
    assert text.count("<script") == text.count("</script>") == 4 and "alert(1)</script>" not in text
    assert escape(SHOWN) in text, "also where scripts are switched off"
    assert text.encode("utf-8", "strict")


def test_a_text_of_megabytes_is_whole() -> None:
    large = "x" * 4_000_000
    report = data_of(report_page(Plain(large)))["reports"][0]
    assert report["passages"][0]["source"] == report["tables"][0]["rows"][0][0] == large
    assert len(report["title"]) == len(report["tables"][0]["caption"]) == 300, "of a name, the beginning"


def test_a_page_carries_the_programs_that_it_uses() -> None:
    with made_by(["glassformer", "compare", "a"]):
        with_series, without = report_page(Sizes()), report_page(Plain())
    assert "u-over" in unpacked(with_series) and "u-over" not in unpacked(without)
    assert "trade-off" in unpacked(without) and "axisName" not in unpacked(report_page(Bare()))
    with_rows = unpacked(report_page(Rows()))
    for program in ("glassformerRows=", "glassformerMatrix="):
        assert program in with_rows and program not in unpacked(with_series)
    assert len(report_page(Bare()).encode()) < 22_500 < len(with_series.encode()) < 69_000
    for text in map(unpacked, (with_series, without)):
        policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
        assert policy and "default-src 'none'" in policy[1] and "unsafe" not in policy[1]
        assert 'style="' not in text and "Made by <code>glassformer compare a</code>" in text
        assert set(re.findall(r"https?://([^\s\"'`)/]*)", text)) <= {"www.w3.org"}, "names of namespaces alone"
    sizes = [sum(map(len, report_files([each]))) for each in (Bare(), Plain(), Sizes())]
    assert sizes == sorted(sizes) and len(set(sizes)) == 3


def test_the_policy_has_the_hash_of_what_is_unpacked_and_of_the_loader_alone() -> None:
    text = report_page(Sizes())
    packed = dict(programs_of(text))
    (style,) = re.findall("<style>(.*?)</style>", text, re.DOTALL)
    (loader,) = re.findall("<script>(.*?)</script>", text, re.DOTALL)
    for rule, parts in (("script-src", [loader, packed["script"]]), ("style-src", [style, packed["style"]])):
        digests = (hashlib.sha256(part.encode()).digest() for part in parts)
        hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
        assert f"{rule} {hashes};" in text


def test_lines_share_their_x_values() -> None:
    steps = list(range(10, 1010, 10))
    lines = [SeriesLine(name, steps, [i / 7 for i in steps]) for name in "abc"] + [
        SeriesLine("d", [1, 2, 4, 9], [1] * 4)
    ]

    class Curves(Plain):
        def charts(self) -> list[Chart]:
            return [Series(title="t", x_label="step", lines=lines)]

    data = data_of(report_page(Curves()))
    drawn = data["reports"][0]["charts"][0]["lines"]
    assert data["axes"] == [[[10, 10, 100]], [1, 2, 4, 9]] and [line["x"] for line in drawn] == [0, 0, 0, 1]
    assert drawn[0]["y"][:2] == [1.429, 2.857] and drawn[0]["y"][-1] == 142.9
    assert report_data(Curves())["charts"][0]["lines"][0]["x"] == steps


@dataclass(frozen=True, repr=False)
class Rows(Bare):
    """The same with rows and a matrix that chooses them."""

    def charts(self) -> list[Chart]:
        return [PairCounts(self.name, [self.name, "b"], [[1, 0], [2, 3]])]

    def browser(self) -> RowBrowser:
        row = BrowserRow(
            index=0, where=self.name, texts={self.name: self.name}, true=[self.name], correct=False, loss=0.0
        )
        return RowBrowser(rows=[row], kind="classes", names=[self.name, "b"], command=self.name)


def test_rows_have_what_they_have_and_a_matrix_its_counts() -> None:
    data = json.loads(json.dumps(report_data(Rows()), allow_nan=False))
    matrix = {"type": "matrix", "title": "sizes", "names": ["sizes", "b"], "counts": [[1, 0], [2, 3]], "unit": "rows"}
    assert data["charts"] == [matrix]
    row = {"index": 0, "where": "sizes", "texts": [["sizes"] * 2], "true": ["sizes"], "correct": False, "loss": 0.0}
    assert data["browser"]["rows"] == [row], "0 and false are something"
    hostile = report_page(Rows(EVIL))
    (browser,) = (report["browser"] for report in data_of(hostile)["reports"])
    assert browser["names"][0] == browser["rows"][0]["true"][0] == SHOWN, "by which the matrix chooses rows"
    assert browser["rows"][0]["texts"] == [[SHOWN, EVIL.replace("\ud800", "\\ud800")]]
    assert "alert(1)</script>" not in hostile


def test_several_reports_are_one_page() -> None:
    data = data_of(report_page(Sizes("one"), Plain("two")))
    assert [each["title"] for each in data["reports"]] == ["one", "two"]
    assert (data["title"], data["page"]) == ("one · two", True)
    assert data_of(report_page(Sizes("one"), Plain("two"), title="both"))["title"] == "both"


def test_a_report_without_charts_has_its_tables() -> None:
    @dataclass(frozen=True, repr=False)
    class Words(Report, kind="test-words"):
        words: int

        def tables(self) -> list[Table]:
            return [Table(["", "words"], [["text", str(self.words)]])]

    data = report_data(Words(3))
    assert (data["charts"], data["passages"], data["remarks"], data["finding"]) == ([], [], [], "")
    assert data["tables"][0]["rows"] == [["text", "3"]]


def test_points_of_a_line_come_in_pairs() -> None:
    with pytest.raises(ValueError, match="line 'a': x, y, and low with high must be equally long"):
        SeriesLine("a", [1, 2], [1])
    with pytest.raises(ValueError, match="equally long"):
        SeriesLine("a", [1, 2], [1, 2], low=[1, 2])
    assert len(SeriesLine("a", np.arange(2), np.ones(2), low=[0, 0], high=[1, 1]).x) == 2


def test_large_steps_stay_whole_and_infinite_ones_are_refused() -> None:
    def page(x: float) -> dict[str, Any]:
        @dataclass(frozen=True, repr=False)
        class One(Plain):
            def charts(self) -> list[Chart]:
                return [Series(title="", x_label="", lines=[SeriesLine("", [x], [1.0])])]

        return report_data(One())

    assert page(123_456_789)["charts"][0]["lines"][0]["x"] == [123_456_789]
    with pytest.raises(ValueError, match="JSON"):
        json.dumps(page(math.inf), allow_nan=False)
