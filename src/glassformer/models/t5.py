"""T5: a text-to-text encoder-decoder with relative position biases that all layers of a stack share.

    source ids ─ embed ─ [ norm ─ attention ─ add ─ norm ─ feed-forward ─ add ] × L ─ norm ─ memory
                               └ + bias of the distance, in both directions
    target ids ─ embed ─ [ … causal, + bias of the distance back … cross-attention … ] × L ─ norm ─ head

Scores are not divided by √E (the weights start small instead), norms do not centre, and no layer has a bias.
Version 1.1 gates the feed-forward layer and does not tie the head; so does Flan-T5.
Source: Raffel et al. 2020, section 2.1; version 1.1: Shazeer 2020, "GLU variants", section 3, and the released code.
Differs: in fp16 the reference library clamps the residual stream, and keeps W_down in fp32; here a stream beyond 65,504
overflows. Load such a checkpoint in bf16 or fp32, where neither library clamps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from glassformer.core import init
from glassformer.core.attention import Attention, CrossAttention
from glassformer.core.classification_heads import TokenClassifier
from glassformer.core.embeddings import Embedding
from glassformer.core.flow import Batch, Flow
from glassformer.core.heads import Head
from glassformer.core.positions import BucketedBias
from glassformer.core.specs import (
    AttentionSpec,
    BlockSpec,
    BucketedBiasSpec,
    EmbeddingSpec,
    FeedForwardSpec,
    GatedFeedForwardSpec,
    RMSNormSpec,
    StackSpec,
)
from glassformer.errors import UnsupportedError
from glassformer.files import safe_repr
from glassformer.models._config import MAX_LAYERS, MAX_ROWS, ConfigReader
from glassformer.models._family import Family
from glassformer.models._network import Network, require_ids
from glassformer.models._seq2seq import Seq2SeqLMHead, StreamSpec, decoder_block, make_stream
from glassformer.models.bart import Bart, BartSpec
from glassformer.weights.names import Fused, Rule, Tied, TiedUnlessStored, WeightNames

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True, kw_only=True, slots=True)
class T5Spec(BartSpec):
    """BART's spec, and more. own_head: the output projection is not tied to the embedding"""

    own_head: bool = False


def spec(reader: ConfigReader) -> T5Spec:
    """config.json → spec."""
    reader.fixed("is_encoder_decoder", True, False)  # False where an encoder was saved alone
    reader.fixed("is_decoder", False)
    reader.get("n_positions", default=None)  # the length in training; relative positions have no limit
    width = reader.integer("hidden_size", "d_model")
    heads = reader.integer("num_attention_heads", "num_heads")
    dropout = reader.probability("dropout_rate", default=0.1)
    norm = RMSNormSpec(width=width, eps=reader.number("layer_norm_epsilon", default=1e-6))
    embed = EmbeddingSpec(
        vocabulary=reader.integer("vocab_size", maximum=MAX_ROWS), width=width, dropout=dropout
    )
    block = BlockSpec(
        attention=AttentionSpec(
            width=width,
            heads=heads,
            head_width=reader.integer("head_dim", "d_kv", default=64),
            bias=False,
            out_bias=False,
            scale=1.0,
            dropout=dropout,
        ),
        feed_forward=feed_forward_spec(reader, width, dropout),
        before=norm,
        dropout=dropout,
    )
    layers = reader.integer("num_hidden_layers", "num_layers", maximum=MAX_LAYERS)

    def stream(block: BlockSpec, layers: int, *, bidirectional: bool) -> StreamSpec:
        bias = position_bias_spec(reader, heads, bidirectional=bidirectional)
        blocks = StackSpec(blocks=(block,) * layers, bias=bias)
        return StreamSpec(embed=embed, blocks=blocks, final_norm=norm, final_dropout=dropout)

    tied = reader.flag("tie_word_embeddings", default=True)
    decoder_layers = reader.integer("num_decoder_layers", default=layers, maximum=MAX_LAYERS)
    return T5Spec(
        encoder=stream(block, layers, bidirectional=True),
        decoder=stream(decoder_block(block), decoder_layers, bidirectional=False),
        own_head=not reader.flag("scale_decoder_outputs", default=tied),
        start_id=reader.integer("decoder_start_token_id", default=0, minimum=0, maximum=MAX_ROWS),
        end_id=reader.integer("eos_token_id", default=1, minimum=0, maximum=MAX_ROWS),
        labels=reader.labels(),
        problem=reader.problem(),
        classifier_dropout=reader.probability("classifier_dropout", default=0.0),
        init_std=reader.number("initializer_factor", default=1.0),
    )


