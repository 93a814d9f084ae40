"""DeBERTa's network: an encoder whose classifiers pool the first token with an activation of their own."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from glassformer.core import init
from glassformer.core.checks import Probability
from glassformer.core.classification_heads import SequenceClassifier, SpanClassifier, TokenClassifier
from glassformer.core.heads import Head, Pooler
from glassformer.models._network import Encoder, TextSpec


@dataclass(frozen=True, kw_only=True, slots=True)
class DebertaSpec(TextSpec):
    """The spec of DeBERTa: its pooler has an activation and a dropout of its own.

    legacy: the masked language-model head has the weight names of the reference library's older form
    """

    pooler_activation: str = "gelu"
    pooler_dropout: Probability = 0.0
    legacy: bool = True


class Deberta(Encoder):
    """DeBERTa: an encoder with its own heads of texts and tokens; the body alone has no pooler."""

    def make_head(self, spec: TextSpec, task: str) -> Head | None:
        assert isinstance(spec, DebertaSpec)
        width = spec.blocks.width
        match task:
            case "feature-extraction":
                return None
            case "text-classification":
                return SequenceClassifier(
                    width,
                    spec.labels,
                    pooler=Pooler(width, spec.pooler_activation, spec.pooler_dropout),
                    dropout=spec.classifier_dropout,
                    problem=spec.problem,
                )
            case "token-classification":
                return TokenClassifier(width, spec.labels, spec.embed.dropout)
            case "question-answering":
                return SpanClassifier(width)
        return super().make_head(spec, task)


def initialise(network: nn.Module, spec: DebertaSpec) -> None:
    """Normal initialization, of the convolution too."""
    init.normal(network, spec.init_std)
    for module in network.modules():
        if isinstance(module, nn.Conv1d):
            nn.init.normal_(module.weight, std=spec.init_std)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
