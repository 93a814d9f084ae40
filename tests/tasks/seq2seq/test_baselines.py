"""The first sentences, as they stand; and what they score on real dialogues."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from glassformer import ConfigError
from glassformer.tasks.metrics.rouge import rouge
from glassformer.tasks.seq2seq.baselines import Lead, Lexicon, nearest_targets


def test_the_first_sentences_as_they_stand() -> None:
    text = " The U.S. are a country.  The U.N. is an organization.\nThird one. Fourth."
    assert Lead(2)([text]) == ["The U.S. are a country.  The U.N. is an organization."]
    assert Lead()([text, "Only one.", ""]) == [text.strip().removesuffix(" Fourth."), "Only one.", ""]


def test_none_is_no_summary() -> None:
    with pytest.raises(ConfigError, match="0 sentences says nothing"):
        Lead(0)


def test_real_dialogues(shared: Path) -> None:
    """The figure that the documentation states, on its first hundred rows."""
    pytest.importorskip("rouge_score", reason="needs rouge-score: pip install 'glassformer[evaluate]'")
    with gzip.open(shared / "data" / "samsum" / "part_a.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line, _ in zip(lines, range(100), strict=False)]
    found = rouge(Lead(3)([row["dialogue"] for row in rows]), [row["summary"] for row in rows])
    assert 0.25 < found.rouge1.f.value < 0.35
    assert found.rouge1.f.low is not None and found.rouge1.f.high is not None
    assert found.rouge1.f.high - found.rouge1.f.low < 0.08


def test_a_lexicon_learns_which_word_is_which() -> None:
    pairs = [("das Haus", "the house"), ("das Buch", "the book"), ("ein Buch", "a book")]
    translate = Lexicon(pairs)
    assert translate("Das Haus, ein Buch.") == "the house, a book."
    assert Lexicon([])("wie bitte?") == "wie bitte?"
    assert nearest_targets(pairs, ["ein Haus", "ein Buch"]) == ["the house", "a book"]
