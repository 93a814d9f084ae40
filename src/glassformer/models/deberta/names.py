"""Weight names of DeBERTa: those of version 1, and of both forms of the masked language-model head."""

from __future__ import annotations

from glassformer.models import bert
from glassformer.models.deberta.network import DebertaSpec
from glassformer.weights.name_table import NameTable
from glassformer.weights.names import WeightNames

LEGACY_NAMES = bert.NAMES.extend(
    """
    blocks.bias.table                       encoder.rel_embeddings
    blocks.{i}.attn.qkv                     encoder.layer.{i}.attention.self.in_proj    [heads]
    blocks.{i}.attn.q_bias                  encoder.layer.{i}.attention.self.q_bias
    blocks.{i}.attn.v_bias                  encoder.layer.{i}.attention.self.v_bias
    blocks.{i}.attn.position_key            encoder.layer.{i}.attention.self.pos_proj
    blocks.{i}.attn.position_query          encoder.layer.{i}.attention.self.pos_q_proj
    head.dense                              -
    head.pooler.dense                       -
    head.next_sentence.pooler.dense         -

    [head]
    head.pooler.dense                       pooler.dense
    """,
    prefix="deberta",
    ignored=(
        "embeddings.position_ids",
        "embeddings.position_embeddings.weight",  # published models that do not read them hold them nevertheless
        "cls.predictions.decoder.bias",
    ),
)
HEAD = """
    [head]
    head.transform          lm_predictions.lm_head.dense
    head.norm               lm_predictions.lm_head.LayerNorm
    head.decoder.weight     lm_predictions.lm_head.decoder.weight   =
    head.decoder.bias       lm_predictions.lm_head.bias
"""
"""The masked language-model head of the published files, which a config asks for by `legacy: false`."""


def weight_names(made: DebertaSpec, task: str, legacy: NameTable = LEGACY_NAMES) -> WeightNames:
    """The weight names, with those of the masked language-model head that the config asks for."""
    return (legacy if made.legacy else legacy.extend(HEAD))(made, task)
