"""T5: every task as text to text; positions are a bias on the scores that the layers of a side share.

    source ids ─ embed ─ [ norm ─ attention ─ add ─ norm ─ feed-forward ─ add ] × L ─ norm ─ memory
                               └ + bias of the distance, in both directions
    target ids ─ embed ─ [ … causal, + bias of the distance back … cross-attention … ] × L ─ norm ─ head

Scores are not divided by √E (the weights start small instead), norms do not centre, and no layer has a bias.
Version 1.1 gates the feed-forward layer and gives the head a matrix of its own; Flan-T5 is built so.
Source: Raffel et al. 2020, section 2.1; version 1.1: Shazeer 2020, "GLU variants", section 3, and the released code.
Differs: in fp16 the reference library clamps the residual stream, and keeps W_down in fp32; nothing here does, and a
stream that grows beyond 65,504 becomes infinite. Load such a checkpoint in bf16 or fp32, where neither side clamps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from glassformer.core import init
from glassformer.core.attention import Attention, CrossAttention
from glassformer.core.embeddings import Embedding
from glassformer.core.flow import Batch, Flow
from glassformer.core.heads import Head, Tagger
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
from glassformer.files import shown
from glassformer.models._family import MOST_LAYERS, MOST_ROWS, Family, Network, Reader, reads_ids
from glassformer.models._seq2seq import SideSpec, Translation, as_decoder, make_side
from glassformer.models.bart import Bart, BartSpec
from glassformer.weights.names import Fused, Names, Rule, Tied, TiedUnlessStored

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True, kw_only=True, slots=True)
class T5Spec(BartSpec):
    """Both halves; `own_head` says that the output projection is a parameter of its own, and not the table."""

    own_head: bool = False


def spec(reader: Reader) -> T5Spec:
    """config.json → spec."""
    reader.fixed("is_encoder_decoder", True, False)  # an encoder that was saved alone says False
    reader.fixed("is_decoder", False)
    reader.get("n_positions", default=None)  # the length of texts in training; distances have no end
    width = reader.integer("hidden_size", "d_model")
    heads = reader.integer("num_attention_heads", "num_heads")
    dropout = reader.probability("dropout_rate", default=0.1)
    norm = RMSNormSpec(width=width, eps=reader.number("layer_norm_epsilon", default=1e-6))
    embed = EmbeddingSpec(
        vocabulary=reader.integer("vocab_size", most=MOST_ROWS), width=width, dropout=dropout
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
    buckets = reader.integer("relative_attention_num_buckets", default=32)
    furthest = reader.integer("relative_attention_max_distance", default=128)
    layers = reader.integer("num_hidden_layers", "num_layers", most=MOST_LAYERS)

    def side(block: BlockSpec, layers: int, *, bidirectional: bool) -> SideSpec:
        bias = BucketedBiasSpec(
            heads=heads, buckets=buckets, max_distance=furthest, bidirectional=bidirectional
        )
        return SideSpec(
            embed=embed,
            blocks=StackSpec(blocks=(block,) * layers, bias=bias),
            final_norm=norm,
            final_dropout=dropout,
        )

    tied = reader.flag("tie_word_embeddings", default=True)
    return T5Spec(
        encoder=side(block, layers, bidirectional=True),
        decoder=side(
            as_decoder(block),
            reader.integer("num_decoder_layers", default=layers, most=MOST_LAYERS),
            bidirectional=False,
        ),
        own_head=not reader.flag("scale_decoder_outputs", default=tied),
        start_id=reader.integer("decoder_start_token_id", default=0, least=0, most=MOST_ROWS),
        end_id=reader.integer("eos_token_id", default=1, least=0, most=MOST_ROWS),
        labels=reader.labels(),
        problem=reader.problem(),
        classifier_dropout=reader.probability("classifier_dropout", default=0.0),
        init_std=reader.number("initializer_factor", default=1.0),
    )


def feed_forward_spec(reader: Reader, width: int, dropout: float) -> FeedForwardSpec | GatedFeedForwardSpec:
    """`feed_forward_proj`: "relu", "gated-gelu" and the like; newer configs say both halves of it once more."""
    kind = reader.text("feed_forward_proj", default="relu")
    gate, _, activation = kind.rpartition("-")
    if gate not in ("", "gated"):
        raise UnsupportedError(
            f"config.json: feed_forward_proj = {shown(kind)} is not supported; supported: an activation, such as "
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


class ScaledTranslation(Translation):
    """logits = (x / √D) Eᵀ, with E the embedding table, whose rows start about √D long.

    Source: Raffel et al. 2020, released code.
    """

    def transformed(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        return x * float(x.shape[-1] ** -0.5)


class T5(Bart):
    """Encoder, decoder, head; without decoder_input_ids, the classifiers read the source a second time.

    Differs: BART's bare body does so too; T5's wants to be told what its decoder reads, as in the reference library.
    """

    def __init__(self, spec: T5Spec, task: str) -> None:
        super().__init__(spec, task)
        self.repeats = task in ("text-classification", "question-answering")

    def make_head(self, spec: T5Spec, task: str) -> Head | None:  # type: ignore[override]
        if task != "translation":
            return super().make_head(spec, task)
        width, vocabulary = spec.decoder.blocks.width, spec.decoder.embed.vocabulary
        if spec.own_head:
            return Translation(width, vocabulary)
        head = ScaledTranslation(width, vocabulary)
        head.decoder.weight = self.decoder.embed.tokens.weight
        return head


class T5Encoder(Network):
    """The encoder alone, bare or with a label for each token."""

    def __init__(self, spec: T5Spec, task: str) -> None:
        super().__init__()
        self.encoder = make_side(spec.encoder)
        tags = task == "token-classification"
        self.head = Tagger(self.width, spec.labels, spec.classifier_dropout) if tags else None
        self.name_nodes()

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        x: Tensor = self.encoder(reads_ids(batch), flow)
        return x


def build(spec: T5Spec, task: str) -> Network:
    """Both halves, or the encoder alone for the tasks that need no decoder."""
    alone = task in ("sentence-similarity", "token-classification")
    return T5Encoder(spec, task) if alone else T5(spec, task)


@torch.no_grad()
def initialise(network: nn.Module, spec: T5Spec) -> None:
    """Words with a deviation of 1, matrices with 1/√inputs; W_q smaller by 1/√E, by which scores are not divided.

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


