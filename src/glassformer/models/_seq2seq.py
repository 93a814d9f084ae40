"""The assembly that encoder-decoders share; their recipes differ in specs, heads and names.

    source ids ─ encoder ─────────────── memory
                                           │ keys and values
    target ids ─ decoder (causal, cross) ──┴── final ─ head

Source: Vaswani et al. 2017, figure 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from glassformer.core.embeddings import Embedding
from glassformer.core.flow import Batch, Flow, Memory, Node, Output
from glassformer.core.heads import Head, Labels, LanguageModel, made
from glassformer.core.norms import make_norm
from glassformer.core.sight import Sight, cross_attention, self_attention
from glassformer.core.specs import BlockSpec, CrossAttentionSpec, EmbeddingSpec, NormSpec, StackSpec
from glassformer.core.stack import Stack
from glassformer.errors import ConfigError
from glassformer.models._family import Network, reads_ids

if TYPE_CHECKING:
    from jaxtyping import Float, Int

Entry = TypeVar("Entry", bound=Node)


@dataclass(frozen=True, kw_only=True, slots=True)
class SideSpec:
    """One half of the paper's figure 1: the encoder or the decoder."""

    embed: EmbeddingSpec
    blocks: StackSpec
    final_norm: NormSpec | None = None
    final_dropout: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class PairSpec:
    """Both halves; `tied` says that source and target table are one matrix, and the recipe's head is it too."""

    encoder: SideSpec
    decoder: SideSpec
    tied: bool = True

    def __post_init__(self) -> None:
        tables = [(side.embed.vocabulary, side.embed.width) for side in (self.encoder, self.decoder)]
        if self.tied and tables[0] != tables[1]:
            raise ConfigError(
                f"tied embeddings are one table, but the encoder's is {list(tables[0])} and the decoder's "
                f"{list(tables[1])}; give them one size, or set tied=False (config.json: tie_embeddings)"
            )


def as_decoder(block: BlockSpec) -> BlockSpec:
    """An encoder's block made a decoder's: its attention turned causal, cross-attention of the same shape added."""
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


class Side(Node, Generic[Entry]):
    """what is read ─ embedding ─ blocks ─ final norm and dropout, if there are any

    embed: what takes it in: an `Embedding` of ids, or a recipe's own part
    """

    def __init__(
        self, embed: Entry, blocks: StackSpec, final_norm: NormSpec | None, final_dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.embed = embed
        self.blocks = Stack(blocks)
        self.final_norm = make_norm(final_norm)
        self.dropout = nn.Dropout(final_dropout)

    def forward(self, read: Tensor, flow: Flow) -> Float[Tensor, "B T D"]:
        x: Tensor = self.dropout(self.final_norm(self.blocks(self.embed(read, flow), flow)))
        return x


def make_side(spec: SideSpec) -> Side[Embedding]:
    """A half that reads ids."""
    return Side(Embedding(spec.embed), spec.blocks, spec.final_norm, spec.final_dropout)


def make_sides(spec: PairSpec) -> tuple[Side[Embedding], Side[Embedding]]:
    """Both halves, with one table where they are tied."""
    encoder, decoder = make_side(spec.encoder), make_side(spec.decoder)
    if spec.tied:
        decoder.embed.tokens.weight = encoder.embed.tokens.weight
    return encoder, decoder


class Translation(LanguageModel):
    """The output projection, and its loss: position t of the decoder should say label t.

    Differs: a decoder-only model's labels are its own inputs, shifted by one; here the caller shifts the decoder's
    inputs (`shifted_right`), so labels stand where they are predicted.
    """

    def aligned(self, labels: Tensor) -> Tensor:
        return labels


class Constant(nn.Module):
    """logits + constant: a number for each word that checkpoints carry, usually 0; never trained.

    Differs: the reference library keeps it as a buffer; here it is a parameter without a gradient, filled and saved
    like all others.
    """

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, logits: Float[Tensor, "B T V"]) -> Float[Tensor, "B T V"]:
        return logits + self.values.detach()


class ShiftedTranslation(Translation):
    """logits = x Eᵀ + constant, with E the embedding table."""

    def __init__(self, width: int, vocabulary: int) -> None:
        super().__init__(width, vocabulary)
        self.constant = Constant(vocabulary)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        return Output(logits=self.constant(made(super().forward(x, flow).logits)))

    def bias(self) -> Float[Tensor, "V"]:
        return self.constant.values.detach()


