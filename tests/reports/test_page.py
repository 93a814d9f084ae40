"""Pages: a file that cannot be written is an error; tables hold text, no markup."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.errors import DataError
from glassformer.reports.page import shown_label, write_page
from glassformer.reports.table import IntervalCell, Table, html_table, markdown_table, text_table


def test_numbers_of_a_text_table_stand_below_each_other() -> None:
    table = text_table(["label", "loss", "rows"], [["joy", "0.1", "1,200"], ["a longer one", "−12.5", "7"]])
    assert table.splitlines() == [
        "label          loss   rows",
        "joy             0.1  1,200",
        "a longer one  −12.5      7",
    ]


def test_columns_of_names_are_words_wherever_they_stand() -> None:
    headings = ["run", "state", "model", "rate", "steps", "time", "f1", "stopped", "device"]
    rows = [
        ["a", "ended", "package:a/b", "1e-3", "−3", "0:42", IntervalCell("0.9", 0.9), "never", "–"],
        ["b", "2 left", "–", "–", ">99.9%", "–", "–", "600", "–"],
    ]
    assert Table(headings, rows, left=2).words() == [0, 1, 2], "a mixed column, or an empty one, is of numbers"


def test_labels_show_white_space_that_would_not_be_seen() -> None:
    names = ["spam", "spam ", " spam", "spam  mail", "spam mail", ""]
    assert [*map(shown_label, names)] == ["spam", "'spam '", "' spam'", "'spam  mail'", "spam mail", "''"]


def test_a_page_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    assert write_page(tmp_path / "page.html", "<p>é\ud800").read_text("utf-8") == "<p>é?"
    with pytest.raises(DataError, match="the page cannot be written: No such file"):
        write_page(tmp_path / "nowhere" / "page.html", "")


def test_texts_are_escaped_and_lines_kept() -> None:
    found = html_table(["<b>", "x"], [["a&b", "1\n2"]], "<i>")
    assert found == (
        "<table><caption>&lt;i&gt;</caption><thead>"
        '<tr><th scope="col">&lt;b&gt;</th><th scope="col">x</th></tr></thead>'
        '<tbody><tr><th scope="row">a&amp;b</th><td>1<br>2</td></tr></tbody></table>'
    )


def test_cells_of_markdown_are_plain_text() -> None:
    assert markdown_table(["a", "n"], [["x|y\n<b>", 5]]) == "| a | n |\n| --- | --- |\n| x\\|y &lt;b> | 5 |"
