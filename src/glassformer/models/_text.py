"""Networks of text models with one stack: encoders and decoders differ in specs, weight names and a few heads."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from glassformer.core.classification_heads import SequenceClassifier, SpanClassifier, TokenClassifier
from glassformer.core.embeddings import Embedding
from glassformer.core.flow import Batch, Flow
from glassformer.core.heads import Head, Pooler
from glassformer.core.language_heads import (
    CausalLMHead,
    MaskedLMHead,
    NextSentenceHead,
    PreTrainingHead,
    TransformedCausalLMHead,
)
from glassformer.core.norms import make_norm
from glassformer.core.stack import Stack
from glassformer.models._keys import flag
from glassformer.models._network import Network, Sizes, TextSpec, require_tokens


class TextModel(Network):
    """Text model with one stack: ids ─ embedding ─ blocks ─ final norm, where there is one ─ head.

    A subclass says which head belongs to a task.
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
