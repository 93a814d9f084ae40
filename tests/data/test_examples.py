"""The corpora that come with the package have what they are there for."""

from __future__ import annotations

import re

import pytest

from glassformer.data.examples import examples
from glassformer.errors import DataError


def test_twenty_sentences_with_one_word_of_two_meanings() -> None:
    rows = examples("adoption")
    assert len(rows) == 20 and [row["label"] for row in rows].count("change") == 10
    hits = [row["label"] for row in rows if re.search(r"\badoption\b", row["text"].lower())]
    assert len(hits) == 15 and {hits.count("family"), hits.count("change")} == {7, 8}


def test_flies_of_two_sorts() -> None:
    rows = examples("flies")
    assert {"Time flies like an arrow.", "Fruit flies like a banana."} <= {row["text"] for row in rows}
    assert all("flies" in row["text"] for row in rows)


def test_another_name() -> None:
    with pytest.raises(DataError, match="nearest: 'flies'"):
        examples("flys")
