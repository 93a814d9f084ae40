"""Text and vision towers of CLIP: specs, config keys, modules.

    text     ids + positions ─ [ norm ─ causal attention ─ add ─ norm ─ feed-forward ─ add ] × L ─ norm ─ end token
    vision   patches + [CLS] + positions ─ norm ─ [ the same, not causal ] × L ─ [CLS] ─ norm

CLIP has both; each is published alone as well, with and without its projection.
Source: Radford et al. 2021, section 2.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from glassformer.core.attention import AttentionSpec
from glassformer.core.blocks import BlockSpec, ResidualSpec
from glassformer.core.checks import any_true
from glassformer.core.embeddings import Embedding, EmbeddingSpec, LearnedPositionsSpec
from glassformer.core.feed_forward import FeedForwardSpec
from glassformer.core.flow import Flow, Node
from glassformer.core.norms import LayerNormSpec, NormSpec, make_norm
from glassformer.core.patches import Patches, PatchesSpec
from glassformer.core.stack import Stack, StackSpec
from glassformer.errors import DataError
from glassformer.models._config import Keys, Values, number, size, token_id
from glassformer.models._image import MAX_CHANNELS, image_size

if TYPE_CHECKING:
    from jaxtyping import Float, Int

LEGACY_END_ID = 2
"""Old configs give the end token this id by mistake; their models end a text with the highest id in it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TextTowerSpec:
    """The text tower.

    end: id of the end token, whose state is the text embedding
    projection: width of the projected embedding
    factor: multiplies the standard deviations of initialisation
    """

    embed: EmbeddingSpec
    blocks: StackSpec
    final_norm: NormSpec
    end: int
    projection: int
    factor: float


@dataclass(frozen=True, kw_only=True, slots=True)
class VisionTowerSpec:
    """The vision tower.

    projection, factor: as of the text tower
    """

    embed: PatchesSpec
    blocks: StackSpec
    final_norm: NormSpec
    projection: int
    factor: float


TOWER_KEYS = Keys(
    layers=("num_hidden_layers", 12),
    activation=("hidden_act", "quick_gelu"),
    eps=("layer_norm_eps", 1e-5),
    attention_dropout=("attention_dropout", 0.0),
    projection=size("projection_dim", 512),
    factor=number("initializer_factor", 1.0),
    unused="dropout tie_word_embeddings",  # never used; of the config of both towers
)
TEXT_KEYS = TOWER_KEYS.extend(
    width=("hidden_size", 512),
    heads=("num_attention_heads", 8),
    hidden=("intermediate_size", 2048),
    vocabulary=("vocab_size", 49408),
    max_tokens=("max_position_embeddings", 77),
    end=token_id("eos_token_id", 49407),
)
VISION_KEYS = TOWER_KEYS.extend(
    width=("hidden_size", 768),
    heads=("num_attention_heads", 12),
    hidden=("intermediate_size", 3072),
    channels=size("num_channels", 3, maximum=MAX_CHANNELS),
)


@TEXT_KEYS.spec
def text_spec(c: Values) -> TextTowerSpec:
    return TextTowerSpec(
        embed=EmbeddingSpec(**c("vocabulary width"), positions=LearnedPositionsSpec(count=c.max_tokens)),
        blocks=stack_spec(c, causal=True),
        final_norm=LayerNormSpec(**c("width eps")),
        **c("end projection factor"),
    )


@VISION_KEYS.spec
def vision_spec(c: Values) -> VisionTowerSpec:
    norm = LayerNormSpec(**c("width eps"))
    image, patch = image_size(c.reader, "image_size", 224), image_size(c.reader, "patch_size", 32)
    return VisionTowerSpec(
        embed=PatchesSpec(image=image, patch=patch, **c("channels width"), bias=False, norm=norm),
        blocks=stack_spec(c, causal=False),
        final_norm=norm,
        **c("projection factor"),
    )


def stack_spec(c: Values, *, causal: bool) -> StackSpec:
    """The blocks of a tower."""
    block = BlockSpec(
        attention=AttentionSpec(**c("width heads"), dropout=c.attention_dropout, causal=causal),
        feed_forward=FeedForwardSpec(**c("width hidden activation")),
        residual=ResidualSpec(before=LayerNormSpec(**c("width eps"))),
    )
    return StackSpec(blocks=(block,) * c.layers)


class TextTower(Node):
    """The text tower: ids ─ embedding ─ blocks ─ norm.

    Taps: final [B T D]
    """

    TAPS = ("final",)

    def __init__(self, spec: TextTowerSpec) -> None:
        super().__init__()
        self.end = spec.end
        self.embed = Embedding(spec.embed)
        self.blocks = Stack(spec.blocks)
        self.final_norm = make_norm(spec.final_norm)

    def forward(self, ids: Int[Tensor, "B T"], flow: Flow) -> Float[Tensor, "B T D"]:
        return self.tap(flow, "final", self.final_norm(self.blocks(self.embed(ids, flow), flow)))

    def pooled(self, x: Float[Tensor, "B T D"], ids: Int[Tensor, "B T"]) -> Float[Tensor, "B D"]:
        """The hidden state of each text's end token."""
        return end_token_state(x, ids, self.end)


class VisionTower(Node):
    """The vision tower: pixels ─ patches ─ norm ─ blocks; the final norm is applied to the pooled state alone.

    Taps: final [B T D]
    """

    TAPS = ("final",)

    def __init__(self, spec: VisionTowerSpec) -> None:
        super().__init__()
        self.embed = Patches(spec.embed)
        self.blocks = Stack(spec.blocks)
        self.final_norm = make_norm(spec.final_norm)

    def forward(self, pixels: Float[Tensor, "B C height width"], flow: Flow) -> Float[Tensor, "B T D"]:
        flow = Flow(tape=flow.tape, recompute=flow.recompute)  # masks and positions are the text's
        return self.tap(flow, "final", self.blocks(self.embed(pixels, flow), flow))

    def pooled(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B D"]:
        """The hidden state of [CLS], normed."""
        normed: Tensor = self.final_norm(x[:, 0])
        return normed


def end_token_state(x: Float[Tensor, "B T D"], ids: Int[Tensor, "B T"], end: int) -> Float[Tensor, "B D"]:
    """The hidden state of each text's first end token, which attends to the whole text.

    Raises: DataError: a text has no end token.
    """
    ends = ids == (ids.amax(dim=1, keepdim=True) if end == LEGACY_END_ID else end)  # [B, T]
    without = ~ends.any(dim=1)
    if any_true(without):
        raise DataError(
            f"text {int(without.int().argmax())} has no end token, whose state is the text embedding; end every "
            f"text with the token {end} (config.json: eos_token_id, of text_config where there are two towers), as the "
            "tokenizer does"
        )
    return x[torch.arange(x.shape[0], device=x.device), ends.int().argmax(dim=1)]
