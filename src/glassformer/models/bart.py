"""BART: an encoder-decoder pre-trained as a denoising autoencoder, with a norm right after each embedding.

    source ids + positions ─ norm ─ [ attention ─ add, norm ─ feed-forward ─ add, norm ] × L ────────── memory
    target ids + positions ─ norm ─ [ causal attention ─ add, norm ─ cross-attention ─ add, norm ─ … ] × L ─ head

For classification and spans the decoder reads the same text again, shifted right by one.
Source: Lewis et al. 2020, sections 2 and 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from glassformer.core.attention import AttentionSpec
from glassformer.core.blocks import BlockSpec, ResidualSpec
from glassformer.core.checks import any_true
from glassformer.core.classification_heads import Problem, SequenceClassifier, SpanClassifier
from glassformer.core.embeddings import EmbeddingSpec
from glassformer.core.feed_forward import FeedForwardSpec
from glassformer.core.flow import Batch, Flow, Output
from glassformer.core.heads import Head, last_token
from glassformer.core.norms import LayerNormSpec
from glassformer.core.positions import LearnedPositionsSpec, SinusoidalSpec
from glassformer.core.stack import StackSpec
from glassformer.errors import DataError
from glassformer.models._family import Family, architectures
from glassformer.models._keys import Keys, Values, constant, flag, token_id
from glassformer.models._network import require_ids
from glassformer.models._seq2seq import EncoderDecoderSpec, Seq2SeqModel, StreamSpec, decoder_block
from glassformer.weights.name_table import NameTable

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True, kw_only=True, slots=True)
class BartSpec(EncoderDecoderSpec):
    """Encoder, decoder and heads. start_id: the decoder's start token · end_id: the end token of a text"""

    start_id: int = 2
    end_id: int = 2
    labels: int = 3
    problem: Problem | None = None
    classifier_dropout: float = 0.0
    init_std: float = 0.02


SHARED_KEYS = Keys(
    width="d_model",
    vocabulary="vocab_size",
    max_tokens="max_position_embeddings",
    encoder_layers="encoder_layers",
    encoder_heads="encoder_attention_heads",
    encoder_hidden="encoder_ffn_dim",
    decoder_layers="decoder_layers",
    decoder_heads="decoder_attention_heads",
    decoder_hidden="decoder_ffn_dim",
    activation=("activation_function", "gelu"),
    dropout=("dropout", 0.1),
    attention_dropout=("attention_dropout", 0.0),
    activation_dropout=("activation_dropout", 0.0),
    classifier_dropout=("classifier_dropout classif_dropout", 0.0),
    scaled=flag("scale_embedding", False),
    init_std=("init_std", 0.02),
    fixed={"is_encoder_decoder": True, "is_decoder": False, "tie_word_embeddings": True},
    # repeats id2label; the bias is in the file, or it is 0; the offset, before it was fixed; whole blocks left out, in
    # training alone; d_model, encoder_layers, encoder_attention_heads under a second name
    unused="_num_labels add_bias_logits extra_pos_embeddings force_bos_token_to_be_generated"
    " decoder_layerdrop encoder_layerdrop hidden_size num_attention_heads num_hidden_layers",
)
"""What BART, mBART, Marian and PEGASUS share; they differ in positions and in where norms are."""


def sibling_keys(*, norm_first: bool, embedding_norm: bool, sinusoidal: bool) -> Keys:
    """The keys of one of them; old configs repeat what is fixed in each family."""
    return SHARED_KEYS.extend(
        norm_first=constant(norm_first),
        embedding_norm=constant(embedding_norm),
        fixed={
            "normalize_before": norm_first,
            "add_final_layer_norm": norm_first,
            "normalize_embedding": embedding_norm,
            "static_position_embeddings": sinusoidal,
        },
    )


KEYS = sibling_keys(norm_first=False, embedding_norm=True, sinusoidal=False).extend(
    start_id=token_id("decoder_start_token_id", 2), end_id=token_id("eos_token_id", 2)
)


