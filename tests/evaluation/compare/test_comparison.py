"""The page: one file, nothing fetched, every text only text."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from glassformer.evaluation.compare.comparison import comparison_page
from glassformer.evaluation.compare.texts import Row, System, compare

pytest.importorskip("rouge_score", reason="needs rouge-score: pip install 'glassformer[evaluate]'")

EVIL = '<script>alert("x")</script> & <img src=x onerror=y>'
NEVER_CLOSED = {"meta", "br"}


class Reader(HTMLParser):
    """The elements of a page, its text, and whether each is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words: list[str] = []
        self.opened: list[str] = []
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [str(value) for name, value in attrs if name in ("src", "href")]
        if tag not in NEVER_CLOSED:
            self.opened.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_one_file_in_which_texts_are_texts() -> None:
    rows = [Row(i, f"{EVIL} number {i}", [f"{EVIL}", "number"]) for i in range(5)]
    systems = [System(f"lead {EVIL}", list), System("short", lambda texts: [text[:9] for text in texts])]
    text = comparison_page(compare(rows, systems, examples=2))
    found = Reader(text)
    assert not found.opened and not found.addresses
    assert {"script", "img", "link", "iframe"}.isdisjoint(found.tags)
    assert found.words.count(EVIL) == 2  # the first reference of two rows
    assert f"{EVIL} number 1" in found.words and "://" not in text
    assert found.tags.count("article") == 2 and found.tags.count("circle") == 4 * 2
    assert found.tags.count("tr") == (1 + 4 * 2) + (1 + 2 + 1), "the metrics; the costs and words"
    assert "default-src 'none'" in text and "light dark" in text
    assert any("differences are to lead" in word for word in found.words)


def test_one_row_one_system() -> None:
    text = comparison_page(compare([Row(1, "a", ["b"])], [System("echo", list)], examples=0))
    found = Reader(text)
    assert not found.opened and "What they wrote" not in text and "difference" not in text
