"""Position encodings: learned, sinusoidal, and relative position bias.

    learned       a vector for each position, added to the embedding
    sinusoidal    fixed sine and cosine waves, added to the embedding
    bucketed      a learned bias on the scores for each distance

Rotary position embeddings, which turn q and k, are in `rotary`. Sines and cosines are not stored: they are computed for
the positions of a call, in at least fp32 whatever the network's dtype.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn

from glassformer.core.checks import Count, NonNegativeInt, Positive, Spec
from glassformer.core.flow import Node
from glassformer.core.rotary import wave_frequencies
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from jaxtyping import Float, Int


@dataclass(frozen=True, kw_only=True, slots=True)
class LearnedPositionsSpec(Spec):
    """Learned position embeddings: a table of `count` vectors; position p reads row p + `offset`.

    padding: the token id that takes no position and reads the row before the first, which is not trained; None = every
        token takes one
    """

    count: Count
    offset: NonNegativeInt = 0
    padding: NonNegativeInt | None = None

    def make(self, width: int) -> LearnedPositions:
        """The module that this spec describes."""
        return LearnedPositions(self, width)


@dataclass(frozen=True, kw_only=True, slots=True)
class SinusoidalSpec(Spec):
    """Sinusoidal position encoding of `count` positions, sines and cosines interleaved."""

    count: Count
    theta: Positive = 10_000.0

    def make(self, width: int) -> Sinusoidal:
        """The module that this spec describes."""
        return Sinusoidal(self, width)


@dataclass(frozen=True, kw_only=True, slots=True)
class HalvedSinusoidalSpec(SinusoidalSpec):
    """Sinusoidal position encoding, all sines before all cosines."""

    def make(self, width: int) -> Sinusoidal:
        return HalvedSinusoidal(self, width)


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


class LearnedPositions(nn.Embedding):
    """Learned position embeddings: a vector for each position; position p reads row p + offset.

    Source: Gehring et al. 2017, section 3.1; Devlin et al. 2019, section 3.
    """

    KIND = "learned"

    def __init__(self, spec: LearnedPositionsSpec, width: int) -> None:
        super().__init__(spec.count + spec.offset, width, None if spec.padding is None else spec.offset - 1)
        self.offset = spec.offset

    def forward(self, positions: Int[Tensor, "B T"], dtype: torch.dtype | None = None) -> Float[Tensor, "B T D"]:
        return super().forward(positions + self.offset if self.offset else positions)


class Sinusoidal(nn.Module):
    """Sinusoidal position encoding: sine and cosine waves of geometrically growing length.

        PE(p)[2i] = sin(p / θ^(2i/D)),   PE(p)[2i+1] = cos(p / θ^(2i/D)),   so PE(0) = [0, 1, 0, 1, …]

    PE(p + k) is a fixed linear map (a rotation of each pair) of PE(p).
    Source: Vaswani et al. 2017, section 3.5.
    """

    KIND = "waves"

    def __init__(self, spec: SinusoidalSpec, width: int) -> None:
        super().__init__()
        self.theta = spec.theta
        self.width = width

    def forward(self, positions: Int[Tensor, "B T"], dtype: torch.dtype) -> Float[Tensor, "B T D"]:
        wide = torch.promote_types(dtype, torch.float32)
        angles = positions[..., None].to(wide) * self.frequencies(positions.device, wide)
        return self.arrange(angles.sin(), angles.cos())[..., : self.width].to(dtype)

    def frequencies(self, device: torch.device, dtype: torch.dtype) -> Tensor:
        """The angle that each wave turns from one position to the next. [D / 2]"""
        return wave_frequencies(self.width, self.theta, device, dtype)

    def arrange(self, sines: Tensor, cosines: Tensor) -> Tensor:
        """Interleave sines and cosines: sin, cos, sin, cos, …"""
        return torch.stack([sines, cosines], dim=-1).flatten(-2)


class HalvedSinusoidal(Sinusoidal):
    """Sinusoidal position encoding with all sines before all cosines.

        PE(p)[i] = sin(p / θ^(2i/D)),   PE(p)[⌈D/2⌉ + i] = cos(p / θ^(2i/D)),   so PE(0) = [0, 0, …, 1, 1, …]

    Source: Vaswani et al. 2017, released code (tensor2tensor); Marian and PEGASUS keep it.
    Differs: a permutation of the paper's numbers, which a network that was trained with one cannot do without.
    """

    def arrange(self, sines: Tensor, cosines: Tensor) -> Tensor:
        return torch.cat([sines, cosines], dim=-1)


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
