"""BART's weight names, and those of its decoder alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glassformer.weights.name_table import NameTable
from glassformer.weights.names import WeightNames

Names = Callable[[Any, str], WeightNames]

NAMES = NameTable(
    """
    encoder.embed.tokens                           shared
    decoder.embed.tokens                           decoder.embed_tokens                                =
    {side}.embed.positions                         {side}.embed_positions
    {side}.embed.norm                              {side}.layernorm_embedding
    {side}.blocks.{i}.attn.qkv                     {side}.layers.{i}.self_attn.(q|k|v)_proj
    {side}.blocks.{i}.attn.out                     {side}.layers.{i}.self_attn.out_proj
    {side}.blocks.{i}.attn_residual.{norm}         {side}.layers.{i}.self_attn_layer_norm
    decoder.blocks.{i}.cross.q                     decoder.layers.{i}.encoder_attn.q_proj
    decoder.blocks.{i}.cross.kv                    decoder.layers.{i}.encoder_attn.(k|v)_proj
    decoder.blocks.{i}.cross.out                   decoder.layers.{i}.encoder_attn.out_proj
    decoder.blocks.{i}.cross_residual.{norm}       decoder.layers.{i}.encoder_attn_layer_norm
    {side}.blocks.{i}.ffn.up                       {side}.layers.{i}.fc1
    {side}.blocks.{i}.ffn.down                     {side}.layers.{i}.fc2
    {side}.blocks.{i}.ffn_residual.{norm}          {side}.layers.{i}.final_layer_norm
    {side}.final_norm                              {side}.layer_norm

    [head]
    head.decoder                                   lm_head                                             =
    head.constant.values                           final_logits_bias                                   [1]
    head.dense                                     classification_head.dense
    head.classifier                                classification_head.out_proj
    [question-answering]
    head.classifier                                qa_outputs
    """,
    prefix="model",
    ignored=("encoder.embed_tokens.weight", "encoder.version", "decoder.version"),
    renamed={"encoder.embed_tokens.weight": "shared.weight"},  # for files that hold the table under this name alone
    zero_if_missing=("head.constant.values",),
)

CROSS_ATTENTION = tuple(
    f"decoder.layers.{{i}}.{module}.{leaf}"
    for module in (*(f"encoder_attn.{part}_proj" for part in ("q", "k", "v", "out")), "encoder_attn_layer_norm")
    for leaf in ("weight", "bias")
)


def with_decoder_alone(table: NameTable, names: Names | None = None) -> Names:
    """Weight names of a family whose decoder alone generates text; `names`: of all else, if `table` is not enough."""
    alone = table.extend(
        """
        decoder.embed.tokens    decoder.embed_tokens
        """,
        computed={theirs: ours for theirs, ours in table.computed.items() if ours.startswith("decoder")},
        renamed={"shared.weight": "decoder.embed_tokens.weight"},  # for files of the whole that hold one table
        unread=CROSS_ATTENTION,  # files of the decoder alone have it, and nothing to attend to
        zero_if_missing=(),
    )
    return lambda spec, task: (alone if task == "text-generation" else names or table)(spec, task)
