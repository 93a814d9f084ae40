"""Shallow fusion with an n-gram model of words, in searches over letters and over tokens.

    log P(text | sound) + alpha · ln P(words) + beta · number of words

A word counts once it is complete: for letters at the delimiter between words, for tokens at the next token that begins
with a space or a mark, a timestamp, or the end. Until then a beam is evaluated by the sound alone.
Source: Hannun et al. 2014, section 2.2; Chorowski and Jaitly 2017, section 2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.generation.filters import PrefixStates
from glassformer.ngram.model import NgramModel, NgramState
from glassformer.ngram.words import BREAKS, MARKS


class TextScore(NamedTuple):
    """What a language model says of a whole text: ln P, and how many words it counted."""

    log_prob: float = 0.0
    words: float = 0.0

    def weighed(self, alpha: float, beta: float) -> float:
        """alpha · ln P + beta · words; nothing at all of what has no weight."""
        return (alpha * self.log_prob if alpha else 0.0) + (beta * self.words if beta else 0.0)


@dataclass(frozen=True)
class FusedWords:
    """N-gram model of words in the search: alpha · ln P(word | words before) + beta for each complete word."""

    model: NgramModel | None
    alpha: float
    beta: float

    def start(self) -> NgramState | None:
        """The state before the first word."""
        return None if self.model is None else self.model.state([])

    def of_text(self, words: Iterable[str]) -> float:
        """What all words of a text add."""
        total, state = 0.0, self.start()
        for word in words:
            added, state = self.add(state, word)
            total += added
        return total

    @property
    def apart(self) -> tuple[FusedWords, FusedWords]:
        """What adds ln P of each word, and what adds 1: the two of a `TextScore`."""
        return replace(self, alpha=1.0, beta=0.0), replace(self, alpha=0.0, beta=1.0)

    def may_begin(self, part: str) -> bool:
        """Whether a known word begins like this."""
        return self.model is None or self.model.has_prefix(part) or self.model.has_prefix(part.lower())

    def add(self, state: NgramState | None, word: str) -> tuple[float, NgramState | None]:
        """What a word adds to the score, and the state after it."""
        if self.model is None or state is None or not word:
            return 0.0, state
        spelled = word if word in self.model else word.lower()
        log_prob, after = self.model.step(state, int(self.model.ids([spelled])[0]))
        return self.alpha * log_prob + self.beta, after


class _Row(NamedTuple):
    """A row of a search.

    state: after its complete words
    word: the bytes since

    unknown: whether no word begins like this, so that it has counted already
    due: what that adds, at the next token
    """

    state: NgramState | None
    word: bytes = b""
    unknown: bool = False
    due: float = 0.0


class TokenWords:
    """A logit filter: adds the score of a row's last word to all tokens before which it is complete.

    A word that the model does not know counts as soon as no known word begins like it. If it counted at its end, the
    search would put that off, and write "Ohhhhhh".

    Args:
        words: the language model, its weight and bonus
        pieces: bytes of each token behind others, by id: with a space before those that begin a word [V]
        ends: ids that end a word and are no text: timestamps, the end of the text
        prompt_length: number of leading columns of ids that are prompt
    """

    def __init__(self, words: FusedWords, pieces: Sequence[bytes], ends: Collection[int], prompt_length: int) -> None:
        self._words = words
        self._pieces = pieces
        self._completes = torch.tensor([_ends_word(piece) for piece in pieces])
        self._completes[list(ends)] = True
        self._states = PrefixStates(_Row(words.start()), self._step, prompt_length=prompt_length)

    def __call__(self, ids: Tensor, logits: Tensor) -> Tensor:
        return logits + self.scores(ids).to(logits.dtype)

    def scores(self, ids: Tensor, prompt_length: int | None = None) -> Tensor:
        """What is added to each token, as a `Scorer` gives it. [R, V] float32"""
        rows = self._states(ids)
        at_end = [0.0 if row.unknown else self._words.add(row.state, _spelled(row.word))[0] for row in rows]
        due = torch.tensor([row.due for row in rows])
        return (due[:, None] + torch.tensor(at_end)[:, None] * self._completes).to(ids.device)

    def of_tokens(self, tokens: Iterable[int]) -> float:
        """What all tokens of a text add: the sum of their `scores`."""
        total, row = 0.0, _Row(self._words.start())
        for token in tokens:
            total += row.due
            if self._completes[token] and not row.unknown:
                total += self._words.add(row.state, _spelled(row.word))[0]
            row = self._step(row, token)
        return total

    def _step(self, row: _Row, token: int) -> _Row:
        """The row with one more token."""
        piece = self._pieces[token]
        if self._completes[token]:
            after = row.state if row.unknown else self._words.add(row.state, _spelled(row.word))[1]
            row = _Row(after, piece)
        else:
            row = _Row(row.state, row.word + piece, row.unknown)
        spelled = _spelled(row.word)
        if row.unknown or not spelled or self._words.may_begin(spelled):
            return row
        due, after = self._words.add(row.state, spelled)
        return _Row(after, row.word, unknown=True, due=due)


def _ends_word(piece: bytes) -> bool:
    """Whether the word before a token is complete."""
    first = piece.decode("utf-8", "ignore")[:1]
    return first.isspace() or first in BREAKS


def _spelled(word: bytes) -> str:
    """A word without the punctuation around it."""
    return word.decode("utf-8", "ignore").strip().strip(MARKS)
