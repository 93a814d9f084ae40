"""What is known of a row by what it has said, in searches that reorder, copy and drop their rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from torch import Tensor

State = TypeVar("State")

STEPS_BACK = 16
"""So many tokens back states are kept, for methods that take some of their words back."""


class Said(Generic[State]):
    """A state for each row, found by the tokens that it has said.

        said          state
        ()            start
        (5,)          step(start, 5)
        (5, 9)        step(step(start, 5), 9)       one step from what is known: each state is kept for a while

    Args:
        start: before the first token.
        step: (a state, a token) → the next state; rows share states, so it changes none.
        begun: how many columns of ids are not said, but prompt.
    """

    def __init__(self, start: State, step: Callable[[State, int], State], *, begun: int) -> None:
        self._start = start
        self._step = step
        self._begun = begun
        self._known: dict[tuple[int, ...], State] = {(): start}

    def __call__(self, ids: Tensor) -> list[State]:
        """The state of each row. [R, T]"""
        said = [tuple(row) for row in ids[:, self._begun :].tolist()]
        states = [self._find(row) for row in said]
        oldest = ids.shape[1] - self._begun - STEPS_BACK
        self._known = {row: state for row, state in self._known.items() if len(row) >= oldest or not row}
        return states

    def _find(self, said: tuple[int, ...]) -> State:
        known = len(said)
        while said[:known] not in self._known:
            known -= 1
        state = self._known[said[:known]]
        for end in range(known + 1, len(said) + 1):
            state = self._known[said[:end]] = self._step(state, said[end - 1])
        return state