@KEYS.spec
def spec(c: Values) -> BartSpec:
    """config.json → spec."""
    return replace(encoder_decoder_spec(c, learned_positions(c)), **c("start_id end_id"))


def learned_positions(c: Values) -> LearnedPositionsSpec:
    """Learned positions; the first two rows of their table are unused."""
    return LearnedPositionsSpec(count=c.max_tokens, offset=2)


def encoder_decoder_spec(c: Values, positions: LearnedPositionsSpec | SinusoidalSpec) -> BartSpec:
    """The spec of BART or a sibling."""
    norm = LayerNormSpec(width=c.width)
    embed = EmbeddingSpec(
        **c("vocabulary width dropout"),
        positions=positions,
        norm=norm if c.embedding_norm else None,
        scale=math.sqrt(c.width) if c.scaled else 1.0,
    )

    def stream(block: BlockSpec, layers: int) -> StreamSpec:
        return StreamSpec(
            embed=embed,
            blocks=StackSpec(blocks=(block,) * layers),
            final_norm=norm if c.norm_first else None,  # the pre-norm stream is not normed until here
        )

    return BartSpec(
        encoder=stream(block_spec(c, "encoder", norm), c.encoder_layers),
        decoder=stream(decoder_block(block_spec(c, "decoder", norm)), c.decoder_layers),
        labels=c.labels if c.reader.get("id2label", "num_labels", default=None) else 3,
        **c("problem classifier_dropout init_std"),
    )


def block_spec(c: Values, stream: str, norm: LayerNormSpec) -> BlockSpec:
    """One block of the encoder, with the fields of `stream` ("encoder" or "decoder")."""
    return BlockSpec(
        attention=AttentionSpec(width=c.width, heads=getattr(c, f"{stream}_heads"), dropout=c.attention_dropout),
        feed_forward=FeedForwardSpec(
            **c("width activation"), hidden=getattr(c, f"{stream}_hidden"), dropout=c.activation_dropout
        ),
        residual=ResidualSpec.pre_or_post(norm, pre=c.norm_first, dropout=c.dropout),
    )


class EndTokenClassifier(SequenceClassifier):
    """Sequence classifier over the end token: logits = W tanh(V x + b) + c.

    x is the decoder's state at the text's last end token, which attends to the whole text.

    Source: Lewis et al. 2020, section 3.1.
    """

    def __init__(self, width: int, labels: int, dropout: float, problem: Problem | None) -> None:
        super().__init__(width, labels, pooling="last", dropout=dropout, problem=problem)
        self.dense = nn.Linear(width, width)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        token = torch.tanh(self.dense(self.dropout(last_token(x, flow))))
        return Output(logits=self.classifier(self.dropout(token)))


class Bart(Seq2SeqModel):
    """BART; without decoder_input_ids, the decoder reads the source again, for all tasks but generation."""

    def __init__(self, spec: BartSpec, task: str) -> None:
        super().__init__(spec, task)
        self.spec = spec
        self.repeats_source = task != "translation"

    def make_head(self, spec: BartSpec, task: str) -> Head | None:  # type: ignore[override]
        width = spec.decoder.blocks.width
        if task == "text-classification":
            return EndTokenClassifier(width, spec.labels, spec.classifier_dropout, spec.problem)
        return SpanClassifier(width) if task == "question-answering" else super().make_head(spec, task)

    def run_encoder(self, batch: Batch, flow: Flow) -> tuple[Batch, Flow]:
        if self.repeats_source and batch.decoder_input_ids is None:
            batch = self.repeat_source(batch, flow)
        batch, flow = super().run_encoder(batch, flow)
        if isinstance(self.head, EndTokenClassifier):
            flow = replace(flow, keep=self.end_tokens(batch, flow))  # the head reads the last of them
        return batch, flow

    def repeat_source(self, batch: Batch, flow: Flow) -> Batch:
        """The source as decoder input: shifted right by one, behind the start token."""
        ids = require_ids(batch)
        keep = ids.new_ones(ids.shape[0], 1, ids.shape[1]).bool() if flow.keep is None else flow.keep
        first = keep[:, 0] & (keep[:, 0].long().cumsum(-1) == 1)  # of each row, padding on the left or not
        # The roll brings padding, or the last token, to the first visible position: the start token replaces it.
        shifted = ids.roll(1, dims=1).masked_fill(first, self.spec.start_id)
        return replace(batch, decoder_input_ids=shifted, decoder_keep=flow.keep)

    def end_tokens(self, batch: Batch, flow: Flow) -> Tensor:
        """Mask of the end tokens in the source. [B, 1, S] bool

        Raises: DataError: a text has none, or the decoder reads something else than the source.
        """
        ids = require_ids(batch)
        ends = (ids == self.spec.end_id)[:, None]
        ends = ends if flow.keep is None else ends & flow.keep
        assert batch.decoder_input_ids is not None  # `repeat_source` has set them where the caller did not
        if batch.decoder_input_ids.shape != ids.shape or any_true(~ends.any(-1)):
            raise DataError(
                f"the classifier reads each text's last end token (id {self.spec.end_id}) in the decoder: end every "
                "text with it, and leave decoder_input_ids out"
            )
        return ends


