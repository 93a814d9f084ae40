"""The network of decoder-only families: GPT, Llama and the like differ in specs and weight names."""

from __future__ import annotations

from torch import Tensor, nn

from glassformer.core.classification_heads import SequenceClassifier, SpanClassifier, TokenClassifier
from glassformer.core.embeddings import Embedding
from glassformer.core.flow import Batch, Flow
from glassformer.core.heads import Head
from glassformer.core.language_heads import CausalLMHead
from glassformer.core.norms import make_norm
from glassformer.core.stack import Stack
from glassformer.models._network import Network, TextSpec, require_ids


class Decoder(Network):
    """Decoder-only transformer: ids ─ embedding ─ blocks ─ final norm ─ head."""

    def __init__(self, spec: TextSpec, task: str) -> None:
        super().__init__()
        self.embed = Embedding(spec.embed)
        self.blocks = Stack(spec.blocks)
        self.final_norm = make_norm(spec.final_norm)
        self.head = causal_head(spec, task, self.embed.tokens)
        self.name_nodes()

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        x = self.embed(require_ids(batch), flow)
        x = self.blocks(x, flow)
        normed: Tensor = self.final_norm(x)
        return normed


def causal_head(spec: TextSpec, task: str, tokens: nn.Embedding) -> Head | None:
    """The head of a decoder-only model for a task; None for the body alone."""
    width = spec.blocks.width
    if task == "text-generation":
        head = CausalLMHead(width, spec.embed.vocabulary, bias=spec.head_bias)
        if spec.tied:
            head.decoder.weight = tokens.weight
        return head
    if task == "text-classification":
        return SequenceClassifier(width, spec.labels, pooling="last", bias=False, problem=spec.problem)
    if task == "token-classification":
        return TokenClassifier(width, spec.labels, spec.classifier_dropout)
    return SpanClassifier(width) if task == "question-answering" else None
