"""What is said of rows: their figures, and what is odd about them; in a data card also what is stated."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer.data.findings import spelling_variants
from glassformer.data.report import DataReport, FileReport, Lengths, bins, data_card, inspect_rows
from glassformer.data.rows import read_rows
from glassformer.data.sequence import InMemoryRows
from glassformer.data.splits import normalise_text
from glassformer.errors import DataError
from glassformer.reports.page import report_page

TRAIN = InMemoryRows(
    [
        {"text": "so glad", "label": "joy"},
        {"text": "So  GLAD", "label": "anger"},
        {"text": "leave me be", "label": "anger"},
        {"text": "leave me be", "label": "anger"},
        {"text": " ", "label": "joy"},
        {"text": "WHAT A DAY", "label": None},
        {"text": "broken \ufffd bytes", "label": "fear"},
    ],
    name="train.csv",
)
TEST = InMemoryRows(
    [
        {"text": "Leave me be", "label": "anger"},
        {"text": "new", "label": "love"},
        {"text": "newer", "label": "love"},
    ],
    name="test.csv",
)


def findings_by_kind(report: DataReport) -> dict[str, Any]:
    return {each.kind: each for each in report.findings}


def test_figures_of_each_file() -> None:
    report = inspect_rows({"train.csv": TRAIN, "test.csv": TEST}, text="text", label="label")
    first = report.files[0]
    assert (first.rows, first.classes, first.gaps) == (7, {"anger": 3, "joy": 2, "fear": 1}, {"label": 1})
    assert first.lengths["words"].values.tolist() == [2, 2, 3, 3, 0, 3, 3]
    assert first.lengths["characters"].values.tolist() == [7, 8, 11, 11, 1, 10, 14]
    assert {name: lengths.values.tolist() for name, lengths in first.by_class.items()} == {
        "anger": [2, 3, 3],
        "joy": [2, 0],
        "fear": [3],
    }
    assert report.classes == ["anger", "joy", "love", "fear"] and report.unit == "words"
    assert json.loads(json.dumps(report.to_dict()))["files"][0]["by_class"]["joy"]["quantiles"]["max"] == 2


def test_all_findings_have_locations() -> None:
    odd = findings_by_kind(inspect_rows({"train.csv": TRAIN, "test.csv": TEST}, text="text", label="label"))
    assert set(odd) == {
        "leak",
        "conflict",
        "no label",
        "empty",
        "repeat",
        "damaged",
        "capitals",
        "single",
        "only",
    }
    assert all(each.count == 1 for kind, each in odd.items() if kind not in ("repeat", "only", "single"))
    assert odd["leak"].locations == ("train.csv: row 2 · test.csv: row 0 · “Leave me be”",)
    assert odd["conflict"].locations == ("train.csv: row 0: joy · train.csv: row 1: anger · “So GLAD”",)
    assert odd["empty"].locations == ("train.csv: row 4",)
    assert odd["no label"].locations == ("train.csv: row 5: “WHAT A DAY”",)
    assert odd["repeat"].count == 2
    assert "1 class has one row alone" in odd["single"].message and odd["single"].locations == ("fear",)
    assert odd["only"].message == "1 class has rows in test.csv alone: love"


def test_another_spelling_of_a_label_is_no_conflict() -> None:
    labels = ["negative", "negative ", "Negative", "positive"]
    rows = InMemoryRows([{"text": "so bad", "label": label} for label in labels])
    odd = findings_by_kind(inspect_rows({"a": rows}, text="text", label="label"))
    assert "'negative '" in odd["single"].message and "'negative '" in odd["single"].locations
    assert odd["conflict"].locations == ("the list: row 0: negative · the list: row 3: positive · “so bad”",)
    assert odd["spelled differently"].message.startswith("2 texts repeated with another spelling of the label")
    assert odd["spelled differently"].locations[0] == (
        "the list: row 0: negative · the list: row 1: 'negative ' · “so bad”"
    )
    several = [{"text": "x", "label": ["a", "b"]}, {"text": "x", "label": ["B", "a"]}, {"text": "x", "label": ["a"]}]
    odd = findings_by_kind(inspect_rows({"a": InMemoryRows(several)}, text="text", label="label"))
    assert (odd["spelled differently"].count, odd["conflict"].count) == (1, 1)


@pytest.mark.parametrize(
    ("text", "pair"),
    [("text", "text_pair"), ("question", "context"), ("context", "question"), ("hypothesis", "premise")],
)
def test_of_pairs_both_texts_are_compared(text: str, pair: str) -> None:
    rows = [
        {text: "who won?", pair: "Ann won in 1999.", "label": "a"},
        {text: "when?", pair: "Ann won in 1999.", "label": "b"},
        {text: "who won?", pair: "Bob won.", "label": "b"},
    ]
    files = {"a": InMemoryRows(rows), "b": InMemoryRows([{text: "when?", pair: "Bob won.", "label": "b"}])}
    assert not {"repeat", "conflict", "leak"} & {*findings_by_kind(inspect_rows(files, text=text, label="label"))}
    again = {text: "Who  won?", pair: "bob won.", "label": "a"}
    odd = findings_by_kind(inspect_rows({"a": InMemoryRows([*rows, again])}, text=text, label="label"))
    assert odd["repeat"].locations == ("the list: row 2 · the list: row 3 · “Who won?” and “bob won.”",)
    assert odd["conflict"].count == 1


def test_the_second_text_of_a_pair_can_have_any_name() -> None:
    rows = InMemoryRows([{"title": "a", "body": "x"}, {"title": "a", "body": "y"}])
    assert [each.kind for each in inspect_rows({"a": rows}, text="title").findings] == ["repeat"]
    assert inspect_rows({"a": rows}, text="title", text_pair="body").findings == ()
    with pytest.raises(DataError, match="no column 'bodi'; nearest: 'body'"):
        inspect_rows({"a": rows}, text="title", text_pair="bodi")
    nested = InMemoryRows([{"question": "a", "context": [["x", 1]]}, {"question": "a", "context": [["y", 1]]}])
    assert [each.kind for each in inspect_rows({"a": nested}, text="question").findings] == ["repeat"]


@pytest.mark.parametrize("pair", ["query passage", "query document", "question1 question2", "question sentence"])
def test_usual_names_of_pairs_are_known(pair: str) -> None:
    """A query with several passages, one of which answers it, is no repeat and no conflict of labels."""
    first, second = pair.split()
    rows = InMemoryRows([{first: "who ?", second: f"passage {i}", "label": str(i == 0)} for i in range(4)])
    for text in (first, second):
        found = {each.kind for each in inspect_rows({"a": rows}, text=text, label="label").findings}
        assert not found & {"repeat", "conflict"}
    repeated = InMemoryRows([*rows, {first: "who ?", second: "passage 2", "label": "True"}])
    found = {each.kind for each in inspect_rows({"a": repeated}, text=first, label="label").findings}
    assert found & {"repeat", "conflict"}


def test_a_paragraph_with_several_questions_is_no_repeat(shared: Path) -> None:
    rows = read_rows(shared / "data/xquad/xquad.en.shared.json.gz")
    pairs = {(normalise_text(row["question"]), normalise_text(row["context"])) for row in rows}
    assert len(rows) == 925 and len({row["context"] for row in rows}) < 250
    for column in ("question", "context"):
        [repeats] = inspect_rows({"xquad": rows}, text=column).findings
        assert (repeats.kind, repeats.count) == ("repeat", 5) and 925 - len(pairs) == 5


def test_nothing_odd() -> None:
    rows = InMemoryRows([{"text": f"number {i}", "label": "ab"[i % 2]} for i in range(8)])
    assert inspect_rows({"a": rows}, text="text", label="label").findings == ()
    assert inspect_rows({"a": rows}, text="text").classes == []


def test_a_text_in_three_files_leaks_into_each() -> None:
    files = {name: InMemoryRows([{"text": "same"}, {"text": "same"}], name=name) for name in ("{a}", "b", "c")}
    leaking = [each for each in inspect_rows(files, text="text").findings if each.kind == "leak"]
    assert [(each.message.split()[3], each.message.split()[6].strip(":"), each.count) for each in leaking] == [
        ("b", "{a}", 2),
        ("c", "{a}", 2),
        ("c", "b", 2),
    ]


def test_tokens_are_counted_a_thousand_texts_at_a_time_and_held_against_the_limit() -> None:
    calls: list[int] = []

    def counted(texts: Any) -> list[int]:
        calls.append(len(texts))
        return [len(text) for text in texts]

    rows = InMemoryRows([{"text": "x" * (1 + i % 10) + str(i)} for i in range(2_500)])
    report = inspect_rows({"a.csv": rows}, text="text", tokens=counted, limit=12)
    assert calls == [1000, 1000, 500] and report.unit == "tokens"
    tokens = report.files[0].lengths["tokens"]
    assert len(tokens.values) == 2_500 and tokens.over_limit == sum(len(row["text"]) > 12 for row in rows) > 0
    assert findings_by_kind(report)["beyond"].count == tokens.over_limit
    assert report.to_dict()["files"][0]["lengths"]["tokens"]["limit"] == 12


def test_words_with_tags_and_several_labels() -> None:
    tagged = InMemoryRows(
        [{"tokens": ["Sioux", "Falls"], "tags": ["B-LOC", "I-LOC"]}, {"tokens": ["a"], "tags": ["O"]}]
    )
    part = inspect_rows({"x": tagged}, text="tokens", label="tags").files[0]
    many = FileReport("a", 2, {}, {}, {"O": 9, "B-LOC": 1}, {}, np.zeros(0))
    assert many.class_total == 10  # tags of all words, which are more than rows
    assert part.classes == {"B-LOC": 1, "I-LOC": 1, "O": 1} and part.lengths["words"].values.tolist() == [
        2,
        1,
    ]
    assert part.class_index.tolist() == [-1, -1]
    several = InMemoryRows([{"text": "a", "labels": ["x", "y"]}, {"text": "A", "labels": ["y", "x"]}])
    report = inspect_rows({"x": several}, text="text", label="labels")
    assert report.files[0].class_total == report.files[0].rows  # each label stands in so many of the rows
    assert report.files[0].classes == {"x": 2, "y": 2} and "conflict" not in findings_by_kind(report)


def test_quantiles_are_lengths_that_the_share_does_not_exceed() -> None:
    quantiles = Lengths("words", np.arange(1, 101)).quantiles
    assert quantiles["50%"] == 50 and quantiles["95%"] == 95 and quantiles["min"] == 1 and quantiles["max"] == 100


def test_the_report_as_text_shows_the_most_frequent_classes_and_the_first_locations() -> None:
    rows = InMemoryRows([{"text": "x", "label": f"<{i}>"} for i in range(30)])
    report = inspect_rows({"a": rows}, text="text", label="label")
    text, shown = str(report), report._repr_html_()
    assert text.startswith("texts from the column 'text', labels from 'label'\n")
    assert "the 20 most frequent of 30 classes" in text and "<19>" in text and "1 · 3.3%" in text
    assert re.search(r"^a, words +1 +1 +1 +1 +1 +1 +1 +1.0 +1$", text, re.MULTILINE)
    assert "! 29 texts repeated in the same file\n    the list: row 0 · the list: row 1 · “x”\n" in text
    assert "    … and 26 more: --json or --html lists them" in text
    assert "&lt;7&gt;" in shown and "<7>" not in shown
    assert "no problems found." in str(inspect_rows({"a": InMemoryRows([{"text": "x"}])}, text="text"))


def test_what_cannot_be_looked_at() -> None:
    with pytest.raises(DataError, match="no file"):
        inspect_rows({}, text="text")
    with pytest.raises(DataError, match=r"a: no column 'txt'; nearest: 'text'; .*columns=\{'text': NAME\}"):
        inspect_rows({"a": InMemoryRows([{"text": "x"}])}, text="txt")
    with pytest.raises(DataError, match=r"the list: row 1: 'text' is 5, a number; it must be a text"):
        inspect_rows({"a": InMemoryRows([{"text": None}, {"text": 5}])}, text="text")


def test_emotion_has_the_classes_that_its_readme_states(shared: Path) -> None:
    form: dict[str, Any] = {"delimiter": ";", "quotes": False, "header": False, "names": ("text", "label")}
    rows = read_rows(shared / "data/emotion/train.txt.gz", kind="csv", **form)
    part = inspect_rows({"train": rows}, text="text", label="label").files[0]
    stated = {"joy": 5362, "sadness": 4664, "anger": 2159, "fear": 1937, "love": 1304, "surprise": 572}
    assert (part.rows, part.classes) == (15_998, stated)


# A data card: what is stated, what is measured, and nothing that could be taken for Markdown of its own.

MOODS = InMemoryRows(
    [{"text": "so | glad", "label": "a|b"}, {"text": "no", "label": "c"}, {"text": "no", "label": "c"}]
)


def test_what_is_stated_and_measured() -> None:
    report = inspect_rows({"train.csv": MOODS}, text="text", label="label")
    text = data_card(
        report, title="Moods", source="Letters, 1910.", licence="CC0-1.0", biases=["One writer.", "<b>Short"]
    )
    assert text.startswith("# Moods\n\n## Source\n\nLetters, 1910.\n\n## Licence\n\nCC0-1.0\n")
    for line in (
        "- One writer.",
        "- &lt;b>Short",
        "| train.csv | 3 | text (a text), label (a text) |",
        "| c | 2 (66.7%) |",
        "| a\\|b | 1 (33.3%) |",
        "- 1 text repeated in the same file",
    ):
        assert line in text.splitlines()


def test_missing_statements_are_marked() -> None:
    text = data_card(inspect_rows({"a": MOODS}, text="text"), title="x")
    assert text.count("Not stated.") == 3 and "Rows per class" not in text


def test_labels_that_stand_for_a_missing_value_are_suspicious() -> None:
    labels = ["joy", "none", "nan", "NaN", "None", " ", "null", "joy", "nan", "na"]
    rows = read_rows([{"text": f"text {number}", "label": label} for number, label in enumerate(labels)])
    report = inspect_rows({"a": rows}, text="text", label="label")
    (finding,) = (finding for finding in report.findings if finding.kind == "missing")
    assert finding.count == 5 and finding.locations == ("' '", "'NaN'", "'None'", "'nan'", "'null'")
    assert finding.message.startswith("5 classes are named as programs write a missing value")
    assert "' ' (1 row), NaN (1 row), None (1 row), nan (2 rows), null (1 row)" in finding.message


def test_labels_that_differ_in_spelling_alone_are_found_with_the_option_that_joins_them() -> None:
    labels = ["joy", "joy", "Joy", "joy ", "sad", "B", "b ", "b "]
    rows = read_rows([{"text": f"text {number}", "label": label} for number, label in enumerate(labels)])
    report = inspect_rows({"a": rows}, text="text", label="label")
    (finding,) = (finding for finding in report.findings if finding.kind == "spelling")
    assert finding.count == 3
    renamed = {"Joy": "joy", "joy ": "joy", "b ": "B"}
    assert spelling_variants(Counter(labels)) == renamed
    option = shlex.split(finding.message.partition("--set ")[2])[0]
    assert json.loads(option.removeprefix("data.rename=")) == renamed


@pytest.mark.parametrize(
    ("counts", "renamed"),
    [
        ({"B-PER ": 3, "I-PER": 4, "O": 9}, {"B-PER ": "B-PER"}),
        ({"B-PER\u00a0": 3, "I-PER": 1}, {"B-PER\u00a0": "B-PER"}),
        ({"B-PER": 3, "I-Per": 1, "B-PER ": 1}, {"I-Per": "I-PER", "B-PER ": "B-PER"}),
        ({"cafe\u0301": 3, "caf\u00e9": 1}, {"cafe\u0301": "caf\u00e9"}),
        ({"\uff4aoy": 3, "joy": 1}, {"\uff4aoy": "joy"}),
    ],
)
def test_types_of_entities_and_forms_of_characters_are_compared(
    counts: dict[str, int], renamed: dict[str, str]
) -> None:
    assert spelling_variants(counts) == renamed


def test_labels_that_differ_in_more_are_left_alone() -> None:
    assert spelling_variants({"pos": 3, "positive": 4, "I-PER": 1, "B-PER": 1, "non-toxic": 1, "non toxic": 1}) == {}


# ── the page ─────────────────────────────────────────────────────────────────────────────────────────────


def test_the_page_has_all_problems_classes_and_lengths() -> None:
    rows = [{"text": f"word {i // 2}", "label": "a" if i % 3 else "b"} for i in range(12)]
    files = {"a.csv": InMemoryRows(rows, name="a.csv"), "b.csv": InMemoryRows(rows[:3])}
    report = inspect_rows(files, text="text", label="label")
    tables = {table.caption: table for table in report.page_tables()}
    assert [each.message for each in report.findings if each.locations] == list(tables)[:-4]
    assert all(table.folded for table in list(tables.values())[:-4]) and len(report.findings) >= 3
    assert list(tables)[-4:] == ["Rows per class", "Lengths by class, a.csv", "Lengths", "Columns"]
    assert tables["Rows per class"].headings == ["class", "a.csv", "b.csv"]
    assert tables["Columns"].headings == ["file", "column", "holds", "rows without"]
    assert report.finding.startswith("12 rows in a.csv and 3 rows in b.csv, 2 classes: ")
    page = report_page(report)
    assert "://" not in page and "default-src 'none'" in page


def test_the_name_of_a_single_file_is_in_the_title_alone() -> None:
    rows = InMemoryRows([{"text": text, "label": label} for label in "ab" for text in (f"one {label}", f"two {label}")])
    report = inspect_rows({"a.csv": rows}, text="text", label="label")
    tables = {table.caption: table for table in report.page_tables()}
    assert report.title == "Data: a.csv" and report.finding == "4 rows in a.csv, 2 classes: no problems found."
    assert tables["Rows per class"].headings == ["class", "rows"]
    assert tables["Columns"].headings == ["column", "holds", "rows without"]
    assert [chart.title for chart in report.charts()] == ["Lengths in words"]


def test_bars_are_shares_and_boxes_are_quantiles() -> None:
    rows = [{"text": " ".join("x" * (i % 101)), "label": "a" if i < 303 else "b"} for i in range(404)]
    report = inspect_rows({"a": InMemoryRows(rows)}, text="text", label="label")
    tables = {table.caption: table for table in report.page_tables()}
    assert [row[1].value for row in tables["Rows per class"].rows] == [0.75, 0.25]
    box = tables["Lengths by class"].rows[0][1]
    assert (box.low, *box.box, box.high, box.value) == (5, 25, 75, 95, 50) and box == "50 [5, 95]"
    rows = [{"text": " ".join("x" * words), "label": "a"} for words in (1, 20, 21, 40)]
    report = inspect_rows({"a": InMemoryRows(rows)}, text="text", label="label")
    box = next(table for table in report.page_tables() if table.caption == "Lengths by class").rows[0][1]
    assert box == "20 [1, 40]" and (box.value, box.low, box.high) == (20, 1, 40), "a length that a text has, no half"


def test_labels_show_white_space_that_would_not_be_seen() -> None:
    rows = InMemoryRows([{"text": str(i), "label": label} for i, label in enumerate(["spam", "spam ", " Spam"])])
    report = inspect_rows({"a": rows}, text="text", label="label")
    classes = next(table for table in report.page_tables() if table.caption == "Rows per class")
    assert [row[0] for row in classes.rows] == ["spam", "'spam '", "' Spam'"]


def test_a_histogram_has_every_text_once_or_says_how_many_it_leaves_out() -> None:
    assert bins([np.array([5 + i % 6 for i in range(98)] + [4000])]) == (1, 11), "a bar for each length up to 10"
    lengths = [*(i % 50 for i in range(1_000)), 9_000]
    rows = InMemoryRows([{"text": " ".join("x" * n)} for n in lengths])
    report = inspect_rows({"a": rows}, text="text", tokens=lambda texts: [len(x.split()) for x in texts], limit=20)
    (chart,) = report.charts()
    (line,) = chart.lines
    assert line.bars and sum(line.y) == 1_000 and chart.note == "1 longer, up to 9,000"
    assert chart.marks[0].name == "limit 20" and chart.marks[0].at == [21]
