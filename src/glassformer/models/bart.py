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

from glassformer.core.classification_heads import Problem, SequenceClassifier, SpanClassifier
from glassformer.core.flow import Batch, Flow, Output
from glassformer.core.heads import Head, last_token
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
from glassformer.errors import DataError
from glassformer.models._config import MAX_LAYERS, MAX_ROWS, ConfigReader
from glassformer.models._family import Family
from glassformer.models._network import require_ids
from glassformer.models._seq2seq import EncoderDecoderSpec, Seq2SeqModel, StreamSpec, decoder_block
from glassformer.weights.names import Fused, Rule, Tied, Unsqueezed, WeightNames

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


def spec(reader: ConfigReader) -> BartSpec:
    """config.json → spec."""
    return replace(
        encoder_decoder_spec(reader, learned_positions(reader), embedding_norm=True, norm_first=False),
        start_id=reader.integer("decoder_start_token_id", default=2, minimum=0, maximum=MAX_ROWS),
        end_id=reader.integer("eos_token_id", default=2, minimum=0, maximum=MAX_ROWS),
    )


def learned_positions(reader: ConfigReader) -> LearnedPositionsSpec:
    """Learned positions; the first two rows of their table are unused."""
    return LearnedPositionsSpec(count=reader.integer("max_position_embeddings", maximum=MAX_ROWS), offset=2)


UNUSED_KEYS = (
    "_num_labels",  # repeats id2label
    "add_bias_logits",  # the bias is in the file, or it is 0
    "decoder_layerdrop",  # whole blocks left out, in training alone
    "encoder_layerdrop",
    "extra_pos_embeddings",  # the offset, before it was fixed
    "force_bos_token_to_be_generated",
    "hidden_size",  # d_model, encoder_layers, encoder_attention_heads under a second name
    "num_attention_heads",
    "num_hidden_layers",
)


def encoder_decoder_spec(
    reader: ConfigReader,
    positions: LearnedPositionsSpec | SinusoidalSpec,
    *,
    embedding_norm: bool,
    norm_first: bool,
) -> BartSpec:
    """Read the keys that BART, mBART, Marian and PEGASUS share; they differ in positions and in where norms are."""
    reader.fixed("is_encoder_decoder", True)
    reader.fixed("is_decoder", False)
    reader.fixed("tie_word_embeddings", True)
    # Old configs repeat what is fixed in each family.
    reader.fixed("normalize_before", norm_first)
    reader.fixed("add_final_layer_norm", norm_first)
    reader.fixed("normalize_embedding", embedding_norm)
    reader.fixed("static_position_embeddings", isinstance(positions, SinusoidalSpec))
    reader.used.update(UNUSED_KEYS)
    width = reader.integer("d_model")
    dropout = reader.probability("dropout", default=0.1)
    norm = LayerNormSpec(width=width)
    embed = EmbeddingSpec(
        vocabulary=reader.integer("vocab_size", maximum=MAX_ROWS),
        width=width,
        positions=positions,
        norm=norm if embedding_norm else None,
        dropout=dropout,
        scale=math.sqrt(width) if reader.flag("scale_embedding", default=False) else 1.0,
    )

    def stream(name: str, block: BlockSpec) -> StreamSpec:
        return StreamSpec(
            embed=embed,
            blocks=StackSpec(blocks=(block,) * reader.integer(f"{name}_layers", maximum=MAX_LAYERS)),
            final_norm=norm if norm_first else None,  # the pre-norm stream is not normed until here
        )

    def block(name: str) -> BlockSpec:
        return block_spec(reader, name, norm, norm_first=norm_first, dropout=dropout)

    return BartSpec(
        encoder=stream("encoder", block("encoder")),
        decoder=stream("decoder", decoder_block(block("decoder"))),
        labels=reader.labels() if reader.get("id2label", "num_labels", default=None) else 3,
        problem=reader.problem(),
        classifier_dropout=reader.probability("classifier_dropout", "classif_dropout", default=0.0),
        init_std=reader.number("init_std", default=0.02),
    )


