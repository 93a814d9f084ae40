"""The network of encoder-decoder families: BART, T5, Whisper and the like differ in specs, heads and weight names.

    source ids ─ encoder ─────────────── memory
                                           │ keys and values
    target ids ─ decoder (causal, cross) ──┴── final ─ head

Source: Vaswani et al. 2017, figure 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from glassformer.core.attention import AttentionSpec
from glassformer.core.blocks import BlockSpec, ResidualSpec
from glassformer.core.classification_heads import Problem
from glassformer.core.codebooks import CodebookEmbeddingSpec
from glassformer.core.cross_attention import CrossAttentionSpec
from glassformer.core.embeddings import Embedding, EmbeddingSpec
from glassformer.core.feed_forward import FeedForwardSpec
from glassformer.core.flow import Batch, EncoderOutput, Flow, Node, Output
from glassformer.core.heads import Head, Labels, not_none
from glassformer.core.language_heads import CausalLMHead
from glassformer.core.norms import LayerNormSpec, NormSpec, make_norm
from glassformer.core.position_bias import BucketedBiasSpec
from glassformer.core.stack import AttentionGroup, Stack, StackSpec, cross_attention, self_attention
from glassformer.errors import ConfigError
from glassformer.models._config import Values
from glassformer.models._network import Network, Sizes, require_tokens

if TYPE_CHECKING:
    from jaxtyping import Float, Int

InputEmbedding = TypeVar("InputEmbedding", bound=Node)
LMHead = TypeVar("LMHead", bound=CausalLMHead)


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamSpec:
    """The encoder or the decoder: an embedding, a stack of blocks, a final norm."""

    embed: EmbeddingSpec
    blocks: StackSpec
    final_norm: NormSpec | None = None
    final_dropout: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class EncoderDecoderSpec:
    """Encoder and decoder, and what heads need.

    tied: both share one embedding table
    tied_head: the output projection is the decoder's table
    start_id: the decoder's start token
    end_id: the end token of a text
    """

    encoder: StreamSpec
    decoder: StreamSpec
    tied: bool = True
    tied_head: bool = True
    start_id: int = 2
    end_id: int = 2
    labels: int = 2
    problem: Problem | None = None
    classifier_dropout: float = 0.0
    init_std: float = 0.02

    def __post_init__(self) -> None:
        tables = [(half.embed.vocabulary, half.embed.width) for half in (self.encoder, self.decoder)]
        if self.tied and tables[0] != tables[1]:
            raise ConfigError(
                f"tied embeddings are one table, but the encoder's is {list(tables[0])} and the decoder's "
                f"{list(tables[1])}; give them one size, or set tied=False (config.json: tie_embeddings)"
            )


def decoder_block(block: BlockSpec) -> BlockSpec:
    """The decoder's block for an encoder's: causal self-attention, and cross-attention of the same shape."""
    attention = block.attention
    cross = CrossAttentionSpec(
        width=attention.width,
        heads=attention.heads,
        head_width=attention.head_width,
        bias=attention.bias,
        out_bias=attention.out_bias,
        scale=attention.scale,
        dropout=attention.dropout,
    )
    return replace(block, attention=replace(attention, causal=True), cross=cross)


def streams(
    c: Values,
    embed: EmbeddingSpec,
    encoder: BlockSpec,
    decoder: BlockSpec,
    biases: tuple[BucketedBiasSpec | None, ...] = (None, None),
    **ends: Any,
) -> dict[str, Any]:
    """The fields `encoder` and `decoder` of a spec.

    Args:
        decoder: a block of the encoder's kind
        biases: position biases of each
        ends: final norm and dropout
    """
    blocks = {"encoder": encoder, "decoder": decoder_block(decoder)}
    return {
        side: StreamSpec(
            embed=embed, blocks=StackSpec(blocks=(block,) * getattr(c, f"{side}_layers"), bias=bias), **ends
        )
        for (side, block), bias in zip(blocks.items(), biases, strict=True)
    }


def encoder_decoder_spec(c: Values, *, books: int = 0, **more: Any) -> EncoderDecoderSpec:
    """The spec of the transformer of 2017, and of BART and its siblings.

    Args:
        books: codebooks of which each token has an id; 0: tokens of text
        more: its other fields
    """
    norm = LayerNormSpec(**c("width eps"))
    embed = (partial(CodebookEmbeddingSpec, books=books) if books else EmbeddingSpec)(
        **c("vocabulary width padding positions dropout"),
        norm=norm if c.embedding_norm else None,
        scale=math.sqrt(c.width) if c.scaled else 1.0,
    )

    def block(heads: int, hidden: int) -> BlockSpec:
        return BlockSpec(
            attention=AttentionSpec(**c("width head_width"), heads=heads, dropout=c.attention_dropout),
            feed_forward=FeedForwardSpec(**c("width activation"), hidden=hidden, dropout=c.activation_dropout),
            residual=ResidualSpec.pre_or_post(norm, pre=c.norm_first, dropout=c.dropout),
        )

    blocks = block(c.encoder_heads, c.encoder_hidden), block(c.decoder_heads, c.decoder_hidden)
    # the pre-norm stream is not normed until its end
    return EncoderDecoderSpec(**streams(c, embed, *blocks, final_norm=norm if c.norm_first else None), **more)


class Stream(Node, Generic[InputEmbedding]):
    """An encoder or a decoder: embedding ─ blocks ─ final norm and dropout, if there are any.

    embed: an `Embedding` of ids, or a recipe's own input module
    """

    def __init__(
        self,
        embed: InputEmbedding,
        blocks: StackSpec,
        final_norm: NormSpec | None,
        final_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embed = embed
        self.blocks = Stack(blocks)
        self.final_norm = make_norm(final_norm)
        self.dropout = nn.Dropout(final_dropout)

    def forward(self, inputs: Tensor, flow: Flow) -> Float[Tensor, "B T D"]:
        return self.finish(self.blocks(self.embed(inputs, flow), flow))

    def finish(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Final norm and dropout, behind the last block."""
        finished: Tensor = self.dropout(self.final_norm(x))
        return finished


