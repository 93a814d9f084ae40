"""Prefix states: per-row state looked up by generated tokens, for searches that reorder, copy and drop rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from torch import Tensor

from glassformer.deprecation import former_keywords, former_names

State = TypeVar("State")

STEPS_BACK = 16
"""States of prefixes that are up to so many tokens shorter are cached, for methods that drop some tokens again."""


class PrefixStates(Generic[State]):
    """Cache of states by token prefix: a search may reorder its rows between two calls, and each finds its state.

        generated     state
        ()            start
        (5,)          step(start, 5)
        (5, 9)        step(step(start, 5), 9)       one step from a cached state

    Args:
        start: state before the first generated token.
        step: (state, token) → next state; rows share states, so it must not change its argument.
        prompt_length: number of leading columns of ids that are prompt.
    """

    @former_keywords(begun="prompt_length")
    def __init__(self, start: State, step: Callable[[State, int], State], *, prompt_length: int) -> None:
        self._step = step
        self._prompt_length = prompt_length
        self._states: dict[tuple[int, ...], State] = {(): start}

    def __call__(self, ids: Tensor) -> list[State]:
        """The state of each row. [R, T]"""
        prefixes = [tuple(row) for row in ids[:, self._prompt_length :].tolist()]
        states = [self._state(prefix) for prefix in prefixes]
        shortest = ids.shape[1] - self._prompt_length - STEPS_BACK
        self._states = {
            prefix: state for prefix, state in self._states.items() if len(prefix) >= shortest or not prefix
        }
        return states

    def _state(self, prefix: tuple[int, ...]) -> State:
        length = len(prefix)
        while prefix[:length] not in self._states:
            length -= 1
        state = self._states[prefix[:length]]
        for end in range(length + 1, len(prefix) + 1):
            state = self._states[prefix[:end]] = self._step(state, prefix[end - 1])
        return state


__getattr__ = former_names(__name__)
