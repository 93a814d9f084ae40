"""Quality of a tokenizer on texts: counts, words in pieces, white space, vocabularies of words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from glassformer.errors import ConfigError, DataError
from glassformer.text import Tokenizer
from glassformer.text.coverage import (
    TokenizerReport,
    check_tokenizers,
    coverage,
    longest_run,
    merged_counts,
    split_words,
    stemmer,
    word_counts,
    word_coverage,
)
from glassformer.text.train import train_tokenizer

TEXTS = ["time flies like an arrow", "fruit flies like a banana"]


def test_coverage_counts_words_tokens_and_what_is_unknown() -> None:
    tokenizer = train_tokenizer(["time flies like an arrow"] * 3, kind="wordpiece", size=40)
    covered = coverage(tokenizer, ["time flies", "Ω time"])
    assert (covered.texts, covered.words, covered.unknown) == (2, 4, 1)
    assert covered.tokens_per_word == covered.tokens / 4 and covered.unknown_share == 1 / covered.tokens
    # Whole after a space counts: most words stand there.
    pieces = train_tokenizer(["go home, home, home"] * 9, size=262)
    assert "Ġhome" in pieces.get_vocab() and "home" not in pieces.get_vocab()
    assert split_words(pieces, ["home", "go", "hame"]) == ["hame"]


def test_the_longest_run_of_spaces_in_one_token(minilm: Path) -> None:
    code = train_tokenizer(["if x:\n        return\n"] * 50, size=266)
    assert longest_run(code) == max(len(t) for t in code.get_vocab() if set(t) == {"Ġ"}) > 1
    assert longest_run(code, "\t") == 1 and longest_run(Tokenizer.from_folder(minilm)) == 0


def test_a_vocabulary_of_words_or_stems_covers_a_share_of_the_text() -> None:
    pytest.importorskip("nltk", reason="stemmers: pip install 'glassformer[evaluate]'")
    counts = merged_counts(word_counts([*TEXTS, "It flew, flying like Time."]), str.lower)
    assert counts["time"] == 2 and counts["flies"] == 2 and counts.total() == 15
    assert word_coverage(counts, [1, 2, 3, 100]) == [3 / 15, 5 / 15, 7 / 15, 1]
    stems = merged_counts(counts, stemmer("english"))
    assert stems["fli"] == 3 and len(stems) == len(counts) - 1
    with pytest.raises(ConfigError, match="nearest: 'english'"):
        stemmer("englisch")


def test_tokenizers_side_by_side(minilm: Path) -> None:
    own = train_tokenizer(TEXTS * 9, kind="wordpiece", size=40)
    report = check_tokenizers(
        {"own": own, "MiniLM": Tokenizer.from_folder(minilm)}, TEXTS, {"keywords": ["def", "elif"]}
    )
    (table,) = report.tables()
    rows = list(table.rows)
    assert table.headings == ["", "own", "MiniLM"] and ["keywords: in pieces", "2 of 2", "1 of 2"] in rows
    first, second = json.loads(json.dumps(report.to_dict()))["tokenizers"]
    assert first["tokens"] == 40 and second["split"]["keywords"] == ["elif"]
    assert second["coverage"]["tokens_per_word"] == 1
    assert any("MiniLM, keywords in pieces: elif" in remark for remark in report.remarks())
    known = {"100": 1.0, "1000": 1.0, "5000": 1.0, "20000": 1.0}
    assert report.to_dict()["vocabularies"]["words"] == {"different": 8, "known": known}
    assert "8 different words" in str(report)
    assert TokenizerReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report
    with pytest.raises(DataError, match="no text"):
        check_tokenizers({"own": own}, ["", " "])
