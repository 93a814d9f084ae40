"""XLM: a cross-lingual encoder, pre-trained by masked or causal language modelling.

    ids + positions ─ norm ─ [ attention ─ add, norm ─ feed-forward ─ add, norm ] × L ─ head

Source: Lample and Conneau 2019. Final hidden states of padding are zeros.
Differs: a model with language embeddings is not supported; the reference library adds them to the tokens whose
language is given. In a `causal` model the reference attends to padding on the left, this does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from glassformer.core import init
from glassformer.core.classification_heads import SequenceClassifier, SpanClassifier, TokenClassifier
from glassformer.core.embeddings import Embedding
from glassformer.core.flow import Batch, Flow
from glassformer.core.heads import Head
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
from glassformer.errors import UnsupportedError
from glassformer.models._config import MAX_LAYERS, MAX_ROWS, ConfigReader
from glassformer.models._family import Family
from glassformer.models._network import Network, TextSpec, require_ids
from glassformer.weights.names import Fused, Rule, Tied, WeightNames

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True, kw_only=True, slots=True)
class XlmSpec(TextSpec):
    """BERT's spec, and more.

    embedding_std: initial standard deviation of embeddings
    sinusoidal_init: learned positions are initialised as sine and cosine
    """

    embedding_std: float
    sinusoidal_init: bool


UNUSED_KEYS = (
    "bos_index",  # ids of tokens, under old names
    "eos_index",
    "pad_index",
    "unk_index",
    "mask_index",
    "mask_token_id",
    "id2lang",  # names of languages
    "lang2id",
    "lang_id",
    "use_lang_emb",
    "max_vocab",  # how the vocabulary was built
    "min_count",
    "same_enc_dec",  # of the training code
    "share_inout_emb",
    "start_n_top",  # of a head that is not supported
    "end_n_top",
)


def spec(reader: ConfigReader) -> XlmSpec:
    """config.json → spec."""
    reader.fixed("is_encoder", True)
    reader.fixed("is_decoder", False)
    reader.fixed("asm", False)
    reader.fixed("summary_type", "first")
    reader.fixed("summary_use_proj", True)
    reader.fixed("summary_proj_to_labels", True)
    reader.fixed("summary_activation", None)
    if reader.integer("n_langs", default=1) > 1 and reader.flag("use_lang_emb", default=True):
        raise UnsupportedError(
            "config.json: use_lang_emb = true with n_langs above 1 adds an embedding of each token's language, which "
            "is not supported; set use_lang_emb to false if the model is used without, as the reference does by default"
        )
    reader.used.update(UNUSED_KEYS)
    width = reader.integer("emb_dim", "hidden_size")
    dropout = reader.probability("dropout", default=0.1)
    activation = "gelu" if reader.flag("gelu_activation", default=True) else "relu"
    norm = LayerNormSpec(width=width, eps=reader.number("layer_norm_eps", default=1e-12))
    block = BlockSpec(
        attention=AttentionSpec(
            width=width,
            heads=reader.integer("n_heads", "num_attention_heads"),
            dropout=reader.probability("attention_dropout", default=0.1),
            causal=reader.flag("causal", default=False),
        ),
        feed_forward=FeedForwardSpec(width=width, hidden=4 * width, activation=activation),
        on_residual=norm,
        dropout=dropout,
    )
    return XlmSpec(
        embed=EmbeddingSpec(
            vocabulary=reader.integer("vocab_size", "n_words", maximum=MAX_ROWS),
            width=width,
            positions=LearnedPositionsSpec(count=reader.integer("max_position_embeddings", maximum=MAX_ROWS)),
            norm=norm,
            dropout=dropout,
        ),
        blocks=StackSpec(
            blocks=(block,) * reader.integer("n_layers", "num_hidden_layers", maximum=MAX_LAYERS)
        ),
        tied=reader.flag("tie_word_embeddings", default=True),
        labels=reader.labels(),
        problem=reader.problem(),
        classifier_dropout=reader.probability("summary_first_dropout", default=0.1),
        activation=activation,
        init_std=reader.number("init_std", default=0.02),
        embedding_std=reader.number("embed_init_std", default=2048**-0.5),
        sinusoidal_init=reader.flag("sinusoidal_embeddings", default=False),
    )


class VocabularyHead(MaskedLMHead):
    """Language-model head without a transform: logits = x Eᵀ + b."""

    def __init__(self, width: int, vocabulary: int) -> None:
        Head.__init__(self)
        self.decoder = nn.Linear(width, vocabulary)

    def transform_states(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        return x


class Xlm(Network):
    """XLM: embedding, stack, head."""

    def __init__(self, spec: XlmSpec, task: str) -> None:
        super().__init__()
        self.embed = Embedding(spec.embed)
        self.blocks = Stack(spec.blocks)
        self.head = self.make_head(spec, task)
        self.name_nodes()

    def make_head(self, spec: XlmSpec, task: str) -> Head | None:
        width = spec.blocks.width
        if task == "fill-mask":
            head = VocabularyHead(width, spec.embed.vocabulary)
            if spec.tied:
                head.decoder.weight = self.embed.tokens.weight
            return head
        if task == "text-classification":
            return SequenceClassifier(
                width, spec.labels, pooling="first", dropout=spec.classifier_dropout, problem=spec.problem
            )
        if task == "token-classification":
            return TokenClassifier(width, spec.labels, spec.embed.dropout)
        return SpanClassifier(width) if task == "question-answering" else None

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        x: Tensor = self.embed(require_ids(batch), flow)
        x = self.blocks(x, flow)
        return x if flow.keep is None else x.masked_fill(~flow.keep[:, -1, -x.shape[1] :, None], 0.0)


def names(spec: TextSpec, task: str) -> WeightNames:
    """Weight names."""
    projector = "pred_layer.proj.weight"
    classifier = {"text-classification": "sequence_summary.summary", "question-answering": "qa_outputs"}
    head: dict[str, str | Rule] = {
        "head.decoder.weight": Tied(projector) if spec.tied else projector,
        "head.decoder.bias": "pred_layer.proj.bias",
        "head.classifier": classifier.get(task, "classifier"),
    }
    return WeightNames(
        prefix="transformer",
        body={
            "embed.tokens": "embeddings",
            "embed.positions": "position_embeddings",
            "embed.norm": "layer_norm_emb",
            "blocks.{i}.attn.qkv": Fused(
                tuple(f"attentions.{{i}}.{part}_lin" for part in "qkv"), (spec.blocks.width,) * 3
            ),
            "blocks.{i}.attn.out": "attentions.{i}.out_lin",
            "blocks.{i}.attn_residual.on_residual": "layer_norm1.{i}",
            "blocks.{i}.ffn.up": "ffns.{i}.lin1",
            "blocks.{i}.ffn.down": "ffns.{i}.lin2",
            "blocks.{i}.ffn_residual.on_residual": "layer_norm2.{i}",
        },
        head=head,
        ignored=("position_ids",),
    )


@torch.no_grad()
def initialise(network: nn.Module, spec: XlmSpec) -> None:
    """Initialise: normal, embeddings with a deviation of their own, sinusoidal positions where configured."""
    init.normal(network, spec.init_std)
    for table in network.modules():
        if isinstance(table, LearnedPositions) and spec.sinusoidal_init:
            rows, width = table.weight.shape
            wave = Sinusoidal(SinusoidalSpec(count=rows), width)
            table.weight.copy_(wave(torch.arange(rows)[None], torch.float32)[0])
        elif isinstance(table, nn.Embedding):
            nn.init.normal_(table.weight, std=spec.embedding_std)


FAMILY = Family(
    model_type="xlm",
    distinction="an untransformed, tied language-model head; final states of padding are zeros",
    architectures={
        "XLMModel": "feature-extraction",
        "XLMWithLMHeadModel": "fill-mask",
        "XLMForSequenceClassification": "text-classification",
        "XLMForTokenClassification": "token-classification",
        "XLMForQuestionAnsweringSimple": "question-answering",
    },
    spec=spec,
    build=Xlm,
    names=names,
    initialise=initialise,
    tiny={
        "model_type": "xlm",
        "vocab_size": 99,
        "emb_dim": 32,
        "n_layers": 3,
        "n_heads": 4,
        "max_position_embeddings": 40,
        "dropout": 0.0,
        "attention_dropout": 0.0,
        "pad_token_id": 0,
    },
)
