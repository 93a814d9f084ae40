"""CTC decoding: the prefix beam search finds what the sum over all paths says, and alignment the likeliest path."""

from __future__ import annotations

import itertools
from collections import defaultdict

import numpy as np
import pytest

from glassformer.ngram.kneser_ney import train_ngram
from glassformer.speech import ctc_search
from glassformer.speech.ctc_search import force_align, greedy_letters, prefix_beam_search
from glassformer.speech.word_fusion import FusedWords

PIECES = ["_", "|", "A", "B"]
PLAIN = FusedWords(None, 0.5, 0.0)


def log_probs(frames: int, seed: int) -> np.ndarray:
    logits = np.random.default_rng(seed).normal(size=(frames, len(PIECES))) * 1.5
    result: np.ndarray = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    return result


def spelled(path: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(letter for letter, _ in itertools.groupby(path) if letter != 0)


def n_best(table: np.ndarray, beams: int, words: FusedWords = PLAIN) -> list[tuple[list[int], float]]:
    return prefix_beam_search(table, beams=beams, blank=0, delimiter=1, pieces=PIECES, words=words)


def search(table: np.ndarray, beams: int, words: FusedWords = PLAIN) -> tuple[list[int], float]:
    return n_best(table, beams, words)[0]


@pytest.mark.parametrize("seed", range(6))
def test_a_wide_search_is_the_sum_over_all_paths(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctc_search, "PRUNED", -np.inf)
    table = log_probs(6, seed)
    totals: dict[tuple[int, ...], float] = defaultdict(lambda: -np.inf)
    for path in itertools.product(range(4), repeat=6):
        text = spelled(path)
        totals[text] = float(np.logaddexp(totals[text], sum(table[t, letter] for t, letter in enumerate(path))))
    best = max(totals, key=totals.__getitem__)
    letters, score = search(table, 10_000)
    assert tuple(letters) == best
    assert score == pytest.approx(totals[best])


@pytest.mark.parametrize("seed", range(4))
def test_greedy_is_the_likeliest_path(seed: int) -> None:
    table = log_probs(20, seed)
    letters, score = greedy_letters(table, 0)
    assert tuple(letters) == spelled(tuple(table.argmax(-1).tolist()))
    assert score == pytest.approx(table.max(-1).sum())


@pytest.mark.parametrize("seed", range(4))
def test_alignment_is_the_likeliest_path_of_a_text(seed: int) -> None:
    table = log_probs(7, seed)
    for letters in ([2], [2, 3], [2, 2], [3, 1, 3]):
        paths = [path for path in itertools.product(range(4), repeat=7) if spelled(path) == tuple(letters)]
        best = max(paths, key=lambda path: sum(table[t, letter] for t, letter in enumerate(path)))
        runs = [(key, len(list(group))) for key, group in itertools.groupby(best)]
        expected, at = [], 0
        for key, length in runs:
            if key:
                expected.append((at, at + length))
            at += length
        assert force_align(table, letters, 0) == expected
    assert force_align(table, [], 0) == []


def test_a_language_model_decides_between_words_that_sound_alike() -> None:
    model = train_ngram([["ab", "ab"], ["ab"], ["ab", "ab", "ab"]], 2)
    table = np.log(np.full((2, 4), 1e-6))
    table[0, 2] = np.log(0.9)
    table[1, 2:] = np.log([0.5, 0.45])  # A once more is a little likelier than B, and means the same as one A
    assert [PIECES[i] for i in search(table, 8)[0]] == ["A"]
    assert [PIECES[i] for i in search(table, 8, FusedWords(model, 2.0, 0.0))[0]] == ["A", "B"]
    plain, fused = search(table, 8), search(table, 8, FusedWords(model, 0.0, 0.0))
    assert plain == fused  # alpha 0 is the plain search, exactly


def test_rescoring_all_texts_is_fusion(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that gives nothing up finds each text; what the language model adds is the same within it and after."""
    monkeypatch.setattr(ctc_search, "PRUNED", -np.inf)
    words = FusedWords(train_ngram([["ab", "a"], ["b"]], 2), 0.8, 0.3)
    table = log_probs(5, 3)
    fused = {tuple(letters): score for letters, score in n_best(table, 10_000, words)}
    plain = n_best(table, 10_000)
    assert [score for _, score in plain] == sorted((score for _, score in plain), reverse=True)
    for letters, score in plain:
        text = "".join(PIECES[i].replace("|", " ") for i in letters)
        assert score + words.of_text(text.split()) == pytest.approx(fused[tuple(letters)])
