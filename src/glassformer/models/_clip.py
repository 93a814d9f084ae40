"""The towers of CLIP, which its three recipes share: reading their configs, naming their tensors, starting them.

CLIP has one that reads texts and one that reads pictures; each is published alone as well.
Source: Radford et al. 2021, section 2.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from glassformer.core import init
from glassformer.core.patches import Patches
from glassformer.core.specs import (
    AttentionSpec,
    BlockSpec,
    EmbeddingSpec,
    FeedForwardSpec,
    LayerNormSpec,
    LearnedPositionsSpec,
    NormSpec,
    PatchesSpec,
    StackSpec,
)
from glassformer.core.stack import Stack
from glassformer.errors import DataError
from glassformer.models._family import MOST_LAYERS, MOST_ROWS, Reader
from glassformer.models._picture import MOST_CHANNELS, edges
from glassformer.weights.names import Fused, Rule

if TYPE_CHECKING:
    from jaxtyping import Float, Int

HIGHEST = 2
"""An end token of this id in a config is an old mistake: those models end a text with the highest id in it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TextTowerSpec:
    """What reads texts. end: the id of the token that sums a text up"""

    embed: EmbeddingSpec
    blocks: StackSpec
    final_norm: NormSpec
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PictureTowerSpec:
    """What reads pictures."""

    embed: PatchesSpec
    blocks: StackSpec
    final_norm: NormSpec


def text_spec(reader: Reader) -> TextTowerSpec:
    """text_config → spec; the order of the text tower's tokens matters to it, so it is causal."""
    blocks, norm = stack(reader, width=512, hidden=2048, heads=8, causal=True)
    return TextTowerSpec(
        embed=EmbeddingSpec(
            vocabulary=reader.integer("vocab_size", default=49408, most=MOST_ROWS),
            width=blocks.width,
            positions=LearnedPositionsSpec(
                count=reader.integer("max_position_embeddings", default=77, most=MOST_ROWS)
            ),
        ),
        blocks=blocks,
        final_norm=norm,
        end=reader.integer("eos_token_id", default=49407, least=0, most=MOST_ROWS),
    )


def vision_spec(reader: Reader) -> PictureTowerSpec:
    """vision_config → spec."""
    blocks, norm = stack(reader, width=768, hidden=3072, heads=12, causal=False)
    return PictureTowerSpec(
        embed=PatchesSpec(
            image=edges(reader, "image_size", 224),
            patch=edges(reader, "patch_size", 32),
            channels=reader.integer("num_channels", default=3, most=MOST_CHANNELS),
            width=blocks.width,
            bias=False,
            norm=norm,
        ),
        blocks=blocks,
        final_norm=norm,
    )


def stack(
    reader: Reader, *, width: int, hidden: int, heads: int, causal: bool
) -> tuple[StackSpec, LayerNormSpec]:
    """What the towers have in common; the numbers are those of a config that is silent."""
    for unused in ("dropout", "initializer_factor", "projection_dim", "tie_word_embeddings"):
        reader.get(unused, default=None)  # never used, or said by the config of both towers
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
    layers = reader.integer("num_hidden_layers", default=12, most=MOST_LAYERS)
    return StackSpec(blocks=(block,) * layers), norm


def at_end(x: Float[Tensor, "B T D"], ids: Int[Tensor, "B T"], end: int) -> Float[Tensor, "B D"]:
    """The state of each text's end token, the first of them, which has seen all of the text.

    Raises: DataError: a text has none.
    """
    ends = ids == (ids.amax(dim=1, keepdim=True) if end == HIGHEST else end)  # [B, T]
    without = (~ends.any(dim=1)).nonzero().flatten()
    if len(without):
        raise DataError(
            f"text {int(without[0])} has no end token, whose state is read; end every text with the token {end} "
            "(config.json: eos_token_id, of text_config where there are two towers), as the tokenizer does"
        )
    return x[torch.arange(len(x), device=x.device), ends.int().argmax(dim=1)]


POSITIONS = "embeddings.position_ids"
"""A buffer of old releases."""


def text_names(spec: TextTowerSpec, ours: str, theirs: str) -> dict[str, str | Rule]:
    """The names of the text tower's tensors, below these prefixes."""
    return {
        f"{ours}embed.tokens": f"{theirs}embeddings.token_embedding",
        f"{ours}embed.positions": f"{theirs}embeddings.position_embedding",
        f"{ours}final_norm": f"{theirs}final_layer_norm",
        **stack_names(spec.blocks, ours, theirs),
    }


def vision_names(spec: PictureTowerSpec, ours: str, theirs: str) -> dict[str, str | Rule]:
    """The same of the tower of pictures."""
    return {
        f"{ours}embed.projection": f"{theirs}embeddings.patch_embedding",
        f"{ours}embed.summary": f"{theirs}embeddings.class_embedding",
        f"{ours}embed.positions": f"{theirs}embeddings.position_embedding",
        f"{ours}embed.norm": f"{theirs}pre_layrnorm",  # as it is written there
        f"{ours}final_norm": f"{theirs}post_layernorm",
        **stack_names(spec.blocks, ours, theirs),
    }


def stack_names(spec: StackSpec, ours: str, theirs: str) -> dict[str, str | Rule]:
    ours, theirs = f"{ours}blocks.{{i}}", f"{theirs}encoder.layers.{{i}}"
    return {
        f"{ours}.attn_residual.before": f"{theirs}.layer_norm1",
        f"{ours}.attn.qkv": Fused(
            tuple(f"{theirs}.self_attn.{part}_proj" for part in "qkv"), (spec.width,) * 3
        ),
        f"{ours}.attn.out": f"{theirs}.self_attn.out_proj",
        f"{ours}.ffn_residual.before": f"{theirs}.layer_norm2",
        f"{ours}.ffn.up": f"{theirs}.mlp.fc1",
        f"{ours}.ffn.down": f"{theirs}.mlp.fc2",
    }


def init_towers(network: nn.Module, factor: float) -> None:
    """Deviations that fall with the width, and with the depth where the residual stream is added to."""
    init.normal(network, 0.02 * factor)
    for module in network.modules():
        if isinstance(module, Stack):
            wide, deep = module.spec.width**-0.5 * factor, (2 * len(module)) ** -0.5
            for block in module:
                nn.init.normal_(block.attn.qkv.weight, std=wide * deep)
                nn.init.normal_(block.attn.out.weight, std=wide)
                nn.init.normal_(block.ffn.get_parameter("up.weight"), std=wide * 2**-0.5)
                nn.init.normal_(block.ffn.get_parameter("down.weight"), std=wide * deep)
        elif isinstance(module, Patches):
            nn.init.normal_(module.summary, std=module.spec.width**-0.5 * factor)
