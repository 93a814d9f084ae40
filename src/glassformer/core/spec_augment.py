"""What training hides of a sound, so that a network learns to do without any one part of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from glassformer.core.specs import SpansSpec, SpecAugmentSpec

if TYPE_CHECKING:
    from jaxtyping import Bool, Float


class SpecAugment(nn.Module):
    """In training, put a learned vector in place of stretches of time, and 0 in place of stretches of channels.

        time       a a ▒ ▒ ▒ a a a ▒ ▒ ▒ a          channels     a a a a
                   b b ▒ ▒ ▒ b b b ▒ ▒ ▒ b                       0 0 0 0
                   c c ▒ ▒ ▒ c c c ▒ ▒ ▒ c                       c c c c

    Stretches of time lie within the sound, not in its padding. In eval mode nothing is hidden.

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

    def forward(
        self, x: Float[Tensor, "B T D"], keep: Bool[Tensor, "B 1 T"] | None = None
    ) -> Float[Tensor, "B T D"]:
        if not self.training:
            return x
        B, T, D = x.shape
        if self.spec.time is not None:
            lengths = [T] * B if keep is None else keep[:, 0].sum(-1).tolist()
            hidden = drawn_spans(lengths, T, self.spec.time).to(x.device)  # [B, T]
            x = torch.where(hidden[..., None], self.vector, x)
        if self.spec.channels is not None:
            hidden = drawn_spans([D] * B, D, self.spec.channels).to(x.device)  # [B, D]
            x = x.masked_fill(hidden[:, None], 0.0)
        return x


def drawn_spans(lengths: list[int], places: int, spec: SpansSpec) -> Bool[Tensor, "B places"]:
    """Stretches within the first `length` of `places`, for each of `lengths`. They may overlap, and none begins twice.

    How many: share · length / length of a stretch, rounded up or down by lot so that its mean is that; at least
    `least`, and no more than there is room for one beside another in all places.
    """
    hidden = torch.zeros(len(lengths), places, dtype=torch.bool)
    rounding = float(torch.rand(()))
    for row, length in zip(hidden, lengths, strict=True):
        begins = max(length - spec.length + 1, 0)
        count = max(int(spec.share * length / spec.length + rounding), spec.least)
        starts = torch.randperm(begins)[: min(count, places // spec.length)]
        row[(starts[:, None] + torch.arange(spec.length)).flatten()] = True
    return hidden
