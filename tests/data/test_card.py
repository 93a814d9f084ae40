"""A data card: what is stated, what is measured, and nothing that could be taken for Markdown of its own."""

from __future__ import annotations

from glassformer.data.card import data_card
from glassformer.data.report import inspect_rows
from glassformer.data.sequence import InMemoryRows

ROWS = InMemoryRows(
    [{"text": "so | glad", "label": "a|b"}, {"text": "no", "label": "c"}, {"text": "no", "label": "c"}]
)


def test_what_is_stated_and_measured() -> None:
    report = inspect_rows({"train.csv": ROWS}, text="text", label="label")
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
        "- 1 text there before in the same file",
    ):
        assert line in text.splitlines()


def test_missing_statements_are_marked() -> None:
    text = data_card(inspect_rows({"a": ROWS}, text="text"), title="x")
    assert text.count("Not stated.") == 3 and "Rows a class" not in text
