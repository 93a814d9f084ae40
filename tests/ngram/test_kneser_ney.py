"""Probabilities by interpolated Kneser-Ney: by the formula in plain dictionaries, NLTK's, and sums of 1."""

from __future__ import annotations

import gzip
import math
import random
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import ConfigError, DataError
from glassformer.ngram.counts import BEGIN, END, NgramCounts, OrderCounts
from glassformer.ngram.kneser_ney import FALLBACK, estimate, estimated_discounts, train_ngram
from glassformer.ngram.model import NgramModel, NgramState

TEXTS = [
    text.split()
    for text in (
        "the cat sat on the mat|the dog sat on the cat|a dog saw the cat on a mat|the mat|on the mat sat a dog|"
        "san francisco saw the dog|san francisco sat|the cat saw san francisco||a cat a cat a dog a cat"
    ).split("|")
]
texts = st.lists(st.lists(st.sampled_from("abcde"), max_size=8), min_size=1, max_size=12)


def by_the_formula(texts: list[list[str]], order: int, history: tuple[str, ...], word: str) -> float:
    """P(word | history), from the definitions, with the discounts that the model estimates."""
    rows = [[BEGIN, *text, END] for text in texts]
    seen = [
        Counter(tuple(row[i : i + n]) for row in rows for i in range(len(row) - n + 1)) for n in range(1, order + 1)
    ]
    adjusted: list[dict[tuple[str, ...], int]] = []
    for n, counts in enumerate(seen):
        longer = Counter(ngram[1:] for ngram in seen[n + 1]) if n + 1 < order else counts
        adjusted.append({g: counts[g] if g[0] == BEGIN or n + 1 == order else longer[g] for g in counts})
    adjusted[0][(BEGIN,)] = 0
    vocabulary = {word for row in rows for word in row} - {BEGIN} | {"<unk>"}

    def prob(history: tuple[str, ...], word: str) -> float:
        n = len(history)
        three = estimated_discounts(np.array([*adjusted[n].values(), 0]))
        after = {g: a for g, a in adjusted[n].items() if g[:-1] == history}
        lower = prob(history[1:], word) if history else 1 / len(vocabulary)
        if not sum(after.values()):
            return lower
        discount = {g: (0.0, *three)[min(a, 3)] for g, a in after.items()}
        a = after.get((*history, word), 0)
        own = (a - discount[(*history, word)]) if a else 0.0
        return (own + sum(discount.values()) * lower) / sum(after.values())

    return prob(history[1 - order :] if order > 1 else (), word)


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_probabilities_are_those_of_the_formula(order: int) -> None:
    model = train_ngram(TEXTS, order)
    for text in [*TEXTS, "a mat saw the francisco".split(), ["unheard", "cat"]]:
        known = [word if word in model else "<unk>" for word in text]
        row = [BEGIN, *known, END]
        state = model.state([])
        for i in range(1, len(row)):
            expected = by_the_formula(TEXTS, order, tuple(row[max(0, i - order + 1) : i]), row[i])
            log_prob, state = model.step(state, int(model.ids([row[i]])[0]))
            assert math.exp(log_prob) == pytest.approx(expected, rel=1e-5), (row, i)


def test_francisco_is_rare_after_other_words() -> None:
    """Seen three times, but after one word alone: less likely than "mat", seen as often after two."""
    model = train_ngram(TEXTS, 2, discounts=[FALLBACK, FALLBACK])
    nothing = model.log_probs(NgramState(0, 0))
    francisco, mat = model.ids(["francisco", "mat"])
    assert nothing[francisco] < nothing[mat]


@given(texts=texts, order=st.integers(1, 5), history=st.lists(st.sampled_from("abcdez"), max_size=6))
def test_probabilities_sum_to_one_after_every_history(texts: list[list[str]], order: int, history: list[str]) -> None:
    model = train_ngram(texts, order)
    for begin in (True, False):
        log_probs = model.log_probs(model.state(history, begin=begin))
        assert np.exp(log_probs).sum() == pytest.approx(1, abs=1e-5)
        assert np.isfinite(log_probs).all()


