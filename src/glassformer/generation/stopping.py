"""Stopping criteria of generation: stop tokens, stop strings, a time limit, the maximum number of new tokens."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from time import monotonic
from typing import Literal

import torch
from torch import Tensor

from glassformer.generation.detokenizer import IncrementalDetokenizer
from glassformer.text.tokenizer import Tokenizer

StopReason = Literal["end_token", "stop_string", "max_time", "max_new_tokens", "interrupted"]

RUNNING, END_TOKEN, STOP_STRING, TIME = range(4)
REASONS: tuple[StopReason, ...] = ("end_token", "stop_string", "max_time")


class StoppingCriteria:
    """Stopping criteria for R rows, updated with each token: which rows are still running, and why others stopped.

    Args:
        rows: R.
        ids: stop tokens, such as the end-of-sequence token.
        strings: stop strings; a row ends with the token that completes one of them. They need `tokenizer`.
        seconds: time limit from now on.
    """

    def __init__(
        self,
        rows: int,
        *,
        ids: Sequence[int] = (),
        strings: Sequence[str] = (),
        tokenizer: Tokenizer | None = None,
        seconds: float | None = None,
        device: torch.device | None = None,
    ) -> None:
        self._state = torch.full((rows,), RUNNING, device=device)
        self._ids = torch.tensor(list(ids), dtype=torch.long, device=device)
        matcher = StopStringMatcher(strings, tokenizer) if strings and tokenizer is not None else None
        self._matchers = [] if matcher is None else [matcher] * rows
        self._deadline = None if seconds is None else monotonic() + seconds

    @property
    def running(self) -> Tensor:
        """Rows that have not stopped. [R] bool"""
        return self._state == RUNNING

    def __call__(self, tokens: Tensor) -> bool:
        """Update with the new token of each row [R]; returns whether any row is still running."""
        if len(self._ids):
            self._end(torch.isin(tokens, self._ids), END_TOKEN)
        if self._matchers:
            running = self.running.tolist()
            self._matchers = [
                matcher.advance(token) if runs else matcher
                for runs, matcher, token in zip(running, self._matchers, tokens.tolist(), strict=True)
            ]
            matched = [matcher.matched for matcher in self._matchers]
            self._end(torch.tensor(matched, device=tokens.device), STOP_STRING)
        if self._deadline is not None and monotonic() >= self._deadline:
            self._end(self.running, TIME)
        return bool(self.running.any())

    def reasons(self, otherwise: StopReason = "max_new_tokens") -> list[StopReason]:
        """The stop reason of each row; `otherwise` for rows that are still running."""
        return stop_reasons(self._state, otherwise)

    def _end(self, rows: Tensor, state: int) -> None:
        self._state = self._state.masked_fill(rows & self.running, state)


def stop_reasons(states: Tensor, otherwise: StopReason) -> list[StopReason]:
    """Stop reasons of states [R]; `otherwise` for rows that are still running."""
    return [(otherwise, *REASONS)[state] for state in states.tolist()]


class StopStringMatcher:
    """Detects stop strings in the text of one row; immutable, so that rows may share it.

    matched: whether the last token completed a stop string
    """

    def __init__(self, strings: Sequence[str], tokenizer: Tokenizer) -> None:
        self.matched = False
        self._strings = tuple(strings)
        self._longest = max(map(len, self._strings))
        self._detokenizer = IncrementalDetokenizer(tokenizer)
        self._tail = ""  # only as much of the text as the beginning of a stop string may take

    def advance(self, token: int) -> StopStringMatcher:
        """The matcher after one more token."""
        matcher = copy(self)
        matcher._detokenizer = self._detokenizer.copy()
        text = self._tail + matcher._detokenizer.add(token)
        matcher.matched = any(string in text for string in self._strings)
        matcher._tail = text[max(0, len(text) - self._longest + 1) :]
        return matcher
