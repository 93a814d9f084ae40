"""Tables as text, as Markdown, and as escaped HTML for notebooks and pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def text_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as lines of text, its columns left-justified."""
    widths = [max(len(row[i]) for row in [headings, *rows]) for i in range(len(headings))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in [headings, *rows])


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown, in which every cell is plain text."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(map(markdown_text, line))} |" for line in lines)


def markdown_text(text: object) -> str:
    """A text on one line, in which Markdown sees neither HTML nor the border of a cell."""
    return " ".join(str(text).split()).replace("<", "&lt;").replace("|", "\\|")


def html_table(headings: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """An HTML table; the first column holds the row headings.

    Args:
        headings: of the columns · rows: their cells; line breaks in a cell are kept
    """
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    body = "".join(
        f'<tr><th scope="row">{_cell(row[0])}</th>' + "".join(f"<td>{_cell(x)}</td>" for x in row[1:]) + "</tr>"
        for row in rows
    )
    named = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{named}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def scroll_region(label: str, html: str, css_class: str = "scroll") -> str:
    """A labelled part of a page that scrolls sideways; it takes the focus, so that a keyboard can scroll it too."""
    return f'<div class="{css_class}" tabindex="0" role="region" aria-label="{escape(label)}">{html}</div>'


def _cell(text: str) -> str:
    return escape(text).replace("\n", "<br>")
