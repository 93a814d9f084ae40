"""The text and vision towers of CLIP, which its three recipes share: specs, weight names, initialisation.

Each tower is published alone as well.
Source: Radford et al. 2021, section 2.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from glassformer.core import init
from glassformer.core.attention import AttentionSpec
from glassformer.core.blocks import BlockSpec
from glassformer.core.embeddings import EmbeddingSpec
from glassformer.core.feed_forward import FeedForwardSpec
from glassformer.core.norms import LayerNormSpec, NormSpec
from glassformer.core.patches import Patches, PatchesSpec
from glassformer.core.positions import LearnedPositionsSpec
from glassformer.core.stack import Stack, StackSpec
from glassformer.errors import DataError
from glassformer.models._config import MAX_LAYERS, MAX_ROWS, ConfigReader
from glassformer.models._image import MAX_CHANNELS, image_size
from glassformer.weights.names import Fused, Rule

if TYPE_CHECKING:
    from jaxtyping import Float, Int

LEGACY_END_ID = 2
"""Old configs give the end token this id by mistake; their models end a text with the highest id in it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TextTowerSpec:
    """The text tower. end: id of the end token, whose state is the text embedding"""

    embed: EmbeddingSpec
    blocks: StackSpec
    final_norm: NormSpec
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class VisionTowerSpec:
    """The vision tower."""

    embed: PatchesSpec
    blocks: StackSpec
    final_norm: NormSpec


def text_spec(reader: ConfigReader) -> TextTowerSpec:
    """text_config → spec; the text tower is causal."""
    blocks, norm = stack(reader, width=512, hidden=2048, heads=8, causal=True)
    return TextTowerSpec(
        embed=EmbeddingSpec(
            vocabulary=reader.integer("vocab_size", default=49408, maximum=MAX_ROWS),
            width=blocks.width,
            positions=LearnedPositionsSpec(
                count=reader.integer("max_position_embeddings", default=77, maximum=MAX_ROWS)
            ),
        ),
        blocks=blocks,
        final_norm=norm,
        end=reader.integer("eos_token_id", default=49407, minimum=0, maximum=MAX_ROWS),
    )


def vision_spec(reader: ConfigReader) -> VisionTowerSpec:
    """vision_config → spec."""
    blocks, norm = stack(reader, width=768, hidden=3072, heads=12, causal=False)
    return VisionTowerSpec(
        embed=PatchesSpec(
            image=image_size(reader, "image_size", 224),
            patch=image_size(reader, "patch_size", 32),
            channels=reader.integer("num_channels", default=3, maximum=MAX_CHANNELS),
            width=blocks.width,
            bias=False,
            norm=norm,
        ),
        blocks=blocks,
        final_norm=norm,
    )


def stack(
    reader: ConfigReader, *, width: int, hidden: int, heads: int, causal: bool
) -> tuple[StackSpec, LayerNormSpec]:
    """The blocks of a tower and their norm; the arguments are the defaults of absent keys."""
    for unused in ("dropout", "initializer_factor", "projection_dim", "tie_word_embeddings"):
        reader.get(unused, default=None)  # never used, or in the config of both towers
    width = reader.integer("hidden_size", default=width)
    norm = LayerNormSpec(width=width, eps=reader.number("layer_norm_eps", default=1e-5))
    block = BlockSpec(
        attention=AttentionSpec(
            width=width,
            heads=reader.integer("num_attention_heads", default=heads),
            dropout=reader.probability("attention_dropout", default=0.0),
            causal=causal,
        ),
        feed_forward=FeedForwardSpec(
            width=width,
            hidden=reader.integer("intermediate_size", default=hidden),
            activation=reader.text("hidden_act", default="quick_gelu"),
        ),
        before=norm,
    )
    layers = reader.integer("num_hidden_layers", default=12, maximum=MAX_LAYERS)
    return StackSpec(blocks=(block,) * layers), norm


def end_token_state(x: Float[Tensor, "B T D"], ids: Int[Tensor, "B T"], end: int) -> Float[Tensor, "B D"]:
    """The hidden state of each text's first end token, which attends to the whole text.

    Raises: DataError: a text has no end token.
    """
    ends = ids == (ids.amax(dim=1, keepdim=True) if end == LEGACY_END_ID else end)  # [B, T]
    without = (~ends.any(dim=1)).nonzero().flatten()
    if len(without):
        raise DataError(
            f"text {int(without[0])} has no end token, whose state is the text embedding; end every "
            f"text with the token {end} (config.json: eos_token_id, of text_config where there are two towers), as the "
            "tokenizer does"
        )
    return x[torch.arange(len(x), device=x.device), ends.int().argmax(dim=1)]


POSITION_IDS = "embeddings.position_ids"
"""A buffer in files of old releases."""


def text_names(spec: TextTowerSpec, ours: str, theirs: str) -> dict[str, str | Rule]:
    """Weight names of the text tower, below these prefixes."""
    return {
        f"{ours}embed.tokens": f"{theirs}embeddings.token_embedding",
        f"{ours}embed.positions": f"{theirs}embeddings.position_embedding",
        f"{ours}final_norm": f"{theirs}final_layer_norm",
        **stack_names(spec.blocks, ours, theirs),
    }


def vision_names(spec: VisionTowerSpec, ours: str, theirs: str) -> dict[str, str | Rule]:
    """Weight names of the vision tower, below these prefixes."""
    return {
        f"{ours}embed.projection": f"{theirs}embeddings.patch_embedding",
        f"{ours}embed.summary": f"{theirs}embeddings.class_embedding",
        f"{ours}embed.positions": f"{theirs}embeddings.position_embedding",
        f"{ours}embed.norm": f"{theirs}pre_layrnorm",  # a misspelling of the reference library
        f"{ours}final_norm": f"{theirs}post_layernorm",
        **stack_names(spec.blocks, ours, theirs),
    }


def stack_names(spec: StackSpec, ours: str, theirs: str) -> dict[str, str | Rule]:
    """Weight names of a tower's blocks, below these prefixes."""
    ours, theirs = f"{ours}blocks.{{i}}", f"{theirs}encoder.layers.{{i}}"
    return {
        f"{ours}.attn_residual.before": f"{theirs}.layer_norm1",
        f"{ours}.attn.qkv": Fused(tuple(f"{theirs}.self_attn.{part}_proj" for part in "qkv"), (spec.width,) * 3),
        f"{ours}.attn.out": f"{theirs}.self_attn.out_proj",
        f"{ours}.ffn_residual.before": f"{theirs}.layer_norm2",
        f"{ours}.ffn.up": f"{theirs}.mlp.fc1",
        f"{ours}.ffn.down": f"{theirs}.mlp.fc2",
    }


def initialise_towers(network: nn.Module, factor: float) -> None:
    """Initialise towers: standard deviations fall with width, and with depth where the residual stream is added to."""
    init.normal(network, 0.02 * factor)
    for module in network.modules():
        if isinstance(module, Stack):
            width_std, depth_factor = module.spec.width**-0.5 * factor, (2 * len(module)) ** -0.5
            for block in module:
                nn.init.normal_(block.attn.qkv.weight, std=width_std * depth_factor)
                nn.init.normal_(block.attn.out.weight, std=width_std)
                nn.init.normal_(block.ffn.get_parameter("up.weight"), std=width_std * 2**-0.5)
                nn.init.normal_(block.ffn.get_parameter("down.weight"), std=width_std * depth_factor)
        elif isinstance(module, Patches):
            nn.init.normal_(module.summary, std=module.spec.width**-0.5 * factor)
