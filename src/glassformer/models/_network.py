"""Base class of all models: a batch → final hidden states → head; and text models with one stack, by their heads."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from glassformer.core.checks import Positive, Spec
from glassformer.core.classification_heads import Problem, SequenceClassifier, SpanClassifier, TokenClassifier
from glassformer.core.embeddings import Embedding, EmbeddingSpec
from glassformer.core.flow import Batch, EncoderOutput, Flow, Node, Output
from glassformer.core.gradient_tape import GradientTape
from glassformer.core.heads import Head, Labels, Pooler
from glassformer.core.language_heads import (
    CausalLMHead,
    MaskedLMHead,
    NextSentenceHead,
    PreTrainingHead,
    TransformedCausalLMHead,
)
from glassformer.core.norms import NormSpec, make_norm
from glassformer.core.quantised import StoredLevels, check_not_quantised
from glassformer.core.stack import AttentionGroup, Stack, StackSpec, self_attention, stream_taps
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.models._config import flag

FINGERPRINT_SAMPLES = 256
"""Values of each parameter that go into the fingerprint."""


READS_SEVERAL_STREAMS = "this head reads two residual streams at once, so none of them alone gives its output"
READS_ALL_LAYERS = "this head reads a weighted sum of all layers, so no layer alone gives its output"
"""Why a network's head cannot read one residual stream: see `Network.read_stream`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TextSpec(Spec):
    """The spec of a model with one stack over text: encoder-only and decoder-only families."""

    embed: EmbeddingSpec
    blocks: StackSpec
    final_norm: NormSpec | None = None
    tied: bool = True  # the language-model head is the embedding table
    head_bias: bool = False  # it has a bias
    logit_cap: Positive | None = None  # the causal head's logits are cap · tanh(logits / cap)
    logit_scale: Positive = 1.0  # and are multiplied by this before
    labels: int = 2
    problem: Problem | None = None
    classifier_dropout: float = 0.0
    activation: str = "gelu"
    init_std: float = 0.02


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """Sizes of a network, stated by its constructor.

    width: D, of the final hidden states
    vocabulary: of what it reads; 0: no text
    target_vocabulary: of what it writes, where that is another
    max_tokens: None: no limit
    token_types: of each column where there are several
    codebooks: K, where a token is an id of each of several codebooks, and both vocabularies are those of one; else 0
    channels: of the sound that it reads
    """

    width: int
    vocabulary: int = 0
    target_vocabulary: int | None = None
    max_tokens: int | None = None
    token_types: int | tuple[int, ...] = 0
    codebooks: int = 0
    channels: int = 1

    @staticmethod
    def of_text(embed: EmbeddingSpec, target: EmbeddingSpec | None = None) -> Sizes:
        """The sizes of a model of text, from its embedding; and from that of its decoder."""
        return Sizes(
            width=embed.out_width,
            vocabulary=embed.vocabulary,
            target_vocabulary=None if target is None else target.vocabulary,
            max_tokens=None if embed.positions is None else embed.positions.count,
            token_types=embed.token_types,
            codebooks=embed.codebooks,
        )


