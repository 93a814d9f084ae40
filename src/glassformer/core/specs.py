"""Specs: the configuration of a network's modules, as small frozen dataclasses that validate themselves.

Numbers are fields; structure is a choice of spec. Change one with `dataclasses.replace`.

    StackSpec ─ blocks: one BlockSpec a layer
                  ├ BlockSpec ─ AttentionSpec · CrossAttentionSpec? ·
                  │             FeedForwardSpec | GatedFeedForwardSpec | ExpertsSpec
                  │             and three norm slots: before, after, on_residual
                  └ ParallelBlockSpec ─ AttentionSpec · FeedForwardSpec | GatedFeedForwardSpec · one norm
"""

from __future__ import annotations

import math
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
    """Learned position embeddings: a table of `count` vectors; position p reads row p + `offset`."""

    count: int
    offset: int = 0

    def __post_init__(self) -> None:
        _positive(self, "count")
        _number(self, "offset", zero=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class SinusoidalSpec:
    """Sinusoidal position encoding of `count` positions, sines and cosines interleaved."""

    count: int
    theta: float = 10_000.0

    def __post_init__(self) -> None:
        _positive(self, "count")
        _number(self, "theta")


@dataclass(frozen=True, kw_only=True, slots=True)
class HalvedSinusoidalSpec(SinusoidalSpec):
    """Sinusoidal position encoding, all sines before all cosines."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LinearScaling:
    """Linear RoPE scaling: positions / `factor`. Source: Chen et al. 2023, "Extending context window", section 2.3."""

    factor: float

    def __post_init__(self) -> None:
        _number(self, "factor")


@dataclass(frozen=True, kw_only=True, slots=True)
class Llama3Scaling:
    """Llama 3 RoPE scaling: low frequencies divided by `factor`, high ones kept. Source: Llama 3 report 2024, 3.2."""

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
    """Rotary position embedding (RoPE) of the first `width` numbers of each head's q and k; `theta`: the base."""

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
    """Relative position bias (T5): a learned number for each head and each bucket of the distance key - query."""

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
    """Multi-head self-attention.

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
        optional = [name for name in ("kv_heads", "head_width", "window") if getattr(self, name) is not None]
        _positive(self, "width", "heads", *optional)
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
class BlockSparseAttentionSpec(AttentionSpec):
    """Block-sparse attention (BigBird): blocks of tokens attend to the first, the last, a window of three, random ones.

    block: tokens in a block · random: random blocks of each query block · seed: of the random blocks, another for every
    layer · longest: tokens of the longest text, whose random blocks the lengths of the paper share
    """

    block: int = 64
    random: int = 3
    seed: int = 0
    longest: int = 4096

    def __post_init__(self) -> None:
        AttentionSpec.__post_init__(self)
        _positive(self, "block", "longest")
        _number(self, "random", "seed", zero=True)
        if self.causal or self.window is not None or self.heads != self.K:
            raise ConfigError(
                f"BlockSparseAttentionSpec has causal={self.causal}, window={self.window}, kv_heads={self.kv_heads}; "
                "its blocks determine what is seen, and each head has its own random blocks: leave them out"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class CrossAttentionSpec(AttentionSpec):
    """Cross-attention to all of an encoder output of width `memory_width` (None: the same width)."""

    memory_width: int | None = None

    def __post_init__(self) -> None:
        AttentionSpec.__post_init__(self)
        if self.memory_width is not None:
            _positive(self, "memory_width")
        if self.causal or self.window is not None:
            raise ConfigError(
                f"CrossAttentionSpec has causal={self.causal}, window={self.window}; every query sees all of the "
                "encoder's output: leave both out"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedForwardSpec:
    """Feed-forward layer: down(activation(up(x))), D → F → D, the same at every position."""

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
    """Gated feed-forward layer (GLU): down(activation(gate(x)) · up(x))."""

    width: int
    hidden: int
    activation: str = "silu"
    bias: bool = False
    dropout: float = 0.0

    def __post_init__(self) -> None:
        _positive(self, "width", "hidden")
        _probability(self, "dropout")


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpertsSpec:
    """Mixture of experts: `experts` feed-forward layers (X), a token goes through `experts_per_token` (k) of them."""

    expert: FeedForwardSpec | GatedFeedForwardSpec
    experts: int
    experts_per_token: int

    def __post_init__(self) -> None:
        _positive(self, "experts", "experts_per_token")
        if self.experts_per_token > self.experts:
            raise ConfigError(
                f"ExpertsSpec.experts_per_token is {self.experts_per_token}, of {self.experts} experts; "
                "a token cannot go through more than there are (config.json: num_experts_per_tok, num_local_experts)"
            )

    @property
    def width(self) -> int:
        return self.expert.width


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockSpec:
    """Transformer block: its sub-layers, and the three norm slots that each of them gets.

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
    """Parallel transformer block: attention and feed-forward read the stream through the same norm.

        x → x + dropout(attention(norm(x))) + dropout(feed_forward(norm(x)))

    GPT-J and Phi have these.
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
    """Stack of transformer blocks, and the positions that act inside their attention."""

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
    """Input embedding: tokens · `scale` + positions + `token_types` (how many; 0: none), then norm and dropout."""

    vocabulary: int
    width: int
    positions: LearnedPositionsSpec | SinusoidalSpec | None = None
    token_types: int = 0
    norm: NormSpec | None = None
    dropout: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        _positive(self, "vocabulary", "width")
        _number(self, "token_types", zero=True)
        _probability(self, "dropout")
        if self.norm is not None and self.norm.width != self.width:
            raise ConfigError(
                f"EmbeddingSpec.norm has width {self.norm.width}, the tokens {self.width}; they must be equal"
            )


# --------------------------------------------------------------------------------------------------- sound


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeNormSpec:
    """Normalisation over time, of each of `width` channels by itself."""

    width: int
    eps: float = 1e-5

    def __post_init__(self) -> None:
        _positive(self, "width")
        _number(self, "eps", zero=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeConvolutionSpec:
    """Convolution over time: `kernel` steps of `channels` → one of `width`, every `stride` steps; norm; activation."""

    channels: int
    width: int
    kernel: int
    stride: int
    activation: str = "gelu"
    bias: bool = False
    norm: LayerNormSpec | TimeNormSpec | None = None

    def __post_init__(self) -> None:
        _positive(self, "channels", "width", "kernel", "stride")
        if self.norm is not None and self.norm.width != self.width:
            raise ConfigError(
                f"TimeConvolutionSpec.norm has width {self.norm.width}, its convolution {self.width}; "
                "they must be equal"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class WaveformSpec:
    """Waveform feature encoder: convolutions from samples to frames, then a `norm`.

    samples: the receptive field of a frame · hop: how many samples later the next frame begins
    """

    layers: tuple[TimeConvolutionSpec, ...]
    norm: LayerNormSpec | None = None

    def __post_init__(self) -> None:
        read = (1, *(layer.width for layer in self.layers))[: len(self.layers)]
        if not self.layers or read != tuple(layer.channels for layer in self.layers):
            raise ConfigError(
                f"WaveformSpec.layers read {[layer.channels for layer in self.layers]} channels; the first reads "
                f"1, the waveform, and each other the width of the one before it: {list(read)}"
            )
        if self.norm is not None and self.norm.width != self.width:
            raise ConfigError(
                f"WaveformSpec.norm has width {self.norm.width}, the frames {self.width}; they must be equal"
            )

    @property
    def width(self) -> int:
        return self.layers[-1].width

    @property
    def samples(self) -> int:
        count = 1
        for layer in reversed(self.layers):
            count = (count - 1) * layer.stride + layer.kernel
        return count

    @property
    def hop(self) -> int:
        return math.prod(layer.stride for layer in self.layers)


@dataclass(frozen=True, kw_only=True, slots=True)
class ConvolvedPositionsSpec:
    """Convolutional position encoding over `kernel` frames, in `groups` of channels, with weight normalisation."""

    width: int
    kernel: int
    groups: int
    activation: str = "gelu"

    def __post_init__(self) -> None:
        _positive(self, "width", "kernel", "groups")
        if self.width % self.groups:
            raise ConfigError(
                f"ConvolvedPositionsSpec.width {self.width} is not a multiple of groups {self.groups} "
                "(config.json: hidden_size, num_conv_pos_embedding_groups)"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class SpansSpec:
    """Random masking spans of `length`, as many as cover a `share` of all if none overlap, and at least `minimum`."""

    share: float
    length: int
    minimum: int = 0

    def __post_init__(self) -> None:
        _positive(self, "length")
        _number(self, "minimum", zero=True)
        _probability(self, "share")


@dataclass(frozen=True, kw_only=True, slots=True)
class SpecAugmentSpec:
    """SpecAugment of `width` channels: masking spans of time and of channels; None = no masking."""

    width: int
    time: SpansSpec | None = None
    channels: SpansSpec | None = None

    def __post_init__(self) -> None:
        _positive(self, "width")


@dataclass(frozen=True, kw_only=True, slots=True)
class FrameEmbeddingSpec:
    """Input embedding of audio frames: `features` numbers → the width of `positions`; dropouts, and a norm at the end.

    augment: SpecAugment; None where the model has no mask vector
    """

    features: int
    positions: ConvolvedPositionsSpec
    augment: SpecAugmentSpec | None = None
    norm: NormSpec | None = None
    feature_dropout: float = 0.0
    dropout: float = 0.0

    def __post_init__(self) -> None:
        _positive(self, "features")
        _probability(self, "feature_dropout", "dropout")
        for name in ("augment", "norm"):
            part = getattr(self, name)
            if part is not None and part.width != self.positions.width:
                raise ConfigError(
                    f"FrameEmbeddingSpec.{name} has width {part.width}, its positions {self.positions.width}; "
                    "they must be equal"
                )


@dataclass(frozen=True, kw_only=True, slots=True)
class PatchesSpec:
    """Patch embedding: an image as a [CLS] token and a token for each patch.

    image, patch: (height, width) in pixels; a remainder on the right and below is not read
    channels: numbers a pixel · width: D · bias: of the projection · norm, dropout: of the summed embeddings
    """

    image: tuple[int, int]
    patch: tuple[int, int]
    channels: int
    width: int
    bias: bool = True
    norm: NormSpec | None = None
    dropout: float = 0.0

    def __post_init__(self) -> None:
        _positive(self, "channels", "width")
        _probability(self, "dropout")
        if not all(1 <= patch <= image for image, patch in zip(self.image, self.patch, strict=True)):
            raise ConfigError(
                f"PatchesSpec.patch is {self.patch}, the image {self.image}; there must be at least one patch "
                "(config.json: patch_size, image_size)"
            )
        if self.norm is not None and self.norm.width != self.width:
            raise ConfigError(
                f"PatchesSpec.norm has width {self.norm.width}, the tokens {self.width}; they must be equal"
            )

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return self.image[0] // self.patch[0], self.image[1] // self.patch[1]

    @property
    def tokens(self) -> int:
        """Number of tokens of an image: its patches, and [CLS]."""
        return 1 + self.grid[0] * self.grid[1]


@dataclass(frozen=True, kw_only=True, slots=True)
class RegionsSpec:
    """Region embedding: `features` numbers from an object detector, and a box of `corners` numbers."""

    features: int
    corners: int
    norm: LayerNormSpec
    dropout: float = 0.0

    def __post_init__(self) -> None:
        _positive(self, "features", "corners")
        _probability(self, "dropout")


# --------------------------------------------------------------------------------------------------- heads


@dataclass(frozen=True, kw_only=True, slots=True)
class CellSelectionSpec:
    """Cell selection head (TAPAS).

    width: D · rows, columns: of the largest table; cells beyond it count as its last
    one_column: all selected cells are in one column · may_be_empty: or none is selected
    average: the tokens of a cell share one logit, also without `one_column`
    temperature: divides the tokens' logits · positive_weight: loss weight of selected tokens, without `one_column`
    learns_cells: cell selection has a loss · operator_weight: loss weight of the aggregation operator
    supervised_operator: labels hold the operator (strong supervision); else only its result (weak supervision)
    """

    width: int
    rows: int = 64
    columns: int = 32
    one_column: bool = True
    may_be_empty: bool = False
    average: bool = False
    temperature: float = 1.0
    dropout: float = 0.0
    positive_weight: float = 10.0
    learns_cells: bool = True
    operator_weight: float = 1.0
    supervised_operator: bool = True

    def __post_init__(self) -> None:
        _positive(self, "width", "rows", "columns")
        _number(self, "temperature")
        _number(self, "positive_weight", "operator_weight", zero=True)
        _probability(self, "dropout")


@dataclass(frozen=True, kw_only=True, slots=True)
class VisualPreTrainingSpec:
    """Pre-training objectives of a network of text and image regions (LXMERT).

    objects, attributes: how many classes a region is given; 0 = no such objective
    features: width of the detector's features, which are regressed; 0 = no such objective
    losses: the labels that have a loss · region_weight: weight of the losses of regions
    """

    objects: int
    attributes: int
    features: int
    losses: frozenset[str] = frozenset({"labels", "matched_label", "obj_labels", "ans"})
    region_weight: float = 1.0

    def __post_init__(self) -> None:
        _number(self, "objects", "attributes", "features", "region_weight", zero=True)
