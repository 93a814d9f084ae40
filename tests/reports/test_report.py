"""Reports: JSON that is read back or refused in a sentence; text in a shell and HTML in a notebook, short and safe."""

from __future__ import annotations

import base64
import json
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from glassformer.cli.screen import show
from glassformer.errors import ConfigError, DataError
from glassformer.lessons.walkthrough import masks
from glassformer.model import Model, load
from glassformer.reports.page import report_data, report_page
from glassformer.reports.report import Record, Report
from glassformer.reports.table import HTML_ROWS, TEXT_COLUMNS, TEXT_ROWS, Table
from tests.e2e.tiny_models import make_folder

MAX_CHARACTERS = 4_000
"""Of what a result of a short text prints."""


@dataclass(frozen=True)
class Cell(Record, keys=("name", "twice")):
    name: str
    value: float

    @property
    def twice(self) -> float:
        return 2 * self.value


@dataclass(frozen=True, repr=False)
class Counts(Report, kind="test-counts", version=2):
    caption: str
    values: dict[str, float]
    array: Any = None
    notes: list[str] = field(default_factory=list)

    def tables(self) -> list[Table]:
        return [Table(["word", "count"], [[name, f"{value:g}"] for name, value in self.values.items()])]

    def validate(self) -> None:
        if not self.values:
            raise ConfigError("no word was counted")


@dataclass(frozen=True, slots=True, repr=False)
class Selected(Report, kind="test-selected", keys=("cells", "total")):
    cells: list[Any]

    @property
    def total(self) -> int:
        return len(self.cells)

    def tables(self) -> list[Table]:
        return []


HOSTILE = (
    "<script>alert(1)</script>",
    "=cmd|' /C calc'!A0",
    "\u202e\u2066evil",
    "\x1b[2J",
    "\ud800",
    "nul\0",
    "\r\n| --- |",
)


def test_a_report_is_json_of_its_kind_and_version_and_is_read_back(tmp_path: Path) -> None:
    report = Counts("two words", {"a": 1.0, "b": math.nan}, np.arange(4.0).reshape(2, 2), ["a note"])
    values = report.to_dict()
    assert list(values) == ["kind", "version", "caption", "values", "array", "notes"]
    assert (values["kind"], values["version"]) == ("test-counts", 2)
    assert values["values"] == {"a": 1.0, "b": None} and values["array"] == [[0.0, 1.0], [2.0, 3.0]]
    json.dumps(values, allow_nan=False)
    whole = Counts("two words", {"a": 1.0}, notes=["a note"])
    whole.save(tmp_path / "counts.json")
    assert Counts.load(tmp_path / "counts.json") == whole


def test_chosen_keys_may_be_properties_also_of_a_class_with_slots() -> None:
    report = Selected([Cell("x", 1.5), torch.ones(2), {1}, Path("a/b")])
    assert report.to_dict() == {
        "kind": "test-selected",
        "version": 1,
        "cells": [{"name": "x", "twice": 3.0}, [1.0, 1.0], [1], "a/b"],
        "total": 4,
    }
    assert Selected.from_dict({**report.to_dict(), "cells": []}).total == 0  # computed again, not believed


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "lens"}, "expected a report of kind 'test-counts', got JSON whose kind is 'lens'"),
        ({"kind": None}, "which has no kind"),
        ({"version": 3}, "version 3; supported: 2; it was written by a later Glassformer; update this one"),
        ({"version": 1}, "version 1; supported: 2; make the report again"),
        ({"version": True}, "version True; supported: 2"),
        ({"values": {}}, "no word was counted"),
        ({"values": 3}, "values is 3; it must be names and values"),
        ({"valuse": 3}, "'valuse' is no option; nearest: 'values'"),
    ],
)
def test_another_kind_version_or_value_is_refused(change: dict[str, Any], words: str) -> None:
    values = Counts("two words", {"a": 1.0}).to_dict() | change
    with pytest.raises(ConfigError, match=re.escape(words)):
        Counts.from_dict(values)


def test_a_file_that_is_cut_is_refused_with_its_name(tmp_path: Path) -> None:
    Counts("two words", {"a": 1.0}).save(tmp_path / "counts.json")
    text = (tmp_path / "counts.json").read_text()
    for end in range(0, len(text) - 2, 7):
        (tmp_path / "cut.json").write_text(text[:end])
        with pytest.raises(DataError, match=r"cut\.json"):
            Counts.load(tmp_path / "cut.json")


@pytest.mark.parametrize("text", [*HOSTILE, "x" * 4_000_000], ids=[*map(ascii, HOSTILE), "4 MB"])
def test_hostile_texts_are_shown_as_text(text: str) -> None:
    report = Counts(text, {text: 1.0}, notes=[text])
    text_form, html = str(report), report._repr_html_()
    assert "<script" not in html
    for shown in (text_form, html):
        for character in ("\x1b", "\u202e", "\u2066", "\0", "\ud800", "\r"):
            assert character not in shown
    assert len(str(Shown(*report.tables()))) < 10_000  # a cell is cut


class Shown(Report):
    def __init__(self, *tables: Table) -> None:
        self._tables = tables

    def tables(self) -> tuple[Table, ...]:
        return self._tables


def test_one_description_is_text_and_html() -> None:
    first = Table(headings=["head", "share"], rows=[["0", "12.5"], ["1", "3.0"]], caption="two heads")
    shown = Shown(first, Table(headings=["notes"], rows=[["a note " * 20]]))
    note = "a note " * 20
    assert repr(shown) == str(shown) == f"two heads\nhead  share\n   0   12.5\n   1    3.0\n\nnotes\n{note.rstrip()}"
    html = shown._repr_html_()
    assert html.count("<table>") == 2 and "<caption>two heads</caption>" in html and "a note" in html


