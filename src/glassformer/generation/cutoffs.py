"""Cutoffs of the sampling distribution by a probability: fixed (epsilon), or by the entropy of the step (eta)."""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.generation.filters import Filter


def epsilon_cutoff(epsilon: float, *, min_keep: int = 1) -> Filter:
    """Epsilon sampling: keep tokens with a probability of at least epsilon; and the `min_keep` most likely.

    Source: Hewitt et al. 2022, section 4.3.
    """
    return lambda ids, logits: _at_least(logits, torch.full_like(logits[:, :1], epsilon), min_keep)


def eta_cutoff(epsilon: float, *, min_keep: int = 1) -> Filter:
    """Eta sampling: keep tokens with a probability of at least eta; and the `min_keep` most likely.

        eta = min(epsilon, sqrt(epsilon) · exp(-entropy))

    Source: Hewitt et al. 2022, section 4.4.
    """

    def apply(ids: Tensor, logits: Tensor) -> Tensor:
        logprobs = logits.log_softmax(-1)
        entropy = -(logprobs.exp() * logprobs).nansum(-1, keepdim=True)  # 0 · -inf is nothing, not NaN
        return _at_least(logits, (epsilon**0.5 * (-entropy).exp()).clamp(max=epsilon), min_keep)

    return apply


def _at_least(logits: Tensor, probability: Tensor, min_keep: int) -> Tensor:
    """The logits of tokens with this probability [R, 1] or more, and of the `min_keep` most likely. [R, V]"""
    last = logits.topk(min(min_keep, logits.shape[-1])).values[:, -1:]
    return logits.masked_fill((logits.softmax(-1) < probability) & (logits < last), -torch.inf)
