"""What a beam search keeps: the tree of its steps, and the pool of continuations that have ended.

steps     beam 0 ── the ── cat ── sat            a continuation is read backwards: its last token,
          beam 1 ──  a  ─┘ dog ── ran            then its parent's, and so on
pool      "the dog ." −0.4, 3 tokens
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.generation.sample import Generated
from glassformer.generation.stop import Reason, reasons_of


class Step(NamedTuple):
    """One step of all beams: beam b carries on beam `parents[b]` of the step before with `tokens[b]`. [N, beams] each

    scores: the log-probability of all that was written so far, as filters and groups left it;
        -inf for a beam that has no way on.
    logprobs: of its token alone, as the model gives it.
    """

    parents: Tensor
    tokens: Tensor
    scores: Tensor
    logprobs: Tensor


class Pool(NamedTuple):
    """The best continuations that have ended, the best first; a free place has the score -inf. [N, places] each

    length: how many tokens; the last of them is `tokens`, and what stands before it is beam `parents` of that step.
    logprobs: of the last token · why: the state in which it ended, as in `stop`.
    """

    scores: Tensor
    length: Tensor
    parents: Tensor
    tokens: Tensor
    logprobs: Tensor
    why: Tensor


def best_of(pools: Sequence[Pool], places: int) -> Pool:
    """The best of several pools."""
    joined = Pool(*(torch.cat(same, dim=1) for same in zip(*pools, strict=True)))
    order = joined.scores.topk(places).indices
    return Pool(*(part.gather(1, order) for part in joined))


def told(prompts: Tensor, steps: Sequence[Step], pool: Pool, pad_id: int, otherwise: Reason) -> Generated:
    """The continuations of the pool, read backwards through the tree."""
    tokens, logprobs, at = list[Tensor](), list[Tensor](), pool.parents
    for number in range(int(pool.length.max()), 0, -1):
        step, inside = steps[number - 1], pool.length > number
        spoken = pool.length >= number
        tokens.append(step.tokens.gather(1, at).where(inside, pool.tokens).where(spoken, pad_id))
        logprobs.append(step.logprobs.gather(1, at).where(inside, pool.logprobs).masked_fill(~spoken, 0.0))
        at = step.parents.gather(1, at).where(inside, at)
    longest, places = len(tokens), pool.length.shape[1]
    flat = pool.length.flatten()
    new = torch.stack(tokens[::-1], dim=-1).flatten(0, 1) if tokens else prompts.new_empty(len(flat), 0)
    return Generated(
        torch.cat([prompts.repeat_interleave(places, dim=0), new], dim=1),
        prompts.shape[1],
        reasons_of(pool.why.flatten(), otherwise),
        scores=pool.scores.flatten(),
        logprobs=torch.stack(logprobs[::-1], dim=-1).flatten(0, 1) if logprobs else None,
        spoken=torch.arange(longest, device=flat.device) < flat[:, None],
        beams=tuple(steps),
    )
