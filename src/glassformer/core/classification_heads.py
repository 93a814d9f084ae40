"""Classification heads: of a text, of each token, and of the span of an answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from glassformer.core.flow import Flow, Output
from glassformer.core.heads import POOLINGS, Head, Labels, Pooler, not_none, single_tensor
from glassformer.core.losses import (
    IGNORE_INDEX,
    count_labels,
    refuse_smoothing,
    summed_cross_entropy,
)
from glassformer.errors import DataError

if TYPE_CHECKING:
    from jaxtyping import Float


Problem = Literal["single", "multi", "regression"]


class SequenceClassifier(Head):
    """Sequence classification: labels of a whole text, from one vector of it.

        logits = W pooled + b

    pooling: "pooled" (the first token through a Pooler, as BERT), "first" (as it is, as ViT), "last" (as causal
        models) or "mean" (of all tokens)
    pooler: for "pooled", where it is not BERT's
    problem: "single" (one class: cross-entropy), "multi" (multi-label: a yes or no for each; labels are floats) or
        "regression"; None, as in the reference library: regression with one label, multi where labels are floats
    """

    def __init__(
        self,
        width: int,
        labels: int,
        *,
        pooling: Literal["pooled", "first", "last", "mean"] = "pooled",
        pooler: Pooler | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        problem: Problem | None = None,
    ) -> None:
        super().__init__()
        self.problem = problem
        self.pooling = pooling
        self.pooler = (pooler or Pooler(width)) if pooling == "pooled" else None
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(width, labels, bias=bias)

    @property
    def reads_last_token(self) -> bool:
        return self.pooling == "last"

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        pooled = POOLINGS[self.pooling](x, flow) if self.pooler is None else self.pooler.pooled(x, flow)
        return Output(logits=self.classifier(self.dropout(pooled)))

    def label_counts(self, labels: Labels) -> dict[str, int]:
        labels = single_tensor(labels)
        return {"loss": count_labels(labels) if self._problem(labels) == "single" else labels.numel()}

    def output_loss_sums(self, output: Output, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        logits, labels = not_none(output.logits), single_tensor(labels)
        problem = self._problem(labels)
        if problem == "single":
            return {"loss": summed_cross_entropy(logits, labels, smoothing)}
        refuse_smoothing(smoothing, f"this is a {problem} problem")
        if not labels.is_floating_point():
            raise DataError(f"labels are {labels.dtype}; a {problem} problem needs floats: labels.float()")
        expected = logits.shape if problem == "multi" or logits.shape[-1] > 1 else logits.shape[:1]
        if labels.shape not in (expected, (*expected, 1)):
            raise DataError(
                f"labels have shape {list(labels.shape)}; a {problem} problem needs them to be {list(expected)}"
            )
        criterion = F.binary_cross_entropy_with_logits if problem == "multi" else F.mse_loss
        wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return {"loss": criterion(wide, labels.view_as(logits).to(wide), reduction="sum")}

    def _problem(self, labels: Tensor) -> Problem:
        if self.problem is not None:
            return self.problem
        if self.classifier.out_features == 1:
            return "regression"
        return "multi" if labels.is_floating_point() else "single"


class TokenClassifier(Head):
    """Token classification: a label for each token. logits = W x + b. Source: Devlin et al. 2019, section 5.3."""

    def __init__(self, width: int, labels: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(width, labels)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        return Output(logits=self.classifier(self.dropout(x)))

    def output_loss_sums(self, output: Output, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        return {"loss": summed_cross_entropy(not_none(output.logits), single_tensor(labels), smoothing)}


class SpanClassifier(Head):
    """Extractive question answering: a start logit and an end logit at every position.

    `loss_sums` takes each softmax over the tokens of one text, whatever is packed next to it or pads it.
    Source: Devlin et al. 2019, section 4.2.
    Differs: a position of -100 does not count; the reference library takes it for 0.
    """

    FIELDS = ("start_logits", "end_logits")

    def __init__(self, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(width, 2)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        logits = self.classifier(self.dropout(x))
        return Output(start_logits=logits[..., 0], end_logits=logits[..., 1])  # [B, T] each; may be written in place

    def label_counts(self, labels: Labels) -> dict[str, int]:
        return {
            name.removesuffix("_positions"): count_labels(label) for name, label in self._split_labels(labels).items()
        }

    def output_loss_sums(self, output: Output, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        """Half of each summed loss, so that start and end together make one loss."""
        refuse_smoothing(smoothing, "a span is two positions")
        positions = self._split_labels(labels)
        logits = {"start": not_none(output.start_logits), "end": not_none(output.end_logits)}
        return {name: _position_loss(x, positions[f"{name}_positions"]) / 2 for name, x in logits.items()}

    def loss_sums(
        self, x: Float[Tensor, "B T D"], flow: Flow, labels: Labels, *, smoothing: float = 0.0
    ) -> dict[str, Tensor]:
        return self.output_loss_sums(self.one_text_per_row(self(x, flow), flow), labels, smoothing=smoothing)

    def loss(self, output: Output, labels: Labels) -> Tensor:
        """Positions beyond the text mean that it holds no answer, and do not count either."""
        positions = self._split_labels(labels)
        tokens = not_none(output.start_logits).shape[1]
        inside = {name: x.masked_fill(x >= tokens, IGNORE_INDEX) for name, x in positions.items()}
        return super().loss(output, inside)

    @staticmethod
    def one_text_per_row(output: Output, flow: Flow) -> Output:
        """The logits of each text in a row of its own, -∞ behind its end. [texts, longest]

        a a a b b c c c c   ──>   a a a ·
                                  b b · ·
                                  c c c c
        """

        def rows(logits: Tensor) -> Tensor:
            if flow.packing is not None:
                texts = logits[0].split(list(flow.packing.lengths))
                return pad_sequence(texts, batch_first=True, padding_value=-torch.inf)
            return logits if flow.keep is None else logits.masked_fill(~flow.keep[:, -1], -torch.inf)

        start, end = not_none(output.start_logits), not_none(output.end_logits)
        return replace(output, start_logits=rows(start), end_logits=rows(end))

    @staticmethod
    def _split_labels(labels: Labels) -> dict[str, Tensor]:
        if not isinstance(labels, dict) or set(labels) != {"start_positions", "end_positions"}:
            raise DataError("a span needs labels={'start_positions': [B], 'end_positions': [B]}")
        for name, label in labels.items():
            if not isinstance(label, Tensor) or label.dtype != torch.int64 or label.dim() != 1:
                shown = f"{label.dtype} of shape {list(label.shape)}" if isinstance(label, Tensor) else type(label)
                raise DataError(
                    f"{name} is {shown}; it must be int64 of shape [B], the position of a token in each text"
                )
        return labels


def _position_loss(logits: Float[Tensor, "B T"], positions: Tensor) -> Float[Tensor, ""]:
    """Summed cross-entropy over positions: the classes are the tokens of each text.

    Raises: DataError: a position beyond the end of its text.
    """
    if len(positions) != len(logits):
        raise DataError(f"{len(positions)} positions for {len(logits)} texts; each text has one")
    counted = positions != IGNORE_INDEX
    logits, positions = logits[counted], positions[counted].clamp(min=0)
    beyond = positions >= logits.shape[1]
    if bool(beyond.any()) or bool(logits.gather(1, positions[:, None]).isneginf().any()):
        raise DataError(f"an answer is at {positions.tolist()}, beyond its text's end; a text without one has -100")
    return summed_cross_entropy(logits, positions)
