"""Model heads: the base class of all heads, pooling of hidden states, and the pooler.

    head                        reads                      gives                         trained by
    CausalLMHead                every position             logits [B, T, V]              the next token
    MaskedLMHead                every position             logits [B, T, V]              the masked token
    TransformedCausalLMHead     every position             logits [B, T, V]              the next token
    Pooler                      the first token            pooler_output [B, D]          (the head on top of it)
    NextSentenceHead            the pooled first token     logits [B, 2]                 does B follow A
    PreTrainingHead             both                       prediction_logits, seq_relationship_logits
    SequenceClassifier          one vector a text          logits [B, labels]            labels of a text
    TokenClassifier             every position             logits [B, T, labels]         a label a token
    SpanClassifier              every position             start_logits, end_logits      the span of an answer

Language-model heads are in `language_heads.py`, classifiers in `classification_heads.py`, heads for speech, image
regions and table cells with the families that have them.

Each head also computes its loss, as sums and counts, so that a training step may be cut into micro-batches:

    label_counts(labels)          how many labels count, by loss     added up over the micro-batches of a step first
    loss_sums(x, flow, labels)    Σ of their losses, by loss         of one micro-batch; its gradients are of Σ / count
    loss(output, labels)          Σ / count, added up over losses    the mean loss of one call by itself

Labels of -100 do not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor, nn

from glassformer.core.feed_forward import make_activation
from glassformer.core.flow import Flow, Node, Output
from glassformer.core.losses import (
    count_labels,
    refuse_smoothing,
)
from glassformer.errors import ConfigError, DataError

if TYPE_CHECKING:
    from jaxtyping import Float

Labels = Tensor | dict[str, Tensor]


def first_token(x: Float[Tensor, "B T D"], flow: Flow) -> Float[Tensor, "texts D"]:
    """[CLS] pooling: the state of each text's first token, padding aside; a text is a row or part of a packed row."""
    if flow.packing is not None:
        return x[0, torch.tensor(flow.packing.starts, device=x.device)]
    if flow.keep is None:
        return x[:, 0]
    first = flow.keep[:, -1].int().argmax(dim=-1)  # [B]; 0 unless padded on the left
    return x[torch.arange(x.shape[0], device=x.device), first]


def last_token(x: Float[Tensor, "B T D"], flow: Flow) -> Float[Tensor, "texts D"]:
    """Last-token pooling: the state of each text's last token, padding aside; in a causal model only it saw all."""
    if flow.packing is not None:
        ends = [start + length - 1 for start, length in zip(flow.packing.starts, flow.packing.lengths, strict=True)]
        return x[0, torch.tensor(ends, device=x.device)]
    if flow.keep is None:
        return x[:, -1]
    key_positions = torch.arange(flow.keep.shape[-1], device=x.device)
    # `keep` covers the cached tokens too, x only the new ones, which the cache may hold by now.
    cached = flow.keep.shape[-1] - x.shape[1]
    last = (flow.keep[:, -1] * key_positions).argmax(dim=-1) - cached  # [B]
    return x[torch.arange(x.shape[0], device=x.device), last.clamp(min=0)]


def mean_token(x: Float[Tensor, "B T D"], flow: Flow) -> Float[Tensor, "texts D"]:
    """Mean pooling: the mean of each text's tokens that are not padding."""
    if flow.packing is not None:
        parts = x[0].split(list(flow.packing.lengths))
        return torch.stack([part.mean(0) for part in parts])
    if flow.keep is None:
        return x.mean(1)
    keep = flow.keep[:, -1, -x.shape[1] :, None]  # [B, T, 1]
    return x.masked_fill(~keep, 0.0).sum(1) / keep.sum(1).clamp(min=1)


POOLINGS = {"first": first_token, "last": last_token, "mean": mean_token}
"""Pooling functions by name: how a classifier makes one vector of a text."""


