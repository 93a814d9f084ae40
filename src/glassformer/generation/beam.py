"""Beam search: the likeliest whole continuations, of a few that are carried on side by side.

    beams           one more token each               candidates
    the cat  −1.2 ─┬─ sat  −1.9 ── ends? no ─────────> carried on
                   └─ .    −2.0 ── ends? yes ──┐
    a dog    −1.5 ─┬─ ran  −2.1 ── ends? no ───│─────> carried on
                   └─ …                        └────> pool: the best that have ended, by score / lengthᵖ

Source: Graves 2012, section 3 (search); Wu et al. 2016, section 7 (pool, length); Vijayakumar et al. 2018 (groups).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from math import isfinite
from random import Random
from time import monotonic

import torch
from torch import Tensor

from glassformer.errors import ConfigError
from glassformer.files import shown
from glassformer.generation.filters import Filter
from glassformer.generation.pool import Pool, Step, best_of, told
from glassformer.generation.rows import Rows
from glassformer.generation.said import Said
from glassformer.generation.sample import Generated, Interrupted, none_allowed, not_numbers
from glassformer.generation.stop import END_TOKEN, RUNNING, STOP_STRING, Reason, Watch


@torch.inference_mode()
def beams(
    rows: Rows,
    *,
    num_beams: int,
    max_new_tokens: int,
    stop_ids: tuple[int, ...] = (),
    pad_id: int = 0,
    length_penalty: float = 1.0,
    early_stopping: bool | str = False,
    num_return_sequences: int = 1,
    filters: Sequence[Filter] = (),
    generator: torch.Generator | Sequence[torch.Generator] | None = None,
    num_beam_groups: int = 1,
    diversity_penalty: float = 0.0,
    watch: Watch | None = None,
    on_step: Callable[[Generated], None] | None = None,
    seconds: float | None = None,
) -> Generated:
    """The likeliest continuations of each prompt that a search of this width finds.

    The network reads each prompt once; then its row becomes `num_beams` rows, which share what does not differ.

    Args:
        rows: N prompts, nothing read yet; the search uses them up.
        num_beams: how many continuations of a prompt are carried on.
        max_new_tokens, seconds: what is carried on so far, or so long, has then ended too.
        stop_ids, watch: tokens, and texts, that end a continuation.
        length_penalty: p in score = Σ log P(token) / lengthᵖ; above 0 favours long continuations.
        early_stopping: when a prompt's search is over. True: as soon as `num_beams` have ended. False: once the best
            beam, were it to end here, would be no better than the worst of those. "never": once it could not become
            better by `max_new_tokens`, for p > 0.
        num_return_sequences: the n best of each prompt.
        filters: what becomes of the log-probabilities before candidates are taken.
        generator: beam sampling: candidates are drawn without replacement, by their probability; one generator for
            all, or one for each prompt, so that what it becomes does not depend on the others.
        num_beam_groups: groups of num_beams / num_beam_groups beams that search one after another at each step.
        diversity_penalty: λ: what a token loses for each beam of an earlier group that says it at the same step.
        on_step: sees after each step what was found so far; what it raises ends the search.
    Returns: the n best of each prompt one below the other, the best first, [N · n, T]; `scores` in at least fp32:
        log-probability of the new tokens / (their number)^length_penalty, the stop token counted; -inf where filters
        left fewer than n ways to go on: such a row is the prompt alone.
    Raises: ConfigError: an option out of its range, more beams than tokens in the vocabulary, or no way to go on.
        WeightsError: the network's numbers hold NaN.
        Interrupted: by Ctrl-C; `.partial` is the best so far, of what has ended and what was carried on.
    Source: Wu et al. 2016, section 7; groups: Vijayakumar et al. 2018, algorithm 1, Hamming diversity.
    """
    _check_sizes(num_beams, max_new_tokens, num_return_sequences, num_beam_groups)
    _check_choices(length_penalty, early_stopping, diversity_penalty)
    prompts, count = rows.ids, len(rows)
    logits = rows.logits()  # [N, V]
    vocabulary = logits.shape[-1]
    if num_beams > vocabulary:
        raise ConfigError(
            f"num_beams is {num_beams}; the vocabulary has {vocabulary} tokens, and at most so many beams can differ "
            "after one; ask for fewer"
        )
    rows.pick(torch.arange(count, device=logits.device).repeat_interleave(num_beams))
    logits = logits.repeat_interleave(num_beams, dim=0)  # [N · beams, V]
    width = num_beams // num_beam_groups
    ends = _Ends(rows, num_beams, stop_ids, watch)
    groups = [
        _Group(logits, count, first, width, ends, length_penalty, early_stopping, max_new_tokens, generator)
        for first in range(0, num_beams, width)
    ]
    until = None if seconds is None else monotonic() + seconds
    otherwise: Reason = "max_new_tokens"
    steps: list[Step] = []
    whole = 0, [copy(group) for group in groups]  # as all were after so many whole steps
    try:
        while groups[0].length < max_new_tokens and any(bool(group.open.any()) for group in groups):
            if steps:
                rows.pick(ends.places(steps[-1].parents).flatten())
                rows.append(steps[-1].tokens.flatten())
                logits = rows.logits()
            if until is not None and monotonic() >= until:
                otherwise = "max_time"
            steps.append(_step(groups, rows, logits, filters, diversity_penalty, otherwise == "max_time"))
            whole = len(steps), [copy(group) for group in groups]
            if on_step is not None:
                on_step(
                    told(
                        prompts,
                        steps,
                        best_of([group.pool for group in groups], num_return_sequences),
                        pad_id,
                        otherwise,
                    )
                )
            if otherwise == "max_time":
                break
    except KeyboardInterrupt:
        done, groups = whole
        best = best_of([group.if_it_ended() for group in groups], num_return_sequences)
        raise Interrupted(told(prompts, steps[:done], best, pad_id, "interrupted")) from None
    best = best_of([group.pool for group in groups], num_return_sequences)
    if bool(best.scores[:, 0].isneginf().any()):
        raise none_allowed(rows)
    return told(prompts, steps, best, pad_id, otherwise)


def generators(count: int, seed: int) -> list[torch.Generator]:
    """One for each of so many prompts, from the seed and its number, as `sample.Draw` has them."""
    return [torch.Generator().manual_seed(Random(f"{seed} {row}").getrandbits(63)) for row in range(count)]


def _step(
    groups: Sequence[_Group],
    rows: Rows,
    logits: Tensor,
    filters: Sequence[Filter],
    penalty: float,
    last: bool,
) -> Step:
    """Each group takes its step; what earlier groups have just said costs the later ones. logits: [N · beams, V]"""
    raw = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)
    allowed = raw
    for change in filters:
        allowed = change(rows.seen, allowed)
    count, width = len(groups[0].open), groups[0].width
    raw, allowed = raw.unflatten(0, (count, -1)), allowed.unflatten(0, (count, -1))  # [N, beams, V]
    said = torch.zeros_like(allowed[:, 0])  # [N, V]: by how many beams
    parts = list[Step]()
    for group, own in zip(groups, allowed.split(width, dim=1), strict=True):
        part = group.step(raw, own - penalty * said[:, None] if parts else own, last)
        said.scatter_add_(1, part.tokens, torch.ones_like(part.scores))
        parts.append(part)
    return Step(*(torch.cat(same, dim=1) for same in zip(*parts, strict=True)))


# --------------------------------------------------------------------------------------------------------- the search


class _Ends:
    """Which candidates have ended, and where beams stand among the rows."""

    def __init__(self, rows: Rows, beams: int, stop_ids: Sequence[int], watch: Watch | None) -> None:
        device = rows.ids.device
        self.rows = rows
        self._first = torch.arange(0, len(rows), beams, device=device)[:, None]  # each prompt's first row
        self._stops = torch.tensor(stop_ids, dtype=torch.long, device=device)
        self._texts = None if watch is None else Said(watch, Watch.after, begun=rows.ids.shape[1])

    @property
    def ways(self) -> int:
        """In how many tokens a continuation can end."""
        return len(self._stops)

    def places(self, beams: Tensor) -> Tensor:
        """The rows of these beams. [N, …]"""
        return self._first + beams

    def __call__(self, parents: Tensor, tokens: Tensor) -> Tensor:
        """The states of beams that have said one more token. [N, candidates]"""
        states = torch.full_like(tokens, RUNNING)
        if self._texts is not None:
            said = self.rows.ids[self.places(parents).flatten()]
            texts = self._texts(torch.cat([said, tokens.flatten()[:, None]], dim=1))
            met = torch.tensor([text.met for text in texts], device=tokens.device).view_as(tokens)
            states = states.masked_fill(met, STOP_STRING)
        return states.masked_fill(torch.isin(tokens, self._stops), END_TOKEN)


class _Group:
    """Beams that compete with each other, `width` of each of N prompts, and the pool of those that have ended.

    first: which of all beams is the first of them · length: how many tokens they have said
    open: is the search of this prompt still on? What its beams do afterwards no longer counts. [N]
    """

    def __init__(
        self,
        like: Tensor,
        count: int,
        first: int,
        width: int,
        ends: _Ends,
        length_penalty: float,
        early_stopping: bool | str,
        max_new_tokens: int,
        generator: torch.Generator | Sequence[torch.Generator] | None,
    ) -> None:
        dtype, device = torch.promote_types(like.dtype, torch.float32), like.device
        free = torch.full((count, width), -torch.inf, dtype=dtype, device=device)
        none = torch.zeros(count, width, dtype=torch.long, device=device)
        self.pool = Pool(free, none, none, none, free, none)
        self.open = torch.ones(count, dtype=torch.bool, device=device)
        self.first = first
        self.width = width
        self.length = 0
        alike = free.index_fill(1, none[0, :1], 0.0)  # all beams are the prompt, which counts once
        self._running = Step(none, none, alike, free)
        self._ends = ends
        self._max_length = max_new_tokens
        self._length_penalty = length_penalty
        self._early_stopping = early_stopping
        self._generator = generator

    def step(self, raw: Tensor, log_probs: Tensor, last: bool) -> Step:
        """One more token for each beam, given what each may say.

        Args:
            raw: as the model has it, for all groups. [N, beams, V] · log_probs: for this one. [N, width, V]
            last: what is carried on has ended with it.
        """
        scores, parents, tokens = self._candidates(log_probs)
        logprobs = raw.flatten(1).gather(1, parents * raw.shape[-1] + tokens)
        why = self._ends(parents, tokens)
        self.length += 1
        ended = (why != RUNNING) | (last or self.length == self._max_length)
        self._collect(Step(parents, tokens, scores, logprobs), why, ended)
        # So many candidates were taken that as many as there are beams can go on, unless stop strings ended them.
        kept, order = scores.masked_fill(why != RUNNING, -torch.inf).topk(self.width)
        if last or self.length == self._max_length:
            kept = torch.full_like(kept, -torch.inf)  # nothing goes on
        self._running = Step(
            parents.gather(1, order), tokens.gather(1, order), kept, logprobs.gather(1, order)
        )
        self._judge()
        return self._running

    def if_it_ended(self) -> Pool:
        """The pool, had all that is carried on ended here."""
        running = self._running
        final = self._final(running.scores).masked_fill(~self.open[:, None], -torch.inf)
        return self._joined(final, running, torch.full_like(running.tokens, RUNNING))

    def _candidates(self, log_probs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The likeliest continuations, or some drawn: their scores, beams and tokens. [N, candidates] each"""
        vocabulary = log_probs.shape[-1]
        totals = (self._running.scores[..., None] + log_probs).flatten(1)  # [N, width · V]
        count = min(max(2, 1 + self._ends.ways) * self.width, self.width * vocabulary)
        if self._generator is None:
            scores, places = totals.topk(count)
        else:  # the first of a race of exponential clocks is drawn by its rate, and so on: without replacement
            places = (totals.softmax(dim=-1) / self._clocks(totals)).topk(count).indices
            scores = totals.gather(1, places)
        if bool(scores.isnan().any()):
            raise not_numbers(self._ends.rows)
        return scores, self.first + places // vocabulary, places % vocabulary

    def _clocks(self, like: Tensor) -> Tensor:
        """On the CPU, so that what is drawn does not depend on the device."""
        each, generator = torch.empty(like.shape, dtype=like.dtype), self._generator
        if isinstance(generator, torch.Generator):
            return each.exponential_(generator=generator).to(like.device)
        for row, own in zip(each, generator or (), strict=True):
            row.exponential_(generator=own)
        return each.to(like.device)

    def _collect(self, candidates: Step, why: Tensor, ended: Tensor) -> None:
        """Those that have ended enter the pool, if they are among the best as many as there are beams."""
        best = Step(*(part[:, : self.width] for part in candidates))
        entering = ended[:, : self.width] & self.open[:, None]
        final = self._final(best.scores).masked_fill(~entering, -torch.inf)
        self.pool = self._joined(final, best, why[:, : self.width])

    def _joined(self, final: Tensor, ended: Step, why: Tensor) -> Pool:
        """The best of the pool and of those that end here, with these final scores."""
        # A place that stays free keeps length 0, whatever was refused it.
        length = self.length * (final > -torch.inf)
        ending = Pool(final, length, ended.parents, ended.tokens, ended.logprobs, why)
        return best_of([self.pool, ending], self.width)

    def _final(self, scores: Tensor, length: int | None = None) -> Tensor:
        """score / lengthᵖ, for the length that beams have, or another."""
        final: Tensor = scores / max(1, length or self.length) ** self._length_penalty
        return final

    def _judge(self) -> None:
        """Close the search of prompts whose pool cannot get better, as far as the stopping rule looks."""
        worst = self.pool.scores[:, -1]  # -inf while a place is free
        far = self._early_stopping == "never" and self._length_penalty > 0
        hoped = self._final(self._running.scores[:, 0], self._max_length if far else None)
        self.open = self.open & (hoped > worst)
        if self._early_stopping is True:
            self.open = self.open & worst.isneginf()


