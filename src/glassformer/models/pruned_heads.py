"""Pruned heads: layers with fewer attention heads than the others, as `pruned_heads` of a config lists them.

    "num_attention_heads": 12, "pruned_heads": {"0": [3, 7], "5": [0]}      layer 0 has 10 heads, layer 5 has 11

The key and its meaning are those of transformers up to version 4, which reads it for BERT, RoBERTa, DistilBERT, GPT-2
and about a hundred more; version 5 has no place for it.
Differs: families with grouped keys have it here as well. Keys and values of a group go with all of its heads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from glassformer.core.attention import AttentionSpec
from glassformer.core.stack import StackSpec
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.files import safe_repr
from glassformer.files.schema import convert

KEY = "pruned_heads"
AnySpec = TypeVar("AnySpec")


def pruned_heads(config: Mapping[str, Any]) -> dict[int, list[int]]:
    """The heads that are gone, by layer. Raises: ConfigError: no numbers of layers and heads."""
    listed: dict[int, list[int]] = convert(dict[int, list[int]], config.get(KEY) or {}, f"config.json: {KEY}")
    return {layer: sorted(set(heads)) for layer, heads in sorted(listed.items()) if heads}


def without_heads(spec: AnySpec, pruned: Mapping[int, Sequence[int]], family: str) -> AnySpec:
    """A spec in which layers have fewer heads.

    Raises: UnsupportedError: a family whose layers share what depends on the number of heads. ConfigError: a layer or a
        head that there is not, all heads of a layer, or half of a group that shares its keys.
    """
    stack = getattr(spec, "blocks", None)
    if not isinstance(stack, StackSpec) or stack.bias is not None or stack.shared:
        raise UnsupportedError(
            f"config.json: {KEY} is not supported for a {family!r} model: it has not one stack of layers, or these "
            "share parameters or a position bias"
        )
    blocks = list(stack.blocks)
    for layer, heads in pruned.items():
        if not 0 <= layer < len(blocks):
            raise ConfigError(f"{KEY} names layer {safe_repr(layer)}; the model has layers 0 to {len(blocks) - 1}")
        blocks[layer] = replace(blocks[layer], attention=_fewer(blocks[layer].attention, heads, layer, family))
    fewer: Any = replace(spec, blocks=replace(stack, blocks=tuple(blocks)))  # type: ignore[type-var]
    return fewer  # type: ignore[no-any-return]


def _fewer(attention: AttentionSpec, heads: Sequence[int], layer: int, family: str) -> AttentionSpec:
    """Attention without these heads."""
    H, K, E = attention.heads, attention.K, attention.E
    norms_heads = attention.qk_norm is not None and (attention.qk_norm_per_head or attention.qk_norm.width != E)
    if attention.KIND or norms_heads:
        raise UnsupportedError(f"config.json: {KEY} is not supported for the attention of a {family!r} model")
    if wrong := [head for head in heads if not 0 <= head < H]:
        raise ConfigError(f"{KEY} names head {safe_repr(wrong[0])} of layer {layer}, which has heads 0 to {H - 1}")
    if len(heads) == H:
        raise ConfigError(f"{KEY} names all {H} heads of layer {layer}; at least one must stay, or the layer must go")
    groups = {head * K // H for head in heads}
    if len(heads) != len(groups) * (H // K):
        raise ConfigError(
            f"{KEY} names heads {list(heads)} of layer {layer}; {H // K} heads share their keys and go together, such "
            f"as {list(range(H // K))}"
        )
    kv_heads = None if attention.kv_heads is None else K - len(groups)
    return replace(attention, heads=H - len(heads), kv_heads=kv_heads, head_width=E)
