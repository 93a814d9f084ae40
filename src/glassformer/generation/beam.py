"""Beam search: the likeliest whole continuations, of a few that are carried on side by side.

    beams           one more token each               candidates
    the cat  −1.2 ─┬─ sat  −1.9 ── ends? no ─────────> carried on
                   └─ .    −2.0 ── ends? yes ──┐
    a dog    −1.5 ─┬─ ran  −2.1 ── ends? no ───│─────> carried on
                   └─ …                        └────> pool: the best that have ended, by score / lengthᵖ

Source: Graves 2012, section 3 (search); Wu et al. 2016, section 7 (pool, length); Vijayakumar et al. 2018 (groups).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.errors import ConfigError, WeightsError
from glassformer.generation.filters import Filter
from glassformer.generation.rows import Rows
from glassformer.weights.files import shown


class Step(NamedTuple):
    """One step of all beams: beam b carries on beam `parents[b]` of the step before with `tokens[b]`. [N, beams] each

    scores: the log-probability of all that was written so far, as filters and groups left it;
        -inf for a beam that has no way on.
    """

    parents: Tensor
    tokens: Tensor
    scores: Tensor


@dataclass(frozen=True)
class Beams:
    """What a beam search found: the n best of each prompt one below the other, the best first.

    Args:
        ids: prompts and their continuations, filled behind their ends. [N · n, T]
        scores: log-probability of the new tokens / (their number)^length_penalty, the stop token counted; -inf where
            filters left fewer than n ways to go on: such a row is the prompt alone. [N · n]
        steps: the tree of beams.
    """

    ids: Tensor
    scores: Tensor
    steps: tuple[Step, ...]


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
    generator: torch.Generator | None = None,
    num_beam_groups: int = 1,
    diversity_penalty: float = 0.0,
) -> Beams:
    """The likeliest continuations of each prompt that a search of this width finds.

    The network reads each prompt once; then its row becomes `num_beams` rows, which share what does not differ.

    Args:
        rows: N prompts, nothing read yet; the search uses them up.
        num_beams: how many continuations of a prompt are carried on.
        max_new_tokens: what is carried on so far has then ended too.
        stop_ids: tokens that end a continuation.
        length_penalty: p in score = Σ log P(token) / lengthᵖ; above 0 favours long continuations.
        early_stopping: when a prompt's search is over. True: as soon as `num_beams` have ended. False: once the best
            beam, were it to end here, would be no better than the worst of those. "never": once it could not become
            better by `max_new_tokens`, for p > 0.
        num_return_sequences: the n best of each prompt.
        filters: what becomes of the log-probabilities before candidates are taken.
        generator: beam sampling: candidates are drawn without replacement, by their probability.
        num_beam_groups: groups of num_beams / num_beam_groups beams that search one after another at each step.
        diversity_penalty: λ: what a token loses for each beam of an earlier group that says it at the same step.
    Raises: ConfigError: an option out of its range, or more beams than tokens in the vocabulary.
        WeightsError: the network's numbers hold NaN.
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
    groups = [
        _Group(logits, count, width, stop_ids, length_penalty, early_stopping, max_new_tokens, generator)
        for _ in range(num_beam_groups)
    ]
    first = torch.arange(count, device=logits.device)[:, None] * num_beams  # each prompt's first row
    steps: list[Step] = []
    while True:
        steps.append(
            _step(groups, _log_probs(rows, logits, filters).unflatten(0, (count, -1)), diversity_penalty)
        )
        if len(steps) == max_new_tokens or not any(bool(group.open.any()) for group in groups):
            break
        rows.pick((first + steps[-1].parents).flatten())
        rows.append(steps[-1].tokens.flatten())
        logits = rows.logits()
    best = _best([group.pool.shifted(i * width) for i, group in enumerate(groups)], num_return_sequences)
    new = _trace(steps, best, pad_id).flatten(0, 1)
    prompts = prompts.repeat_interleave(num_return_sequences, dim=0)
    return Beams(torch.cat([prompts, new], dim=1), best.scores.flatten(), tuple(steps))


def _log_probs(rows: Rows, logits: Tensor, filters: Sequence[Filter]) -> Tensor:
    """What each row may say next, in at least fp32. [R, V]"""
    log_probs = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)
    for change in filters:
        log_probs = change(rows.seen, log_probs)
    return log_probs


def _step(groups: Sequence[_Group], log_probs: Tensor, diversity_penalty: float) -> Step:
    """Each group takes its step; what earlier groups have just said costs the later ones. log_probs: [N, beams, V]"""
    width = log_probs.shape[1] // len(groups)
    said = torch.zeros_like(log_probs[:, 0])  # [N, V]: by how many beams
    parts = []
    for i, (group, own) in enumerate(zip(groups, log_probs.split(width, dim=1), strict=True)):
        part = group.step(own - diversity_penalty * said[:, None] if i else own)
        said.scatter_add_(1, part.tokens, torch.ones_like(part.scores))
        parts.append(part._replace(parents=part.parents + i * width))
    return Step(*(torch.cat(same, dim=1) for same in zip(*parts, strict=True)))


# ---------------------------------------------------------------------------------------------------------- the pool


