"""DistilBERT: BERT distilled to half of its layers, without token types and pooler.

    ids + positions ─ norm ─ [ attention ─ add, norm ─ feed-forward ─ add, norm ] × L ─ head

Source: Sanh et al. 2019.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import nn

from glassformer.core import Head, Pooler, init
from glassformer.core.classification_heads import SequenceClassifier, SpanClassifier, TokenClassifier
from glassformer.models import bert
from glassformer.models._config import Keys, Values, constants, flag
from glassformer.models._family import CLASSIFIERS, Family, architectures
from glassformer.models._network import Encoder, TextSpec
from glassformer.weights.name_table import NameTable


@dataclass(frozen=True, kw_only=True, slots=True)
class DistilBertSpec(TextSpec):
    """BERT's spec; `span_dropout` is before the span head, and positions may begin as sine and cosine."""

    span_dropout: float
    sinusoidal_init: bool


KEYS = Keys(
    width="hidden_size dim",
    layers="num_hidden_layers n_layers",
    heads="num_attention_heads n_heads",
    hidden="hidden_dim",
    vocabulary="vocab_size",
    max_tokens="max_position_embeddings",
    padding=("pad_token_id", 0),
    activation=("activation", "gelu"),
    dropout=("dropout", 0.1),
    attention_dropout=("attention_dropout", 0.1),
    classifier_dropout=("seq_classif_dropout", 0.2),
    span_dropout=("qa_dropout", 0.1),
    tied=("tie_word_embeddings", True),
    init_std=("initializer_range", 0.02),
    sinusoidal_init=flag("sinusoidal_pos_embds", False),
    **constants(eps=1e-12, token_types=0, causal=False),
    unused="tie_weights_",  # of old releases, which tied in any case
)


@KEYS.spec
def spec(c: Values) -> DistilBertSpec:
    block = bert.block_spec(c)
    block = replace(block, attention_residual=replace(block.residual, dropout=0.0))  # only feed-forward output drops
    return bert.text_spec(c, DistilBertSpec, block, **c("span_dropout sinusoidal_init tied"))


class DistilBert(Encoder):
    """DistilBERT: embedding, stack, head."""

    def make_head(self, spec: DistilBertSpec, task: str) -> Head | None:  # type: ignore[override]
        width = spec.blocks.width
        match task:
            case "text-classification":
                pooler, dropout = Pooler(width, "relu"), spec.classifier_dropout
                return SequenceClassifier(width, spec.labels, pooler=pooler, dropout=dropout, problem=spec.problem)
            case "token-classification":
                return TokenClassifier(width, spec.labels, spec.embed.dropout)
            case "question-answering":
                return SpanClassifier(width, spec.span_dropout)
        return None if task == "feature-extraction" else super().make_head(spec, task)


NAMES = NameTable(
    """
    embed.tokens                            embeddings.word_embeddings
    embed.positions                         embeddings.position_embeddings
    embed.norm                              embeddings.LayerNorm
    blocks.{i}.attn.qkv                     transformer.layer.{i}.attention.(q|k|v)_lin
    blocks.{i}.attn.out                     transformer.layer.{i}.attention.out_lin
    blocks.{i}.attn_residual.on_residual    transformer.layer.{i}.sa_layer_norm
    blocks.{i}.ffn.up                       transformer.layer.{i}.ffn.lin1
    blocks.{i}.ffn.down                     transformer.layer.{i}.ffn.lin2
    blocks.{i}.ffn_residual.on_residual     transformer.layer.{i}.output_layer_norm

    [head]
    head.transform                          vocab_transform
    head.norm                               vocab_layer_norm
    head.decoder.weight                     vocab_projector.weight   =?
    head.decoder.bias                       vocab_projector.bias
    head.pooler.dense                       pre_classifier
    head.classifier                         classifier
    [question-answering]
    head.classifier                         qa_outputs
    """,
    prefix="distilbert",
    ignored=("embeddings.position_ids",),
)


def initialise(network: nn.Module, spec: DistilBertSpec) -> None:
    """Initialise: normal, and sinusoidal positions where the config asks for them."""
    init.normal(network, spec.init_std)
    if spec.sinusoidal_init:
        init.sinusoidal_positions(network)


FAMILY = Family(
    model_type="distilbert",
    distinction="half of BERT's layers, no token types, no pooler",
    architectures=architectures("DistilBert", f"Model ForMaskedLM {CLASSIFIERS}"),
    spec=spec,
    build=DistilBert,
    names=NAMES,
    initialise=initialise,
    tiny=KEYS.tiny("distilbert", dim=32, n_layers=3, n_heads=4),
)
