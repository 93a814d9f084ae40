"""BERT: an encoder that reads both ways, norms after every addition, and knows two segments.

    ids + positions + segments ─ norm ─ [ attention ─ add, norm ─ feed-forward ─ add, norm ] × L ─ head

Source: Devlin et al. 2019. The same recipe serves MiniLM and PubMedBERT.
"""

from __future__ import annotations

from torch import Tensor

from glassformer.core.embeddings import Embedding
from glassformer.core.flow import Batch, Flow
from glassformer.core.heads import (
    Classifier,
    Head,
    MaskedLanguageModel,
    NextSentence,
    Pooler,
    PreTraining,
    Span,
    Tagger,
)
from glassformer.core.specs import (
    AttentionSpec,
    BlockSpec,
    EmbeddingSpec,
    FeedForwardSpec,
    LayerNormSpec,
    LearnedPositionsSpec,
    StackSpec,
)
from glassformer.core.stack import Stack
from glassformer.models._family import MOST_LAYERS, MOST_ROWS, Family, Network, Reader, TextSpec, reads_ids
from glassformer.weights.names import Fused, Names, Rule, Tied


def spec(reader: Reader) -> TextSpec:
    """config.json → spec."""
    reader.fixed("position_embedding_type", "absolute")
    reader.fixed("is_decoder", False)
    reader.fixed("tie_word_embeddings", True)
    width = reader.integer("hidden_size")
    dropout = reader.probability("hidden_dropout_prob", default=0.1)
    activation = reader.text("hidden_act", default="gelu")
    norm = LayerNormSpec(width=width, eps=reader.number("layer_norm_eps", default=1e-12))
    block = BlockSpec(
        attention=AttentionSpec(
            width=width,
            heads=reader.integer("num_attention_heads"),
            dropout=reader.probability("attention_probs_dropout_prob", default=0.1),
        ),
        feed_forward=FeedForwardSpec(
            width=width, hidden=reader.integer("intermediate_size"), activation=activation
        ),
        on_residual=norm,
        dropout=dropout,
    )
    return TextSpec(
        embed=EmbeddingSpec(
            vocabulary=reader.integer("vocab_size", most=MOST_ROWS),
            width=width,
            positions=LearnedPositionsSpec(count=reader.integer("max_position_embeddings", most=MOST_ROWS)),
            segments=reader.integer("type_vocab_size", default=2, least=0),
            norm=norm,
            dropout=dropout,
        ),
        blocks=StackSpec(blocks=(block,) * reader.integer("num_hidden_layers", most=MOST_LAYERS)),
        labels=reader.labels(),
        problem=reader.problem(),
        classifier_dropout=reader.probability("classifier_dropout", default=dropout),
        activation=activation,
        init_std=reader.number("initializer_range", default=0.02),
    )


class Bert(Network):
    """Embedding, stack, head."""

    def __init__(self, spec: TextSpec, task: str) -> None:
        super().__init__()
        self.embed = Embedding(spec.embed)
        self.blocks = Stack(spec.blocks)
        self.head = self._head(spec, task)
        self.name_nodes()

    def _head(self, spec: TextSpec, task: str) -> Head:
        width, norm = spec.blocks.width, spec.embed.norm
        assert norm is not None  # spec() sets it
        masked = MaskedLanguageModel(width, spec.embed.vocabulary, spec.activation, norm)
        masked.decoder.weight = self.embed.tokens.weight
        heads: dict[str, Head] = {
            "feature-extraction": Pooler(width),
            "fill-mask": masked,
            "next-sentence-prediction": NextSentence(width),
            "pre-training": PreTraining(masked, NextSentence(width)),
            "text-classification": Classifier(
                width, spec.labels, dropout=spec.classifier_dropout, problem=spec.problem
            ),
            "token-classification": Tagger(width, spec.labels, spec.classifier_dropout),
            "question-answering": Span(width),
        }
        return heads[task]

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        x: Tensor = self.embed(reads_ids(batch), flow, batch.token_type_ids)
        x = self.blocks(x, flow)
        return x


def names(spec: TextSpec, task: str) -> Names:
    """Their tensor names."""
    width = spec.blocks.width
    layer = "encoder.layer.{i}"
    masked: dict[str, str | Rule] = {
        "transform": "cls.predictions.transform.dense",
        "norm": "cls.predictions.transform.LayerNorm",
        "decoder.weight": Tied("cls.predictions.decoder.weight"),
        "decoder.bias": "cls.predictions.bias",
    }
    classifier = {"next-sentence-prediction": "cls.seq_relationship", "question-answering": "qa_outputs"}
    head: dict[str, str | Rule] = {
        "head.classifier": classifier.get(task, "classifier"),
        "head.next_sentence.classifier": "cls.seq_relationship",
        **{f"head.{ours}": theirs for ours, theirs in masked.items()},
        **{f"head.masked.{ours}": theirs for ours, theirs in masked.items()},
    }
    return Names(
        prefix="bert",
        body={
            "embed.tokens": "embeddings.word_embeddings",
            "embed.positions": "embeddings.position_embeddings",
            "embed.segments": "embeddings.token_type_embeddings",
            "embed.norm": "embeddings.LayerNorm",
            "blocks.{i}.attn.qkv": Fused(
                tuple(f"{layer}.attention.self.{part}" for part in ("query", "key", "value")), (width,) * 3
            ),
            "blocks.{i}.attn.out": f"{layer}.attention.output.dense",
            "blocks.{i}.attn_residual.on_residual": f"{layer}.attention.output.LayerNorm",
            "blocks.{i}.ffn.up": f"{layer}.intermediate.dense",
            "blocks.{i}.ffn.down": f"{layer}.output.dense",
            "blocks.{i}.ffn_residual.on_residual": f"{layer}.output.LayerNorm",
            "head.dense": "pooler.dense",
            "head.pooler.dense": "pooler.dense",
            "head.next_sentence.pooler.dense": "pooler.dense",
        },
        head=head,
        ignored=("embeddings.position_ids", "cls.predictions.decoder.bias"),
    )


FAMILY = Family(
    model_type="bert",
    architectures={
        "BertModel": "feature-extraction",
        "BertForMaskedLM": "fill-mask",
        "BertForPreTraining": "pre-training",
        "BertForNextSentencePrediction": "next-sentence-prediction",
        "BertForSequenceClassification": "text-classification",
        "BertForTokenClassification": "token-classification",
        "BertForQuestionAnswering": "question-answering",
    },
    spec=spec,
    build=Bert,
    names=names,
    tiny={
        "model_type": "bert",
        "vocab_size": 99,
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "max_position_embeddings": 40,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    },
)
