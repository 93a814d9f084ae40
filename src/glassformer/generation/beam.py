"""Beam search, beam sampling and diverse beam search.

    beams           one more token each               candidates
    the cat  −1.2 ─┬─ sat  −1.9 ── stop? no ─────────> next beams
                   └─ .    −2.0 ── stop? yes ──┐
    a dog    −1.5 ─┬─ ran  −2.1 ── stop? no ───│─────> next beams
                   └─ …                        └────> pool: the best finished hypotheses, by score / lengthᵖ

Source: Graves 2012, section 3 (search); Wu et al. 2016, section 7 (pool, length); Vijayakumar et al.
2018, algorithm 1 (groups, Hamming diversity).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from random import Random
from time import monotonic

import torch

from glassformer.errors import ConfigError
from glassformer.generation.beam_group import (
    BeamGroup,
    BeamPool,
    BeamStep,
    EndCondition,
    SearchRules,
    backtrack,
    merge_pools,
)
from glassformer.generation.decoding import Criterion, Generated, Interrupted, StopReason, all_banned_error
from glassformer.generation.detokenizer import StopStringMatcher
from glassformer.generation.filters import Filter
from glassformer.generation.options import GenerationOptions, check_combinations, check_value
from glassformer.generation.rows import Rows


@torch.inference_mode()
def beam_search(
    rows: Rows,
    *,
    num_beams: int,
    max_new_tokens: int,
    stop_ids: tuple[int, ...] = (),
    pad_id: int = 0,
    length_penalty: float = 1.0,
    early_stopping: bool | str = False,
    patience: float | None = None,
    num_return_sequences: int = 1,
    filters: Sequence[Filter] = (),
    generator: torch.Generator | Sequence[torch.Generator] | None = None,
    num_beam_groups: int = 1,
    diversity_penalty: float = 0.0,
    stop_strings: StopStringMatcher | None = None,
    criteria: Sequence[Criterion] = (),
    on_step: Callable[[Generated], None] | None = None,
    seconds: float | None = None,
) -> Generated:
    """Beam search: the most likely continuations of each prompt that a search with this many beams finds.

    Args:
        rows: N prompts; the search consumes them. Each is read once; then its row is repeated `num_beams` times.
        num_beams: number of beams of each prompt
        max_new_tokens, seconds: limits, at which running beams end too.
        stop_ids, stop_strings, criteria: tokens, texts, and custom criteria, that end a hypothesis.
        length_penalty: p in score = Σ log P(token) / lengthᵖ; above 0 favours long hypotheses.
        early_stopping: when a prompt's search is over. True: as soon as `num_beams` hypotheses have ended. False: once
            the best beam, if it ended here, would be no better than the worst of those. "never": once it could not
            become better by `max_new_tokens`, for p > 0. Instead of it, patience: when the first `num_beams · patience`
            have ended, whatever their scores (first come, first served: Kasai et al. 2022, section 3).
        num_return_sequences: return the n best of each prompt
        filters: logit filters, before candidates are taken.
        generator: beam sampling: candidates are sampled without replacement by their probability; one generator for
            all, or one for each prompt, so that its text does not depend on the other prompts.
        num_beam_groups: diverse beam search: groups of num_beams / num_beam_groups beams take turns at each step.
        diversity_penalty: λ: subtracted from a token's score for each beam of an earlier group with it at this step.
        on_step: called after each step with the best so far; what it raises ends the search.
    Returns: the n best of each prompt below one another, best first, [N · n, T]; `scores` in at least fp32:
        log-probability of the new tokens / (their number)^length_penalty, the stop token counted; -inf where filters
        left fewer than n hypotheses: such a row is the prompt alone.
    Raises: WeightsError: the logits are NaN.
        ConfigError: an option out of range, more beams than tokens in the vocabulary, or no token is allowed.
        Interrupted: by Ctrl-C; `.partial` holds the best of finished hypotheses and running beams.
    """
    _check_sizes(num_beams, num_return_sequences, num_beam_groups, max_new_tokens)
    _check_scoring(length_penalty, diversity_penalty, early_stopping)
    ends = stop_ids, stop_strings, criteria
    rules = SearchRules(length_penalty, early_stopping, max_new_tokens, *ends, generator, patience)
    search = _BeamSearch(rows, num_beams, num_beam_groups, rules, filters, diversity_penalty)
    return search.run(num_return_sequences, pad_id, seconds, on_step)


def seeded_generators(count: int, seed: int) -> list[torch.Generator]:
    """Random generators of prompts, each seeded with the seed and the prompt's index, as in `Multinomial`."""
    return [torch.Generator().manual_seed(Random(f"{seed} {row}").getrandbits(63)) for row in range(count)]


# --------------------------------------------------------------------------------------------------------- the search


