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

import torch
from torch import Tensor, nn

from glassformer.core import init
from glassformer.core.attention import Attention, AttentionSpec
from glassformer.core.blocks import BlockSpec, ResidualSpec
from glassformer.core.classification_heads import TokenClassifier
from glassformer.core.cross_attention import CrossAttention
from glassformer.core.embeddings import Embedding, EmbeddingSpec
from glassformer.core.feed_forward import FeedForwardSpec, GatedFeedForwardSpec
from glassformer.core.flow import Batch, Flow
from glassformer.core.heads import Head
from glassformer.core.norms import RMSNormSpec
from glassformer.core.positions import BucketedBias, BucketedBiasSpec
from glassformer.core.stack import StackSpec
from glassformer.errors import UnsupportedError
from glassformer.files import safe_repr
from glassformer.models._family import Family, architectures
from glassformer.models._keys import Keys, Values, flag, size, token_id
from glassformer.models._network import Network, Sizes, require_ids
from glassformer.models._seq2seq import Seq2SeqLMHead, StreamSpec, decoder_block, make_stream
from glassformer.models.bart import Bart, BartSpec
from glassformer.weights.name_table import NameTable
from glassformer.weights.names import WeightNames


@dataclass(frozen=True, kw_only=True, slots=True)
class T5Spec(BartSpec):
    """BART's spec, with T5's initialisation."""


KEYS = Keys(
    width="hidden_size d_model",
    heads="num_attention_heads num_heads",
    head_width=("head_dim d_kv", 64),
    hidden="d_ff",
    encoder_layers="num_hidden_layers num_layers",
    decoder_layers=("num_decoder_layers", "=encoder_layers"),
    vocabulary="vocab_size",
    eps=("layer_norm_epsilon", 1e-6),
    dropout=("dropout_rate", 0.1),
    classifier_dropout=("classifier_dropout", 0.0),
    buckets=size("relative_attention_num_buckets", 32),
    max_distance=size("relative_attention_max_distance", 128),
    tied_head=flag("scale_decoder_outputs tie_word_embeddings", True),
    start_id=token_id("decoder_start_token_id", 0),
    end_id=token_id("eos_token_id", 1),
    init_std=("initializer_factor", 1.0),
    # False where an encoder was saved alone
    fixed={"is_encoder_decoder": (True, False), "is_decoder": False},
    unused="n_positions",  # the length in training; relative positions have no limit
)


@KEYS.spec
def spec(c: Values) -> T5Spec:
    """config.json → spec."""
    norm = RMSNormSpec(**c("width eps"))
    embed = EmbeddingSpec(**c("vocabulary width dropout"))
    block = BlockSpec(
        attention=AttentionSpec(**c("width heads head_width dropout"), bias=False, out_bias=False, scale=1.0),
        feed_forward=feed_forward_spec(c),
        residual=ResidualSpec(before=norm, dropout=c.dropout),
    )

    def stream(block: BlockSpec, layers: int, *, bidirectional: bool) -> StreamSpec:
        bias = BucketedBiasSpec(**c("heads buckets max_distance"), bidirectional=bidirectional)
        blocks = StackSpec(blocks=(block,) * layers, bias=bias)
        return StreamSpec(embed=embed, blocks=blocks, final_norm=norm, final_dropout=c.dropout)

    return T5Spec(
        encoder=stream(block, c.encoder_layers, bidirectional=True),
        decoder=stream(decoder_block(block), c.decoder_layers, bidirectional=False),
        **c("tied_head start_id end_id labels problem classifier_dropout init_std"),
    )


def feed_forward_spec(c: Values) -> FeedForwardSpec | GatedFeedForwardSpec:
    """The feed-forward layer, from `feed_forward_proj`: "relu", "gated-gelu" and so on; newer configs repeat its parts.

    Raises: UnsupportedError: another kind of gate.
    """
    kind = c.reader.text("feed_forward_proj", default="relu")
    gate, _, activation = kind.rpartition("-")
    if gate not in ("", "gated"):
        raise UnsupportedError(
            f"config.json: feed_forward_proj = {safe_repr(kind)} is not supported; supported: an activation, such as "
            "'relu', or a gated one, such as 'gated-gelu'"
        )
    gated = c.reader.flag("is_gated_act", default=gate == "gated")
    default = "gelu_new" if kind == "gated-gelu" else activation
    return (GatedFeedForwardSpec if gated else FeedForwardSpec)(
        **c("width hidden dropout"), activation=c.reader.text("dense_act_fn", default=default), bias=False
    )


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
        if not spec.tied_head:
            return Seq2SeqLMHead(width, vocabulary)
        # Rows of the tied table are initialised about √D long (Raffel et al. 2020, released code).
        head = Seq2SeqLMHead(width, vocabulary, logit_scale=width**-0.5)
        head.decoder.weight = self.decoder.embed.tokens.weight
        return head


