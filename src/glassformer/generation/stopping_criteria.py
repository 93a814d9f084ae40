"""Stopping criteria: end tokens, stop strings, a time limit, and custom criteria; why a row ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, Literal

import torch
from torch import Tensor

from glassformer.errors import ConfigError
from glassformer.files import safe_repr
from glassformer.generation.detokenizer import StopStringMatcher
from glassformer.text.tokenizer import Tokenizer

StopReason = Literal["end_token", "stop_string", "max_time", "stopping_criteria", "max_new_tokens", "interrupted"]
Criterion = Callable[[Tensor, Any], Any]
"""(ids so far [R, T], None) → whether rows have ended: a bool, or one for each row [R]"""

RUNNING, END_TOKEN, STOP_STRING, TIME, CRITERION = range(5)
REASONS: tuple[StopReason, ...] = ("end_token", "stop_string", "max_time", "stopping_criteria")


class StoppingCriteria:
    """Stopping criteria for R rows, updated with each token: which rows are still running, and why others stopped.

    Args:
        rows: R.
        ids: stop tokens, such as the end-of-sequence token.
        strings: stop strings; a row ends with the token that completes one of them. They need `tokenizer`.
        seconds: time limit from now on.
        criteria: custom criteria.
    """

    def __init__(
        self,
        rows: int,
        *,
        ids: Sequence[int] = (),
        strings: Sequence[str] = (),
        tokenizer: Tokenizer | None = None,
        seconds: float | None = None,
        criteria: Sequence[Criterion] = (),
        device: torch.device | None = None,
    ) -> None:
        self._criteria = criteria
        self._state = torch.full((rows,), RUNNING, device=device)
        self._ids = torch.tensor(list(ids), dtype=torch.long, device=device)
        matcher = StopStringMatcher(strings, tokenizer) if strings and tokenizer is not None else None
        self._matchers = [] if matcher is None else [matcher] * rows
        self._deadline = None if seconds is None else monotonic() + seconds

    @property
    def running(self) -> Tensor:
        """Rows that have not stopped. [R] bool"""
        return self._state == RUNNING

    def __call__(self, tokens: Tensor, ids: Tensor | None = None) -> bool:
        """Update with the new token of each row [R]; returns whether any row is still running.

        Args:
            ids: the rows with it, for custom criteria. [R, T]
        """
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
        if ids is not None and self._criteria:
            self._end(any_criterion(self._criteria, ids), CRITERION)
        if self._deadline is not None and monotonic() >= self._deadline:
            self._end(self.running, TIME)
        return bool(self.running.any())

    def reasons(self, otherwise: StopReason = "max_new_tokens") -> list[StopReason]:
        """The stop reason of each row; `otherwise` for rows that are still running."""
        return stop_reasons(self._state, otherwise)

    def _end(self, rows: Tensor, state: int) -> None:
        self._state = self._state.masked_fill(rows & self.running, state)


def any_criterion(criteria: Sequence[Criterion], ids: Tensor) -> Tensor:
    """Which rows any of the criteria ends. [R, T] → [R] bool

    Raises: ConfigError: a criterion returns something else.
    """
    ended = torch.zeros(len(ids), dtype=torch.bool, device=ids.device)
    for criterion in criteria:
        answer = criterion(ids, None)
        answer = torch.tensor(answer) if isinstance(answer, bool) else answer
        shapes = ((), (len(ids),))
        if not isinstance(answer, Tensor) or answer.dtype != torch.bool or tuple(answer.shape) not in shapes:
            raise ConfigError(
                f"a criterion of stopping_criteria returned {safe_repr(answer)}; it must return a bool, or one for "
                f"each of the {len(ids)} rows"
            )
        ended |= answer.to(ids.device)
    return ended


def stop_reasons(states: Tensor, otherwise: StopReason) -> list[StopReason]:
    """Stop reasons of states [R]; `otherwise` for rows that are still running."""
    return [(otherwise, *REASONS)[state] for state in states.tolist()]
