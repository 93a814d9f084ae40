"""Shallow fusion with an n-gram model of words, in searches over letters and over tokens.

    log P(text | sound) + alpha · ln P(words) + beta · number of words

A word counts once it is complete: for letters at the delimiter between words, for tokens at the next token that begins
a word, a timestamp, or the end. Until then a beam is judged by the sound alone.
Source: Hannun et al. 2014, section 2.2; Chorowski and Jaitly 2017, section 2.
"""

from __future__ import annotations

import string
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.generation.filters import PrefixStates
from glassformer.ngram.model import NgramModel, NgramState

MARKS = string.punctuation + "“”‘’«»„…–—¿¡。，、？！"
"""Punctuation around words, which models of words do not know."""


@dataclass(frozen=True)
class FusedWords:
    """N-gram model of words in the search: alpha · ln P(word | words before) + beta for each complete word."""

    model: NgramModel | None
    alpha: float
    beta: float

    def start(self) -> NgramState | None:
        """The state before the first word."""
        return None if self.model is None else self.model.state([])

    def add(self, state: NgramState | None, word: str) -> tuple[float, NgramState | None]:
        """What a word adds to the score, and the state after it."""
        if self.model is None or state is None or not word:
            return 0.0, state
        spelled = word if word in self.model else word.lower()
        log_prob, after = self.model.step(state, int(self.model.ids([spelled])[0]))
        return self.alpha * log_prob + self.beta, after


class TokenWords:
    """A logit filter: adds the score of a row's last word to all tokens before which it is complete.

    Args:
        words: the language model, its weight and bonus
        pieces: bytes of each token behind others, by id: with a space before those that begin a word [V]
        ends: ids that end a word and are no text: timestamps, the end of the text
        prompt_length: number of leading columns of ids that are prompt
    """

    def __init__(self, words: FusedWords, pieces: Sequence[bytes], ends: Collection[int], prompt_length: int) -> None:
        self._words = words
        self._pieces = pieces
        self._completes = torch.tensor([piece[:1].isspace() for piece in pieces])
        self._completes[list(ends)] = True
        self._states = PrefixStates((words.start(), b""), self._step, prompt_length=prompt_length)

    def __call__(self, ids: Tensor, logits: Tensor) -> Tensor:
        added = [self._words.add(state, _spelled(word))[0] for state, word in self._states(ids)]
        scores = torch.tensor(added, dtype=logits.dtype)[:, None] * self._completes
        return logits + scores.to(logits.device)

    def _step(self, state: tuple[NgramState | None, bytes], token: int) -> tuple[NgramState | None, bytes]:
        """The language model's state after complete words, and the bytes of the last one."""
        before, word = state
        if not self._completes[token]:
            return before, word + self._pieces[token]
        return self._words.add(before, _spelled(word))[1], self._pieces[token]


def _spelled(word: bytes) -> str:
    """A word without the punctuation around it."""
    return word.decode("utf-8", "replace").strip().strip(MARKS)
