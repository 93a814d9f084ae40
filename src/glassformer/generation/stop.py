"""When a row ends: at an end token, behind a stop string, when time is up, or for want of further tokens."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from time import monotonic
from typing import Literal

import torch
from torch import Tensor

from glassformer.generation.pieces import Pieces
from glassformer.text.tokenizer import Tokenizer

Reason = Literal["end_token", "stop_string", "max_time", "max_new_tokens", "interrupted"]

RUNNING, END_TOKEN, STOP_STRING, TIME = range(4)
REASONS: tuple[Reason, ...] = ("end_token", "stop_string", "max_time")


class Stop:
    """Which of R rows go on, and why the others have ended; told of each token.

    Args:
        ids: the tokens that end a row.
        strings: a row ends with the token that completes one of them, which `tokenizer` finds.
        seconds: from now on, after which all rows end.
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
        watch = Watch(strings, tokenizer) if strings and tokenizer is not None else None
        self._watches = [] if watch is None else [watch] * rows
        self._until = None if seconds is None else monotonic() + seconds

    @property
    def running(self) -> Tensor:
        """Which rows go on. [R] bool"""
        return self._state == RUNNING

    def __call__(self, tokens: Tensor) -> bool:
        """Note the token that each row has said; does any go on? [R]"""
        if len(self._ids):
            self._end(torch.isin(tokens, self._ids), END_TOKEN)
        if self._watches:
            running = self.running.tolist()
            self._watches = [
                watch.after(token) if runs else watch
                for runs, watch, token in zip(running, self._watches, tokens.tolist(), strict=True)
            ]
            met = [watch.met for watch in self._watches]
            self._end(torch.tensor(met, device=tokens.device), STOP_STRING)
        if self._until is not None and monotonic() >= self._until:
            self._end(self.running, TIME)
        return bool(self.running.any())

    def reasons(self, otherwise: Reason = "max_new_tokens") -> list[Reason]:
        """Why each row ended; `otherwise` for those that would have gone on."""
        return reasons_of(self._state, otherwise)

    def _end(self, rows: Tensor, state: int) -> None:
        self._state = self._state.masked_fill(rows & self.running, state)


def reasons_of(states: Tensor, otherwise: Reason) -> list[Reason]:
    """The names of states; `otherwise` for rows that would have gone on. [R]"""
    return [(otherwise, *REASONS)[state] for state in states.tolist()]


class Watch:
    """The text of a row, watched for some strings; it never changes, so rows may share it.

    met: has its last token completed one? Only as much of the text is kept as one of them may begin in.
    """

    def __init__(self, strings: Sequence[str], tokenizer: Tokenizer) -> None:
        self.met = False
        self._strings = tuple(strings)
        self._longest = max(map(len, self._strings))
        self._pieces = Pieces(tokenizer)
        self._tail = ""

    def after(self, token: int) -> Watch:
        """The text with one more token."""
        watch = copy(self)
        watch._pieces = self._pieces.copy()
        text = self._tail + watch._pieces.add(token)
        watch.met = any(string in text for string in self._strings)
        watch._tail = text[max(0, len(text) - self._longest + 1) :]
        return watch