def names(spec: T5Spec, task: str) -> Names:
    """Their tensor names."""
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
    for side, last in (("encoder", 1), ("decoder", 2)):
        ours, theirs = f"{side}.blocks.{{i}}", f"{side}.block.{{i}}.layer"
        attention, forward = f"{theirs}.0.SelfAttention", f"{theirs}.{last}.DenseReluDense"
        q, k, v = (f"{attention}.{matrix}" for matrix in "qkv")
        gated = isinstance(block.feed_forward, GatedFeedForwardSpec)
        body |= {
            f"{side}.blocks.bias.table": f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias",
            f"{ours}.attn_residual.before": f"{theirs}.0.layer_norm",
            f"{ours}.attn.qkv": Fused((q, k, v), (inner,) * 3),
            f"{ours}.attn.out": f"{attention}.o",
            f"{ours}.ffn_residual.before": f"{theirs}.{last}.layer_norm",
            f"{ours}.ffn.gate": f"{forward}.wi_0",
            f"{ours}.ffn.up": f"{forward}.wi_1" if gated else f"{forward}.wi",
            f"{ours}.ffn.down": f"{forward}.wo",
            f"{side}.final_norm": f"{side}.final_layer_norm",
        }
    classifiers = {"question-answering": "qa_outputs", "token-classification": "classifier"}
    return Names(
        prefix="transformer",
        prefixed=task in ("text-classification", "token-classification"),
        body=body,
        head={
            "head.decoder": TiedUnlessStored("lm_head", "encoder.embed.tokens")
            if spec.own_head
            else Tied("lm_head"),
            "head.dense": "classification_head.dense",
            "head.classifier": classifiers.get(task, "classification_head.out_proj"),
        },
        ignored=(
            "encoder.embed_tokens.weight",
            # the first release's cross-attention had a bias of which no number was used
            "decoder.block.{i}.layer.{j}.EncDecAttention.relative_attention_bias.weight",
        ),
        # where a file holds the table under this name alone
        newer={"encoder.embed_tokens.weight": "shared.weight"},
    )


FAMILY = Family(
    model_type="t5",
    oddity="distance decides a bias on the scores, shared by all layers; scores unscaled",
    architectures={
        "T5Model": "feature-extraction",
        "T5ForConditionalGeneration": "translation",
        "T5ForSequenceClassification": "text-classification",
        "T5ForQuestionAnswering": "question-answering",
        "T5ForTokenClassification": "token-classification",
        "T5EncoderModel": "sentence-similarity",
    },
    former={"T5WithLMHeadModel": "T5ForConditionalGeneration"},
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
