"""Fusion of a model of words with a search over tokens."""

from __future__ import annotations

import pytest
import torch

from glassformer.ngram.kneser_ney import train_ngram
from glassformer.ngram.words import speech_words
from glassformer.speech.word_fusion import FusedWords, TokenWords

PIECES = [b"", b" the", b" The", b" ca", b"t", b".", b" sat", b"\xc3", b"\xa9", b"", b""]
TIME, END = 9, 10
WORDS = train_ngram([["the", "cat", "sat"], ["the", "cat"], ["a", "caf\u00e9"]] * 3, 3)


def added(tokens: list[int], fused: FusedWords) -> list[float]:
    """What each token of a row gets, one after another, behind a prompt of two."""
    search = TokenWords(fused, PIECES, [TIME, END], prompt_length=2)
    rows = [torch.tensor([[3, 4, *tokens[:n]], [3, 4, *tokens[:n]]]) for n in range(len(tokens))]
    return [search(row, torch.zeros(2, len(PIECES)))[1, token].item() for row, token in zip(rows, tokens, strict=True)]


@pytest.mark.parametrize(("alpha", "beta"), [(0.5, 0.0), (1.0, 2.0), (0.0, 0.7)])
def test_a_word_counts_once_it_is_complete(alpha: float, beta: float) -> None:
    scores = added([TIME, 2, 3, 4, 5, 6, TIME, END], FusedWords(WORDS, alpha, beta))  # The cat. sat
    state, expected = WORDS.state([]), []
    for word in ("the", "cat", "sat"):
        log_prob, state = WORDS.step(state, int(WORDS.ids([word])[0]))
        expected.append(alpha * log_prob + beta)
    # At " ca", which ends "The"; at ".", which ends "cat"; at the timestamp.
    assert scores == pytest.approx([0, 0, expected[0], 0, expected[1], 0, expected[2], 0], abs=1e-6)


def test_a_letter_may_be_two_tokens() -> None:
    whole = added([3, 7, 8, END], FusedWords(WORDS, 1.0, 0.0))  # " ca" and the two bytes of a letter
    assert whole[:3] == [0, 0, 0] and whole[3] < 0


def test_nothing_is_added_at_weight_0() -> None:
    assert added([1, 3, 4, END], FusedWords(WORDS, 0.0, 0.0)) == [0, 0, 0, 0]


def test_a_word_without_end_is_paid_for() -> None:
    loop = added([3, 4, 5, 4, 5, 4, 5], FusedWords(WORDS, 1.0, 0.0))  # cat.t.t.
    assert loop[2] < 0 and loop[4] < 0 and loop[6] < 0


def test_the_words_of_a_text() -> None:
    assert (
        speech_words("“It’s semi-dry,” Dr. O'Neil said: 3.5 – U.S.!") == "it’s semi dry dr o'neil said 3 5 u s".split()
    )


def test_an_unknown_word_counts_as_soon_as_no_known_one_begins_like_it() -> None:
    fused = FusedWords(WORDS, 1.0, 0.5)
    scores = added([3, 4, 4, 4, END], fused)  # cattt
    unknown = fused.add(WORDS.state([]), "cattt")[0]
    assert scores == pytest.approx([0, 0, 0, unknown, 0]), "behind catt, and not again at the end"
    assert sum(added([3, 4, END], fused)) == pytest.approx(fused.add(WORDS.state([]), "cat")[0])
    after = WORDS.step(WORDS.state([]), int(WORDS.ids(["cattt"])[0]))[1]
    assert added([3, 4, 4, 6, END], fused)[4] == pytest.approx(fused.add(after, "sat")[0])
