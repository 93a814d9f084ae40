"""Entropy pruning: the growth that is predicted is the growth there is, and sums stay 1."""

from __future__ import annotations

import math

import numpy as np
import pytest

from glassformer.errors import ConfigError
from glassformer.ngram.kneser_ney import train_ngram
from glassformer.ngram.model import NgramModel, NgramState
from glassformer.ngram.prune import _perplexity_growth, _without, pruned
from tests.ngram.test_kneser_ney import TEXTS


def cross_entropy(of: NgramModel, by: NgramModel, history: NgramState, words: list[str]) -> float:
    """-Σ P(w) ln Q(w) after a history."""
    return -float((np.exp(of.log_probs(history)) * by.log_probs(by.state(words, begin=False))).sum())


def test_growth_is_that_of_leaving_one_out() -> None:
    """For each bigram alone: the cross-entropy after its first word, times how frequent this word is."""
    model = train_ngram(TEXTS, 2)
    growth = _perplexity_growth(model, 1)
    uni, table = model.tables
    for i in range(len(table)):
        first = int(table.prefixes[i])
        if model.words[first] == "<s>":
            continue
        stay = [np.ones(len(uni), dtype=bool), np.arange(len(table)) != i]
        without = NgramModel(model.words, _without(model.tables, stay))
        history = [model.words[first]]
        state = model.state(history, begin=False)
        more = cross_entropy(model, without, state, history) - cross_entropy(model, model, state, history)
        assert math.expm1(math.exp(uni.log_probs[first]) * more) == pytest.approx(growth[i], rel=1e-3, abs=1e-7)


@pytest.mark.parametrize("threshold", [0, 1e-3, 1e-2, 0.99])
def test_a_smaller_model_is_a_model(threshold: float) -> None:
    model = train_ngram(TEXTS, 4)
    smaller = pruned(model, threshold)
    sizes = [(len(a), len(b)) for a, b in zip(smaller.tables, model.tables, strict=True)]
    assert sizes[0][0] == sizes[0][1] and all(a <= b for a, b in sizes)
    assert (sum(a for a, _ in sizes) < sum(b for _, b in sizes)) == (threshold > 0)
    for text in TEXTS:
        for end in range(len(text)):
            assert np.exp(smaller.log_probs(smaller.state(text[:end]))).sum() == pytest.approx(1, abs=1e-5)
    if not threshold:
        assert smaller.score(TEXTS[0]) == model.score(TEXTS[0])


def test_frequent_ngrams_stay() -> None:
    texts = [["san", "francisco"]] * 50 + [list("abc"), list("bca"), list("cab")] * 3
    smaller = pruned(train_ngram(texts, 3), 1e-2)
    assert smaller.step(smaller.state(["san"]), int(smaller.ids(["francisco"])[0]))[0] > math.log(0.9)
    assert len(smaller.tables[2]) < 6


def test_bad_thresholds() -> None:
    for threshold in (-1.0, 1.0, math.nan):
        with pytest.raises(ConfigError, match="pruning threshold"):
            pruned(train_ngram(TEXTS, 2), threshold)