class T5Encoder(Network):
    """T5's encoder alone, with or without a token classifier."""

    def __init__(self, spec: T5Spec, task: str) -> None:
        super().__init__(Sizes.of_text(spec.encoder.embed))
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


NAMES = NameTable(
    """
    encoder.embed.tokens                      shared
    decoder.embed.tokens                      decoder.embed_tokens                                                =
    {side}.blocks.bias.table                  {side}.block.0.layer.0.SelfAttention.relative_attention_bias
    {side}.blocks.{i}.attn_residual.before    {side}.block.{i}.layer.0.layer_norm
    {side}.blocks.{i}.attn.qkv                {side}.block.{i}.layer.0.SelfAttention.(q|k|v)
    {side}.blocks.{i}.attn.out                {side}.block.{i}.layer.0.SelfAttention.o
    decoder.blocks.{i}.cross_residual.before  decoder.block.{i}.layer.1.layer_norm
    decoder.blocks.{i}.cross.q                decoder.block.{i}.layer.1.EncDecAttention.q
    decoder.blocks.{i}.cross.kv               decoder.block.{i}.layer.1.EncDecAttention.(k|v)
    decoder.blocks.{i}.cross.out              decoder.block.{i}.layer.1.EncDecAttention.o
    encoder.blocks.{i}.ffn_residual.before    encoder.block.{i}.layer.1.layer_norm
    encoder.blocks.{i}.ffn.up                 encoder.block.{i}.layer.1.DenseReluDense.wi
    encoder.blocks.{i}.ffn.down               encoder.block.{i}.layer.1.DenseReluDense.wo
    decoder.blocks.{i}.ffn_residual.before    decoder.block.{i}.layer.2.layer_norm
    decoder.blocks.{i}.ffn.up                 decoder.block.{i}.layer.2.DenseReluDense.wi
    decoder.blocks.{i}.ffn.down               decoder.block.{i}.layer.2.DenseReluDense.wo
    {side}.final_norm                         {side}.final_layer_norm

    [head]
    head.decoder                              lm_head                                                             =
    head.dense                                classification_head.dense
    head.classifier                           classification_head.out_proj
    [question-answering]
    head.classifier                           qa_outputs
    [token-classification]
    head.classifier                           classifier
    """,
    prefix="transformer",
    unprefixed=("feature-extraction", "translation", "question-answering", "sentence-similarity"),
    ignored=(
        "encoder.embed_tokens.weight",
        # the first release's cross-attention had a bias of which no number was used
        "decoder.block.{i}.layer.{j}.EncDecAttention.relative_attention_bias.weight",
    ),
    renamed={"encoder.embed_tokens.weight": "shared.weight"},  # for files that hold the table under this name alone
)
GATED = """
    encoder.blocks.{i}.ffn.gate    encoder.block.{i}.layer.1.DenseReluDense.wi_0
    encoder.blocks.{i}.ffn.up      encoder.block.{i}.layer.1.DenseReluDense.wi_1
    decoder.blocks.{i}.ffn.gate    decoder.block.{i}.layer.2.DenseReluDense.wi_0
    decoder.blocks.{i}.ffn.up      decoder.block.{i}.layer.2.DenseReluDense.wi_1
"""
OWN_HEAD = """
    [head]
    head.decoder    lm_head    =|encoder.embed.tokens
"""


def names(spec: T5Spec, task: str) -> WeightNames:
    """Weight names; version 1.1 gates the feed-forward layer, and has a head of its own."""
    gated = isinstance(spec.encoder.blocks.blocks[0].feed_forward, GatedFeedForwardSpec)
    return NAMES.extend(GATED * gated + OWN_HEAD * (not spec.tied_head))(spec, task)


FAMILY = Family(
    model_type="t5",
    distinction="relative position bias shared by all layers; unscaled attention scores",
    architectures=architectures(
        "T5",
        "Model ForConditionalGeneration ForSequenceClassification ForQuestionAnswering ForTokenClassification "
        "EncoderModel",
        EncoderModel="sentence-similarity",
    ),
    former_architectures={"T5WithLMHeadModel": "T5ForConditionalGeneration"},
    spec=spec,
    build=build,
    names=names,
    initialise=initialise,
    tiny=KEYS.tiny(
        "t5",
        **{"is_encoder_decoder": True, "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0},
        **{"d_model": 32, "num_heads": 4, "d_kv": 6, "num_layers": 3},
        relative_attention_num_buckets=8,
        relative_attention_max_distance=11,
        initializer_factor=0.3,  # 1 is usual; scores that nothing divides are then steep in so narrow a model
    ),
)