def test_perplexity_is_nltks() -> None:
    """On a text that goes round in a circle, with its discount: it counts beginnings of texts in another way."""
    from nltk.lm.models import KneserNeyInterpolated

    order, draw = 3, random.Random(0)
    circle = [draw.choice("aaaabbbccd") for _ in range(400)]
    around = circle + circle[: order - 1]
    grams = [[tuple(around[i : i + n]) for i in range(len(circle))] for n in range(1, order + 1)]
    theirs = KneserNeyInterpolated(order, discount=0.1)
    theirs.fit([[gram for n in grams for gram in n]], vocabulary_text=circle)

    words = ["<unk>", BEGIN, END, *sorted(set(circle))]
    id_of = {word: number for number, word in enumerate(words)}
    place_of: dict[tuple[str, ...], int] = {(word,): number for word, number in id_of.items()}
    orders = [OrderCounts(np.arange(len(words)), np.array([circle.count(word) for word in words]))]
    for n in range(2, order + 1):
        counted = Counter(grams[n - 1])
        keys = {gram: place_of[gram[:-1]] << 32 | id_of[gram[-1]] for gram in counted}
        ordered = sorted(keys, key=lambda gram: keys[gram])
        place_of |= {gram: place for place, gram in enumerate(ordered)}
        orders.append(
            OrderCounts(np.array([keys[gram] for gram in ordered]), np.array([counted[gram] for gram in ordered]))
        )
    ours = estimate(NgramCounts(words, orders), [(0, 0, 0), (0.1,) * 3, (0.1,) * 3])
    total = 0.0
    for gram in grams[-1]:
        state = ours.state(list(gram[:-1]), begin=False)
        total += ours.step(state, id_of[gram[-1]])[0]
        assert ours.step(state, id_of[gram[-1]])[0] == pytest.approx(theirs.logscore(gram[-1], gram[:-1]) * math.log(2))
    assert math.exp(-total / len(circle)) == pytest.approx(theirs.perplexity(grams[-1]), rel=1e-6)


def test_discounts_are_estimated_or_fall_back() -> None:
    counts = np.repeat([1, 2, 3, 4, 9], [40, 18, 9, 5, 20])
    y = 40 / (40 + 36)
    assert estimated_discounts(counts) == pytest.approx((1 - 2 * y * 18 / 40, 2 - 3 * y * 9 / 18, 3 - 4 * y * 5 / 9))
    assert estimated_discounts(np.array([1, 1, 2])) == FALLBACK
    with pytest.raises(ConfigError, match="discounts for 1 orders; the counts have 2"):
        train_ngram(TEXTS, 2, discounts=[FALLBACK])


def test_longer_ngrams_predict_better(shared: Path) -> None:
    folder = shared / "data" / "multi30k"
    train, unseen = (
        [line.split() for line in gzip.decompress((folder / name).read_bytes()).decode().splitlines()]
        for name in ("train.en.gz", "val.en.gz")
    )
    one, two, three = (train_ngram(train[:10_000], order).perplexity(unseen).perplexity for order in (1, 2, 3))
    assert one > 3 * two > 3 * three


def test_bad_texts() -> None:
    with pytest.raises(DataError, match="at least one text"):
        train_ngram([], 2)
    with pytest.raises(DataError, match="give its words"):
        train_ngram(["the cat"], 2)  # type: ignore[list-item]
    with pytest.raises(DataError, match="no white space"):
        train_ngram([["the cat"]], 2)
    with pytest.raises(ConfigError, match="order of an n-gram model is 0"):
        train_ngram(TEXTS, 0)


def test_texts_without_words() -> None:
    model = train_ngram([[], []], 3)
    assert isinstance(model, NgramModel) and model.order == 3
    assert math.exp(model.score([])) > 0.5
    assert [len(table) for table in model.tables] == [3, 1, 0]
    for shorter, longer in pairwise((model.state([]), model.state(["never"]))):
        assert np.exp(model.log_probs(shorter)).sum() == pytest.approx(1)
        assert np.exp(model.log_probs(longer)).sum() == pytest.approx(1)
