"""N-gram models: texts at once, word by word and over the whole vocabulary give the same."""

from __future__ import annotations

import math

import numpy as np
import pytest

from glassformer.errors import DataError
from glassformer.ngram.kneser_ney import train_ngram
from glassformer.ngram.model import NgramState
from tests.ngram.test_kneser_ney import TEXTS


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_a_text_at_once_is_its_words_in_turn(order: int) -> None:
    model = train_ngram(TEXTS, order)
    for text in [*TEXTS, ["never", "heard", "the", "cat"]]:
        state, total = model.state([]), 0.0
        for word in [*model.ids(text).tolist(), 2]:
            log_prob, after = model.step(state, word)
            assert log_prob == pytest.approx(model.log_probs(state)[word], abs=1e-9)
            state, total = after, total + log_prob
        assert model.score(text) == pytest.approx(total, abs=1e-9)
        assert state.length < max(order, 1)


def test_perplexity_of_texts() -> None:
    model = train_ngram(TEXTS, 3)
    unseen = [["the", "zebra", "sat"], [], ["the", "cat"]]
    measured = model.perplexity(unseen)
    assert (measured.words, measured.unknown, measured.texts) == (8, 1, 3)
    total = sum(model.score(text) for text in unseen)
    assert measured.perplexity == pytest.approx(math.exp(-total / 8))
    zebra = model.step(model.state(["the"]), 0)[0]
    assert measured.known == pytest.approx(math.exp(-(total - zebra) / 7))
    with pytest.raises(DataError, match="no text"):
        model.perplexity([])


def test_words_of_an_ngram() -> None:
    model = train_ngram(TEXTS, 3)
    for n, table in enumerate(model.tables, 1):
        for i, row in enumerate(model.word_ids(n, np.arange(len(table)))):
            assert table.find(table.prefixes[i : i + 1], row[-1:])[0] == i
    assert "san francisco saw" in {
        " ".join(model.words[i] for i in row) for row in model.word_ids(3, np.arange(len(model.tables[2])))
    }


def test_a_state_is_the_longest_known_end() -> None:
    model = train_ngram(TEXTS, 3)
    assert model.state(["the", "cat"]) == model.state(["on", "the", "cat"], begin=False)
    assert model.state(["never"], begin=False) == NgramState(1, 0)
    assert 0 < model.entropy(model.state(["san"])) < model.entropy(NgramState(0, 0)) < math.log2(len(model.words))
    assert repr(model).startswith("NgramModel(13 1-grams · ")
