"""EnCodec's codebooks: the nearest code, by Euclidean distance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from glassformer.models._quantizer import Codebook

if TYPE_CHECKING:
    from jaxtyping import Float


class EuclideanCodebook(Codebook):
    """A codebook that chooses the code of the smallest distance to the frame itself.

    Source: Défossez et al. 2022, section 3.2.
    Differs: codes are learnt by gradients of the codebook loss; in the original by moving averages of their frames.
    """

    def similarities(self, latents: Float[Tensor, "B E T"]) -> Float[Tensor, "B T N"]:
        """The negative squared distance of each latent to each code."""
        x, codes = latents.transpose(1, 2), self.codebook.weight
        return -(x.square().sum(-1, keepdim=True) - 2 * x @ codes.T + codes.square().sum(-1))
