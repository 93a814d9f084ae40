"""Specs: what a network is made of, as small frozen records that check themselves.

Numbers are fields; structure is a choice of spec. Vary one with `dataclasses.replace`.

    StackSpec ─ blocks: one BlockSpec a layer
                  ├ BlockSpec ─ AttentionSpec · CrossAttentionSpec? ·
                  │             FeedForwardSpec | GatedFeedForwardSpec | ExpertsSpec
                  │             and three norm slots: before, after, on_residual
                  └ ParallelBlockSpec ─ AttentionSpec · FeedForwardSpec | GatedFeedForwardSpec · one norm
"""

from __future__ import annotations

from dataclasses import dataclass

from glassformer.errors import ConfigError


def _positive(owner: object, *fields: str) -> None:
    for field in fields:
        value = getattr(owner, field)
        if not isinstance(value, int) or value < 1:
            raise ConfigError(
                f"{type(owner).__name__}.{field} is {value!r}; it must be a whole number from 1 up"
            )


def _number(owner: object, *fields: str, zero: bool = False) -> None:
    for field in fields:
        value = getattr(owner, field)
        if not (value > 0 or (zero and value == 0)):
            limit = "a number from 0 up" if zero else "a number above 0"
            raise ConfigError(f"{type(owner).__name__}.{field} is {value!r}; it must be {limit}")


def _probability(owner: object, *fields: str) -> None:
    for field in fields:
        value = getattr(owner, field)
        if not 0.0 <= value < 1.0:
            raise ConfigError(f"{type(owner).__name__}.{field} is {value!r}; a dropout lies in [0, 1)")


