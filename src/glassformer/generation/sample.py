"""One token after another: the likeliest (greedy search), or one that is drawn (sampling).

rows.logits() ─> filters ─> the likeliest, or a draw ─> rows.append ─> stop? ─┐
      ^───────────────────────────── not yet ──────────────────────────────────┘
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from glassformer.errors import ConfigError, WeightsError
from glassformer.generation.filters import Filter
from glassformer.generation.rows import Ahead, Rows
from glassformer.generation.stop import Reason, Stop
from glassformer.weights.fit import first_ten, holding_nan

if TYPE_CHECKING:
    from glassformer.generation import pool

Choice = Callable[[Tensor], Tensor]
"""(filtered logits [R, V]) → the token of each row [R]"""


@dataclass(frozen=True, eq=False)
class Step:
    """What one step chose.

    tokens: [R], the pad token where a row has ended before · spoken: where one has not. [R] bool
    logprobs: log-probability of each token as the model gives it, filtered_logprobs: as it was chosen from. [R]
    top_ids, top_logprobs: the likeliest tokens, whatever was chosen, as the model gives them. [R, top]
    """

    tokens: Tensor
    spoken: Tensor
    logprobs: Tensor | None = None
    filtered_logprobs: Tensor | None = None
    top_ids: Tensor | None = None
    top_logprobs: Tensor | None = None


@dataclass(eq=False)
class Generated:
    """Rows that were continued, and how.

    ids: prompts, or an encoder-decoder's start tokens, and what follows. [R, begun + new]
    begun: how many columns were there before · reasons: why each row ended · texts: of the new part
    scores: what rows are compared by: the sum of their log-probabilities, or a beam's score. [R]
    logprobs, filtered_logprobs: as in `Step`; 0 where a row has ended. [R, new]
    top_ids, top_logprobs: as in `Step`. [R, new, top] · spoken: which tokens a row said before its end. [R, new] bool
    proposed, accepted: how many guesses were read, and how many of them came true, where a method guesses. [R]
    beams: the tree of a beam search, a step each; for beams there is no one distribution that a token was chosen from.
    All but ids, begun and reasons are None unless they were asked for.
    """

    ids: Tensor
    begun: int
    reasons: list[Reason] = field(default_factory=list)
    texts: list[str] | None = None
    scores: Tensor | None = None
    logprobs: Tensor | None = None
    filtered_logprobs: Tensor | None = None
    top_ids: Tensor | None = None
    top_logprobs: Tensor | None = None
    spoken: Tensor | None = None
    proposed: Tensor | None = None
    accepted: Tensor | None = None
    beams: tuple[pool.Step, ...] | None = None

    @property
    def new_ids(self) -> Tensor:
        """[R, new]"""
        return self.ids[:, self.begun :]

    def __repr__(self) -> str:
        rows, columns = self.ids.shape
        return f"Generated({rows} rows, up to {columns - self.begun} new tokens, ended by {sorted(set(self.reasons))})"


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while rows were continued; `partial` is what they had said."""

    def __init__(self, partial: Generated) -> None:
        super().__init__("generation was interrupted; what was generated is in .partial")
        self.partial = partial


def likeliest(logits: Tensor) -> Tensor:
    """Greedy search: the likeliest token of each row; the first of several. [R, V] → [R]"""
    return logits.argmax(-1)


class Draw:
    """Draw a token of each row by its probability: where a uniform number falls among their running sums.

        probs        0.5   0.3  0.2
        running sum  0.5   0.8  1.0        0.6 falls to the second

    Each row has a generator of its own, from the seed and the row's number, so that what it draws does not depend on
    the rows beside it; and numbers are drawn on the CPU, so that they do not depend on the device.
    """

    def __init__(self, rows: int, seed: int) -> None:
        self._draws = [Random(f"{seed} {row}") for row in range(rows)]

    def __call__(self, logits: Tensor) -> Tensor:
        return fallen(logits.double().softmax(-1), [draw.random() for draw in self._draws])


def fallen(shares: Tensor, points: Sequence[float]) -> Tensor:
    """Where a number from 0 to 1 falls among the running sums of a row's shares, whatever these sum to. [R, V] → [R]"""
    sums = shares.cumsum(-1)
    at = torch.tensor(points, dtype=sums.dtype, device=sums.device)[:, None]
    # The first sum above the point: never a token of share 0. The last sum is exactly 1, above every point.
    return torch.searchsorted(sums / sums[:, -1:], at, right=True)[:, 0]