def make_stream(spec: StreamSpec) -> Stream[Embedding]:
    """An encoder or a decoder of token ids."""
    return Stream(spec.embed.make(), spec.blocks, spec.final_norm, spec.final_dropout)


def make_streams(spec: EncoderDecoderSpec) -> tuple[Stream[Embedding], Stream[Embedding]]:
    """Encoder and decoder, with one embedding table where they are tied."""
    encoder, decoder = make_stream(spec.encoder), make_stream(spec.decoder)
    if spec.tied:
        decoder.embed.tokens.weight = encoder.embed.tokens.weight
    return encoder, decoder


class Seq2SeqLMHead(CausalLMHead):
    """Sequence-to-sequence language-model head: position t of the decoder predicts label t.

    Differs: a decoder-only model's labels are its own inputs, shifted by one; here the caller shifts the decoder's
    inputs (`shift_right`), so that labels are aligned with predictions.
    """

    def align_labels(self, labels: Tensor) -> Tensor:
        return labels


class LogitsBias(nn.Module):
    """logits + bias: `final_logits_bias` of BART's checkpoints, usually 0; never trained.

    Differs: the reference library keeps it as a buffer; here it is a parameter without a gradient, loaded and saved
    like all others.
    """

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, logits: Float[Tensor, "B T V"]) -> Float[Tensor, "B T V"]:
        return logits + self.values.detach()


class BiasedSeq2SeqLMHead(Seq2SeqLMHead):
    """logits = x Eᵀ + bias, with E the embedding table."""

    def __init__(self, width: int, vocabulary: int) -> None:
        super().__init__(width, vocabulary)
        self.constant = LogitsBias(vocabulary)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        return Output(logits=self.constant(not_none(super().forward(x, flow).logits)))

    def bias(self) -> Float[Tensor, "V"]:
        return self.constant.values.detach()