def position_bias_spec(reader: ConfigReader, heads: int, *, bidirectional: bool) -> BucketedBiasSpec:
    """The relative position bias of a stack."""
    return BucketedBiasSpec(
        heads=heads,
        buckets=reader.integer("relative_attention_num_buckets", default=32),
        max_distance=reader.integer("relative_attention_max_distance", default=128),
        bidirectional=bidirectional,
    )


def feed_forward_spec(
    reader: ConfigReader, width: int, dropout: float
) -> FeedForwardSpec | GatedFeedForwardSpec:
    """The feed-forward layer, from `feed_forward_proj`: "relu", "gated-gelu" and so on; newer configs repeat its parts.

    Raises: UnsupportedError: another kind of gate.
    """
    kind = reader.text("feed_forward_proj", default="relu")
    gate, _, activation = kind.rpartition("-")
    if gate not in ("", "gated"):
        raise UnsupportedError(
            f"config.json: feed_forward_proj = {safe_repr(kind)} is not supported; supported: an activation, such as "
            "'relu', or a gated one, such as 'gated-gelu'"
        )
    layer = GatedFeedForwardSpec if reader.flag("is_gated_act", default=gate == "gated") else FeedForwardSpec
    return layer(
        width=width,
        hidden=reader.integer("d_ff"),
        activation=reader.text("dense_act_fn", default="gelu_new" if kind == "gated-gelu" else activation),
        bias=False,
        dropout=dropout,
    )


class ScaledSeq2SeqLMHead(Seq2SeqLMHead):
    """Tied language-model head: logits = (x / √D) Eᵀ, as rows of the embedding E are initialised about √D long.

    Source: Raffel et al. 2020, released code.
    """

    def transform_states(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        return x * float(x.shape[-1] ** -0.5)


class T5(Bart):
    """T5; without decoder_input_ids, the decoder reads the source again, for classification and spans.

    Differs: BART's body alone does so too; T5's needs decoder_input_ids, as in the reference library.
    """

    def __init__(self, spec: T5Spec, task: str) -> None:
        super().__init__(spec, task)
        self.repeats_source = task in ("text-classification", "question-answering")

    def make_head(self, spec: T5Spec, task: str) -> Head | None:  # type: ignore[override]
        if task != "translation":
            return super().make_head(spec, task)
        width, vocabulary = spec.decoder.blocks.width, spec.decoder.embed.vocabulary
        if spec.own_head:
            return Seq2SeqLMHead(width, vocabulary)
        head = ScaledSeq2SeqLMHead(width, vocabulary)
        head.decoder.weight = self.decoder.embed.tokens.weight
        return head


class T5Encoder(Network):
    """T5's encoder alone, with or without a token classifier."""

    def __init__(self, spec: T5Spec, task: str) -> None:
        super().__init__()
        self.encoder = make_stream(spec.encoder)
        classifies = task == "token-classification"
        self.head = TokenClassifier(self.width, spec.labels, spec.classifier_dropout) if classifies else None
        self.name_nodes()

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        x: Tensor = self.encoder(require_ids(batch), flow)
        return x


def build(spec: T5Spec, task: str) -> Network:
    """The network of a task: the encoder alone for tasks that need no decoder."""
    encoder_only = task in ("sentence-similarity", "token-classification")
    return T5Encoder(spec, task) if encoder_only else T5(spec, task)


@torch.no_grad()
def initialise(network: nn.Module, spec: T5Spec) -> None:
    """Initialise: embeddings with deviation 1, matrices with 1/√inputs; W_q smaller by 1/√E, as scores are not scaled.

    Source: Raffel et al. 2020, released code.
    """
    init.normal(network)
    for module in network.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=spec.init_std * module.in_features**-0.5)
    for module in network.modules():
        if isinstance(module, Attention):
            module.qkv.weight[: module.spec.heads * module.spec.E] *= module.spec.E**-0.5
        elif isinstance(module, CrossAttention):
            module.q.weight *= module.spec.E**-0.5
        elif isinstance(module, BucketedBias):
            nn.init.normal_(module.table.weight, std=spec.init_std * spec.encoder.blocks.width**-0.5)
        elif isinstance(module, Embedding):  # after the linear layers: one of them may share its weight
            nn.init.normal_(module.tokens.weight, std=spec.init_std)


