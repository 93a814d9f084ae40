"""Input embeddings: token, position and token-type embeddings, added up.

    learned positions       a vector for each position
    sinusoidal positions    fixed sine and cosine waves

Rotary position embeddings, which turn q and k, are in `rotary`; those that are added to scores in `position_bias`.
Sines and cosines are not stored: they are computed for the positions of a call, in at least fp32 whatever the
network's dtype.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from glassformer.core.checks import Count, NonNegativeInt, Positive, Probability, Spec, check_widths
from glassformer.core.flow import Flow, Node
from glassformer.core.norms import NormSpec, make_norm
from glassformer.core.rotary import wave_frequencies
from glassformer.errors import DataError

if TYPE_CHECKING:
    from jaxtyping import Float, Int


@dataclass(frozen=True, kw_only=True, slots=True)
class LearnedPositionsSpec(Spec):
    """Learned position embeddings: a table of `count` vectors; position p reads row p + `offset`.

    padding: the token id that takes no position and reads the row before the first, which is not trained; None = every
        token takes one
    masked: with `padding`, hidden tokens take none either: as in a decoder, whose cache knows earlier tokens by the
        mask alone
    """

    count: Count
    offset: NonNegativeInt = 0
    padding: NonNegativeInt | None = None
    masked: bool = False

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
class EmbeddingSpec(Spec):
    """Input embedding: tokens · `scale` + positions + `token_types` (how many; 0: none), then norm and dropout.

    projection: D, of the residual stream, where tables of `width` numbers are projected to it (None: they are as wide)
    padding: the id of padding, whose row no gradient reaches by look-up; None, or beyond the table: there is none
    """

    vocabulary: Count
    width: Count
    positions: LearnedPositionsSpec | SinusoidalSpec | None = None
    token_types: NonNegativeInt = 0
    norm: NormSpec | None = None
    dropout: Probability = 0.0
    scale: float = 1.0
    projection: Count | None = None
    padding: NonNegativeInt | None = None

    def validate(self) -> None:
        check_widths(self, "the tokens", self.width, "norm")

    @property
    def out_width(self) -> int:
        """D, the width of the residual stream."""
        return self.projection or self.width

    @property
    def codebooks(self) -> int:
        """K, where a token is an id of each of K codebooks (`core/codebooks.py`); else 0."""
        return 0

    def make(self) -> Embedding:
        """The module that this spec describes; the spec of another kind of embedding makes that."""
        return Embedding(self)


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


class Embedding(Node):
    """Input embedding: token embeddings plus position embeddings plus token-type embeddings.

        x = dropout(norm(tokens[id] · scale + positions[p] + segments[token type] + extra))
        x W + b of it, where tables are narrower than the residual stream (factorized embedding)

    Looking a row up equals multiplying a one-hot row by the table, without the multiplication.

    Args:
        ids: token ids [B, T]; or vectors in the place of rows of the table [B, T, width]
        flow: position ids, or how to count them (`Flow.token_positions`).
        token_types: token type ids (segment ids). [B, T]; None = all 0
        extra: embeddings from a recipe's own tables, added to the sum; None = nothing. [B, T, D]
    Raises: DataError: more tokens than the position table has rows.
    Taps: out [B T D]
    Source: Vaswani et al. 2017, sections 3.4 and 3.5; token types: Devlin et al. 2019, section 3; factorized: Lan et
    al. 2020, section 3.1.
    """

    TAPS = ("out",)

    def __init__(self, spec: EmbeddingSpec) -> None:
        super().__init__()
        self.spec = spec
        padding = spec.padding if spec.padding is not None and spec.padding < spec.vocabulary else None
        self.tokens = nn.Embedding(spec.vocabulary, spec.width, padding)
        # The name is a weight name: saved optimizer states and adapters know it.
        self.segments = nn.Embedding(spec.token_types, spec.width) if spec.token_types else None
        self.positions = spec.positions.make(spec.width) if spec.positions else None
        self.norm = make_norm(spec.norm)
        self.dropout = nn.Dropout(spec.dropout)
        self.projection = nn.Linear(spec.width, spec.projection) if spec.projection else None

    def forward(
        self,
        ids: Int[Tensor, "B T"],
        flow: Flow,
        token_types: Int[Tensor, "B T"] | None = None,
        extra: Float[Tensor, "B T D"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        x: Tensor = ids if ids.is_floating_point() else self.tokens(ids)
        if self.spec.scale != 1.0:
            x = x * self.scale(x.dtype)
        if self.positions is not None:
            self.check_length(ids, flow)
            x = x + self.positions(self.token_positions(ids, flow), x.dtype)
        if self.segments is not None:
            x = x + (self.first_segment(self.segments) if token_types is None else self.segments(token_types))
        if extra is not None:
            x = x + extra
        x = self.norm_and_dropout(x)
        return self.tap(flow, "out", x if self.projection is None else self.projection(x))

    def token_positions(self, ids: Int[Tensor, "B T"], flow: Flow) -> Int[Tensor, "#B T"]:
        """Position ids of these tokens: as the flow counts them; without padding, where its id takes no position.

        Then masks matter in decoders alone (`masked`), so that tokens in the cache, whose ids are not known any more,
        count as in a whole pass; and vectors in the place of ids take a position each. Padding is at -1.
        Differs: a decoder of the reference library counts hidden tokens, and those of the cache with their padding.
        """
        table, keep = self.spec.positions, flow.keep
        padding = table.padding if isinstance(table, LearnedPositionsSpec) else None
        if padding is None or flow.positions is not None:
            positions = flow.token_positions(ids)
            given = flow.positions is not None or flow.packing is not None
            if given or table is None or keep is None or keep.shape[1] > 1:
                return positions
            # Padding gets its place in the row, as in the reference library: a loss over all positions (answer spans)
            # reads it. The flow's own count, which rotary angles read too, ends with the longest text.
            T = ids.shape[1]
            place = torch.arange(flow.past, flow.past + T, device=ids.device).clamp(max=table.count - 1)
            return torch.where(flow.of_new_tokens(keep[:, 0], T), positions, place)
        if ids.is_floating_point():
            return replace(flow, keep=None).token_positions(ids)
        text, visible = ids != padding, None if keep is None or keep.shape[1] > 1 else keep[:, 0]  # [B, past + T]
        if visible is not None and isinstance(table, LearnedPositionsSpec) and table.masked:
            text = text & flow.of_new_tokens(visible, ids.shape[1])
        counted = text.long().cumsum(1)
        if flow.packing is not None:
            own = flow.token_positions(ids)  # each text begins with the count of those before it
            starts = torch.arange(ids.shape[1], device=ids.device) - own
            counted = counted - functional.pad(counted, (1, 0)).gather(1, starts)
        past: int | Tensor = flow.past
        if past and visible is not None:
            past = visible[:, : flow.past].sum(-1, keepdim=True)
        return torch.where(text, counted - 1 + past, -1)

    def first_segment(self, segments: nn.Embedding) -> Float[Tensor, " D"]:
        """The vector of token type 0."""
        return segments.weight[0]

    def scale(self, dtype: torch.dtype) -> float:
        """The factor of token embeddings of a dtype."""
        return self.spec.scale

    def norm_and_dropout(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Norm and dropout of the summed embeddings."""
        normed: Tensor = self.dropout(self.norm(x))
        return normed

    def check_length(self, ids: Tensor, flow: Flow) -> None:
        """Check that the position table is long enough, unless the caller gives position ids.

        Raises: DataError: a text has more tokens than there are positions.
        """
        longest = flow.past + ids.shape[1] if flow.packing is None else max(flow.packing.lengths)
        if flow.positions is None and self.spec.positions is not None and longest > self.spec.positions.count:
            raise DataError(
                f"the text has {longest} tokens, the model has {self.spec.positions.count} positions; shorten or split "
                "the text, or truncate it (tokenizer, generate: truncation=True; encode: truncate=True)"
            )
