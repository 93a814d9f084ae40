"""Language-model heads: causal, masked, next sentence, and BERT's pre-training.

hidden states ─ (transform) ─ output projection Wᵀ, often tied to the embedding table ─ logits over the vocabulary
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torch import Tensor, nn

from glassformer.core.feed_forward import make_activation
from glassformer.core.flow import Flow, Output
from glassformer.core.heads import Head, Labels, Pooler, not_none, single_tensor
from glassformer.core.losses import (
    IGNORE_INDEX,
    checked_labels,
    count_labels,
    linear_cross_entropy,
    shaped_labels,
    summed_cross_entropy,
)
from glassformer.core.norms import NormSpec, make_norm
from glassformer.errors import DataError

if TYPE_CHECKING:
    from jaxtyping import Float


class TokenPrediction(Head):
    """Output projection over the vocabulary: a logit for each token id at every position.

        logits = f(x) Wᵀ + b,      W is often tied to the embedding table

    `loss_sums` computes logits only where labels count, a chunk at a time: see `linear_cross_entropy`.
    """

    decoder: nn.Linear

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        return Output(logits=self.decoder(self.transform_states(x[:, -flow.last :])))

    def transform_states(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        """f: what is applied to hidden states before the output projection."""
        return x

    def bias(self) -> Float[Tensor, "V"] | None:
        """b: the bias of the output projection."""
        return self.decoder.bias

    def align_labels(self, labels: Tensor) -> Tensor:
        """Labels at the positions that predict them. [B, T]"""
        return labels

    def label_counts(self, labels: Labels) -> dict[str, int]:
        return {"loss": count_labels(self.align_labels(single_tensor(labels)))}

    def output_loss_sums(self, output: Output, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        logits = not_none(output.logits)
        labels = self.align_labels(shaped_labels(single_tensor(labels), logits.shape))
        return {"loss": summed_cross_entropy(logits, labels, smoothing)}

    def loss_sums(
        self, x: Float[Tensor, "B T D"], flow: Flow, labels: Labels, *, smoothing: float = 0.0
    ) -> dict[str, Tensor]:
        shape = (*x.shape[:-1], self.decoder.out_features)
        labels = checked_labels(self.align_labels(shaped_labels(single_tensor(labels), shape)), shape)
        counted = labels != IGNORE_INDEX
        states = self.transform_states(x[counted])  # [N, D]
        total = linear_cross_entropy(states, self.decoder.weight, self.bias(), labels[counted], smoothing=smoothing)
        return {"loss": total}


class CausalLMHead(TokenPrediction):
    """Causal language-model head: position t predicts token t + 1.

        logits = x Wᵀ

    Labels are the input ids; the shift by one happens here, and nothing predicts the first of them.
    Source: tying W to the embedding: Press and Wolf 2017.
    """

    def __init__(self, width: int, vocabulary: int, bias: bool = False) -> None:
        super().__init__()
        self.decoder = nn.Linear(width, vocabulary, bias=bias)

    def align_labels(self, labels: Tensor) -> Tensor:
        if labels.dim() < 2:
            raise DataError(f"labels have shape {list(labels.shape)}; they must be [B, T], as the input ids")
        shifted = labels.roll(-1, dims=1)
        shifted[:, -1] = IGNORE_INDEX
        return shifted


class MaskedLMHead(TokenPrediction):
    """Masked language-model head.

        logits = norm(activation(x W)) Eᵀ + b,      E the embedding table

    Source: Devlin et al. 2019, section 3.1; the transform is in the released code.
    """

    def __init__(self, width: int, vocabulary: int, activation: str, norm: NormSpec) -> None:
        super().__init__()
        self.transform = nn.Linear(width, width)
        self.activation = make_activation(activation)
        self.norm = make_norm(norm)
        self.decoder = nn.Linear(width, vocabulary)

    def transform_states(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        transformed: Tensor = self.norm(self.activation(self.transform(x)))
        return transformed


class NextSentenceHead(Head):
    """Next-sentence prediction: does text B follow text A? logits[0] yes, logits[1] no.

    Source: Devlin et al. 2019, section 3.1.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.pooler = Pooler(width)
        self.classifier = nn.Linear(width, 2)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        return Output(logits=self.classifier(self.pooler.pooled(x, flow)))

    def output_loss_sums(self, output: Output, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        return {"loss": summed_cross_entropy(not_none(output.logits), single_tensor(labels), smoothing)}


class PreTrainingHead(Head):
    """BERT's pre-training: masked language model and next sentence at once; the loss is their sum."""

    FIELDS = ("prediction_logits", "seq_relationship_logits")

    def __init__(self, masked: MaskedLMHead, next_sentence: NextSentenceHead) -> None:
        super().__init__()
        self.masked = masked
        self.next_sentence = next_sentence

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        return Output(
            prediction_logits=self.masked(x, flow).logits,
            seq_relationship_logits=self.next_sentence(x, flow).logits,
        )

    def label_counts(self, labels: Labels) -> dict[str, int]:
        words, order = self._split_labels(labels)
        return {
            "masked": self.masked.label_counts(words)["loss"],
            "next": self.next_sentence.label_counts(order)["loss"],
        }

    def output_loss_sums(self, output: Output, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        words, order = self._split_labels(labels)
        masked = self.masked.output_loss_sums(
            replace(output, logits=output.prediction_logits), words, smoothing=smoothing
        )
        following = self.next_sentence.output_loss_sums(
            replace(output, logits=output.seq_relationship_logits), order, smoothing=smoothing
        )
        return {"masked": masked["loss"], "next": following["loss"]}

    def loss_sums(
        self, x: Float[Tensor, "B T D"], flow: Flow, labels: Labels, *, smoothing: float = 0.0
    ) -> dict[str, Tensor]:
        words, order = self._split_labels(labels)
        return {
            "masked": self.masked.loss_sums(x, flow, words, smoothing=smoothing)["loss"],
            "next": self.next_sentence.loss_sums(x, flow, order, smoothing=smoothing)["loss"],
        }

    @staticmethod
    def _split_labels(labels: Labels) -> tuple[Tensor, Tensor]:
        if not isinstance(labels, dict) or set(labels) != {"labels", "next_sentence_label"}:
            raise DataError("pre-training needs labels={'labels': [B, T], 'next_sentence_label': [B]}")
        return labels["labels"], labels["next_sentence_label"]