# ---------------------------------------------------------------------------------------------------- norms


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerNormSpec:
    """Layer normalisation over `width` numbers; `bias` says that a shift parameter exists."""

    width: int
    eps: float = 1e-5
    bias: bool = True

    def __post_init__(self) -> None:
        _positive(self, "width")
        _number(self, "eps", zero=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class RMSNormSpec:
    """Root-mean-square normalisation over `width` numbers: no centring, no shift."""

    width: int
    eps: float = 1e-6

    def __post_init__(self) -> None:
        _positive(self, "width")
        _number(self, "eps", zero=True)


NormSpec = LayerNormSpec | RMSNormSpec


# ------------------------------------------------------------------------------------------------ positions


@dataclass(frozen=True, kw_only=True, slots=True)
class LearnedPositionsSpec:
    """A table of `count` learned position vectors; position p reads row p + `offset`."""

    count: int
    offset: int = 0

    def __post_init__(self) -> None:
        _positive(self, "count")
        _number(self, "offset", zero=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class SinusoidalSpec:
    """Fixed sine and cosine waves for `count` positions, sine and cosine interleaved."""

    count: int
    theta: float = 10_000.0

    def __post_init__(self) -> None:
        _positive(self, "count")
        _number(self, "theta")


@dataclass(frozen=True, kw_only=True, slots=True)
class HalvedSinusoidalSpec(SinusoidalSpec):
    """The same waves, all sines before all cosines."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LinearScaling:
    """Positions divided by `factor`. Source: Chen et al. 2023, "Extending context window", section 2.3."""

    factor: float

    def __post_init__(self) -> None:
        _number(self, "factor")


@dataclass(frozen=True, kw_only=True, slots=True)
class Llama3Scaling:
    """Slow waves stretched by `factor`, fast ones kept, a ramp between. Source: Llama 3 report 2024, section 3.2."""

    factor: float
    low_frequency_factor: float
    high_frequency_factor: float
    original_positions: int

    def __post_init__(self) -> None:
        _number(self, "factor", "low_frequency_factor", "high_frequency_factor", "original_positions")
        if self.low_frequency_factor >= self.high_frequency_factor:
            raise ConfigError(
                f"Llama3Scaling: low_frequency_factor {self.low_frequency_factor} must be below "
                f"high_frequency_factor {self.high_frequency_factor} (config.json: low_freq_factor, high_freq_factor)"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class RotarySpec:
    """Rotation of the first `width` numbers of each head's q and k by an angle that grows with the position."""

    width: int
    theta: float = 10_000.0
    scaling: LinearScaling | Llama3Scaling | None = None

    def __post_init__(self) -> None:
        _positive(self, "width")
        _number(self, "theta")
        if self.width % 2:
            raise ConfigError(
                f"RotarySpec.width is {self.width}; it must be even, since numbers are rotated in pairs"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class BucketedBiasSpec:
    """A learned bias for each head and each bucket of the distance key - query."""

    heads: int
    buckets: int = 32
    max_distance: int = 128
    bidirectional: bool = True

    def __post_init__(self) -> None:
        _positive(self, "heads", "buckets", "max_distance")
        near = self.buckets // (4 if self.bidirectional else 2)  # distances with a bucket of their own
        if near < 1 or self.max_distance <= near:
            raise ConfigError(
                f"BucketedBiasSpec has {self.buckets} buckets and max_distance {self.max_distance}; it needs at least "
                f"{4 if self.bidirectional else 2} buckets, and a max_distance above {near}"
            )


# -------------------------------------------------------------------------------------- attention and block


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionSpec:
    """Multi-head attention of a sequence to itself.

    width: D, of the residual stream · heads: H · kv_heads: K, shared by H/K query heads each (None: H)
    head_width: E (None: D/H) · bias, out_bias: these parameters exist · scale: factor on q kᵀ (None: 1/√E)
    causal: a query sees no later key · window: it sees keys less than this many tokens away (None: all)
    """

    width: int
    heads: int
    kv_heads: int | None = None
    head_width: int | None = None
    bias: bool = True
    out_bias: bool = True
    scale: float | None = None
    dropout: float = 0.0
    causal: bool = False
    window: int | None = None

    def __post_init__(self) -> None:
        given = [name for name in ("kv_heads", "head_width", "window") if getattr(self, name) is not None]
        _positive(self, "width", "heads", *given)
        _probability(self, "dropout")
        if self.head_width is None and self.width % self.heads:
            raise ConfigError(
                f"width {self.width} is not a multiple of heads {self.heads}; set head_width or change one of them "
                "(config.json: hidden_size, num_attention_heads)"
            )
        if self.heads % self.K:
            raise ConfigError(
                f"heads {self.heads} is not a multiple of kv_heads {self.K}; each key/value head serves the same "
                "number of query heads (config.json: num_attention_heads, num_key_value_heads)"
            )

    @property
    def E(self) -> int:
        return self.head_width or self.width // self.heads

    @property
    def K(self) -> int:
        return self.kv_heads or self.heads


@dataclass(frozen=True, kw_only=True, slots=True)
class CrossAttentionSpec(AttentionSpec):
    """Attention of a sequence to a memory of width `memory_width` (None: the same width), all of which it sees."""

    memory_width: int | None = None

    def __post_init__(self) -> None:
        AttentionSpec.__post_init__(self)
        if self.memory_width is not None:
            _positive(self, "memory_width")
        if self.causal or self.window is not None:
            raise ConfigError(
                f"CrossAttentionSpec has causal={self.causal}, window={self.window}; a memory has no order to hide, "
                "leave both out"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedForwardSpec:
    """down(activation(up(x))): D → F → D, the same at every position."""

    width: int
    hidden: int
    activation: str = "gelu"
    bias: bool = True
    dropout: float = 0.0

    def __post_init__(self) -> None:
        _positive(self, "width", "hidden")
        _probability(self, "dropout")


@dataclass(frozen=True, kw_only=True, slots=True)
class GatedFeedForwardSpec:
    """down(activation(gate(x)) · up(x))."""

    width: int
    hidden: int
    activation: str = "silu"
    bias: bool = False

    def __post_init__(self) -> None:
        _positive(self, "width", "hidden")


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpertsSpec:
    """A mixture of experts: `experts` feed-forward layers (X), of which each token goes through `chosen` (k)."""

    expert: FeedForwardSpec | GatedFeedForwardSpec
    experts: int
    chosen: int

    def __post_init__(self) -> None:
        _positive(self, "experts", "chosen")
        if self.chosen > self.experts:
            raise ConfigError(
                f"ExpertsSpec.chosen is {self.chosen}, of {self.experts} experts; a token cannot go through more than "
                "there are (config.json: num_experts_per_tok, num_local_experts)"
            )

    @property
    def width(self) -> int:
        return self.expert.width


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockSpec:
    """One layer: its sub-layers, and the three norm slots that each of them gets.

        x → on_residual(x + dropout(after(sublayer(before(x)))))

    The 2017 paper and BERT fill `on_residual` (post-norm), GPT-2 and Llama fill `before` (pre-norm).
    """

    attention: AttentionSpec
    feed_forward: FeedForwardSpec | GatedFeedForwardSpec | ExpertsSpec
    cross: CrossAttentionSpec | None = None
    before: NormSpec | None = None
    after: NormSpec | None = None
    on_residual: NormSpec | None = None
    dropout: float = 0.0

    def __post_init__(self) -> None:
        _probability(self, "dropout")
        _one_width(self, "feed_forward", "cross", "before", "after", "on_residual")


@dataclass(frozen=True, kw_only=True, slots=True)
class ParallelBlockSpec:
    """One layer whose two sub-layers stand side by side and read the stream through the same norm.

        x → x + dropout(attention(norm(x))) + dropout(feed_forward(norm(x)))

    GPT-J and Phi are made of these.
    """

    attention: AttentionSpec
    feed_forward: FeedForwardSpec | GatedFeedForwardSpec
    norm: NormSpec
    dropout: float = 0.0

    def __post_init__(self) -> None:
        _probability(self, "dropout")
        _one_width(self, "feed_forward", "norm")


def _one_width(block: BlockSpec | ParallelBlockSpec, *fields: str) -> None:
    for field in fields:
        part = getattr(block, field)
        if part is not None and part.width != block.attention.width:
            raise ConfigError(
                f"{type(block).__name__}.{field} has width {part.width}, its attention {block.attention.width}; "
                "they must be equal"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class StackSpec:
    """The blocks in order, and the position parts that act inside their attention."""

    blocks: tuple[BlockSpec | ParallelBlockSpec, ...]
    rotary: RotarySpec | None = None
    bias: BucketedBiasSpec | None = None

    def __post_init__(self) -> None:
        if not self.blocks:
            raise ConfigError(
                "StackSpec.blocks is empty; a stack has at least one (config.json: num_hidden_layers)"
            )
        widths = {block.attention.width for block in self.blocks}
        if len(widths) > 1:
            raise ConfigError(
                f"StackSpec.blocks have widths {sorted(widths)}; the residual stream has one width"
            )
        if self.rotary and self.rotary.width > min(block.attention.E for block in self.blocks):
            narrowest = min(block.attention.E for block in self.blocks)
            raise ConfigError(
                f"RotarySpec.width {self.rotary.width} is larger than the head width {narrowest}"
            )
        heads = {block.attention.heads for block in self.blocks}
        if self.bias and heads != {self.bias.heads}:
            raise ConfigError(
                f"BucketedBiasSpec.heads is {self.bias.heads}, the blocks have {sorted(heads)}; they must be equal"
            )

    @property
    def width(self) -> int:
        return self.blocks[0].attention.width


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddingSpec:
    """Token table plus positions plus segments, then norm and dropout; tokens are multiplied by `scale`."""

    vocabulary: int
    width: int
    positions: LearnedPositionsSpec | SinusoidalSpec | None = None
    segments: int = 0
    norm: NormSpec | None = None
    dropout: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        _positive(self, "vocabulary", "width")
        _number(self, "segments", zero=True)
        _probability(self, "dropout")
        if self.norm is not None and self.norm.width != self.width:
            raise ConfigError(
                f"EmbeddingSpec.norm has width {self.norm.width}, the tokens {self.width}; they must be equal"
            )
