"""Beams that compete with one another: candidates, the pool of finished hypotheses, and when their search is over.

steps     beam 0 ── the ── cat ── sat            a hypothesis is read backwards: its last token,
          beam 1 ──  a  ─┘ dog ── ran            then its parent's, and so on
pool      "the dog ." −0.4, 3 tokens
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.generation.decoding import (
    CRITERION,
    END_TOKEN,
    RUNNING,
    STOP_STRING,
    Criterion,
    Generated,
    StopReason,
    any_criterion,
    invalid_logits_error,
    stop_reasons,
)
from glassformer.generation.detokenizer import StopStringMatcher
from glassformer.generation.filters import PrefixStates
from glassformer.generation.rows import Rows


@dataclass(frozen=True)
class SearchRules:
    """How hypotheses end and are scored; arguments of `beam_search`."""

    length_penalty: float
    early_stopping: bool | str
    max_new_tokens: int
    stop_ids: Sequence[int]
    stop_strings: StopStringMatcher | None
    criteria: Sequence[Criterion]
    generator: torch.Generator | Sequence[torch.Generator] | None
    patience: float | None = None


class EndCondition:
    """Stop tokens, stop strings and criteria of beams, and the rows of beams."""

    def __init__(self, rows: Rows, beams: int, rules: SearchRules) -> None:
        device = rows.ids.device
        self.rows = rows
        self._first = torch.arange(0, len(rows), beams, device=device)[:, None]  # each prompt's first row
        self._stop_ids = torch.tensor(rules.stop_ids, dtype=torch.long, device=device)
        self._criteria = rules.criteria
        self._matchers = None
        if rules.stop_strings is not None:
            start, prompt_length = rules.stop_strings, rows.ids.shape[1]
            self._matchers = PrefixStates(start, StopStringMatcher.advance, prompt_length=prompt_length)

    @property
    def count(self) -> int:
        """Number of stop tokens."""
        return len(self._stop_ids)

    def rows_of(self, beams: Tensor) -> Tensor:
        """Row indices of beams. [N, …]"""
        return self._first + beams

    def __call__(self, parents: Tensor, tokens: Tensor) -> Tensor:
        """Stop states of candidates: beams with one more token. [N, candidates]"""
        states = torch.full_like(tokens, RUNNING)
        ids = self.rows.ids[self.rows_of(parents).flatten()] if self._matchers or self._criteria else None
        ids = None if ids is None else torch.cat([ids, tokens.flatten()[:, None]], dim=1)
        if ids is not None and self._criteria:
            states = states.masked_fill(any_criterion(self._criteria, ids).view_as(tokens), CRITERION)
        if ids is not None and self._matchers is not None:
            matchers = self._matchers(ids)
            matched = torch.tensor([matcher.matched for matcher in matchers], device=tokens.device)
            states = states.masked_fill(matched.view_as(tokens), STOP_STRING)
        return states.masked_fill(torch.isin(tokens, self._stop_ids), END_TOKEN)  # last: it is the reason in any case


class BeamGroup:
    """Beams that compete with one another, `width` of each of N prompts, and the pool of finished hypotheses.

    first: index of the group's first beam among all beams
    length: number of tokens so far
    open: prompts whose search is still on; beams of the others no longer count. [N]
    """

    def __init__(
        self,
        count: int,
        first: int,
        width: int,
        ends: EndCondition,
        rules: SearchRules,
        dtype: torch.dtype,
    ) -> None:
        device = ends.rows.ids.device
        free = torch.full((count, width), -torch.inf, dtype=dtype, device=device)
        none = torch.zeros(count, width, dtype=torch.long, device=device)
        # As in openai-whisper, where patience is the share of hypotheses that a search waits for.
        self.slots = width if rules.patience is None else max(1, round(width * rules.patience))
        slots = free[:, :1].repeat(1, self.slots), none[:, :1].repeat(1, self.slots)
        self.pool = BeamPool(slots[0], *(slots[1],) * 3, slots[0], slots[1])
        self.open = torch.ones(count, dtype=torch.bool, device=device)
        self.first = first
        self.width = width
        self.length = 0
        # All beams are copies of the prompt, so only the first may have candidates.
        self._running = BeamStep(none, none, free.index_fill(1, none[0, :1], 0.0), free)
        self._ends = ends
        self._max_length = rules.max_new_tokens
        self._length_penalty = rules.length_penalty
        self._early_stopping = rules.early_stopping
        self._generator = rules.generator
        self._first_come = rules.patience is not None

    def step(self, raw: Tensor, log_probs: Tensor, last: bool, live: Tensor | None = None) -> BeamStep:
        """Extend each beam by one token.

        Args:
            raw: log-probabilities of the model, for all groups. [n, beams, V]
            log_probs: filtered, for this group. [n, width, V]
            last: all beams end with this step.
            live: the prompts that these are of; beams of the others are dead. None = all. [n]
        """
        candidates = self._candidates(raw, log_probs, live)
        parents, tokens, scores, logprobs = candidates
        states = self._ends(parents, tokens)
        self.length += 1
        last = last or self.length == self._max_length
        self._collect(candidates, states, (states != RUNNING) | last)
        # There are enough candidates for every beam to go on, unless stop strings ended them.
        running_scores, order = scores.masked_fill(states != RUNNING, -torch.inf).topk(self.width)
        if last:
            running_scores = torch.full_like(running_scores, -torch.inf)
        self._running = BeamStep(
            parents.gather(1, order), tokens.gather(1, order), running_scores, logprobs.gather(1, order)
        )
        self._close_finished()
        return self._running

    def pool_if_stopped(self) -> BeamPool:
        """The pool if all running beams ended here."""
        running = self._running
        final = self._final(running.scores).masked_fill(~self.open[:, None], -torch.inf)
        return self._pool_with(final, running, torch.full_like(running.tokens, RUNNING))

    def _candidates(self, raw: Tensor, log_probs: Tensor, live: Tensor | None) -> BeamStep:
        """The most likely candidates, or sampled ones. [N, candidates]"""
        vocabulary = log_probs.shape[-1]
        running = self._running.scores if live is None else self._running.scores[live]
        totals = (running[..., None] + log_probs).flatten(1)  # [n, width · V]
        # Each beam has at most as many candidates that end as there are stop tokens; one more can go on.
        count = min(max(2, 1 + self._ends.count) * self.width, self.width * vocabulary)
        if self._generator is None:
            scores, indices = totals.topk(count)
        else:  # the largest of p / Exp(1) are a sample without replacement (exponential races)
            indices = (totals.softmax(dim=-1) / self._exponential(totals, live)).topk(count).indices
            scores = totals.gather(1, indices)
        if bool(scores.isnan().any()):  # topk puts NaN first: it would be taken for the best token
            raise invalid_logits_error(self._ends.rows.ids.shape[1], self._ends.rows.network)
        parents, tokens = self.first + indices // vocabulary, indices % vocabulary
        candidates = BeamStep(parents, tokens, scores, raw.flatten(1).gather(1, parents * vocabulary + tokens))
        if live is None:
            return candidates
        of_all = BeamStep(*(x.new_zeros(len(self.open), count).index_copy_(0, live, x) for x in candidates))
        dead = torch.ones_like(self.open).index_fill_(0, live, False)
        return of_all._replace(scores=of_all.scores.masked_fill(dead[:, None], -torch.inf))

    def _exponential(self, like: Tensor, live: Tensor | None) -> Tensor:
        """Exponential random numbers; from the CPU, so that samples do not depend on the device."""
        numbers, generator = torch.empty(like.shape, dtype=like.dtype), self._generator
        if isinstance(generator, torch.Generator):
            return numbers.exponential_(generator=generator).to(like.device)
        prompts = range(len(self.open)) if live is None else live.tolist()
        for row, prompt in zip(numbers, prompts, strict=True):
            # A generator of its own, so that a sample does not depend on the other prompts of a batch.
            row.exponential_(generator=generator and generator[prompt])
        return numbers.to(like.device)

    def _collect(self, candidates: BeamStep, states: Tensor, ended: Tensor) -> None:
        """Ended candidates enter the pool: those among the `width` best, or with patience as long as there is room."""
        if self._first_come:  # all that are likelier than the last beam that continues
            going_on = (~ended).cumsum(dim=1) < self.width
            room = (self.pool.scores.isneginf().sum(dim=1, keepdim=True) - ended.cumsum(dim=1)) >= 0
            entering, best = ended & going_on & room & self.open[:, None], candidates
        else:  # as in the reference library, only those among the `width` best
            best = BeamStep(*(part[:, : self.width] for part in candidates))
            entering, states = ended[:, : self.width] & self.open[:, None], states[:, : self.width]
        final = self._final(best.scores).masked_fill(~entering, -torch.inf)
        self.pool = self._pool_with(final, best, states)

    def _pool_with(self, final: Tensor, ended: BeamStep, states: Tensor) -> BeamPool:
        """The best of the pool and of hypotheses that end here, with these final scores."""
        length = self.length * (final > -torch.inf)  # a free slot has length 0
        ending = BeamPool(final, length, ended.parents, ended.tokens, ended.logprobs, states)
        return merge_pools([self.pool, ending], self.slots)

    def _final(self, scores: Tensor, length: int | None = None) -> Tensor:
        """Length-normalised scores, score / lengthᵖ, for the current length or another."""
        # max: after Ctrl-C before the first token, the length is 0.
        final: Tensor = scores / max(1, length or self.length) ** self._length_penalty
        return final

    def _close_finished(self) -> None:
        """Close the search of prompts whose pool cannot improve, by the rule of `early_stopping`."""
        worst = self.pool.scores[:, -1]  # -inf while a slot is free
        # Scores are negative, so that with a positive penalty a hypothesis gains by being long.
        at_max_length = self._early_stopping == "never" and self._length_penalty > 0
        attainable = self._final(self._running.scores[:, 0], self._max_length if at_max_length else None)
        self.open = self.open & (self._running.scores[:, 0].isfinite() if self._first_come else attainable > worst)
        if self._early_stopping is True or self._first_come:
            self.open = self.open & worst.isneginf()


class BeamStep(NamedTuple):
    """One step of all beams: beam b extends beam `parents[b]` of the step before with `tokens[b]`. [N, beams] each

    parents: back-pointers
    tokens: the new tokens
    scores: sum of log-probabilities of the hypothesis after filters and diversity penalty; -inf for a dead beam.
    logprobs: log-probability of the token alone, as the model gives it.
    """

    parents: Tensor
    tokens: Tensor
    scores: Tensor
    logprobs: Tensor


class BeamPool(NamedTuple):
    """The best finished hypotheses of each prompt, best first; a free slot has the score -inf. [N, slots] each

    length: number of tokens; the last of them is `tokens`, and the token before it is beam `parents` of that step.
    logprobs: of the last token
    states: stop states, as in `decoding`.
    """

    scores: Tensor
    length: Tensor
    parents: Tensor
    tokens: Tensor
    logprobs: Tensor
    states: Tensor


def merge_pools(pools: Sequence[BeamPool], slots: int) -> BeamPool:
    """The best hypotheses of several pools, as many as there are slots."""
    merged = BeamPool(*(torch.cat(same, dim=1) for same in zip(*pools, strict=True)))
    order = merged.scores.topk(slots).indices
    return BeamPool(*(part.gather(1, order) for part in merged))


def backtrack(
    prompts: Tensor, steps: Sequence[BeamStep], pool: BeamPool, pad_id: int, otherwise: StopReason
) -> Generated:
    """Reconstruct the hypotheses of the pool by following back-pointers.

    Args:
        otherwise: the reason of hypotheses that no stopping criterion ended
    """
    tokens, logprobs, rows, beams = list[Tensor](), list[Tensor](), list[Tensor](), pool.parents
    first = torch.arange(len(pool.length), device=pool.length.device)[:, None]
    for number in range(int(pool.length.max()), 0, -1):
        # Hypotheses are of different lengths: the last token of each is in the pool, all others in the steps.
        step, before_last, active = steps[number - 1], pool.length > number, pool.length >= number
        tokens.append(step.tokens.gather(1, beams).where(before_last, pool.tokens).where(active, pad_id))
        step_logprobs = step.logprobs.gather(1, beams).where(before_last, pool.logprobs)
        logprobs.append(step_logprobs.masked_fill(~active, 0.0))
        beams = step.parents.gather(1, beams).where(before_last, beams)
        rows.append((first * step.parents.shape[1] + beams).masked_fill(~active, -1))
    longest, slots = len(tokens), pool.length.shape[1]
    flat = pool.length.flatten()
    new = torch.stack(tokens[::-1], dim=-1).flatten(0, 1) if tokens else prompts.new_empty(len(flat), 0)
    return Generated(
        torch.cat([prompts.repeat_interleave(slots, dim=0), new], dim=1),
        prompts.shape[1],
        stop_reasons(pool.states.flatten(), otherwise),
        scores=pool.scores.flatten(),
        logprobs=torch.stack(logprobs[::-1], dim=-1).flatten(0, 1) if logprobs else None,
        active=torch.arange(longest, device=flat.device) < flat[:, None],
        beams=tuple(steps),
        beam_rows=torch.stack(rows[::-1], dim=-1).flatten(0, 1) if rows else None,
    )
