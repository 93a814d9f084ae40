"""Language-model heads: causal, masked, next sentence, and BERT's pre-training.

hidden states ─ (transform) ─ output projection Wᵀ, often tied to the embedding table ─ logits over the vocabulary
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor, nn

from glassformer.core.dot_product import soft_cap
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
    from collections.abc import Callable, Sequence

    from jaxtyping import Float

    LargestLogits = Callable[["TokenPrediction", Tensor, int], Tensor | None]
    """(head, states [B, T, D], k) → logits [B, T, V], or None where it cannot find them faster than the projection"""


class TokenPrediction(Head):
    """Output projection over the vocabulary: a logit for each token id at every position.

        logits = f(x) Wᵀ + b,      W is often tied to the embedding table

    `loss_sums` computes logits only where labels count, a chunk at a time: see `linear_cross_entropy`.
    """

    OVER_VOCABULARY = True

    decoder: nn.Linear
    logit_cap: float | None = None
    largest_logits: LargestLogits | None = None
    """What finds the largest logits alone, where the flow asks for no others; set by `engine.prepare`."""

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        states = self.transform_states(x[:, -flow.last :])
        few = self.largest_logits if flow.largest else None
        if few is None or (logits := few(self, states, flow.largest)) is None:
            logits = self.decoder(states)
        return Output(logits=logits if self.logit_cap is None else soft_cap(logits, self.logit_cap))

    def transform_states(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        """f: what is applied to hidden states before the output projection."""
        return x

    def bias(self) -> Float[Tensor, "V"] | None:
        """b: the bias of the output projection."""
        return self.decoder.bias

    def align_labels(self, labels: Tensor) -> Tensor:
        """Labels at the positions that predict them. [B, T]"""
        return labels

    def labels_of(self, labels: Labels, shape: Sequence[int]) -> Tensor:
        """Labels at the positions that predict them, checked against logits of this shape. [B, T]"""
        return self.align_labels(shaped_labels(single_tensor(labels), shape))

    def label_counts(self, labels: Labels) -> dict[str, int]:
        return {"loss": count_labels(self.align_labels(single_tensor(labels)))}

    def output_loss_sums(self, output: Output, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        logits = not_none(output.logits)
        labels = self.labels_of(labels, logits.shape)
        return {"loss": summed_cross_entropy(logits, labels, smoothing)}

    def loss_sums(
        self, x: Float[Tensor, "B T D"], flow: Flow, labels: Labels, *, smoothing: float = 0.0
    ) -> dict[str, Tensor]:
        shape = (*x.shape[:-1], self.decoder.out_features)
        labels = checked_labels(self.labels_of(labels, shape), shape)
        counted = labels != IGNORE_INDEX
        states = self.transform_states(x[counted])  # [N, D]
        total = linear_cross_entropy(
            states,
            self.decoder.weight,
            self.bias(),
            labels[counted],
            smoothing=smoothing,
            logit_cap=self.logit_cap,
        )
        return {"loss": total}


class CausalLMHead(TokenPrediction):
    """Causal language-model head: position t predicts token t + 1.

        logits = s x Wᵀ,      with a soft cap  c tanh(s x Wᵀ / c)

    Labels are the input ids; the shift by one happens here, and nothing predicts the first of them.

    Args:
        bias: add b to s x Wᵀ
        logit_cap: c, the largest absolute value of a logit; None: no cap
        logit_scale: s; it multiplies the states, of which there are fewer than logits
    Source: tying W to the embedding: Press and Wolf 2017; the cap: Gemma team 2024, "Gemma 2", section 2.
    """

    def __init__(
        self,
        width: int,
        vocabulary: int,
        bias: bool = False,
        *,
        logit_cap: float | None = None,
        logit_scale: float = 1.0,
    ) -> None:
        super().__init__()
        self.decoder = nn.Linear(width, vocabulary, bias=bias)
        self.logit_cap = logit_cap
        self.logit_scale = logit_scale

    def transform_states(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        return x if self.logit_scale == 1.0 else x * self.logit_scale

    def align_labels(self, labels: Tensor) -> Tensor:
        return next_token_labels(labels)


def next_token_labels(labels: Tensor) -> Tensor:
    """Labels of the next token: the input ids, shifted left by one; none at the last position. [B, T]

    Raises: DataError: labels of one dimension.
    """
    if labels.dim() < 2:
        raise DataError(f"labels have shape {list(labels.shape)}; they must be [B, T], as the input ids")
    shifted = labels.roll(-1, dims=1)
    shifted[:, -1] = IGNORE_INDEX
    return shifted


class MaskedLMHead(TokenPrediction):
    """Masked language-model head.

        logits = norm(activation(x W)) Eᵀ + b,      E the embedding table

    Args:
        norm: as wide as the embedding table, to which W projects where that is narrower than the stream
        bias, decoder_bias: of W, and b
    Source: Devlin et al. 2019, section 3.1; the transform is in the released code.
    """

    def __init__(
        self,
        width: int,
        vocabulary: int,
        activation: str,
        norm: NormSpec,
        *,
        bias: bool = True,
        decoder_bias: bool = True,
    ) -> None:
        super().__init__()
        self.transform = nn.Linear(width, norm.width, bias=bias)
        self.activation = make_activation(activation)
        self.norm = make_norm(norm)
        self.decoder = nn.Linear(norm.width, vocabulary, bias=decoder_bias)

    def transform_states(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        transformed: Tensor = self.norm(self.activation(self.transform(x)))
        return transformed


class TransformedCausalLMHead(MaskedLMHead):
    """Causal language-model head with BERT's transform: of an encoder that is used as a decoder.

        logits = norm(activation(x W)) Eᵀ + b,      where position t predicts token t + 1

    Source: encoders as decoders: Rothe et al. 2020, "Leveraging Pre-trained Checkpoints", section 2.
    """

    def align_labels(self, labels: Tensor) -> Tensor:
        return next_token_labels(labels)


class NextSentenceHead(Head):
    """Next-sentence prediction: does text B follow text A? logits[0] yes, logits[1] no.

    Sentence-order prediction is the same network: logits[1] says that the two are swapped.
    Source: Devlin et al. 2019, section 3.1; Lan et al. 2020, section 3.1.
    """

    def __init__(self, width: int, labels: int = 2, dropout: float = 0.0) -> None:
        super().__init__()
        self.pooler = Pooler(width)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(width, labels)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        return Output(logits=self.classifier(self.dropout(self.pooler.pooled(x, flow))))

    def output_loss_sums(self, output: Output, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        return {"loss": summed_cross_entropy(not_none(output.logits), single_tensor(labels), smoothing)}


class PreTrainingHead(Head):
    """BERT's pre-training: masked language model and next sentence at once; the loss is their sum.

    SENTENCE_LABEL: the name of the labels of the second
    """

    FIELDS = ("prediction_logits", "seq_relationship_logits")
    SENTENCE_LABEL: ClassVar[str] = "next_sentence_label"

    def __init__(self, masked: MaskedLMHead, next_sentence: NextSentenceHead) -> None:
        super().__init__()
        self.masked = masked
        self.next_sentence = next_sentence

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        scores = (self.masked(x, flow).logits, self.next_sentence(x, flow).logits)
        return Output(**dict(zip(self.FIELDS, scores, strict=True)))

    def label_counts(self, labels: Labels) -> dict[str, int]:
        words, order = self._split_labels(labels)
        return {
            "masked": self.masked.label_counts(words)["loss"],
            "next": self.next_sentence.label_counts(order)["loss"],
        }

    def output_loss_sums(self, output: Output, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        words, order = self._split_labels(labels)
        masked = self.masked.output_loss_sums(
            replace(output, logits=output[self.FIELDS[0]]), words, smoothing=smoothing
        )
        following = self.next_sentence.output_loss_sums(
            replace(output, logits=output[self.FIELDS[1]]), order, smoothing=smoothing
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

    def _split_labels(self, labels: Labels) -> tuple[Tensor, Tensor]:
        sentence = self.SENTENCE_LABEL
        if not isinstance(labels, dict) or set(labels) != {"labels", sentence}:
            raise DataError(f"pre-training needs labels={{'labels': [B, T], {sentence!r}: [B]}}")
        return labels["labels"], labels[sentence]
