"""DAC's codebooks: codes are factorised and compared by cosine, so that few of them die.

Factorised: they are compared in a few dimensions, which a projection makes of a frame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.models._quantizer import Codebook, QuantizerSpec

if TYPE_CHECKING:
    from jaxtyping import Float


class CosineCodebook(Codebook):
    """A codebook that chooses the code of the smallest angle to a projection of the frame.

    Source: Kumar et al. 2023, section 3.2; Yu et al. 2022 (ViT-VQGAN), section 3.2.
    """

    def __init__(self, spec: QuantizerSpec) -> None:
        super().__init__(spec, nn.Conv1d(spec.width, spec.code_width, 1), nn.Conv1d(spec.code_width, spec.width, 1))

    def similarities(self, latents: Float[Tensor, "B E T"]) -> Float[Tensor, "B T N"]:
        """The cosine of each latent with each code."""
        return F.normalize(latents.transpose(1, 2), dim=-1) @ self.positions().T

    def positions(self) -> Float[Tensor, "N E"]:
        return F.normalize(self.codebook.weight)
