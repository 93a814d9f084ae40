"""Tables of results hold text, never markup of somebody else's."""

from __future__ import annotations

from glassformer.pages.tables import html_table, markdown_table


def test_texts_are_escaped_and_lines_kept() -> None:
    found = html_table(["<b>", "x"], [["a&b", "1\n2"]], "<i>")
    assert found == (
        "<table><caption>&lt;i&gt;</caption><thead>"
        '<tr><th scope="col">&lt;b&gt;</th><th scope="col">x</th></tr></thead>'
        '<tbody><tr><th scope="row">a&amp;b</th><td>1<br>2</td></tr></tbody></table>'
    )


def test_cells_of_markdown_are_plain_text() -> None:
    assert markdown_table(["a", "n"], [["x|y\n<b>", 5]]) == "| a | n |\n| --- | --- |\n| x\\|y &lt;b> | 5 |"