# ---------------------------------------------------------------------------------------------------- what is asked


def _check_sizes(
    num_beams: int, max_new_tokens: int, num_return_sequences: int, num_beam_groups: int
) -> None:
    asked = {
        "num_beams": num_beams,
        "max_new_tokens": max_new_tokens,
        "num_return_sequences": num_return_sequences,
        "num_beam_groups": num_beam_groups,
    }
    for name, value in asked.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigError(f"{name} is {shown(value)}; it must be a whole number from 1 up")
    if num_return_sequences > num_beams:
        raise ConfigError(
            f"num_return_sequences is {num_return_sequences}, num_beams {num_beams}; a search finds at most as many as "
            "it has beams; ask for fewer, or give it more beams"
        )
    if num_beams % num_beam_groups:
        raise ConfigError(
            f"num_beam_groups is {num_beam_groups}, num_beams {num_beams}; groups are equally large, so num_beams must "
            "be a multiple of num_beam_groups"
        )


def _check_choices(length_penalty: float, early_stopping: bool | str, diversity_penalty: float) -> None:
    for name, value in {"length_penalty": length_penalty, "diversity_penalty": diversity_penalty}.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise ConfigError(f"{name} is {shown(value)}; it must be a finite number, 0 for none")
    if diversity_penalty < 0:
        raise ConfigError(f"diversity_penalty is {diversity_penalty}; it must be 0 or more")
    if not isinstance(early_stopping, bool) and early_stopping != "never":
        raise ConfigError(f"early_stopping is {shown(early_stopping)}; it must be True, False or 'never'")
