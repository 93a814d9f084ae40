"""BART: an encoder-decoder that learned to repair damaged text, with a norm right after each embedding.

    source ids + positions ─ norm ─ [ attention ─ add, norm ─ feed-forward ─ add, norm ] × L ────────── memory
    target ids + positions ─ norm ─ [ causal attention ─ add, norm ─ cross-attention ─ add, norm ─ … ] × L ─ head

For classification and spans the decoder reads the same text again, one place to the right.
Source: Lewis et al. 2020, sections 2 and 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from glassformer.core.flow import Batch, Flow, Output
from glassformer.core.heads import Classifier, Head, Problem, Span, last_token
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
from glassformer.models._family import MOST_LAYERS, MOST_ROWS, Family, Reader, reads_ids
from glassformer.models._seq2seq import PairSpec, SideSpec, Translator, as_decoder
from glassformer.weights.names import Fused, Names, OneRow, Rule, Tied

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True, kw_only=True, slots=True)
class BartSpec(PairSpec):
    """Both halves, and the ids with which the decoder begins and a text ends."""

    start_id: int = 2
    end_id: int = 2
    labels: int = 3
    problem: Problem | None = None
    classifier_dropout: float = 0.0
    init_std: float = 0.02


def spec(reader: Reader) -> BartSpec:
    """config.json → spec."""
    return replace(
        pair(reader, learned_positions(reader), embedding_norm=True, norm_first=False),
        start_id=reader.integer("decoder_start_token_id", default=2, least=0, most=MOST_ROWS),
        end_id=reader.integer("eos_token_id", default=2, least=0, most=MOST_ROWS),
    )


def learned_positions(reader: Reader) -> LearnedPositionsSpec:
    """A table whose first two rows stand for no position."""
    return LearnedPositionsSpec(count=reader.integer("max_position_embeddings", most=MOST_ROWS), offset=2)


def pair(
    reader: Reader,
    positions: LearnedPositionsSpec | SinusoidalSpec,
    *,
    embedding_norm: bool,
    norm_first: bool,
) -> BartSpec:
    """The config that BART and its kin have in common → spec; they differ in positions and in where norms stand."""
    reader.fixed("is_encoder_decoder", True)
    reader.fixed("is_decoder", False)
    reader.fixed("tie_word_embeddings", True)
    reader.fixed("normalize_before", norm_first)  # old configs say what is the family's own choice
    reader.fixed("add_final_layer_norm", norm_first)
    reader.fixed("normalize_embedding", embedding_norm)
    reader.fixed("static_position_embeddings", isinstance(positions, SinusoidalSpec))
    for key in (
        "_num_labels",  # repeats id2label
        "add_bias_logits",  # the constant is in the file, or it is 0
        "decoder_layerdrop",  # whole blocks left out, in training alone
        "encoder_layerdrop",
        "extra_pos_embeddings",  # the offset, before it was fixed
        "force_bos_token_to_be_generated",
        "hidden_size",  # d_model, encoder_layers, encoder_attention_heads under a second name
        "num_attention_heads",
        "num_hidden_layers",
    ):
        reader.get(key, default=None)
    width = reader.integer("d_model")
    dropout = reader.probability("dropout", default=0.1)
    attention_dropout = reader.probability("attention_dropout", default=0.0)
    activation = reader.text("activation_function", default="gelu")
    activation_dropout = reader.probability("activation_dropout", default=0.0)
    norm = LayerNormSpec(width=width)
    embed = EmbeddingSpec(
        vocabulary=reader.integer("vocab_size", most=MOST_ROWS),
        width=width,
        positions=positions,
        norm=norm if embedding_norm else None,
        dropout=dropout,
        scale=math.sqrt(width) if reader.flag("scale_embedding", default=False) else 1.0,
    )

    def block(side: str) -> BlockSpec:
        return BlockSpec(
            attention=AttentionSpec(
                width=width, heads=reader.integer(f"{side}_attention_heads"), dropout=attention_dropout
            ),
            feed_forward=FeedForwardSpec(
                width=width,
                hidden=reader.integer(f"{side}_ffn_dim"),
                activation=activation,
                dropout=activation_dropout,
            ),
            before=norm if norm_first else None,
            on_residual=None if norm_first else norm,
            dropout=dropout,
        )

    def side(blocks: BlockSpec, layers: str) -> SideSpec:
        return SideSpec(
            embed=embed,
            blocks=StackSpec(blocks=(blocks,) * reader.integer(layers, most=MOST_LAYERS)),
            final_norm=norm if norm_first else None,  # the pre-norm stream is not normed until here
        )

    return BartSpec(
        encoder=side(block("encoder"), "encoder_layers"),
        decoder=side(as_decoder(block("decoder")), "decoder_layers"),
        labels=reader.labels() if reader.get("id2label", "num_labels", default=None) else 3,
        problem=reader.problem(),
        classifier_dropout=reader.probability("classifier_dropout", "classif_dropout", default=0.0),
        init_std=reader.number("init_std", default=0.02),
    )


class EndClassifier(Classifier):
    """logits = W tanh(V x + b) + c, with x the decoder's state at the text's last end token, which has seen it all.

    Source: Lewis et al. 2020, section 3.1.
    """

    def __init__(self, width: int, labels: int, dropout: float, problem: Problem | None) -> None:
        super().__init__(width, labels, reads="last", dropout=dropout, problem=problem)
        self.dense = nn.Linear(width, width)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        token = torch.tanh(self.dense(self.dropout(last_token(x, flow))))
        return Output(logits=self.classifier(self.dropout(token)))


class Bart(Translator):
    """Encoder, decoder, head; without decoder_input_ids, all but the translator read the source a second time."""

    def __init__(self, spec: BartSpec, task: str) -> None:
        super().__init__(spec, task)
        self.spec = spec
        self.repeats = task != "translation"

    def make_head(self, spec: BartSpec, task: str) -> Head | None:  # type: ignore[override]
        width = spec.decoder.blocks.width
        if task == "text-classification":
            return EndClassifier(width, spec.labels, spec.classifier_dropout, spec.problem)
        return Span(width) if task == "question-answering" else super().make_head(spec, task)

    def encoded(self, batch: Batch, flow: Flow) -> tuple[Batch, Flow]:
        if self.repeats and batch.decoder_input_ids is None:
            batch = self.again(batch, flow)
        batch, flow = super().encoded(batch, flow)
        if isinstance(self.head, EndClassifier):
            flow = replace(flow, keep=self.ends(batch, flow))  # what the head may read
        return batch, flow

    def again(self, batch: Batch, flow: Flow) -> Batch:
        """The source as the decoder's input: moved one place to the right, behind the start token."""
        ids = reads_ids(batch)
        keep = ids.new_ones(ids.shape[0], 1, ids.shape[1]).bool() if flow.keep is None else flow.keep
        first = keep[:, 0] & (keep[:, 0].long().cumsum(-1) == 1)  # of each row, padding on the left or not
        moved = ids.roll(1, dims=1).masked_fill(first, self.spec.start_id)
        return replace(batch, decoder_input_ids=moved, decoder_keep=flow.keep)

    def ends(self, batch: Batch, flow: Flow) -> Tensor:
        """Where end tokens stand in the source. [B, 1, S] bool"""
        ids = reads_ids(batch)
        ends = (ids == self.spec.end_id)[:, None]
        ends = ends if flow.keep is None else ends & flow.keep
        assert batch.decoder_input_ids is not None  # `again` has made them where the caller did not
        if batch.decoder_input_ids.shape != ids.shape or not bool(ends.any(-1).all()):
            raise DataError(
                f"the classifier reads each text's last end token (id {self.spec.end_id}) in the decoder: end every "
                "text with it, and leave decoder_input_ids out"
            )
        return ends


