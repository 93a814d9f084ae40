"""Weight normalisation, a way to train: a weight as a length and a direction for each of its rows, folded into one.

Source: Salimans and Kingma 2016, "Weight normalization", equation 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.weights.names import Same, Shape

GAIN, DIRECTION = "original0", "original1"
"""How torch names the two, below the name of the weight; older files have `weight_g` and `weight_v` next to it."""


def fold(gain: Tensor, direction: Tensor) -> Tensor:
    """W = gain · direction / |direction|, with a length for each row; in fp32 at least."""
    wide = torch.promote_types(direction.dtype, torch.float32)
    # By torch's own kernel, as in a layer that is normalised there: bit by bit the same weight.
    return torch._weight_norm(direction.to(wide), gain.reshape(-1, *[1] * (direction.dim() - 1)).to(wide), 0)


@dataclass(frozen=True)
class WeightNormed(Same):
    """A weight that the checkpoint stores as lengths and directions of its rows; ours is folded.

    It is saved as its own direction, with its lengths: the same weight, and again when it is loaded.
    """

    @property
    def stems(self) -> tuple[str, ...]:
        return (f"{self.theirs}.{GAIN}", f"{self.theirs}.{DIRECTION}")

    def shapes(self, ours: Shape) -> list[Shape]:
        return [(ours[0], *[1] * (len(ours) - 1)), ours]

    def read(self, tensors: list[Tensor]) -> Tensor:  # type: ignore[override]
        return fold(tensors[0], tensors[1])

    def write(self, ours: Tensor) -> list[Tensor]:
        wide = ours.to(torch.promote_types(ours.dtype, torch.float32))
        ones = wide.new_ones(ours.shape[0], *[1] * (ours.dim() - 1))
        lengths = torch._weight_norm_interface(wide.contiguous(), ones, 0)[1].reshape(ones.shape)
        # Lengths are in fp32 at least: rounded, they would not be those of the directions. A row of zeros has any
        # direction, but one that is 0 would be divided by its length.
        return [lengths, torch.where(lengths == 0, 1.0, wide).to(ours.dtype)]
