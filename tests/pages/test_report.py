"""Results that show themselves: text in a shell, HTML in a notebook, both short and safe."""

from __future__ import annotations

import math
from typing import Any

import pytest

from glassformer.lessons.walkthrough import masks
from glassformer.model import Model, load
from glassformer.pages.report import HTML_ROWS, TEXT_COLUMNS, TEXT_ROWS, Report, ReportTable
from tests.e2e.tiny_models import make_folder

MAX_CHARACTERS = 4_000
"""Of what a result of a short text prints."""


class Told(Report):
    def __init__(self, *tables: ReportTable) -> None:
        self._tables = tables

    def tables(self) -> tuple[ReportTable, ...]:
        return self._tables


def test_one_description_is_text_and_html() -> None:
    first = ReportTable(headings=["head", "share"], rows=[["0", "12.5"], ["1", "3.0"]], caption="two heads")
    told = Told(first, ReportTable(headings=["notes"], rows=[["a note " * 20]]))
    note = "a note " * 20
    assert repr(told) == str(told) == f"two heads\nhead  share\n   0   12.5\n   1    3.0\n\nnotes\n{note.rstrip()}"
    html = told._repr_html_()
    assert html.count("<table>") == 2 and "<caption>two heads</caption>" in html and "a note" in html


def test_cells_are_on_one_line_and_obey_nothing() -> None:
    told = Told(ReportTable(headings=["token", ""], rows=[["\n", "\x1b[31m<script>"], ["x" * 200, ""]]))
    assert "\\n" in repr(told) and "\x1b" not in repr(told) and "x" * 80 not in repr(told)
    assert "\x1b" not in told._repr_html_() and "<script>" not in told._repr_html_()


def test_of_a_large_table_the_first_rows_and_columns() -> None:
    rows = [[str(number)] * 100 for number in range(1_000)]
    told = Told(ReportTable(headings=["x"] * 100, rows=rows, caption="many", shades=[[1.0] * 99] * 1_000))
    head, _, *lines = repr(told).splitlines()
    assert head == "many (the first of 1,000 rows × 99 columns)"
    assert len(lines) == TEXT_ROWS and all(len(line.split()) == TEXT_COLUMNS for line in lines)
    assert told._repr_html_().count("<tr>") == HTML_ROWS + 1


def test_cells_are_shaded_by_their_numbers() -> None:
    shades = [[1.0, -0.5, 0.0, math.nan]]
    html = Told(ReportTable(headings=[""] * 5, rows=[["r", "a", "b", "c", "d"]], shades=shades))._repr_html_()
    assert '<td style="background: rgb(14 128 148 / 0.60)">a</td>' in html
    assert '<td style="background: rgb(214 110 30 / 0.30)">b</td><td>c</td><td>d</td>' in html


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
    triangle = html.split("<caption>decoder</caption>")[1].split("</table>")[0]
    assert triangle.count("rgb(14 128 148") == 20 * 21 // 2