class EncoderDecoder(Network):
    """Encoder-decoder transformer; a recipe's constructor adds `head` and ends with `name_nodes()`.

    Args:
        batch: `input_ids` [B, S], the source · `decoder_input_ids` [B, T], the target so far, beginning with the
            start token · `decoder_keep` [B, 1, past + T] bool, False where the target is padding
        flow: `keep` [B, 1, S] bool, False where the source is padding · `positions` [B, S] of the source · `memory`,
            the encoder output of an earlier call of `memory`: then the encoder does not run · `cache` and `last`,
            of the decoder
    Returns: Output with what the head makes, such as `logits` [B, T, V], and `encoder_last_hidden_state` [B, S, D].
    Raises: ConfigError: no decoder_input_ids; neither input_ids nor a memory.
    Taps: encoder.… · memory [B S D] · decoder.… · final [B T D] · the fields of the head
    """

    READS = ("input_ids", "decoder_input_ids")

    source_as_labels = False
    """Whether a call without decoder inputs takes the source for its labels, as the reference library does."""

    def __init__(self, encoder: Stream[Any], decoder: Stream[Embedding], sizes: Sizes) -> None:
        super().__init__(sizes)
        self.encoder = encoder
        self.decoder = decoder

    def tie(self, head: LMHead, tied: bool = True) -> LMHead:
        """The head, with the decoder's embedding table as its output projection if it is tied."""
        if tied:
            head.decoder.weight = self.decoder.embed.tokens.weight
        return head

    def own_taps(self) -> tuple[str, ...]:
        return ("memory", *super().own_taps())

    def stacks(self) -> dict[str, Stack]:
        return {"source": self.encoder.blocks, "target": self.decoder.blocks}

    def attention_layout(self) -> dict[str, AttentionGroup]:
        return {
            "encoder": self_attention(self.encoder.blocks, "source"),
            "decoder": self_attention(self.decoder.blocks, "target"),
            "cross": cross_attention(self.decoder.blocks, "target", "source"),
        }

    def memory(self, batch: Batch, flow: Flow) -> EncoderOutput:
        """Run the encoder: its final hidden states, and which of them the decoder may attend to."""
        states = self.encoder(
            self.encoder_input(batch),
            Flow(keep=flow.keep, positions=flow.positions, tape=flow.tape, recompute=flow.recompute),
        )
        return EncoderOutput(self.tap(flow, "memory", states), flow.keep)

    def encoder_input(self, batch: Batch) -> Tensor:
        """The field of a batch that the encoder reads."""
        return require_tokens(batch)

    def forward(self, batch: Batch, flow: Flow) -> Output:
        batch, flow = self.run_encoder(batch, flow)
        assert flow.memory is not None  # `run_encoder` sets it
        return replace(super().forward(batch, flow), encoder_last_hidden_state=flow.memory.states)

    def loss_sums(self, batch: Batch, flow: Flow, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        return super().loss_sums(*self.run_encoder(batch, flow), labels, smoothing=smoothing)

    def run_encoder(self, batch: Batch, flow: Flow) -> tuple[Batch, Flow]:
        """The decoder's batch, and the flow with the encoder output; the encoder runs where the caller brings none."""
        memory = self.memory(batch, flow) if flow.memory is None else flow.memory
        return batch, replace(flow, memory=memory)

    def finish(self, x: Tensor, flow: Flow) -> Tensor:
        return self.decoder.finish(x)

    def read_stream(self, x: Tensor, batch: Batch, flow: Flow) -> Output:
        # With a memory, `run_encoder` does not run the encoder, and gives what else the head reads.
        given = flow if flow.memory is not None else replace(flow, memory=EncoderOutput(x))
        return super().read_stream(x, *self.run_encoder(batch, given))

    def decoder_inputs(self, labels: Int[Tensor, "B T"], start_id: int | None, pad_id: int) -> Int[Tensor, "B T"]:
        """Decoder inputs for teacher forcing, from labels alone.

        Raises: ConfigError: no start token.
        """
        if start_id is None:
            raise ConfigError(
                "labels alone make no decoder_input_ids, since config.json has no decoder_start_token_id; give both, "
                "or load the model with overrides={'decoder_start_token_id': …}"
            )
        return shift_right(labels, start_id, pad_id)

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        if batch.decoder_input_ids is None:
            raise ConfigError("this model needs decoder_input_ids [B, T], beginning with the start token; got none")
        memory = self.memory(batch, flow) if flow.memory is None else flow.memory
        # A new flow: keep, positions and packing of the given one belong to the source.
        decoder_flow = Flow(
            keep=batch.decoder_keep,
            memory=memory,
            cache=flow.cache,
            tape=flow.tape,
            recompute=flow.recompute,
        )
        x: Tensor = self.decoder(batch.decoder_input_ids, decoder_flow)
        return x


class Seq2SeqModel(EncoderDecoder):
    """An encoder-decoder whose output projection is, mostly, the embedding table; or its body alone."""

    def __init__(self, spec: EncoderDecoderSpec, task: str = "translation") -> None:
        super().__init__(*make_streams(spec), Sizes.of_text(spec.encoder.embed, spec.decoder.embed))
        self.head = self.make_head(spec, task)
        self.name_nodes()

    def make_head(self, spec: EncoderDecoderSpec, task: str) -> Head | None:
        """The head of a task; None for the body alone."""
        if task != "translation":
            return None
        return self.tie(BiasedSeq2SeqLMHead(spec.decoder.blocks.width, spec.decoder.embed.vocabulary), spec.tied_head)


def shift_right(labels: Int[Tensor, "B T"], start_id: int, pad_id: int) -> Int[Tensor, "B T"]:
    """Decoder inputs for teacher forcing: the start token, then every label but the last; -100 becomes padding."""
    first = labels.new_full((labels.shape[0], 1, *labels.shape[2:]), start_id)
    return torch.cat([first, labels[:, :-1].masked_fill(labels[:, :-1] == -100, pad_id)], dim=1)
