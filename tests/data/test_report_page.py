"""The page of a report: one file, nothing fetched, every text only text; plots that say what the figures say."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np

from glassformer.data.report import inspect_rows
from glassformer.data.report_page import bars, boxes, histogram, report_html, scale
from glassformer.data.sequence import InMemoryRows

EVIL = '<script>alert("x")</script> & <img src=x onerror=y>'


class Reader(HTMLParser):
    """The elements of a page, and its text; each must be closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words: list[str] = []
        self.opened: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not {"src", "href"} & {name for name, _ in attrs}
        if tag != "meta":
            self.opened.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def numbers(svg: str, name: str) -> list[float]:
    return [float(value) for value in re.findall(rf'<rect class="s0"[^>]* {name}="([\d.]+)%?"', svg)]


def test_one_file_in_which_texts_are_texts() -> None:
    rows = [{"text": f"{EVIL} {i // 2}", "label": EVIL if i % 3 else "b"} for i in range(12)]
    report = inspect_rows(
        {EVIL: InMemoryRows(rows, name=EVIL), "b.csv": InMemoryRows(rows[:3])}, text="text", label="label"
    )
    text = report_html(report)
    reader = Reader(text)
    assert not reader.opened and {"script", "img", "link", "iframe"}.isdisjoint(reader.tags)
    assert reader.tags.count("svg") == 4 and reader.tags.count("table") == 2
    assert "://" not in text and "default-src 'none'" in text and "light dark" in text
    assert any(EVIL in word for word in reader.words)
    label_texts = " ".join(reader.words)
    assert all(each.message in label_texts for each in report.findings) and len(report.findings) >= 3


def test_a_page_without_labels_and_findings() -> None:
    text = report_html(inspect_rows({"a.txt": InMemoryRows([{"text": "one"}, {"text": "two"}])}, text="text"))
    assert "No problems found." in text and "Rows per class" not in text and not Reader(text).opened


def test_the_name_of_a_single_file_is_said_once() -> None:
    rows = InMemoryRows([{"text": "one", "label": "a"}, {"text": "two", "label": "b"}])
    one = Reader(report_html(inspect_rows({"a.csv": rows}, text="text", label="label"))).words
    named = [word for word in one if "a.csv" in word and not word.startswith("a.csv: ")]  # tooltips of the bars
    assert named == ["Data: a.csv", "a.csv"], "the titles of the page"
    assert {"words", "characters", "rows"} <= set(one) and "file" not in one
    two = Reader(report_html(inspect_rows({"a.csv": rows, "b.csv": rows}, text="text", label="label"))).words
    assert {"a.csv, words", "b.csv, characters", "rows in a.csv", "file"} <= set(two)


def test_bars_are_as_long_as_shares() -> None:
    wide = numbers(bars({"a": [75], "b": [25], "c": [0]}, [100], ["x"]), "width")
    assert wide == [100, 33.33, 0], "shares of the width"


def test_one_very_long_text_leaves_the_histogram_to_the_others() -> None:
    lengths = np.array([5 + i % 6 for i in range(98)] + [4000])
    assert scale([lengths]) == (1, 11), "a bin for each length up to 10"


def test_labels_show_white_space_that_would_not_be_seen() -> None:
    drawn = bars({"spam": [3], "spam ": [2], " Spam": [1]}, [6], ["x"])
    assert ">spam<" in drawn and ">&#x27;spam &#x27;<" in drawn and ">&#x27; Spam&#x27;<" in drawn


def test_a_histogram_draws_every_text_once_or_says_how_many_it_leaves_out() -> None:
    values = np.array([1] * 10 + [2] * 20 + [3] * 5)
    step, count = scale([values])
    tall = numbers(histogram(values, "words", 0, step, count), "height")
    assert (step, len(tall)) == (1, 4)
    assert tall[0] == 0 and abs(tall[1] / tall[2] - 1 / 2) < 0.01 and abs(tall[3] / tall[2] - 1 / 4) < 0.01
    far = np.append(np.arange(1_000) % 50, 9_000)
    svg = histogram(far, "words", 0, *scale([far]), limit=20)
    assert "1 longer, up to 9,000" in svg and "limit 20" in svg
    counts = [int(value) for value in re.findall(r"words: (\d+) texts", svg)]
    assert sum(counts) == 1_000


def test_a_box_stands_where_the_quantiles_are() -> None:
    svg = boxes({"a": np.arange(101)}, "words")
    assert "half of the texts have 25 to 75 words, the median 50" in svg
    left, wide = (
        float(re.findall(rf'class="box" [^>]*(?<=[ "]){name}="([\d.]+)%?"', svg)[0]) for name in ("x", "width")
    )
    median = float(re.findall(r'class="median" x1="([\d.]+)%"', svg)[0])
    assert abs(median - (left + wide / 2)) < 0.2


def test_many_classes_are_folded_away_and_none_is_lost() -> None:
    rows = InMemoryRows([{"text": f"word {i}", "label": f"class {i % 50}"} for i in range(100)])
    text = report_html(inspect_rows({"a": rows}, text="text", label="label"))
    reader = Reader(text)
    assert not reader.opened and text.count("20 more classes") == 2
    svg = [word for word in reader.words if word.startswith("class ") and ":" not in word]
    assert len(set(svg)) == 50 and len(svg) == 100
