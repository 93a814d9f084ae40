"""Encoders and decoders of text, with one stack each: which head belongs to a task.

All else that tells them apart is in their specs and weight names.
"""

from __future__ import annotations

from typing import Any

from glassformer.core.classification_heads import SequenceClassifier, SpanClassifier, TokenClassifier
from glassformer.core.heads import Head, Pooler
from glassformer.core.language_heads import (
    CausalLMHead,
    MaskedLMHead,
    NextSentenceHead,
    PreTrainingHead,
    TransformedCausalLMHead,
)
from glassformer.models._keys import flag
from glassformer.models._network import TextModel, TextSpec


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