def names(spec: T5Spec, task: str) -> WeightNames:
    """Weight names."""
    block = spec.encoder.blocks.blocks[0]
    inner = block.attention.heads * block.attention.E
    cross = "decoder.block.{i}.layer.1"
    body: dict[str, str | Rule] = {
        "encoder.embed.tokens": "shared",
        "decoder.embed.tokens": Tied("decoder.embed_tokens"),
        "decoder.blocks.{i}.cross_residual.before": f"{cross}.layer_norm",
        "decoder.blocks.{i}.cross.q": f"{cross}.EncDecAttention.q",
        "decoder.blocks.{i}.cross.kv": Fused(
            (f"{cross}.EncDecAttention.k", f"{cross}.EncDecAttention.v"), (inner,) * 2
        ),
        "decoder.blocks.{i}.cross.out": f"{cross}.EncDecAttention.o",
    }
    for stream, last in (("encoder", 1), ("decoder", 2)):
        ours, theirs = f"{stream}.blocks.{{i}}", f"{stream}.block.{{i}}.layer"
        attention, forward = f"{theirs}.0.SelfAttention", f"{theirs}.{last}.DenseReluDense"
        q, k, v = (f"{attention}.{matrix}" for matrix in "qkv")
        gated = isinstance(block.feed_forward, GatedFeedForwardSpec)
        body |= {
            f"{stream}.blocks.bias.table": f"{stream}.block.0.layer.0.SelfAttention.relative_attention_bias",
            f"{ours}.attn_residual.before": f"{theirs}.0.layer_norm",
            f"{ours}.attn.qkv": Fused((q, k, v), (inner,) * 3),
            f"{ours}.attn.out": f"{attention}.o",
            f"{ours}.ffn_residual.before": f"{theirs}.{last}.layer_norm",
            f"{ours}.ffn.gate": f"{forward}.wi_0",
            f"{ours}.ffn.up": f"{forward}.wi_1" if gated else f"{forward}.wi",
            f"{ours}.ffn.down": f"{forward}.wo",
            f"{stream}.final_norm": f"{stream}.final_layer_norm",
        }
    classifiers = {"question-answering": "qa_outputs", "token-classification": "classifier"}
    decoder = TiedUnlessStored("lm_head", "encoder.embed.tokens") if spec.own_head else Tied("lm_head")
    return WeightNames(
        prefix="transformer",
        prefixed=task in ("text-classification", "token-classification"),
        body=body,
        head={
            "head.decoder": decoder,
            "head.dense": "classification_head.dense",
            "head.classifier": classifiers.get(task, "classification_head.out_proj"),
        },
        ignored=(
            "encoder.embed_tokens.weight",
            # the first release's cross-attention had a bias of which no number was used
            "decoder.block.{i}.layer.{j}.EncDecAttention.relative_attention_bias.weight",
        ),
        # for files that hold the table under this name alone
        renamed={"encoder.embed_tokens.weight": "shared.weight"},
    )


FAMILY = Family(
    model_type="t5",
    distinction="relative position bias shared by all layers; unscaled attention scores",
    architectures={
        "T5Model": "feature-extraction",
        "T5ForConditionalGeneration": "translation",
        "T5ForSequenceClassification": "text-classification",
        "T5ForQuestionAnswering": "question-answering",
        "T5ForTokenClassification": "token-classification",
        "T5EncoderModel": "sentence-similarity",
    },
    former_architectures={"T5WithLMHeadModel": "T5ForConditionalGeneration"},
    spec=spec,
    build=build,
    names=names,
    initialise=initialise,
    tiny={
        "model_type": "t5",
        "is_encoder_decoder": True,
        "vocab_size": 99,
        "d_model": 32,
        "d_kv": 6,
        "d_ff": 48,
        "num_layers": 3,
        "num_decoder_layers": 2,
        "num_heads": 4,
        "relative_attention_num_buckets": 8,
        "relative_attention_max_distance": 11,
        "dropout_rate": 0.0,
        "initializer_factor": 0.3,  # 1 is usual; scores that nothing divides are then steep in so narrow a model
        "pad_token_id": 0,
        "eos_token_id": 1,
        "decoder_start_token_id": 0,
    },
)
