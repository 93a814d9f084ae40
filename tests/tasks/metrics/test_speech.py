"""Word and character error rates: exact distances, aligned, and the normaliser belongs to the figure."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.errors import ConfigError, DataError, MissingExtraError
from glassformer.tasks.metrics.normalisers import basic
from glassformer.tasks.metrics.speech import word_errors

jiwer = pytest.importorskip("jiwer", reason="needs jiwer: pip install 'glassformer[evaluate]'")

WORDS = st.lists(st.sampled_from("the cat sat on a mat".split()), max_size=7).map(" ".join)


def distance(said: list[str], heard: list[str]) -> int:
    """By the table, as Wagner and Fischer filled it."""
    row = list(range(len(heard) + 1))
    for i, word in enumerate(said, start=1):
        row, above = [i], row
        for j, other in enumerate(heard, start=1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (word != other)))
    return row[-1]


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=5).filter(lambda rows: any(r[0] for r in rows)))
@settings(max_examples=60)
def test_the_fewest_errors(rows: list[tuple[str, str]]) -> None:
    said, heard = map(list, zip(*rows, strict=True))
    found = word_errors(said, heard, normaliser="none", resamples=3)
    wrong = sum(distance(a.split(), b.split()) for a, b in rows)
    assert found.wer.value == pytest.approx(wrong / sum(len(a.split()) for a in said))
    assert found.substitutions + found.deletions + found.insertions == wrong
    letters = sum(distance(list(a), list(b)) for a, b in rows)
    assert found.cer.value == pytest.approx(letters / sum(map(len, said)))
    if all(said):
        assert found.wer.value == pytest.approx(jiwer.wer(said, heard))
    for utterance in found.utterances:
        assert " ".join(filter(None, (word for word, _, _ in utterance.alignment))) == utterance.reference_text
        assert " ".join(filter(None, (word for _, word, _ in utterance.alignment))) == utterance.hypothesis
        assert sum(bool(mark) for _, _, mark in utterance.alignment) == utterance.errors
        assert utterance.hits + utterance.substitutions + utterance.deletions == len(utterance.reference_text.split())


def test_an_utterance_can_be_read() -> None:
    found = word_errors(["The cat sat on the mat."], ["the bat sat on a mat"])
    assert str(found.utterances[0]).splitlines() == [
        "reference  the cat sat on the mat",
        "hypothesis the bat sat on a   mat",
        "               S          S",
    ]
    assert found.wer.value == pytest.approx(2 / 6) and found.words == 6
    assert (
        str(word_errors(["a cat"], ["a big cat"]).utterances[0])
        == "reference  a *** cat\nhypothesis a big cat\n             I"
    )


def test_the_normaliser_belongs_to_the_figure() -> None:
    said, heard = ["It's well-known, isn't it?"], ["its well known isnt it"]
    assert basic(said[0]) == "its well known isnt it"
    assert word_errors(said, heard).wer.value == 0
    strict = word_errors(said, heard, normaliser="none")
    assert strict.wer.value > 1 and "normaliser 'none'" in strict.method and "jiwer" in strict.packages
    assert json.loads(json.dumps(strict.to_dict()))["normaliser"] == "none"
    assert "WER" in str(strict) and "<table>" in strict._repr_html_()


def test_silence_that_was_heard_counts() -> None:
    found = word_errors(["", "a cat"], ["thank you", "a cat"])
    assert found.insertions == 2 and found.wer.value == 1


@pytest.mark.parametrize(
    ("said", "heard", "options", "error", "message"),
    [
        (["a"], [], {}, DataError, "1 references and 0 outputs"),
        ([""], ["a"], {}, DataError, "no reference has a word"),
        ([], [], {}, DataError, "no reference has a word"),
        ([3], ["a"], {}, DataError, "must be a text"),
        (["a"], ["a"], {"normaliser": "whisper"}, ConfigError, "allowed: 'none', 'basic'"),
    ],
)
def test_what_cannot_be_judged(said: list, heard: list, options: dict, error: type, message: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(error, match=message):
        word_errors(said, heard, **options)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jiwer", None)
    with pytest.raises(MissingExtraError, match="evaluate"):
        word_errors(["a"], ["a"])