class _BeamSearch:
    """A beam search: the beams of all groups, and the steps so far. It reads the prompts, and repeats each row."""

    def __init__(
        self,
        rows: Rows,
        num_beams: int,
        num_groups: int,
        rules: SearchRules,
        filters: Sequence[Filter],
        diversity_penalty: float,
    ) -> None:
        count, width = len(rows), num_beams // num_groups
        logits = rows.logits()  # [N, V]
        vocabulary = logits.shape[-1]
        if num_beams > vocabulary:
            raise ConfigError(
                f"num_beams is {num_beams}; the vocabulary has {vocabulary} tokens, and at most this many beams can "
                "differ after one; ask for fewer"
            )
        self._prompts = rows.ids
        rows.pick(torch.arange(count, device=logits.device).repeat_interleave(num_beams))
        self._logits = logits.repeat_interleave(num_beams, dim=0)  # [n · beams, V]
        self._rows = rows
        self._max_new_tokens = rules.max_new_tokens
        self._filters = filters
        self._diversity_penalty = diversity_penalty
        self._ends = EndCondition(rows, num_beams, rules)
        dtype = torch.promote_types(logits.dtype, torch.float32)
        self._groups = [
            BeamGroup(count, first, width, self._ends, rules, dtype) for first in range(0, num_beams, width)
        ]
        self._steps: list[BeamStep] = []

    def run(
        self,
        num_return_sequences: int,
        pad_id: int,
        seconds: float | None,
        on_step: Callable[[Generated], None] | None,
    ) -> Generated:
        """Search until every prompt's search is over."""

        def best(pools: Sequence[BeamPool], otherwise: StopReason) -> Generated:
            pool = merge_pools(pools, num_return_sequences)
            return backtrack(self._prompts, self._steps, pool, pad_id, otherwise)

        deadline = None if seconds is None else monotonic() + seconds
        otherwise: StopReason = "max_new_tokens"
        # Ctrl-C may come in the middle of a step: then the groups are as they were after the last complete one.
        complete = 0, [copy(group) for group in self._groups]
        try:
            while self._is_open():
                if self._steps:
                    self._extend(self._steps[-1])
                if deadline is not None and monotonic() >= deadline:
                    otherwise = "max_time"
                self._steps.append(self._step(last=otherwise == "max_time"))
                complete = len(self._steps), [copy(group) for group in self._groups]
                if on_step is not None:
                    on_step(best([group.pool for group in self._groups], otherwise))
                if otherwise == "max_time":
                    break
        except KeyboardInterrupt:
            count, groups = complete
            del self._steps[count:]
            partial = best([group.pool_if_stopped() for group in groups], "interrupted")
            raise Interrupted(partial) from None
        pools = [group.pool for group in self._groups]
        if bool(merge_pools(pools, 1).scores.isneginf().any()):
            raise all_banned_error(self._rows)
        return best(pools, otherwise)

    def _is_open(self) -> bool:
        in_time = len(self._steps) < self._max_new_tokens
        return in_time and any(bool(group.open.any()) for group in self._groups)

    def _extend(self, step: BeamStep) -> None:
        """Rows become the beams of a step; the network reads their new tokens."""
        self._rows.pick(self._ends.rows_of(step.parents).flatten())
        self._rows.append(step.tokens.flatten())
        still_open = torch.stack([group.open for group in self._groups]).any(dim=0)
        self._rows.retire(~still_open.repeat_interleave(len(self._rows) // len(still_open)))
        self._logits = self._rows.live_logits()

    def _step(self, last: bool) -> BeamStep:
        """One step of all groups; tokens of earlier groups cost the later ones the diversity penalty."""
        raw = self._logits.to(torch.promote_types(self._logits.dtype, torch.float32)).log_softmax(dim=-1)
        allowed, ids = raw, self._rows.of_live(self._rows.filter_ids)
        for logit_filter in self._filters:
            allowed = logit_filter(ids, allowed)
        count, width = len(self._groups[0].open), self._groups[0].width
        live = self._rows.live  # rows, then their prompts, whose beams are next to each other. [n]
        if live is not None:
            beams = len(self._rows) // count
            live = live[::beams] // beams
            count = len(live)
        raw, allowed = raw.unflatten(0, (count, -1)), allowed.unflatten(0, (count, -1))  # [n, beams, V]
        several = len(self._groups) > 1
        counts = torch.zeros_like(allowed[:, 0]) if several else None  # beams of earlier groups that chose each token
        parts = list[BeamStep]()
        for group, scores in zip(self._groups, allowed.split(width, dim=1), strict=True):
            if counts is not None:
                scores = scores - self._diversity_penalty * counts[:, None]
            part = group.step(raw, scores, last, live)
            if counts is not None:
                tokens = part.tokens if live is None else part.tokens[live]
                counts.scatter_add_(1, tokens, torch.ones_like(tokens, dtype=counts.dtype))
            parts.append(part)
        return BeamStep(*(torch.cat(column, dim=1) for column in zip(*parts, strict=True)))


def _check_sizes(beams: int, sequences: int, groups: int, max_new_tokens: int) -> None:
    """Raises: ConfigError: a number that `generate` would refuse, or no token to choose."""
    _check_values(num_beams=beams, num_return_sequences=sequences, num_beam_groups=groups)
    check_value("max_new_tokens", max_new_tokens, 0)
    if max_new_tokens == 0:
        raise ConfigError("max_new_tokens is 0; a search chooses at least one token")
    options = GenerationOptions(num_beams=beams, num_return_sequences=sequences, num_beam_groups=groups)
    check_combinations(options, beams)


def _check_scoring(length_penalty: float, diversity_penalty: float, early_stopping: bool | str) -> None:
    _check_values(length_penalty=length_penalty, diversity_penalty=diversity_penalty)
    _check_values(early_stopping=early_stopping)


def _check_values(**values: float | str) -> None:
    for name, value in values.items():
        check_value(name, value, 0)
