"""Relative position bias: a number for each head and distance between query and key, added to attention scores.

The stack owns it, computes it once per call, and the attention layers of all its blocks share it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn

from glassformer.core.checks import Count, Spec
from glassformer.core.flow import Node
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from jaxtyping import Float, Int


@dataclass(frozen=True, kw_only=True, slots=True)
class PositionBiasSpec(Spec):
    """Position bias of the scores, whose parameters the attention layers of a stack share."""

    heads: Count

    def make(self) -> PositionBias:
        """The module that this spec describes."""
        raise NotImplementedError(f"{type(self).__name__} does not implement make()")


@dataclass(frozen=True, kw_only=True, slots=True)
class BucketedBiasSpec(PositionBiasSpec):
    """Relative position bias (T5): a learned number for each head and each bucket of the distance key - query."""

    buckets: Count = 32
    max_distance: Count = 128
    bidirectional: bool = True

    def validate(self) -> None:
        near = self.buckets // (4 if self.bidirectional else 2)  # distances with a bucket of their own
        if near < 1 or self.max_distance <= near:
            raise ConfigError(
                f"BucketedBiasSpec has {self.buckets} buckets and max_distance {self.max_distance}; it needs at least "
                f"{4 if self.bidirectional else 2} buckets, and a max_distance above {near}"
            )

    def make(self) -> BucketedBias:
        return BucketedBias(self)


class PositionBias(Node):
    """Position bias of the scores: the base class of those whose parameters all blocks of a stack share.

    The stack owns it and calls it once; `Attention.score_bias` makes each layer's bias of what it gives.
    KIND: what it is, in a few words
    BY_DISTANCE: a bias depends on the distance key - query alone
    """

    KIND: ClassVar[str] = ""
    BY_DISTANCE: ClassVar[bool] = True

    def forward(self, T: int, S: int, device: torch.device) -> Tensor:
        """What the layers need for T queries that end where S keys end: `Flow.bias`."""
        raise NotImplementedError(f"{type(self).__name__} does not implement forward(T, S, device)")

    def head_rows(
        self, attention: nn.Module, head: int, q: Float[Tensor, "R E"], k: Float[Tensor, "S E"], at: Tensor
    ) -> Float[Tensor, "R S"]:
        """The bias of one head of a layer, for queries q at the positions `at` among the keys k."""
        raise NotImplementedError(f"{type(self).__name__} does not implement head_rows(…)")


class BucketedBias(PositionBias):
    """Relative position bias (T5): a learned number for each head and each bucket of distances, added to the scores.

        distance   0 1 2 … | 8-11 | 12-15 | … | ≥ max_distance       near: a bucket each; far: growing on a log scale

    All blocks of a stack share it; the stack owns it.
    Source: Raffel et al. 2020, section 2.1; the formula is described in their released code.
    """

    KIND = "bucketed bias"

    def __init__(self, spec: BucketedBiasSpec) -> None:
        super().__init__()
        self.spec = spec
        self.table = nn.Embedding(spec.buckets, spec.heads)

    def buckets(self, distance: Int[Tensor, "T S"]) -> Int[Tensor, "T S"]:
        """The bucket of each distance key - query."""
        spec = self.spec
        count = spec.buckets
        bucket = torch.zeros_like(distance)
        if spec.bidirectional:  # half of the buckets for keys that come later
            count //= 2
            bucket = (distance > 0) * count
            distance = distance.abs()
        else:
            distance = (-distance).clamp(min=0)
        near = count // 2
        ratio = (distance.clamp(min=1).float() / near).log() / math.log(spec.max_distance / near)
        far = (near + (ratio * (count - near)).long()).clamp(max=count - 1)
        return bucket + torch.where(distance < near, distance, far)

    def forward(self, T: int, S: int, device: torch.device) -> Float[Tensor, "1 H T S"]:
        return self.rows(torch.arange(S - T, S, device=device), S)

    def rows(self, query_positions: Int[Tensor, R], S: int) -> Float[Tensor, "1 H R S"]:
        """The bias for queries at these positions among S keys."""
        distance = torch.arange(S, device=query_positions.device)[None, :] - query_positions[:, None]
        bias: Tensor = self.table(self.buckets(distance))  # [R, S, H]
        return bias.permute(2, 0, 1)[None]

    def head_rows(
        self, attention: nn.Module, head: int, q: Float[Tensor, "R E"], k: Float[Tensor, "S E"], at: Tensor
    ) -> Float[Tensor, "R S"]:
        return self.rows(at, k.shape[0])[0, head]
