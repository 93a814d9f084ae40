"""Convolution next to the first block of a transformer (DeBERTa v2): n-grams of the input embeddings.

x ─┬─ attention, feed-forward ─┬─ add, norm ─ out
   └─ convolution, activation ─┘
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from glassformer.core.blocks import Block, BlockSpec
from glassformer.core.checks import Count, Probability, check_widths
from glassformer.core.feed_forward import make_activation
from glassformer.core.flow import Flow, Node
from glassformer.core.masks import Packing
from glassformer.core.norms import NormSpec, make_norm
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True, kw_only=True, slots=True)
class ConvolvedBlockSpec(BlockSpec):
    """Transformer block with a convolution of its input next to it, over `kernel` tokens in `groups` of channels."""

    kernel: Count
    norm: NormSpec
    groups: Count = 1
    activation: str = "tanh"
    dropout: Probability = 0.0

    def validate(self) -> None:
        BlockSpec.validate(self)
        width = self.attention.width
        check_widths(self, "its attention", width, "norm")
        if self.kernel % 2 == 0 or width % self.groups:
            raise ConfigError(
                f"ConvolvedBlockSpec has kernel {self.kernel} and groups {self.groups}; kernel must be odd, so that "
                f"each token has as many neighbours on either side, and groups must divide the width {width} "
                "(config.json: conv_kernel_size, conv_groups)"
            )

    def make(self) -> ConvolvedBlock:
        return ConvolvedBlock(self)


class TokenConvolution(Node):
    """Convolution over neighbouring tokens of a text; padding and other texts count as 0.

        y = activation(dropout(W ∗ x + b))

    Taps: out [B T D]
    Source: He et al. 2021, "DeBERTa", released code of version 2.
    """

    TAPS = ("out",)

    def __init__(self, spec: ConvolvedBlockSpec) -> None:
        super().__init__()
        width = spec.attention.width
        self.conv = nn.Conv1d(width, width, spec.kernel, padding=spec.kernel // 2, groups=spec.groups)
        self.dropout = nn.Dropout(spec.dropout)
        self.activation = make_activation(spec.activation)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Float[Tensor, "B T D"]:
        if flow.packing is not None:
            mixed = self._packed(x, flow.packing)
        else:
            if flow.keep is not None:
                x = x.masked_fill(~flow.keep.any(dim=1)[:, -x.shape[1] :, None], 0.0)
            mixed = self._texts(x)
        return self.tap(flow, "out", self.activation(self.dropout(mixed)))

    def _texts(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        mixed: Tensor = self.conv(x.mT)
        return mixed.mT.contiguous()

    def _packed(self, x: Float[Tensor, "1 T D"], packing: Packing) -> Float[Tensor, "1 T D"]:
        """The same of each text by itself: of texts that lie end to end, none sees its neighbour."""
        groups = [(texts, length) for _, texts, length in packing.groups()]
        parts = x[0].split([texts * length for texts, length in groups])
        mixed = [self._texts(part.unflatten(0, group)).flatten(0, 1) for part, group in zip(parts, groups, strict=True)]
        return torch.cat(mixed)[None]


class ConvolvedBlock(Block):
    """Transformer block with a convolution of its input next to it.

        out = norm(block(x) + convolution(x))

    Taps: as for `Block`; `out` is after the norm.
    Source: He et al. 2021, "DeBERTa", released code of version 2: in the first block of its largest models.
    """

    def __init__(self, spec: ConvolvedBlockSpec) -> None:
        super().__init__(spec)
        self.convolution = TokenConvolution(spec)
        self.norm = make_norm(spec.norm)

    def sublayers(self, x: Float[Tensor, "B T D"], flow: Flow) -> Float[Tensor, "B T D"]:
        normed: Tensor = self.norm(super().sublayers(x, flow) + self.convolution(x, flow))
        return normed
