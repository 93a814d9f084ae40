"""ModernBERT's network: an encoder whose heads all read transformed states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from glassformer.core.classification_heads import SequenceClassifier
from glassformer.core.heads import Head
from glassformer.core.language_heads import MaskedLMHead
from glassformer.core.norms import LayerNormSpec
from glassformer.models._network import Encoder, TextSpec
from glassformer.models.modernbert.heads import (
    Transform,
    TransformPooler,
    TransformSpanClassifier,
    TransformTokenClassifier,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ModernBertSpec(TextSpec):
    """The spec of ModernBERT: classifiers pool the first token or the mean; their transform may have a bias."""

    pooling: Literal["first", "mean"] = "first"
    transform_bias: bool = False


class ModernBert(Encoder):
    """ModernBERT: an encoder whose heads all read transformed states."""

    def make_head(self, spec: TextSpec, task: str) -> Head | None:
        norm = spec.final_norm
        assert isinstance(spec, ModernBertSpec) and isinstance(norm, LayerNormSpec)
        width, dropout = norm.width, spec.classifier_dropout
        transform: dict[str, Any] = {"activation": spec.activation, "norm": norm, "bias": spec.transform_bias}
        match task:
            case "fill-mask":
                head = MaskedLMHead(width, spec.embed.vocabulary, **transform, decoder_bias=spec.head_bias)
                if spec.tied:
                    head.decoder.weight = self.embed.tokens.weight
                return head
            case "text-classification":
                pooler = TransformPooler(spec.pooling, **transform)
                return SequenceClassifier(width, spec.labels, pooler=pooler, dropout=dropout, problem=spec.problem)
            case "token-classification":
                return TransformTokenClassifier(Transform(**transform), width, spec.labels, dropout)
            case "question-answering":
                return TransformSpanClassifier(Transform(**transform), width, dropout)
        return None
