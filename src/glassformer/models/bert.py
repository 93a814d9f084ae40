"""BERT: a bidirectional post-norm encoder with two token types.

    ids + positions + token types ─ norm ─ [ attention ─ add, norm ─ feed-forward ─ add, norm ] × L ─ head

Source: Devlin et al. 2019. The same recipe serves MiniLM and PubMedBERT.
"""

from __future__ import annotations

from torch import Tensor

from glassformer.core.classification_heads import SequenceClassifier, SpanClassifier, TokenClassifier
from glassformer.core.embeddings import Embedding
from glassformer.core.flow import Batch, Flow
from glassformer.core.heads import Head, Pooler
from glassformer.core.language_heads import MaskedLMHead, NextSentenceHead, PreTrainingHead
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
from glassformer.models._config import MAX_LAYERS, MAX_ROWS, ConfigReader
from glassformer.models._family import Family
from glassformer.models._network import Network, TextSpec, require_ids
from glassformer.weights.names import Fused, Rule, Tied, WeightNames


def spec(reader: ConfigReader, *, token_types: int | None = None) -> TextSpec:
    """config.json → spec; `token_types` where the config has them under another key than BERT's."""
    reader.fixed("position_embedding_type", "absolute")
    reader.fixed("is_decoder", False)
    reader.fixed("tie_word_embeddings", True)
    norm = LayerNormSpec(
        width=reader.integer("hidden_size"), eps=reader.number("layer_norm_eps", default=1e-12)
    )
    layer = block_spec(reader, norm)
    return TextSpec(
        embed=embedding_spec(reader, norm, token_types),
        blocks=StackSpec(blocks=(layer,) * reader.integer("num_hidden_layers", maximum=MAX_LAYERS)),
        labels=reader.labels(),
        problem=reader.problem(),
        classifier_dropout=reader.probability("classifier_dropout", default=layer.dropout),
        activation=reader.text("hidden_act", default="gelu"),
        init_std=reader.number("initializer_range", default=0.02),
    )


def block_spec(reader: ConfigReader, norm: LayerNormSpec) -> BlockSpec:
    """One block of the encoder."""
    return BlockSpec(
        attention=AttentionSpec(
            width=norm.width,
            heads=reader.integer("num_attention_heads"),
            dropout=reader.probability("attention_probs_dropout_prob", default=0.1),
        ),
        feed_forward=FeedForwardSpec(
            width=norm.width,
            hidden=reader.integer("intermediate_size"),
            activation=reader.text("hidden_act", default="gelu"),
        ),
        on_residual=norm,
        dropout=reader.probability("hidden_dropout_prob", default=0.1),
    )


def embedding_spec(
    reader: ConfigReader, norm: LayerNormSpec, token_types: int | None = None
) -> EmbeddingSpec:
    """The embedding of tokens, positions and token types."""
    if token_types is None:
        token_types = reader.integer("type_vocab_size", default=2, minimum=0)
    return EmbeddingSpec(
        vocabulary=reader.integer("vocab_size", maximum=MAX_ROWS),
        width=norm.width,
        positions=LearnedPositionsSpec(count=reader.integer("max_position_embeddings", maximum=MAX_ROWS)),
        token_types=token_types,
        norm=norm,
        dropout=reader.probability("hidden_dropout_prob", default=0.1),
    )


class Bert(Network):
    """BERT: embedding, stack, head."""

    def __init__(self, spec: TextSpec, task: str) -> None:
        super().__init__()
        self.embed = Embedding(spec.embed)
        self.blocks = Stack(spec.blocks)
        self.head = self.make_head(spec, task)
        self.name_nodes()

    def make_head(self, spec: TextSpec, task: str) -> Head:
        width, norm = spec.blocks.width, spec.embed.norm
        assert norm is not None  # spec() sets it
        masked = MaskedLMHead(width, spec.embed.vocabulary, spec.activation, norm)
        masked.decoder.weight = self.embed.tokens.weight
        heads: dict[str, Head] = {
            "feature-extraction": Pooler(width),
            "fill-mask": masked,
            "next-sentence-prediction": NextSentenceHead(width),
            "pre-training": PreTrainingHead(masked, NextSentenceHead(width)),
            "text-classification": SequenceClassifier(
                width, spec.labels, dropout=spec.classifier_dropout, problem=spec.problem
            ),
            "token-classification": TokenClassifier(width, spec.labels, spec.classifier_dropout),
            "question-answering": SpanClassifier(width),
        }
        return heads[task]

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        x: Tensor = self.embed(require_ids(batch), flow, batch.token_type_ids)
        x = self.blocks(x, flow)
        return x


def block_names(ours: str, width: int, *, attention: str, up: str, down: str) -> dict[str, str | Rule]:
    """Weight names of one block, whose modules are below these names in the checkpoint."""
    return {
        f"{ours}.attn.qkv": Fused(
            tuple(f"{attention}.self.{part}" for part in ("query", "key", "value")), (width,) * 3
        ),
        f"{ours}.attn.out": f"{attention}.output.dense",
        f"{ours}.attn_residual.on_residual": f"{attention}.output.LayerNorm",
        f"{ours}.ffn.up": f"{up}.dense",
        f"{ours}.ffn.down": f"{down}.dense",
        f"{ours}.ffn_residual.on_residual": f"{down}.LayerNorm",
    }


def names(spec: TextSpec, task: str) -> WeightNames:
    """Weight names."""
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
    return WeightNames(
        prefix="bert",
        body={
            "embed.tokens": "embeddings.word_embeddings",
            "embed.positions": "embeddings.position_embeddings",
            "embed.segments": "embeddings.token_type_embeddings",
            "embed.norm": "embeddings.LayerNorm",
            **block_names(
                "blocks.{i}",
                width,
                attention=f"{layer}.attention",
                up=f"{layer}.intermediate",
                down=f"{layer}.output",
            ),
            "head.dense": "pooler.dense",
            "head.pooler.dense": "pooler.dense",
            "head.next_sentence.pooler.dense": "pooler.dense",
        },
        head=head,
        ignored=("embeddings.position_ids", "cls.predictions.decoder.bias"),
    )


FAMILY = Family(
    model_type="bert",
    distinction="two token types; the first token's state, through a pooler, represents the text",
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
