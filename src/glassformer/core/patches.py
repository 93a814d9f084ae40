"""Patch embedding (ViT): an image as a sequence of patch tokens, after a [CLS] token.

picture ─ cut into patches ─ project ─ summary before them ─ + positions ─ norm ─ stream
          r0 c0  r0 c1                 [CLS]  r0 c0  r0 c1  r1 c0  r1 c1
          r1 c0  r1 c1
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from glassformer.core.checks import Count, Probability, Spec, check_widths
from glassformer.core.embeddings import LearnedPositions, LearnedPositionsSpec
from glassformer.core.flow import Flow, Node
from glassformer.core.norms import NormSpec, make_norm
from glassformer.errors import ConfigError, DataError

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True, kw_only=True, slots=True)
class PatchesSpec(Spec):
    """Patch embedding: an image as a [CLS] token and a token for each patch.

    image, patch: (height, width) in pixels; a remainder on the right and below is not read
    channels: numbers a pixel
    width: D
    bias: of the projection
    norm, dropout: of the summed embeddings
    """

    image: tuple[int, int]
    patch: tuple[int, int]
    channels: Count
    width: Count
    bias: bool = True
    norm: NormSpec | None = None
    dropout: Probability = 0.0

    def validate(self) -> None:
        if not all(1 <= patch <= image for image, patch in zip(self.image, self.patch, strict=True)):
            raise ConfigError(
                f"PatchesSpec.patch is {self.patch}, the image {self.image}; there must be at least one patch "
                "(config.json: patch_size, image_size)"
            )
        check_widths(self, "the tokens", self.width, "norm")

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return self.image[0] // self.patch[0], self.image[1] // self.patch[1]

    @property
    def tokens(self) -> int:
        """Number of tokens of an image: its patches, and [CLS]."""
        return 1 + self.grid[0] * self.grid[1]


class Patches(Node):
    """Patch embedding: cut an image into patches, project each to a token, add positions.

        x = dropout(norm([summary; W patch₁ + b; …; W patch_P + b] + positions))

    The projection of flattened patches is a convolution whose stride is its kernel size.

    Args:
        pixels: pictures of the size that the positions were learned for, normalised. [B, channels, height, width]
    Returns: the stream of tokens; the first of them is the summary, at first the same for all pictures. [B, 1 + P, D]
    Raises: DataError: pictures of another size.
    Taps: out [B T D], T = 1 + P
    Source: Dosovitskiy et al. 2021, section 3.1; the norm: Radford et al. 2021 (CLIP), section 2.4.
    Differs: the reference library stretches the positions to pictures of other sizes where it is asked to; here it is
    the pictures that are resized.
    """

    TAPS = ("out",)

    KIND = "learned"

    def __init__(self, spec: PatchesSpec) -> None:
        super().__init__()
        self.spec = spec
        self.projection = nn.Conv2d(spec.channels, spec.width, spec.patch, stride=spec.patch, bias=spec.bias)
        self.summary = nn.Parameter(torch.zeros(spec.width))
        self.positions = LearnedPositions(LearnedPositionsSpec(count=spec.tokens), spec.width)
        self.norm = make_norm(spec.norm)
        self.dropout = nn.Dropout(spec.dropout)

    def forward(self, pixels: Float[Tensor, "B C height width"], flow: Flow) -> Float[Tensor, "B T D"]:
        self._check(pixels)
        patches = self.projection(pixels.to(self.projection.weight.dtype)).flatten(2).mT  # [B, P, D]
        summary = self.summary.expand(pixels.shape[0], 1, -1)
        x = torch.cat([summary, patches], dim=1) + self.positions.weight
        return self.tap(flow, "out", self.dropout(self.norm(x)))

    def token_labels(self) -> list[str]:
        """Labels of the tokens: a patch by its row and column, from 0."""
        rows, columns = self.spec.grid
        return ["[CLS]", *(f"r{row} c{column}" for row in range(rows) for column in range(columns))]

    def _check(self, pixels: Tensor) -> None:
        expected = (self.spec.channels, *self.spec.image)
        if tuple(pixels.shape[1:]) != expected:
            raise DataError(
                f"pixel_values have shape {list(pixels.shape)}; this model reads {['B', *expected]} "
                "(config.json: num_channels, image_size); model.processor(pictures) makes them"
            )
