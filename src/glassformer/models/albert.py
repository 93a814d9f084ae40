"""ALBERT: BERT with a factorized embedding, whose layers share their parameters.

    ids + positions + token types ─ norm ─ projection ─ [ one block, L times ] ─ head

    group          0           1            layers of a group are the same block, or the same few blocks in turn:
    layer       0  1  2     3  4  5         `num_hidden_groups`, `inner_group_num`

Source: Lan et al. 2020, section 3.1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from glassformer.core import Head, StackSpec
from glassformer.core.language_heads import NextSentenceHead, PreTrainingHead
from glassformer.models import bert
from glassformer.models._config import Values, size
from glassformer.models._family import CLASSIFIERS, Family, architectures
from glassformer.models._network import Encoder, TextSpec
from glassformer.models.electra import factorized
from glassformer.weights.names import WeightNames

KEYS = bert.KEYS.extend(
    embedding_width=size("embedding_size", 128),
    groups=size("num_hidden_groups", 1),
    inner=size("inner_group_num", 1),
    activation=("hidden_act", "gelu_new"),
    dropout=("hidden_dropout_prob", 0.0),
    attention_dropout=("attention_probs_dropout_prob", 0.0),
    classifier_dropout=("classifier_dropout_prob", 0.1),
    unused="down_scale_factor gap_size net_structure_type num_memory_blocks",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class AlbertSpec(TextSpec):
    """ALBERT: `inner` blocks in each of `groups` groups of layers."""

    groups: int = 1
    inner: int = 1

    def origin(self, n: int, blocks: int) -> tuple[int, int]:
        """Group of block n, and its number in the group."""
        layers = blocks // self.inner
        return int(n // self.inner / (layers / self.groups)), n % self.inner


@KEYS.spec
def spec(c: Values) -> AlbertSpec:
    made = factorized(c, bert.text_spec(c, AlbertSpec, **c("groups inner")), projection=c.width)
    block = bert.block_spec(c)
    block = replace(block, feed_forward_residual=replace(block.residual, dropout=0.0))
    count = c.layers * c.inner
    first: dict[tuple[int, int], int] = {}
    shared = tuple(first.setdefault(made.origin(n, count), n) for n in range(count))
    return replace(made, blocks=StackSpec(blocks=(block,) * count, shared=shared))


class SentenceOrderPreTrainingHead(PreTrainingHead):
    """ALBERT's pre-training: masked language model and sentence order at once; the loss is their sum."""

    FIELDS = ("prediction_logits", "sop_logits")
    SENTENCE_LABEL = "sentence_order_label"


class Albert(Encoder):
    """ALBERT: BERT with sentence-order prediction."""

    def make_head(self, spec: TextSpec, task: str) -> Head | None:
        if task != "sentence-order-pre-training":
            return super().make_head(spec, task)
        order = NextSentenceHead(spec.blocks.width, spec.labels, spec.classifier_dropout)
        return SentenceOrderPreTrainingHead(self.make_masked_head(spec), order)


NAMES = bert.NAMES.extend(
    """
    embed.projection                        encoder.embedding_hidden_mapping_in
    head.dense                              pooler
    head.pooler.dense                       pooler
    head.next_sentence.pooler.dense         pooler

    [head]
    head.transform                          predictions.dense
    head.norm                               predictions.LayerNorm
    head.decoder.weight                     predictions.decoder.weight   =
    head.decoder.bias                       predictions.bias
    [sentence-order-pre-training]
    head.masked.transform                   predictions.dense
    head.masked.norm                        predictions.LayerNorm
    head.masked.decoder.weight              predictions.decoder.weight   =
    head.masked.decoder.bias                predictions.bias
    head.next_sentence.classifier           sop_classifier.classifier
    """,
    prefix="albert",
    ignored=("embeddings.position_ids", "predictions.decoder.bias"),
)


def names(spec: AlbertSpec, task: str) -> WeightNames:
    """The names for a number of layers and groups: each block with those of the parameters that it shares."""
    count = len(spec.blocks.blocks)
    lines = []
    for n in range(count):
        group, inner = spec.origin(n, count)
        theirs = f"encoder.albert_layer_groups.{group}.albert_layers.{inner}"
        lines.append(f"""
            blocks.{n}.attn.qkv                     {theirs}.attention.(query|key|value)
            blocks.{n}.attn.out                     {theirs}.attention.dense
            blocks.{n}.attn_residual.on_residual    {theirs}.attention.LayerNorm
            blocks.{n}.ffn.up                       {theirs}.ffn
            blocks.{n}.ffn.down                     {theirs}.ffn_output
            blocks.{n}.ffn_residual.on_residual     {theirs}.full_layer_layer_norm
            """)
    return NAMES.extend("".join(lines))(spec, task)


FAMILY = Family(
    model_type="albert",
    distinction="all layers of a group share their parameters; a projection behind a narrow embedding",
    architectures=architectures(
        "Albert",
        f"Model ForMaskedLM ForPreTraining {CLASSIFIERS}",
        ForPreTraining="sentence-order-pre-training",
    ),
    spec=spec,
    build=Albert,
    names=names,
    tiny=KEYS.tiny("albert", embedding_size=12),
)