class EncoderDecoder(Network):
    """Encoder and decoder; a recipe's constructor adds `head` and ends with `name_nodes()`.

    Args:
        batch: `input_ids` [B, S], what is read · `decoder_input_ids` [B, T], what is written so far, begun with the
            start token · `decoder_keep` [B, 1, past + T] bool, False where the target is padding
        flow: `keep` [B, 1, S] bool, False where the source is padding · `positions` [B, S] of the source · `memory`,
            from an earlier call of `memory`: then the encoder does not run · `cache` and `last` concern the decoder
    Returns: Output with what the head makes, such as `logits` [B, T, V], and `encoder_last_hidden_state` [B, S, D].
    Raises: ConfigError: no decoder_input_ids; neither input_ids nor a memory.
    Taps: encoder.… · memory [B S D] · decoder.… · final [B T D] · the fields of the head
    """

    READS = ("input_ids", "decoder_input_ids")

    def __init__(self, encoder: Side[Any], decoder: Side[Embedding]) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def own_taps(self) -> tuple[str, ...]:
        return ("memory", *super().own_taps())

    def sides(self) -> dict[str, Stack]:
        return {"source": self.encoder.blocks, "target": self.decoder.blocks}

    def sights(self) -> dict[str, Sight]:
        return {
            "encoder": self_attention(self.encoder.blocks, "source"),
            "decoder": self_attention(self.decoder.blocks, "target"),
            "cross": cross_attention(self.decoder.blocks, "target", "source"),
        }

    def memory(self, batch: Batch, flow: Flow) -> Memory:
        """Run the encoder: its last states, and which of them a decoder may see."""
        states = self.encoder(
            self.source(batch),
            Flow(keep=flow.keep, positions=flow.positions, tape=flow.tape, recompute=flow.recompute),
        )
        return Memory(self.tap(flow, "memory", states), flow.keep)

    def source(self, batch: Batch) -> Tensor:
        """What the encoder reads of a batch."""
        return reads_ids(batch)

    def forward(self, batch: Batch, flow: Flow) -> Output:
        batch, flow = self.encoded(batch, flow)
        assert flow.memory is not None  # `encoded` makes it
        return replace(super().forward(batch, flow), encoder_last_hidden_state=flow.memory.states)

    def learn(self, batch: Batch, flow: Flow, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        return super().learn(*self.encoded(batch, flow), labels, smoothing=smoothing)

    def encoded(self, batch: Batch, flow: Flow) -> tuple[Batch, Flow]:
        """What the decoder reads, and the flow with its memory; the encoder runs where the caller brings none."""
        memory = self.memory(batch, flow) if flow.memory is None else flow.memory
        return batch, replace(flow, memory=memory)

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        if batch.decoder_input_ids is None:
            raise ConfigError(
                "this model needs decoder_input_ids [B, T], begun with the start token; got none"
            )
        memory = self.memory(batch, flow) if flow.memory is None else flow.memory
        seen = Flow(
            keep=batch.decoder_keep,
            memory=memory,
            cache=flow.cache,
            tape=flow.tape,
            recompute=flow.recompute,
        )
        x: Tensor = self.decoder(batch.decoder_input_ids, seen)
        return x


class Translator(EncoderDecoder):
    """An encoder-decoder with the embedding table as its output projection, or bare."""

    def __init__(self, spec: PairSpec, task: str) -> None:
        super().__init__(*make_sides(spec))
        self.head = self.make_head(spec, task)
        self.name_nodes()

    def make_head(self, spec: PairSpec, task: str) -> Head | None:
        """The head of a task; None for the bare body."""
        if task != "translation":
            return None
        head = ShiftedTranslation(spec.decoder.blocks.width, spec.decoder.embed.vocabulary)
        head.decoder.weight = self.decoder.embed.tokens.weight
        return head


def shifted_right(labels: Int[Tensor, "B T"], start_id: int, pad_id: int) -> Int[Tensor, "B T"]:
    """What the decoder reads in training: the start token, then every label but the last; -100 becomes padding."""
    first = labels.new_full((labels.shape[0], 1), start_id)
    return torch.cat([first, labels[:, :-1].masked_fill(labels[:, :-1] == -100, pad_id)], dim=1)
