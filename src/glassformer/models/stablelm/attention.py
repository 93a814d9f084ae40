"""Query-key normalization per head: each head of q and of k has a layer norm with weights of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from glassformer.core.attention import Attention, AttentionSpec
from glassformer.core.norms import LayerNorm, LayerNormSpec

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadNormAttentionSpec(AttentionSpec):
    """Self-attention with a layer norm for each head of q and k; `qk_norm` is E wide."""

    def make(self) -> HeadNormAttention:
        return HeadNormAttention(self)


class HeadNormAttention(Attention):
    """Multi-head self-attention with norms of q and k whose weights differ from head to head.

        q_h = norm_h(x W_q,h),   k_h = norm'_h(x W_k,h)

    Source: Bellagente et al. 2024, "Stable LM 2 1.6B", and the released code of the 12B model.
    Differs: in the core, all heads share the weights of a norm.
    """

    def __init__(self, spec: HeadNormAttentionSpec) -> None:
        super().__init__(spec)
        if isinstance(spec.qk_norm, LayerNormSpec):
            self.q_norm, self.k_norm = HeadNorms(spec.qk_norm, spec.heads), HeadNorms(spec.qk_norm, spec.K)


class HeadNorms(nn.ModuleList):
    """Layer norms of the heads, computed at once."""

    def __init__(self, spec: LayerNormSpec, heads: int) -> None:
        super().__init__(LayerNorm(spec) for _ in range(heads))
        self.eps = spec.eps

    def forward(self, x: Float[Tensor, "B N T E"]) -> Float[Tensor, "B N T E"]:
        weight = torch.stack([norm.weight for norm in self])  # type: ignore[misc]
        return nn.functional.layer_norm(x, weight.shape[1:], eps=self.eps) * weight[:, None]
