"""BigBird's network: BERT with another embedding and other heads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from glassformer.core.classification_heads import SequenceClassifier, SpanClassifier
from glassformer.core.embeddings import Embedding
from glassformer.core.feed_forward import FeedForwardSpec, make_feed_forward
from glassformer.core.flow import Batch, Flow, Output
from glassformer.core.heads import Head, Labels, Pooler
from glassformer.core.norms import NormSpec, make_norm
from glassformer.models._network import Encoder, TextSpec, require_ids

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

QUESTION_PENALTY = 1e6
"""Subtracted from the logits of tokens where no answer may begin or end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BigBirdSpec(TextSpec):
    """BERT's spec, and more.

    separator: id of the token that ends a question
    """

    separator: int


class DropoutFirstEmbedding(Embedding):
    """An embedding with dropout before the norm instead of after it."""

    def norm_and_dropout(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        normed: Tensor = self.norm(self.dropout(x))
        return normed


class FeedForwardSpanClassifier(SpanClassifier):
    """Span classifier (question answering) after one more feed-forward layer.

    start, end = W norm(x + dropout(ffn(dropout(x)))) + b
    """

    def __init__(self, ffn: FeedForwardSpec, norm: NormSpec, dropout: float) -> None:
        super().__init__(ffn.width)
        self.before = nn.Dropout(dropout)
        self.ffn = make_feed_forward(ffn)
        self.after = nn.Dropout(dropout)
        self.norm = make_norm(norm)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        return super().forward(self.norm(x + self.after(self.ffn(self.before(x), flow))), flow)


class BigBird(Encoder):
    """BigBird: BERT with another embedding and other heads."""

    EMBEDDING = DropoutFirstEmbedding

    def make_head(self, spec: TextSpec, task: str) -> Head | None:
        width, dropout, norm = spec.blocks.width, spec.classifier_dropout, spec.embed.norm
        block = spec.blocks.blocks[0]
        assert norm is not None and isinstance(block.feed_forward, FeedForwardSpec)  # spec() sets them
        if task == "text-classification":
            pooler = Pooler(width, spec.activation, dropout)
            return SequenceClassifier(width, spec.labels, pooler=pooler, dropout=dropout, problem=spec.problem)
        if task == "question-answering":
            return FeedForwardSpanClassifier(block.feed_forward, norm, spec.embed.dropout)
        return super().make_head(spec, task)


class BigBirdQuestionAnswering(BigBird):
    """BigBird for extractive question answering; the question is all up to the first separator.

    An answer lies behind the question, or at the first token, which means that there is none. Where no
    `token_type_ids` are given, the question has type 0 and what follows it type 1.
    """

    head: FeedForwardSpanClassifier

    def __init__(self, spec: BigBirdSpec, task: str) -> None:
        super().__init__(spec, task)
        self.separator = spec.separator

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        if batch.token_type_ids is None and self.token_types:
            first, question = self._question(require_ids(batch), flow)
            batch = replace(batch, token_type_ids=(~(first | question)).long())
        return super().states(batch, flow)

    def read_states(self, x: Tensor, batch: Batch, flow: Flow) -> Output:
        output: Output = self.head(x, flow)
        _, question = self._question(require_ids(batch), flow)
        assert output.start_logits is not None and output.end_logits is not None  # the head sets both
        start, end = (logits - QUESTION_PENALTY * question for logits in (output.start_logits, output.end_logits))
        return self.tap_output(replace(output, start_logits=start, end_logits=end), x, flow)

    def loss_sums(self, batch: Batch, flow: Flow, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        return self.head.output_loss_sums(
            self.head.one_text_per_row(self(batch, flow), flow), labels, smoothing=smoothing
        )

    def _question(self, ids: Int[Tensor, "B T"], flow: Flow) -> tuple[Bool[Tensor, "B T"], Bool[Tensor, "B T"]]:
        """Masks of the first token of each text, and of the other tokens of its question."""
        visible = torch.ones_like(ids, dtype=torch.bool) if flow.keep is None else flow.keep[:, -1].expand_as(ids)
        lengths = [ids.shape[1]] if flow.packing is None else list(flow.packing.lengths)
        firsts, questions = [], []
        for ids_of_text, shown in zip(ids.split(lengths, dim=1), visible.split(lengths, dim=1), strict=True):
            first = shown & (shown.cumsum(-1) == 1)
            ends = ids_of_text == self.separator
            in_question = ends.any(-1, keepdim=True) & (ends.cumsum(-1) - ends.long() == 0)
            firsts.append(first)
            questions.append(in_question & ~first)
        return torch.cat(firsts, dim=1), torch.cat(questions, dim=1)


def build(spec: BigBirdSpec, task: str) -> BigBird:
    """The network of a task."""
    return BigBirdQuestionAnswering(spec, task) if task == "question-answering" else BigBird(spec, task)