class Decoding:
    """Rows that are continued, a token each at a time, until all have stopped.

        for step in Decoding(rows, …): …          as tokens come
        Decoding(rows, …).run()                   all of them

    Args:
        stop: which rows go on; after its end a row is filled with `pad_id`.
        filters: what becomes of the logits before a token is chosen.
        scores: also how likely it was · top: and how many of the likeliest beside it.
    """

    def __init__(
        self,
        rows: Rows | Ahead,
        *,
        max_new_tokens: int,
        stop: Stop,
        pad_id: int = 0,
        filters: Sequence[Filter] = (),
        choose: Choice = likeliest,
        scores: bool = False,
        top: int = 0,
    ) -> None:
        self.rows = rows
        self.stop = stop
        self._max_new_tokens = max_new_tokens
        self._pad_id = pad_id
        self._filters = filters
        self._choose = choose
        self._scores = scores
        self._top = top

    @torch.inference_mode()
    def __iter__(self) -> Iterator[Step]:
        """Each step as it comes.

        Raises: WeightsError: logits that are NaN. ConfigError: filters that allow no token at all.
        """
        for _ in range(self._max_new_tokens):
            spoken = self.stop.running
            raw, logits = filtered(self.rows, self._filters)
            if not bool((logits.amax(-1).isfinite() | ~spoken).all()):
                raise no_choice(self.rows, raw, spoken)
            tokens = torch.where(spoken, self._choose(logits), self._pad_id)
            self.rows.append(tokens)
            goes_on = self.stop(tokens)
            yield self._scored(tokens, spoken, raw, logits) if self._scores else Step(tokens, spoken)
            if not goes_on:
                break

    def run(self) -> Generated:
        """All steps, in one result.

        Raises: Interrupted: by Ctrl-C, with what was generated. Else as the steps.
        """
        begun, done = self.rows.ids.shape[1], list[Step]()
        try:
            done.extend(self)
        except KeyboardInterrupt:
            raise Interrupted(self._result(begun, done, "interrupted")) from None
        return self._result(begun, done, "max_new_tokens")

    def _scored(self, tokens: Tensor, spoken: Tensor, raw: Tensor, logits: Tensor) -> Step:
        logprobs = raw.log_softmax(-1)
        best = logprobs.topk(min(self._top, raw.shape[-1]))
        chosen = _of(tokens, logprobs, spoken), _of(tokens, logits.log_softmax(-1), spoken)
        return Step(tokens, spoken, *chosen, best.indices, best.values)

    def _result(self, begun: int, done: Sequence[Step], otherwise: Reason) -> Generated:
        # Ctrl-C may come between a token and its step: only whole steps count.
        found = Generated(self.rows.ids[:, : begun + len(done)], begun, self.stop.reasons(otherwise))
        if isinstance(self.rows, Ahead):
            found.proposed, found.accepted = self.rows.proposed, self.rows.accepted
        if self._scores:
            found.scores = torch.zeros(len(self.rows), device=found.ids.device)  # the sum of nothing
        if self._scores and done:
            found.logprobs = _side_by_side([step.logprobs for step in done])
            found.filtered_logprobs = _side_by_side([step.filtered_logprobs for step in done])
            found.top_ids = _side_by_side([step.top_ids for step in done])
            found.top_logprobs = _side_by_side([step.top_logprobs for step in done])
            found.spoken = _side_by_side([step.spoken for step in done])
            found.scores = found.logprobs.sum(-1)
        return found


def filtered(rows: Rows | Ahead, filters: Sequence[Filter]) -> tuple[Tensor, Tensor]:
    """The logits of the next token in at least fp32, as the network gives them and as filters leave them. [R, V]"""
    raw = rows.logits()
    raw = raw if raw.dtype == torch.float64 else raw.float()
    logits = raw
    for change in filters:
        logits = change(rows.seen, logits)
    return raw, logits


def _of(tokens: Tensor, logprobs: Tensor, spoken: Tensor) -> Tensor:
    """The log-probability of each row's token, 0 where it has said none. [R]"""
    return logprobs.gather(-1, tokens[:, None])[:, 0].masked_fill(~spoken, 0.0)


def no_choice(rows: Rows | Ahead, raw: Tensor, spoken: Tensor, who: str = "the model") -> Exception:
    """Why these rows have no token to go on with."""
    wrong = raw.isnan() | (raw == torch.inf)
    return not_numbers(rows, who) if bool((wrong.any(-1) & spoken).any()) else none_allowed(rows)


def not_numbers(rows: Rows | Ahead, who: str = "the model") -> WeightsError:
    """What a network says is NaN or infinite."""
    broken = holding_nan(rows.network)
    cause = (
        f"because {len(broken)} tensors of {who} hold NaN: {first_ten(broken)}; the checkpoint is damaged"
        if broken
        else f"though the weights hold none: numbers grew too large on the way; load {who} with dtype='float32'"
    )
    return WeightsError(f"the logits of token {rows.ids.shape[1]} are NaN or infinite, {cause}")


def none_allowed(rows: Rows | Ahead) -> ConfigError:
    """Filters have left no token."""
    return ConfigError(
        f"no token is allowed as token {rows.ids.shape[1]} of a row: the rules (bad_words_ids, no_repeat_ngram_size, "
        "min_new_tokens, regex, …) ban the whole vocabulary; loosen one of them"
    )


def _side_by_side(columns: Sequence[Tensor | None]) -> Tensor:
    """[R, …] of each step → [R, steps, …]"""
    return torch.stack([column for column in columns if column is not None], dim=1)
