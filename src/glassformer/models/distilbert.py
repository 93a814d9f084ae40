"""DistilBERT: BERT distilled to half of its layers, without token types and pooler.

    ids + positions ─ norm ─ [ attention ─ add, norm ─ feed-forward ─ add, norm ] × L ─ head

Source: Sanh et al. 2019.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import nn

from glassformer.core import init
from glassformer.core.blocks import BlockSpec
from glassformer.core.classification_heads import SequenceClassifier, SpanClassifier, TokenClassifier
from glassformer.core.heads import Head, Pooler
from glassformer.core.positions import LearnedPositions, Sinusoidal, SinusoidalSpec
from glassformer.core.stack import StackSpec
from glassformer.models import bert
from glassformer.models._family import Family, architectures
from glassformer.models._keys import Keys, Values, constant, flag
from glassformer.models._network import TextSpec
from glassformer.models._text import Encoder
from glassformer.weights.name_table import NameTable


@dataclass(frozen=True, kw_only=True, slots=True)
class DistilBertSpec(TextSpec):
    """BERT's spec, and more.

    span_dropout: before the span head · sinusoidal_init: learned positions are initialised as sine and cosine
    """

    span_dropout: float
    sinusoidal_init: bool


KEYS = Keys(
    width="hidden_size dim",
    layers="num_hidden_layers n_layers",
    heads="num_attention_heads n_heads",
    hidden="hidden_dim",
    vocabulary="vocab_size",
    max_tokens="max_position_embeddings",
    activation=("activation", "gelu"),
    dropout=("dropout", 0.1),
    attention_dropout=("attention_dropout", 0.1),
    classifier_dropout=("seq_classif_dropout", 0.2),
    span_dropout=("qa_dropout", 0.1),
    tied=("tie_word_embeddings", True),
    init_std=("initializer_range", 0.02),
    sinusoidal_init=flag("sinusoidal_pos_embds", False),
    eps=constant(1e-12),
    token_types=constant(0),
    causal=constant(False),
    unused="tie_weights_",  # of old releases, which tied in any case
)


@KEYS.spec
def spec(c: Values) -> DistilBertSpec:
    """config.json → spec."""
    made = bert.text_spec(c, DistilBertSpec, **c("span_dropout sinusoidal_init tied"))
    block = made.blocks.blocks[0]
    assert isinstance(block, BlockSpec)  # a BERT's is
    undropped = replace(block.residual, dropout=0.0)  # DistilBERT drops the feed-forward output alone
    return replace(made, blocks=StackSpec(blocks=(replace(block, attention_residual=undropped),) * c.layers))


class DistilBert(Encoder):
    """DistilBERT: embedding, stack, head."""

    def make_head(self, spec: TextSpec, task: str) -> Head | None:
        assert isinstance(spec, DistilBertSpec)  # spec() makes it
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


@torch.no_grad()
def initialise(network: nn.Module, spec: DistilBertSpec) -> None:
    """Initialise: normal, and sinusoidal positions where the config asks for them."""
    init.normal(network, spec.init_std)
    for table in network.modules():
        if spec.sinusoidal_init and isinstance(table, LearnedPositions):
            rows, width = table.weight.shape
            wave = Sinusoidal(SinusoidalSpec(count=rows), width)
            table.weight.copy_(wave(torch.arange(rows)[None], torch.float32)[0])


FAMILY = Family(
    model_type="distilbert",
    distinction="half of BERT's layers, no token types, no pooler",
    architectures=architectures(
        "DistilBert",
        "Model ForMaskedLM ForSequenceClassification ForTokenClassification ForQuestionAnswering",
    ),
    spec=spec,
    build=DistilBert,
    names=NAMES,
    initialise=initialise,
    tiny=KEYS.tiny("distilbert", dim=32, n_layers=3, n_heads=4),
)