def computes_positions(spec: BartSpec) -> bool:
    """Are positions waves? Then files that hold them say nothing new."""
    return isinstance(spec.encoder.embed.positions, SinusoidalSpec)


def names(spec: BartSpec, task: str) -> Names:
    """Their tensor names."""
    width = spec.encoder.blocks.width
    body: dict[str, str | Rule] = {
        "encoder.embed.tokens": "shared",
        "decoder.embed.tokens": Tied("decoder.embed_tokens"),
    }
    for side in ("encoder", "decoder"):
        ours, theirs = f"{side}.blocks.{{i}}", f"{side}.layers.{{i}}"
        attention = {"attn": "self_attn", "cross": "encoder_attn", "ffn": "final"}
        for part, layer in attention.items():
            norm = f"{theirs}.{layer}_layer_norm"
            body[f"{ours}.{part}_residual.on_residual"] = norm
            body[f"{ours}.{part}_residual.before"] = norm
            if part != "ffn":
                body[f"{ours}.{part}.out"] = f"{theirs}.{layer}.out_proj"
        q, k, v = (f"{theirs}.self_attn.{part}_proj" for part in "qkv")
        body[f"{ours}.attn.qkv"] = Fused((q, k, v), (width,) * 3)
        body[f"{ours}.ffn.up"] = f"{theirs}.fc1"
        body[f"{ours}.ffn.down"] = f"{theirs}.fc2"
        body[f"{side}.embed.positions"] = f"{side}.embed_positions"
        body[f"{side}.embed.norm"] = f"{side}.layernorm_embedding"
        body[f"{side}.final_norm"] = f"{side}.layer_norm"
    memory = "decoder.layers.{i}.encoder_attn"
    body["decoder.blocks.{i}.cross.q"] = f"{memory}.q_proj"
    body["decoder.blocks.{i}.cross.kv"] = Fused((f"{memory}.k_proj", f"{memory}.v_proj"), (width,) * 2)
    return Names(
        prefix="model",
        body=body,
        head={
            "head.decoder": Tied("lm_head"),
            "head.constant.values": OneRow("final_logits_bias"),
            "head.dense": "classification_head.dense",
            "head.classifier": "qa_outputs"
            if task == "question-answering"
            else "classification_head.out_proj",
        },
        ignored=(
            "encoder.embed_tokens.weight",
            "encoder.version",
            "decoder.version",
            *(
                f"{side}.embed_positions.weight"
                for side in ("encoder", "decoder")
                if computes_positions(spec)
            ),
        ),
        # where a file holds the table under this name alone
        newer={"encoder.embed_tokens.weight": "shared.weight"},
        zeros=("head.constant.values",),
    )


FAMILY = Family(
    model_type="bart",
    oddity="the end token's state classifies; the decoder's start token is the end token",
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
