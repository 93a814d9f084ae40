"""MPNet: RoBERTa with a relative position bias that all layers share, and no token types.

    ids + positions ─ norm ─ [ attention (+ bias of the distance) ─ add, norm ─ feed-forward ─ add, norm ] × L ─ head

Sentence encoders such as all-mpnet-base-v2 are built on it.
Source: Song et al. 2020, "MPNet", section 2; the bias is T5's: Raffel et al. 2020, section 2.1.
"""

from __future__ import annotations

from dataclasses import replace

from glassformer.core.position_bias import BucketedBiasSpec
from glassformer.models import roberta
from glassformer.models._config import Values, constant, probability
from glassformer.models._family import CLASSIFIERS, Family, architectures
from glassformer.models._network import TextSpec

KEYS = roberta.KEYS.extend(
    token_types=constant(0),
    padding=constant(1),  # whatever the config says
    classifier_dropout=probability("hidden_dropout_prob", 0.1),
    fixed={"relative_attention_num_buckets": 32},  # the reference library computes with 32, whatever the config says
    unused="classifier_dropout",
)


@KEYS.spec
def spec(c: Values) -> TextSpec:
    like_roberta = roberta.text_spec(c)
    bias = BucketedBiasSpec(heads=c.heads, buckets=32)
    return replace(like_roberta, blocks=replace(like_roberta.blocks, bias=bias))


NAMES = roberta.NAMES.extend(
    """
    embed.segments                          -
    blocks.bias.table                       encoder.relative_attention_bias
    blocks.{i}.attn.qkv                     encoder.layer.{i}.attention.attn.(q|k|v)
    blocks.{i}.attn.out                     encoder.layer.{i}.attention.attn.o
    blocks.{i}.attn_residual.on_residual    encoder.layer.{i}.attention.LayerNorm
    """,
    prefix="mpnet",
)

FAMILY = Family(
    model_type="mpnet",
    distinction="RoBERTa with T5's relative position bias, shared by all layers",
    architectures=architectures("MPNet", f"Model ForMaskedLM {CLASSIFIERS}"),
    spec=spec,
    build=roberta.Roberta,
    names=NAMES,
    tiny=KEYS.tiny("mpnet", max_position_embeddings=42, pad_token_id=1),
)
