"""The assembly that decoder-only families share; their recipes differ in specs and names."""

from __future__ import annotations

from torch import Tensor, nn

from glassformer.core.embeddings import Embedding
from glassformer.core.flow import Batch, Flow
from glassformer.core.heads import Classifier, Head, LanguageModel, Span, Tagger
from glassformer.core.norms import make_norm
from glassformer.core.stack import Stack
from glassformer.models._family import Network, TextSpec, reads_ids


class Decoder(Network):
    """ids ─ embedding ─ blocks ─ final norm ─ head"""

    def __init__(self, spec: TextSpec, task: str) -> None:
        super().__init__()
        self.embed = Embedding(spec.embed)
        self.blocks = Stack(spec.blocks)
        self.final_norm = make_norm(spec.final_norm)
        self.head = causal_head(spec, task, self.embed.tokens)
        self.name_nodes()

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        x = self.embed(reads_ids(batch), flow)
        x = self.blocks(x, flow)
        normed: Tensor = self.final_norm(x)
        return normed


def causal_head(spec: TextSpec, task: str, tokens: nn.Embedding) -> Head | None:
    """The head of a decoder for a task; None for the bare body."""
    width = spec.blocks.width
    if task == "text-generation":
        head = LanguageModel(width, spec.embed.vocabulary, bias=spec.head_bias)
        if spec.tied:
            head.decoder.weight = tokens.weight
        return head
    if task == "text-classification":
        return Classifier(width, spec.labels, reads="last", bias=False, problem=spec.problem)
    if task == "token-classification":
        return Tagger(width, spec.labels, spec.classifier_dropout)
    return Span(width) if task == "question-answering" else None