NAMES = NameTable(
    """
    encoder.embed.tokens                           shared
    decoder.embed.tokens                           decoder.embed_tokens                                =
    {side}.embed.positions                         {side}.embed_positions
    {side}.embed.norm                              {side}.layernorm_embedding
    {side}.blocks.{i}.attn_residual.before         {side}.layers.{i}.self_attn_layer_norm
    {side}.blocks.{i}.attn.qkv                     {side}.layers.{i}.self_attn.(q|k|v)_proj
    {side}.blocks.{i}.attn.out                     {side}.layers.{i}.self_attn.out_proj
    {side}.blocks.{i}.attn_residual.on_residual    {side}.layers.{i}.self_attn_layer_norm
    decoder.blocks.{i}.cross_residual.before       decoder.layers.{i}.encoder_attn_layer_norm
    decoder.blocks.{i}.cross.q                     decoder.layers.{i}.encoder_attn.q_proj
    decoder.blocks.{i}.cross.kv                    decoder.layers.{i}.encoder_attn.(k|v)_proj
    decoder.blocks.{i}.cross.out                   decoder.layers.{i}.encoder_attn.out_proj
    decoder.blocks.{i}.cross_residual.on_residual  decoder.layers.{i}.encoder_attn_layer_norm
    {side}.blocks.{i}.ffn_residual.before          {side}.layers.{i}.final_layer_norm
    {side}.blocks.{i}.ffn.up                       {side}.layers.{i}.fc1
    {side}.blocks.{i}.ffn.down                     {side}.layers.{i}.fc2
    {side}.blocks.{i}.ffn_residual.on_residual     {side}.layers.{i}.final_layer_norm
    {side}.final_norm                              {side}.layer_norm

    [head]
    head.decoder                                   lm_head                                             =
    head.constant.values                           final_logits_bias                                   [1]
    head.dense                                     classification_head.dense
    head.classifier                                classification_head.out_proj
    [question-answering]
    head.classifier                                qa_outputs
    """,
    prefix="model",
    ignored=("encoder.embed_tokens.weight", "encoder.version", "decoder.version"),
    renamed={"encoder.embed_tokens.weight": "shared.weight"},  # for files that hold the table under this name alone
    zero_if_missing=("head.constant.values",),
)

SINUSOIDAL_NAMES = NAMES.extend(
    computed={f"{side}.embed_positions.weight": f"{side}.embed.positions" for side in ("encoder", "decoder")}
)
"""For siblings whose positions are computed: files that hold them repeat what is known."""

TINY = {
    **{"is_encoder_decoder": True, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
    **{"decoder_start_token_id": 2, "forced_eos_token_id": 2},
}

FAMILY = Family(
    model_type="bart",
    distinction="the end token's state classifies; the decoder's start token is the end token",
    architectures=architectures(
        "Bart", "Model ForConditionalGeneration ForSequenceClassification ForQuestionAnswering"
    ),
    spec=spec,
    build=Bart,
    names=NAMES,
    tiny=KEYS.tiny("bart", **TINY),
)