def block_spec(
    reader: ConfigReader, stream: str, norm: LayerNormSpec, *, norm_first: bool, dropout: float
) -> BlockSpec:
    """One block of the encoder, as the keys of `stream` ("encoder" or "decoder") describe it."""
    return BlockSpec(
        attention=AttentionSpec(
            width=norm.width,
            heads=reader.integer(f"{stream}_attention_heads"),
            dropout=reader.probability("attention_dropout", default=0.0),
        ),
        feed_forward=FeedForwardSpec(
            width=norm.width,
            hidden=reader.integer(f"{stream}_ffn_dim"),
            activation=reader.text("activation_function", default="gelu"),
            dropout=reader.probability("activation_dropout", default=0.0),
        ),
        before=norm if norm_first else None,
        on_residual=None if norm_first else norm,
        dropout=dropout,
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
        if batch.decoder_input_ids.shape != ids.shape or not bool(ends.any(-1).all()):
            raise DataError(
                f"the classifier reads each text's last end token (id {self.spec.end_id}) in the decoder: end every "
                "text with it, and leave decoder_input_ids out"
            )
        return ends


def names(spec: BartSpec, task: str) -> WeightNames:
    """Weight names."""
    width = spec.encoder.blocks.width
    body: dict[str, str | Rule] = {
        "encoder.embed.tokens": "shared",
        "decoder.embed.tokens": Tied("decoder.embed_tokens"),
    }
    for stream in ("encoder", "decoder"):
        ours, theirs = f"{stream}.blocks.{{i}}", f"{stream}.layers.{{i}}"
        for part, layer in {"attn": "self_attn", "cross": "encoder_attn", "ffn": "final"}.items():
            norm = f"{theirs}.{layer}_layer_norm"
            body[f"{ours}.{part}_residual.on_residual"] = norm
            body[f"{ours}.{part}_residual.before"] = norm
            if part != "ffn":
                body[f"{ours}.{part}.out"] = f"{theirs}.{layer}.out_proj"
        q, k, v = (f"{theirs}.self_attn.{part}_proj" for part in "qkv")
        body[f"{ours}.attn.qkv"] = Fused((q, k, v), (width,) * 3)
        body[f"{ours}.ffn.up"] = f"{theirs}.fc1"
        body[f"{ours}.ffn.down"] = f"{theirs}.fc2"
        body[f"{stream}.embed.positions"] = f"{stream}.embed_positions"
        body[f"{stream}.embed.norm"] = f"{stream}.layernorm_embedding"
        body[f"{stream}.final_norm"] = f"{stream}.layer_norm"
    cross = "decoder.layers.{i}.encoder_attn"
    body["decoder.blocks.{i}.cross.q"] = f"{cross}.q_proj"
    body["decoder.blocks.{i}.cross.kv"] = Fused((f"{cross}.k_proj", f"{cross}.v_proj"), (width,) * 2)
    # Sinusoidal positions are computed: files that hold them repeat what is known.
    computed = isinstance(spec.encoder.embed.positions, SinusoidalSpec)
    computed_positions = [f"{stream}.embed_positions.weight" for stream in ("encoder", "decoder") if computed]
    return WeightNames(
        prefix="model",
        body=body,
        head={
            "head.decoder": Tied("lm_head"),
            "head.constant.values": Unsqueezed("final_logits_bias"),
            "head.dense": "classification_head.dense",
            "head.classifier": "qa_outputs"
            if task == "question-answering"
            else "classification_head.out_proj",
        },
        ignored=(
            "encoder.embed_tokens.weight",
            "encoder.version",
            "decoder.version",
            *computed_positions,
        ),
        # for files that hold the table under this name alone
        renamed={"encoder.embed_tokens.weight": "shared.weight"},
        zero_if_missing=("head.constant.values",),
    )


FAMILY = Family(
    model_type="bart",
    distinction="the end token's state classifies; the decoder's start token is the end token",
    architectures={
        "BartModel": "feature-extraction",
        "BartForConditionalGeneration": "translation",
        "BartForSequenceClassification": "text-classification",
        "BartForQuestionAnswering": "question-answering",
    },
    spec=spec,
    build=Bart,
    names=names,
    tiny={
        "model_type": "bart",
        "is_encoder_decoder": True,
        "vocab_size": 99,
        "d_model": 32,
        "encoder_layers": 3,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48,
        "max_position_embeddings": 40,
        "dropout": 0.0,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": 2,
        "forced_eos_token_id": 2,
    },
)
