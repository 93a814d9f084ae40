"""Beam search data: steps with back-pointers, the pool of finished hypotheses, and backtracking.

steps     beam 0 ── the ── cat ── sat            a hypothesis is read backwards: its last token,
          beam 1 ──  a  ─┘ dog ── ran            then its parent's, and so on
pool      "the dog ." −0.4, 3 tokens
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.generation.decoding import Generated
from glassformer.generation.stopping import StopReason, stop_reasons


class BeamStep(NamedTuple):
    """One step of all beams: beam b extends beam `parents[b]` of the step before with `tokens[b]`. [N, beams] each

    parents: back-pointers · tokens: the new tokens
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
    logprobs: of the last token · states: stop states, as in `stopping`.
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

    otherwise: the reason of hypotheses that no stopping criterion ended
    """
    tokens, logprobs, beams = list[Tensor](), list[Tensor](), pool.parents
    for number in range(int(pool.length.max()), 0, -1):
        # Hypotheses are of different lengths: the last token of each is in the pool, all others in the steps.
        step, before_last, active = steps[number - 1], pool.length > number, pool.length >= number
        tokens.append(step.tokens.gather(1, beams).where(before_last, pool.tokens).where(active, pad_id))
        step_logprobs = step.logprobs.gather(1, beams).where(before_last, pool.logprobs)
        logprobs.append(step_logprobs.masked_fill(~active, 0.0))
        beams = step.parents.gather(1, beams).where(before_last, beams)
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
    )