@dataclass(frozen=True, repr=False)
class Found(Report, kind="test-found"):
    finding: str
    notes: list[str]
    caption: str = "two heads"

    def tables(self) -> list[Table]:
        return [Table(["head"], [["0"]])]


def test_the_finding_is_above_the_tables_and_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    report = Found("Head 0 <leads>.", ["Head 0 <leads>.", "It was short."])
    text = "two heads\n\nHead 0 <leads>.\n\nhead\n   0\n\nIt was short."
    assert str(report) == text
    show(report)
    assert [line.strip() for line in capsys.readouterr().out.splitlines()] == [
        line.strip() for line in text.split("\n")
    ]
    assert report._repr_html_().startswith("<p>two heads</p><p>Head 0 &lt;leads&gt;.</p><table>")
    assert report._repr_html_().count("leads") == 1 and report.to_dict()["notes"] == report.notes
    data = report_data(report)
    assert data["finding"] == report.finding and data["remarks"] == ["It was short."]
    without = report_page(report).partition("<noscript>")[2].partition("</noscript>")[0]
    assert without.index("leads") < without.index("<table>")
    assert str(Found("", ["It was short."])) == "two heads\n\nhead\n   0\n\nIt was short."


def test_cells_are_on_one_line_and_obey_nothing() -> None:
    shown = Shown(Table(headings=["token", ""], rows=[["\n", "\x1b[31m<script>"], ["x" * 200, ""]]))
    assert "\\n" in repr(shown) and "\x1b" not in repr(shown) and "x" * 80 not in repr(shown)
    assert "\x1b" not in shown._repr_html_() and "<script>" not in shown._repr_html_()


def test_of_a_large_table_the_first_rows_and_columns() -> None:
    rows = [[str(number)] * 100 for number in range(1_000)]
    shown = Shown(Table(headings=["x"] * 100, rows=rows, caption="many", shades=[[1.0] * 99] * 1_000))
    head, _, *lines = repr(shown).splitlines()
    assert head == "many (the first of 1,000 rows × 99 columns)"
    assert len(lines) == TEXT_ROWS and all(len(line.split()) == TEXT_COLUMNS for line in lines)
    assert shown._repr_html_().count("<tr>") == HTML_ROWS + 1


def test_of_many_layers_some_evenly_spaced_the_last_among_them() -> None:
    table = Table(["", *map(str, range(100))], [["x", *map(str, range(100))]], "layers", evenly=True)
    assert table.columns(101) == list(range(101)) and table.columns(2) == [0, 100]
    assert table.columns(3) == [0, 1, 100] and table.columns(5) == [0, 1, 34, 67, 100]
    assert len(table.columns(TEXT_COLUMNS)) == TEXT_COLUMNS and table.columns(TEXT_COLUMNS)[-1] == 100
    assert table.text().startswith("layers (some of 1 rows × 100 columns)\n") and table.text().endswith(" 99")


def test_cells_are_shaded_by_their_numbers() -> None:
    shades = [[1.0, -0.5, 0.0, math.nan]]
    html = Shown(Table(headings=[""] * 5, rows=[["r", "a", "b", "c", "d"]], shades=shades))._repr_html_()
    assert '<td style="background: rgb(196 84 0 / 0.60)">a</td>' in html
    assert '<td style="background: rgb(18 90 166 / 0.30)">b</td><td>c</td><td>d</td>' in html


# ------------------------------------------------------------------------------------------- the results of a session


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("models")
    decoder: Model = load(make_folder(folder / "decoder", "gpt2"))
    encoder: Model = load(make_folder(folder / "encoder", "bert", task="feature-extraction"))
    session, writing = decoder.inspect("time flies like an arrow"), decoder.writing("time flies")
    return {
        "written": writing.write(max_new_tokens=3),
        "writing": writing,
        "overview": session.overview(0),
        "trace": session.trace(),
        "lens": session.lens(),
        "attribution": session.attribute(),
        "patch": session.patch("blocks.0.attn.z[0]"),
        "sweep": session.sweep("heads"),
        "similarity": encoder.explain_similarity("time flies", "fruit flies"),
        "masks": masks(20),
    }


SAYS = {
    "written": "max_new_tokens",
    "writing": "parent 0 is the prompt",
    "overview": "attention heads",
    "trace": "embed.out",
    "lens": "logit lens",
    "attribution": "integrated gradients",
    "patch": "blocks.0.attn.z[0]",
    "sweep": "largest effect",
    "similarity": "the sum of all cells",
    "masks": "encoder",
}


@pytest.mark.parametrize("name", SAYS)
def test_a_result_shows_itself_as_tables(results: dict[str, Any], name: str) -> None:
    result = results[name]
    assert isinstance(result, Report)
    assert SAYS[name] in repr(result) and "tensor(" not in repr(result) and len(repr(result)) < MAX_CHARACTERS
    assert "<table>" in result._repr_html_() and len(result._repr_html_()) < 20 * MAX_CHARACTERS


def test_a_trace_is_a_list(results: dict[str, Any]) -> None:
    assert isinstance(results["trace"], list) and results["trace"][0].name == "embed.out"


def test_the_masks_of_a_lesson_are_a_picture(results: dict[str, Any]) -> None:
    html = results["masks"]._repr_html_()
    packed = re.search('alt="decoder" src="data:image/svg[+]xml;base64,([^"]*)"', html)
    assert packed is not None
    triangle = base64.b64decode(packed[1]).decode()
    assert triangle.count("h18v18h-18z") == 20 * 21 // 2


def test_a_table_prints_as_its_text() -> None:
    table = Table(["", "f1"], [["model", "0.91"]], caption="500 rows")
    assert str(table) == table.text() == "500 rows\n         f1\nmodel  0.91"