class _Pool(NamedTuple):
    """The best continuations that have ended, the best first; a free place has the score -inf. [N, places] each

    length: how many tokens; the last of them is `tokens`, and what stands before it is beam `parents` of that step.
    """

    scores: Tensor
    length: Tensor
    parents: Tensor
    tokens: Tensor

    def shifted(self, first: int) -> _Pool:
        """The same, with beams counted from another first."""
        return self._replace(parents=self.parents + first)


def _best(pools: Sequence[_Pool], places: int) -> _Pool:
    """The best of several pools."""
    joined = _Pool(*(torch.cat(same, dim=1) for same in zip(*pools, strict=True)))
    order = joined.scores.topk(places).indices
    return _Pool(*(part.gather(1, order) for part in joined))


def _trace(steps: Sequence[Step], pool: _Pool, pad_id: int) -> Tensor:
    """The tokens of each continuation of the pool, read backwards through the tree. [N, places, longest]"""
    columns, at = [], pool.parents
    for number in range(int(pool.length.max()), 0, -1):
        step, inside = steps[number - 1], pool.length > number
        told = step.tokens.gather(1, at).where(inside, pool.tokens)
        columns.append(told.where(pool.length >= number, pad_id))
        at = step.parents.gather(1, at).where(inside, at)
    return torch.stack([*columns[::-1]], dim=-1) if columns else at[..., None][..., :0]


# --------------------------------------------------------------------------------------------------------- the search


class _Group:
    """Beams that compete with each other: `width` of each of N prompts, and the pool of those that have ended.

    open: is the search of this prompt still on? What its beams do afterwards no longer counts. [N]
    """

    def __init__(
        self,
        like: Tensor,
        count: int,
        width: int,
        stop_ids: tuple[int, ...],
        length_penalty: float,
        early_stopping: bool | str,
        max_new_tokens: int,
        generator: torch.Generator | None,
    ) -> None:
        dtype, device = torch.promote_types(like.dtype, torch.float32), like.device
        free = torch.full((count, width), -torch.inf, dtype=dtype, device=device)
        none = torch.zeros(count, width, dtype=torch.long, device=device)
        self.pool = _Pool(free, none, none, none)
        self.open = torch.ones(count, dtype=torch.bool, device=device)
        self._scores = free.clone()
        self._scores[:, 0] = 0.0  # all beams are the prompt, which counts once
        self._stops = torch.tensor(stop_ids, dtype=torch.long, device=device)
        self._length = 0
        self._max_length = max_new_tokens
        self._length_penalty = length_penalty
        self._early_stopping = early_stopping
        self._generator = generator

    def step(self, log_probs: Tensor) -> Step:
        """One more token for each beam, given what each may say. [N, width, V]"""
        self._length += 1
        width = log_probs.shape[1]
        scores, parents, tokens = self._candidates(log_probs)
        ended = torch.isin(tokens, self._stops)
        if self._length == self._max_length:
            ended = torch.ones_like(ended)
        self._collect(scores, parents, tokens, ended)
        # So many candidates were taken that as many as there are beams have not ended.
        self._scores, order = scores.masked_fill(ended, -torch.inf).topk(width)
        self._judge()
        return Step(parents.gather(1, order), tokens.gather(1, order), self._scores)

    def _candidates(self, log_probs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The likeliest continuations, or some drawn: their scores, beams and tokens. [N, candidates] each"""
        _, width, vocabulary = log_probs.shape
        totals = (self._scores[..., None] + log_probs).flatten(1)  # [N, width · V]
        count = min(max(2, 1 + len(self._stops)) * width, width * vocabulary)
        if self._generator is None:
            scores, places = totals.topk(count)
        else:  # the first of a race of exponential clocks is drawn by its rate, and so on: without replacement
            clocks = torch.empty_like(totals).exponential_(generator=self._generator)
            places = (totals.softmax(dim=-1) / clocks).topk(count).indices
            scores = totals.gather(1, places)
        if bool(scores.isnan().any()):
            raise WeightsError(
                "the logits hold NaN, so no continuation is likelier than another; the weights are damaged, or the "
                "network overflows in this dtype: load it with dtype='float32'"
            )
        return scores, places // vocabulary, places % vocabulary

    def _collect(self, scores: Tensor, parents: Tensor, tokens: Tensor, ended: Tensor) -> None:
        """Those that have ended enter the pool, if they are among the best as many as there are beams."""
        width = self._scores.shape[1]
        scores, parents, tokens = scores[:, :width], parents[:, :width], tokens[:, :width]
        entering = ended[:, :width] & self.open[:, None]
        final = (scores / self._length**self._length_penalty).masked_fill(~entering, -torch.inf)
        # A place that stays free keeps length 0, whatever was refused it.
        length = self._length * (final > -torch.inf)
        self.pool = _best([self.pool, _Pool(final, length, parents, tokens)], width)

    def _judge(self) -> None:
        """Close the search of prompts whose pool cannot get better, as far as the stopping rule looks."""
        worst = self.pool.scores[:, -1]  # -inf while a place is free
        far = self._early_stopping == "never" and self._length_penalty > 0
        length = self._max_length if far else self._length
        self.open = self.open & (self._scores[:, 0] / length**self._length_penalty > worst)
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