class Network(Node):
    """A whole model: it turns a batch into final hidden states, and applies its head, if it has one.

    READS: the fields of a `Batch` that it takes; the module that takes one in checks its shape
    POOLING: how hidden states become a sentence embedding, where the folder names no pooling
    NORMED_LAST: the last of the reference library's `hidden_states` is behind the final norm
    Taps: final [B T D] · the fields of the head, such as logits
    """

    READS: ClassVar[tuple[str, ...]] = ("input_ids", "token_type_ids")
    POOLING: ClassVar[str] = "mean"
    NORMED_LAST: ClassVar[bool] = True

    head: Head | None

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes

    @property
    def width(self) -> int:
        """D, the width of the final hidden states."""
        return self.sizes.width

    @property
    def max_tokens(self) -> int | None:
        """Maximum sequence length in tokens; None where positions have no limit, or the model reads no text."""
        return self.sizes.max_tokens

    @property
    def vocabulary(self) -> int:
        """Vocabulary size; 0 where the model reads and writes no text."""
        return self.sizes.vocabulary

    @property
    def target_vocabulary(self) -> int:
        """Vocabulary size of what the model writes: of an encoder-decoder it may be another."""
        sizes = self.sizes
        return sizes.vocabulary if sizes.target_vocabulary is None else sizes.target_vocabulary

    @property
    def token_types(self) -> int | tuple[int, ...]:
        """Number of `token_type_ids`, of each column where there are several; 0: the model takes none."""
        return self.sizes.token_types

    @property
    def embedding(self) -> Embedding:
        """The token embedding.

        Raises: UnsupportedError: the model reads no text.
        """
        if (embedding := self.text_embedding) is None:
            raise UnsupportedError(f"this model reads {' and '.join(self.READS)}, no text")
        return embedding

    @property
    def text_embedding(self) -> Embedding | None:
        """The token embedding; None: the model reads no text."""
        return next((node for _, node in self.named_nodes() if isinstance(node, Embedding)), None)

    def stacks(self) -> dict[str, Stack]:
        """The stacks of blocks by stream: text, image or sound; source and target of an encoder-decoder."""
        stacks = [node for _, node in self.named_nodes() if isinstance(node, Stack)]
        return {"text": stacks[0]} if stacks else {}

    def stream_taps(self) -> dict[str, tuple[str, ...]]:
        """Stream → the taps of its residual stream: before each block, and after the last."""
        return {stream: stream_taps(stack) for stream, stack in self.stacks().items()}

    def attention_layout(self) -> dict[str, AttentionGroup]:
        """The groups of attention layers, by name: self-attention of each stream, cross-attention between them."""
        stacks = self.stacks()
        return {
            "self" if len(stacks) == 1 else stream: self_attention(stack, stream) for stream, stack in stacks.items()
        }

    def token_labels(self, batch: Batch) -> dict[str, list[str]]:
        """Labels of the tokens of each stream that is not text: row and column of a patch, time of a frame."""
        return {}

    def check_reads(self, batch: Batch, family: str) -> None:
        """Raises: ConfigError: the batch has inputs that the network does not read."""
        masks = {"decoder_keep", "visual_keep"}
        given = {field.name for field in fields(batch) if getattr(batch, field.name) is not None}
        if surplus := given - set(self.READS) - masks:
            raise ConfigError(
                f"a {family!r} model reads {', '.join(self.READS)}; it takes no {', '.join(sorted(surplus))}"
            )

    def fingerprint(self, names: Container[str] | None = None, *, dtypes: bool = True) -> str:
        """Fingerprint of the weights in memory: ten hex digits that tell two fine-tunings of one model apart.

        A hash of every parameter's name, shape and dtype, and of numbers picked evenly from it; so of weights that are
        stored as levels. It is no proof that every number is the same; a change of a few numbers only can escape it.
        Args:
            names: of these parameters alone
            dtypes: those of two dtypes differ, even if they are equal
        """
        digest = hashlib.sha256()
        levels = [
            (f"{path}.{name}", buffer)
            for path, module in self.named_modules()
            if isinstance(module, StoredLevels)
            for name, buffer in module.named_buffers()
        ]
        for name, parameter in (*self.named_parameters(), *levels):
            if names is None or name in names:
                flat = parameter.detach().flatten()
                sample = flat[:: max(1, len(flat) // FINGERPRINT_SAMPLES)]
                dtype = parameter.dtype if dtypes else ""
                digest.update(f"{name} {list(parameter.shape)} {dtype}\n".encode())
                digest.update(sample.to("cpu", torch.float64).numpy().tobytes())
        return digest.hexdigest()[:10]

    def check_trainable(self, action: str = "trained") -> None:
        """Raises: ConfigError: weights are stored as levels, which cannot be changed; `action`: what was asked for."""
        if any(isinstance(module, StoredLevels) for module in self.modules()):
            check_not_quantised(self, action)

    def own_taps(self) -> tuple[str, ...]:
        return ("final", *(self.head.FIELDS if self.head is not None else ()))

    def completed(self, batch: Batch) -> Batch:
        """The batch with what the network itself fills in where a caller leaves it out, such as a decoder's input."""
        return batch

    def memory(self, batch: Batch, flow: Flow) -> EncoderOutput | None:
        """Run the encoder alone: its output, for a decoder to attend to; None where there is no encoder."""
        return None

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        """The final hidden states of a batch, without the head; all taps but the head's run. [B, T, D]"""
        raise NotImplementedError(f"{type(self).__name__} does not implement states(batch, flow)")

    def forward(self, batch: Batch, flow: Flow) -> Output:
        x = self.tap(flow, "final", self.states(batch, flow))
        return self.read_states(x, batch, flow)

    def finish(self, x: Tensor, flow: Flow) -> Tensor:
        """What follows the last block: the final norm, where there is one. [B, T, D]"""
        return x

    def read_states(self, x: Tensor, batch: Batch, flow: Flow) -> Output:
        """What the head makes of final hidden states, and of what else it reads of the batch. [B, T, D] → Output"""
        return self.apply_head(x, flow)

    def read_stream(self, x: Tensor, batch: Batch, flow: Flow) -> Output:
        """Read a residual stream as if it were the last one: final norm, then head.

            embedding ─ block 0 ─┬─ block 1 ─┬─ … ─ block L - 1 ─┬─ final norm ─ head ─ logits
                                 └───────────┴───────────────────┘  any of them can be read so

        Of the stream after the last block it gives the network's own output, bit for bit; of an earlier one, what the
        network would say if it ended there (the logit lens).

        Args:
            x: the stream that the head reads: of an encoder-decoder the decoder's. [B, T, D]
            batch, flow: of the pass that x is from.
        Raises: UnsupportedError: the head reads more than one stream, or all layers at once, or gives logits of
                several codebooks (`unreadable`).
        Source: nostalgebraist 2020, "interpreting GPT: the logit lens".
        """
        if self.unreadable:
            raise UnsupportedError(self.unreadable)
        return self.read_states(self.finish(x, flow), batch, flow)

    @property
    def unreadable(self) -> str:
        """Why no residual stream alone gives the output, as one table of logits; empty where one does."""
        books = self.sizes.codebooks
        return "this head predicts an id of each of several codebooks, and their logits are no one table" * bool(books)

    def head_stream(self) -> str:
        """The stream that the head reads: its only one, or the target of an encoder-decoder."""
        return list(self.stream_taps())[-1]

    def gradients(
        self,
        batch: Batch,
        flow: Flow,
        score: Callable[[Output], Tensor],
        *patterns: str,
        cut: bool = False,
        parameters: Sequence[Tensor] = (),
    ) -> tuple[Tensor, GradientTape]:
        """A pass with gradients: of a score of the output, with respect to named activations.

        Args:
            score: output → a number, or one for each row, which are added up.
            patterns: taps, as for a `Tape`.
            cut: the graph is cut before each of them, so that its gradient holds only what follows from it by no other
                of them.
            parameters: gradients by these too: `tape.of_parameters`.
        Returns: the score, and the tape with `taps` and `gradients` by name; 0 where the score does not depend on it.
        """
        tape = GradientTape(*patterns, edit=None if flow.tape is None else flow.tape.edit, cut=cut)
        tape.attach(self)
        with torch.inference_mode(False), torch.enable_grad():
            value = score(self(batch, replace(flow, tape=tape)))
            tape.differentiate(value.sum(), parameters)
        return value.detach(), tape

    def loss_sums(self, batch: Batch, flow: Flow, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        """Σ of the losses of the labels that count, by loss: for training, which needs no output. See `Head.loss_sums`.

        Raises: ConfigError: there is no head, or it has no loss. DataError: labels that do not fit.
        """
        x = self.tap(flow, "final", self.states(batch, flow))
        return self.require_head().loss_sums(x, flow, labels, smoothing=smoothing)

    def loss_sums_from_output(
        self, batch: Batch, flow: Flow, labels: Labels, *, smoothing: float = 0.0
    ) -> dict[str, Tensor]:
        """`loss_sums` for a recipe whose `forward` does more than apply the head to the final states."""
        return self.require_head().output_loss_sums(self(batch, flow), labels, smoothing=smoothing)

    def require_head(self) -> Head:
        """The head.

        Raises: ConfigError: the network has none.
        """
        if self.head is None:
            raise ConfigError("labels need a head, and this model has none; load it with a task that has labels")
        return self.head

    def apply_head(self, x: Tensor, flow: Flow) -> Output:
        """Apply the head to final hidden states. [B, T, D] → Output"""
        if self.head is None:
            return Output(last_hidden_state=x, cache=flow.cache)
        return self.tap_output(self.head(x, flow), x, flow)

    def tap_output(self, output: Output, x: Tensor, flow: Flow) -> Output:
        """Complete a head's output: its fields tapped, with the hidden states and the cache with them."""
        assert self.head is not None
        tapped: dict[str, Any] = {name: self.tap(flow, name, output[name]) for name in self.head.FIELDS}
        return replace(output, last_hidden_state=x, cache=flow.cache, **tapped)


class TextModel(Network):
    """Text model with one stack: ids ─ embedding ─ blocks ─ final norm, where there is one ─ head.

    A subclass says which head belongs to a task; all else that tells families apart is in their specs and weight names.
    """

    EMBEDDING: ClassVar[type[Embedding]] = Embedding

    def __init__(self, spec: TextSpec, task: str) -> None:
        super().__init__(self.sizes_of(spec))
        self.embed = self.EMBEDDING(spec.embed)
        self.blocks = Stack(spec.blocks)
        self.final_norm = make_norm(spec.final_norm)
        self.head = self.make_head(spec, task)
        self.name_nodes()

    def sizes_of(self, spec: Any) -> Sizes:
        """The sizes of the network."""
        return Sizes.of_text(spec.embed)

    def make_head(self, spec: Any, task: str) -> Head | None:
        """The head of a task; None for the body alone."""
        raise NotImplementedError(f"{type(self).__name__} does not implement make_head(spec, task)")

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        return self.finish(self.blocks(self.embed(require_tokens(batch), flow, batch.token_type_ids), flow), flow)

    def finish(self, x: Tensor, flow: Flow) -> Tensor:
        normed: Tensor = self.final_norm(x)
        return normed


class Encoder(TextModel):
    """Encoder-only transformer: BERT and its siblings, with BERT's heads."""

    def make_head(self, spec: TextSpec, task: str) -> Head | None:
        width = spec.blocks.width
        match task:
            case "feature-extraction":
                return Pooler(width)
            case "fill-mask":
                return self.make_masked_head(spec)
            case "text-generation":
                return self.make_transformed_head(spec, TransformedCausalLMHead)
            case "next-sentence-prediction":
                return NextSentenceHead(width)
            case "pre-training":
                return PreTrainingHead(self.make_masked_head(spec), NextSentenceHead(width))
            case "text-classification":
                return SequenceClassifier(width, spec.labels, dropout=spec.classifier_dropout, problem=spec.problem)
            case "token-classification":
                return TokenClassifier(width, spec.labels, spec.classifier_dropout)
        return SpanClassifier(width) if task == "question-answering" else None

    def make_masked_head(self, spec: TextSpec) -> MaskedLMHead:
        return self.make_transformed_head(spec, MaskedLMHead)

    def make_transformed_head(self, spec: TextSpec, kind: type[MaskedLMHead]) -> MaskedLMHead:
        """A language-model head, with the embedding table as its output projection where they are tied."""
        assert spec.embed.norm is not None  # an encoder's embedding has one, and the head a copy of it
        head = kind(spec.blocks.width, spec.embed.vocabulary, spec.activation, spec.embed.norm)
        if spec.tied:
            head.decoder.weight = self.embed.tokens.weight
        return head


AS_DECODER: dict[str, Any] = {"causal": flag("is_decoder", False), "fixed": {"is_decoder": (True, False)}}
"""Keys of encoder families that are used as decoders too: then their attention is causal."""


class Decoder(TextModel):
    """Decoder-only transformer: GPT, Llama and the like."""

    def make_head(self, spec: TextSpec, task: str) -> Head | None:
        width = spec.blocks.width
        if task == "text-generation":
            head = CausalLMHead(
                width,
                spec.embed.vocabulary,
                bias=spec.head_bias,
                logit_cap=spec.logit_cap,
                logit_scale=spec.logit_scale,
            )
            if spec.tied:
                head.decoder.weight = self.embed.tokens.weight
            return head
        if task == "text-classification":
            return SequenceClassifier(width, spec.labels, pooling="last", bias=False, problem=spec.problem)
        if task == "token-classification":
            return TokenClassifier(width, spec.labels, spec.classifier_dropout)
        return SpanClassifier(width) if task == "question-answering" else None


def require_ids(batch: Batch) -> Tensor:
    """The batch's `input_ids`. [B, T]

    Raises: ConfigError: it has none. UnsupportedError: vectors in their place.
    """
    if (ids := require_tokens(batch)).is_floating_point():
        raise UnsupportedError(
            "this model reads the numbers of its tokens too; give input_ids instead of inputs_embeds"
        )
    return ids


def require_tokens(batch: Batch) -> Tensor:
    """The batch's `input_ids` [B, T], or the vectors in their place [B, T, width], of a model that embeds them alone.

    Raises: ConfigError: it has none.
    """
    return require(batch.input_ids, "input_ids [B, T]")


def require(x: Tensor | None, what: str) -> Tensor:
    """A field of the batch that the model needs; `what` is its name and shape.

    Raises: ConfigError: it is None.
    """
    if x is None:
        raise ConfigError(f"this model reads {what}; got none")
    return x


@contextmanager
def eval_mode(network: nn.Module) -> Iterator[None]:
    """Put a network into evaluation mode; afterwards each module has its own mode again, also where they differ."""
    training = [module for module in network.modules() if module.training]
    if training:  # the call goes to each module, which takes longer than a small model
        network.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
