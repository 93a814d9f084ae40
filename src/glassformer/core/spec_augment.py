"""SpecAugment: time and channel masking of audio frames in training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from glassformer.core.checks import Count, NonNegativeInt, Probability, Spec

if TYPE_CHECKING:
    from jaxtyping import Bool, Float


@dataclass(frozen=True, kw_only=True, slots=True)
class SpansSpec(Spec):
    """Random masking spans of `length`, as many as cover a `share` of all if none overlap, and at least `minimum`."""

    share: Probability
    length: Count
    minimum: NonNegativeInt = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class SpecAugmentSpec(Spec):
    """SpecAugment of `width` channels: masking spans of time and of channels; None = no masking."""

    width: Count
    time: SpansSpec | None = None
    channels: SpansSpec | None = None


class SpecAugment(nn.Module):
    """SpecAugment: in training, replace spans of time by a learned vector, and spans of channels by 0.

        time       a a ▒ ▒ ▒ a a a ▒ ▒ ▒ a          channels     a a a a
                   b b ▒ ▒ ▒ b b b ▒ ▒ ▒ b                       0 0 0 0
                   c c ▒ ▒ ▒ c c c ▒ ▒ ▒ c                       c c c c

    Spans of time lie within the sound, not in its padding. In evaluation nothing is masked.

    Args:
        x: frames. [B, T, D]
        keep: False where frames are padding. [B, 1, T]; None = nowhere
    Source: Park et al. 2019, section 2; the learned vector, and hiding after the first layers: Baevski et al. 2020,
        section 3.1 and appendix B.
    """

    def __init__(self, spec: SpecAugmentSpec) -> None:
        super().__init__()
        self.spec = spec
        self.vector = nn.Parameter(torch.zeros(spec.width))

    def forward(self, x: Float[Tensor, "B T D"], keep: Bool[Tensor, "B 1 T"] | None = None) -> Float[Tensor, "B T D"]:
        if not self.training:
            return x
        B, T, D = x.shape
        if self.spec.time is not None:
            lengths = [T] * B if keep is None else keep[:, 0].sum(-1).tolist()
            masked = random_spans(lengths, T, self.spec.time).to(x.device)  # [B, T]
            x = torch.where(masked[..., None], self.vector, x)
        if self.spec.channels is not None:
            masked = random_spans([D] * B, D, self.spec.channels).to(x.device)  # [B, D]
            x = x.masked_fill(masked[:, None], 0.0)
        return x


def random_spans(lengths: list[int], size: int, spec: SpansSpec) -> Bool[Tensor, "B size"]:
    """Random masking spans within the first `length` positions of each row. They may overlap; none begins twice.

    Their number: share · length / span length, rounded up or down at random so that its mean is that; at least
    `minimum`, and no more than fit beside each other in `size` positions.
    """
    masked = torch.zeros(len(lengths), size, dtype=torch.bool)
    rounding = float(torch.rand(()))
    for row, length in zip(masked, lengths, strict=True):
        candidates = max(length - spec.length + 1, 0)
        count = max(int(spec.share * length / spec.length + rounding), spec.minimum)
        starts = torch.randperm(candidates)[: min(count, size // spec.length)]
        row[(starts[:, None] + torch.arange(spec.length)).flatten()] = True
    return masked
