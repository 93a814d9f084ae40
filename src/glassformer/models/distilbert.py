"""DistilBERT: BERT distilled to half of its layers, without token types and pooler.

    ids + positions ─ norm ─ [ attention ─ add, norm ─ feed-forward ─ add, norm ] × L ─ head

Source: Sanh et al. 2019.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from glassformer.core import init
from glassformer.core.blocks import Block
from glassformer.core.classification_heads import SequenceClassifier, SpanClassifier, TokenClassifier
from glassformer.core.embeddings import Embedding
from glassformer.core.flow import Batch, Flow
from glassformer.core.heads import Head, Pooler
from glassformer.core.language_heads import MaskedLMHead
from glassformer.core.positions import LearnedPositions, Sinusoidal
from glassformer.core.specs import (
    AttentionSpec,
    BlockSpec,
    EmbeddingSpec,
    FeedForwardSpec,
    LayerNormSpec,
    LearnedPositionsSpec,
    SinusoidalSpec,
    StackSpec,
)
from glassformer.core.stack import Stack
from glassformer.models._config import MAX_LAYERS, MAX_ROWS, ConfigReader
from glassformer.models._family import Family
from glassformer.models._network import Network, TextSpec, require_ids
from glassformer.weights.names import Fused, Rule, Tied, WeightNames


@dataclass(frozen=True, kw_only=True, slots=True)
class DistilBertSpec(TextSpec):
    """BERT's spec, and more.

    span_dropout: before the span head · sinusoidal_init: learned positions are initialised as sine and cosine
    """

    span_dropout: float
    sinusoidal_init: bool


def spec(reader: ConfigReader) -> DistilBertSpec:
    """config.json → spec."""
    reader.get("tie_weights_", default=None)  # of old releases, which tied in any case
    width = reader.integer("hidden_size", "dim")
    dropout = reader.probability("dropout", default=0.1)
    activation = reader.text("activation", default="gelu")
    norm = LayerNormSpec(width=width, eps=1e-12)
    block = BlockSpec(
        attention=AttentionSpec(
            width=width,
            heads=reader.integer("num_attention_heads", "n_heads"),
            dropout=reader.probability("attention_dropout", default=0.1),
        ),
        feed_forward=FeedForwardSpec(width=width, hidden=reader.integer("hidden_dim"), activation=activation),
        on_residual=norm,
        dropout=dropout,
    )
    return DistilBertSpec(
        embed=EmbeddingSpec(
            vocabulary=reader.integer("vocab_size", maximum=MAX_ROWS),
            width=width,
            positions=LearnedPositionsSpec(count=reader.integer("max_position_embeddings", maximum=MAX_ROWS)),
            norm=norm,
            dropout=dropout,
        ),
        blocks=StackSpec(
            blocks=(block,) * reader.integer("num_hidden_layers", "n_layers", maximum=MAX_LAYERS)
        ),
        tied=reader.flag("tie_word_embeddings", default=True),
        labels=reader.labels(),
        problem=reader.problem(),
        classifier_dropout=reader.probability("seq_classif_dropout", default=0.2),
        span_dropout=reader.probability("qa_dropout", default=0.1),
        activation=activation,
        init_std=reader.number("initializer_range", default=0.02),
        sinusoidal_init=reader.flag("sinusoidal_pos_embds", default=False),
    )


class DistilBert(Network):
    """DistilBERT: embedding, stack, head."""

    def __init__(self, spec: DistilBertSpec, task: str) -> None:
        super().__init__()
        self.embed = Embedding(spec.embed)
        self.blocks = Stack(spec.blocks)
        for block in self.blocks:
            assert isinstance(block, Block)  # spec() asks for no other
            block.attn_residual.dropout.p = 0.0  # DistilBERT drops the feed-forward output alone
        self.head = self.make_head(spec, task)
        self.name_nodes()

    def make_head(self, spec: DistilBertSpec, task: str) -> Head | None:
        width = spec.blocks.width
        if task == "fill-mask":
            norm = spec.embed.norm
            assert norm is not None  # spec() sets it
            masked = MaskedLMHead(width, spec.embed.vocabulary, spec.activation, norm)
            if spec.tied:
                masked.decoder.weight = self.embed.tokens.weight
            return masked
        if task == "text-classification":
            return SequenceClassifier(
                width,
                spec.labels,
                pooler=Pooler(width, "relu"),
                dropout=spec.classifier_dropout,
                problem=spec.problem,
            )
        if task == "token-classification":
            return TokenClassifier(width, spec.labels, spec.embed.dropout)
        return SpanClassifier(width, spec.span_dropout) if task == "question-answering" else None

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        x: Tensor = self.embed(require_ids(batch), flow)
        x = self.blocks(x, flow)
        return x


def names(spec: DistilBertSpec, task: str) -> WeightNames:
    """Weight names."""
    layer = "transformer.layer.{i}"
    projector = "vocab_projector.weight"
    head: dict[str, str | Rule] = {
        "head.transform": "vocab_transform",
        "head.norm": "vocab_layer_norm",
        "head.decoder.weight": Tied(projector) if spec.tied else projector,
        "head.decoder.bias": "vocab_projector.bias",
        "head.pooler.dense": "pre_classifier",
        "head.classifier": "qa_outputs" if task == "question-answering" else "classifier",
    }
    return WeightNames(
        prefix="distilbert",
        body={
            "embed.tokens": "embeddings.word_embeddings",
            "embed.positions": "embeddings.position_embeddings",
            "embed.norm": "embeddings.LayerNorm",
            "blocks.{i}.attn.qkv": Fused(
                tuple(f"{layer}.attention.{part}_lin" for part in "qkv"), (spec.blocks.width,) * 3
            ),
            "blocks.{i}.attn.out": f"{layer}.attention.out_lin",
            "blocks.{i}.attn_residual.on_residual": f"{layer}.sa_layer_norm",
            "blocks.{i}.ffn.up": f"{layer}.ffn.lin1",
            "blocks.{i}.ffn.down": f"{layer}.ffn.lin2",
            "blocks.{i}.ffn_residual.on_residual": f"{layer}.output_layer_norm",
        },
        head=head,
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
    architectures={
        "DistilBertModel": "feature-extraction",
        "DistilBertForMaskedLM": "fill-mask",
        "DistilBertForSequenceClassification": "text-classification",
        "DistilBertForTokenClassification": "token-classification",
        "DistilBertForQuestionAnswering": "question-answering",
    },
    spec=spec,
    build=DistilBert,
    names=names,
    initialise=initialise,
    tiny={
        "model_type": "distilbert",
        "vocab_size": 99,
        "dim": 32,
        "n_layers": 3,
        "n_heads": 4,
        "hidden_dim": 48,
        "max_position_embeddings": 40,
        "dropout": 0.0,
        "attention_dropout": 0.0,
    },
)