class Head(Node):
    """Base class of model heads: final hidden states → an `Output`, and its loss.

    A subclass defines `output_loss_sums`, or just `loss`, which then is a mean over the labels that count.

    FIELDS: the fields of `Output` that it fills; each is also a tap
    LOGIT_A_TOKEN: its logits are one number for each token [B, T], and not for each class
    OVER_VOCABULARY: its logits are one for each entry of a vocabulary [B, T, V]
    WHOLE_BATCH: its loss compares the examples of a call with one another, so that two halves have another loss
    """

    FIELDS: ClassVar[tuple[str, ...]] = ("logits",)
    LOGIT_A_TOKEN: ClassVar[bool] = False
    OVER_VOCABULARY: ClassVar[bool] = False
    WHOLE_BATCH: ClassVar[bool] = False

    @property
    def reads_first_token(self) -> bool:
        """Whether a text is classified by its first token, which then should be one made for it ([CLS])."""
        return any(isinstance(node, Pooler) and node.pooling == "first" for _, node in self.named_nodes())

    @property
    def reads_last_token(self) -> bool:
        """Whether a text is classified by its last token, so that padding behind it must be known."""
        return False

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        raise NotImplementedError(f"{type(self).__name__} does not implement forward(x, flow)")

    def label_counts(self, labels: Labels) -> dict[str, int]:
        """Number of labels that count, by loss.

        Raises: DataError: labels of a kind that the head does not take.
        """
        return {"loss": count_labels(single_tensor(labels))}

    def output_loss_sums(self, output: Output, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        """Summed loss over the labels that count, by loss, from the head's output.

        Args:
            output: the result of `forward`
            smoothing: label smoothing: the share of the target that is spread over all classes
        Raises: ConfigError: the head has no loss, or cannot smooth. DataError: labels that do not fit the output.
        """
        if type(self).loss is Head.loss:  # which calls this method: neither of the two is overridden
            raise ConfigError(
                f"{type(self).__name__} has no loss of its own; load the model with a task that has labels"
            )
        refuse_smoothing(smoothing, f"{type(self).__name__} computes a loss of its own")
        return {"loss": self.loss(output, labels) * self.label_counts(labels)["loss"]}

    def loss_sums(
        self, x: Float[Tensor, "B T D"], flow: Flow, labels: Labels, *, smoothing: float = 0.0
    ) -> dict[str, Tensor]:
        """Summed loss by loss, from final hidden states: for training, which does not need the output itself."""
        return self.output_loss_sums(self(x, flow), labels, smoothing=smoothing)

    def loss(self, output: Output, labels: Labels) -> Tensor:
        """Training loss: the mean over the labels that count, added up over losses; NaN where none counts."""
        sums = self.output_loss_sums(output, labels)
        counts = self.label_counts(labels)
        return torch.stack([sums[name] / counts[name] for name in sums]).sum()


class Pooler(Head):
    """Pooler: one vector a text, from its first token.

        pooled = activation(W dropout(x_first) + b)

    Source: Devlin et al. 2019, released code, with tanh and no dropout; later encoders vary both.
    """

    FIELDS = ("pooler_output",)

    pooling: Literal["first", "mean"] = "first"

    def __init__(self, width: int, activation: str = "tanh", dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.dense = nn.Linear(width, width)
        self.activation = make_activation(activation)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        return Output(pooler_output=self.pooled(x, flow))

    def pooled(self, x: Float[Tensor, "B T D"], flow: Flow) -> Float[Tensor, "texts D"]:
        """The pooled vectors. [texts, D]"""
        pooled: Tensor = self.activation(self.dense(self.dropout(first_token(x, flow))))
        return pooled


def not_none(x: Tensor | None) -> Tensor:
    """A field of the output that every head with this loss fills."""
    assert x is not None
    return x


def single_tensor(labels: Labels) -> Tensor:
    """Check the labels of a head that takes a single tensor.

    Raises: DataError: a mapping, or no tensor.
    """
    if isinstance(labels, dict):
        raise DataError(f"labels is a mapping with {sorted(labels)}; this head takes one tensor")
    if not isinstance(labels, Tensor):
        raise DataError(f"labels is {type(labels).__name__}; it must be a tensor: torch.tensor(labels)")
    return labels
