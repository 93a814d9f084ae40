"""What speech families share: heads, a weighted sum of layers, and SpecAugment.

head                     reads              gives                   trained by
CTCHead                  every frame        logits [B, T, V]        the transcript, without alignment
MeanPoolingClassifier    the mean of all    logits [B, labels]      labels of a sound
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.core.checks import Count, NonNegativeInt, Probability, Spec
from glassformer.core.flow import Flow, Output
from glassformer.core.heads import Head, Labels, mean_token, not_none, single_tensor
from glassformer.core.losses import IGNORE_INDEX, refuse_smoothing, summed_cross_entropy
from glassformer.errors import ConfigError, DataError
from glassformer.models._config import Values

if TYPE_CHECKING:
    from jaxtyping import Bool, Float


class CTCHead(Head):
    """Connectionist temporal classification (CTC): at every frame a letter, or the blank. logits = W x + b.

        frames    - t t - i - m e e -        repeated letters are merged, then blanks removed: t i m e

        loss of a row = -log Σ of the probabilities of all alignments of its labels to its frames

    Labels of -100, and blanks, do not count. Labels that are longer than their frames have no alignment: their loss is
    infinite.

    blank: its id
    reduction: "sum" over the rows, or "mean" of each row's loss divided by its number of labels. In training rows are
        always averaged, or the step size would grow with the batch
    zero_infinity: an infinite loss counts as 0
    Source: Graves et al. 2006, sections 3 and 4.
    """

    FIELDS = ("logits",)
    OVER_VOCABULARY = True

    def __init__(
        self,
        width: int,
        vocabulary: int,
        *,
        blank: int = 0,
        reduction: str = "sum",
        zero_infinity: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if not 0 <= blank < vocabulary:
            raise ConfigError(
                f"the blank has id {blank}; it must be one of the {vocabulary} ids of the vocabulary "
                "(config.json: pad_token_id, vocab_size)"
            )
        self.blank = blank
        self.reduction = reduction
        self.zero_infinity = zero_infinity
        self.dropout = nn.Dropout(dropout)
        self.decoder = nn.Linear(width, vocabulary)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        B, T, _ = x.shape
        frames = torch.full((B,), T, device=x.device) if flow.keep is None else flow.keep[:, 0].sum(-1)
        return Output(logits=self.decoder(self.dropout(x)), frames=frames)

    def label_counts(self, labels: Labels) -> dict[str, int]:
        """Number of rows: each has one loss for all its letters."""
        return {"loss": len(single_tensor(labels))}

    def output_loss_sums(self, output: Output, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        refuse_smoothing(smoothing, "letters are not aligned to frames")
        logits, labels = not_none(output.logits), single_tensor(labels)
        V = logits.shape[-1]
        if labels.dim() != 2 or len(labels) != len(logits) or labels.dtype not in (torch.int64, torch.int32):
            raise DataError(
                f"labels are {labels.dtype} of shape {list(labels.shape)}; they must be whole numbers "
                f"[{len(logits)}, letters], padded with -100"
            )
        counted = (labels != IGNORE_INDEX) & (labels != self.blank)
        letters = labels[counted].long()  # [of all rows]
        if letters.numel() and not 0 <= int(letters.min()) <= int(letters.max()) < V:
            raise DataError(
                f"labels hold numbers from {int(letters.min())} to {int(letters.max())}; "
                f"allowed: 0 to {V - 1}, and -100 for what does not count"
            )
        wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
        rows = F.ctc_loss(
            wide.log_softmax(-1).transpose(0, 1),
            letters,
            not_none(output.frames),
            counted.sum(-1),
            blank=self.blank,
            reduction="none",
            zero_infinity=self.zero_infinity,
        )
        if self.reduction == "mean":
            rows = rows / counted.sum(-1).clamp(min=1)
        return {"loss": rows.sum()}

    def loss(self, output: Output, labels: Labels) -> Tensor:
        """With the reduction "sum", the sum over all rows of the batch; else their mean."""
        if self.reduction == "sum":
            return self.output_loss_sums(output, labels)["loss"]
        return super().loss(output, labels)


class MeanPoolingClassifier(Head):
    """Audio classification by mean pooling over frames: logits = W mean(V x + c) + b.

    Source: Yang et al. 2021, "SUPERB", section 3.
    """

    def __init__(self, width: int, hidden: int, labels: int) -> None:
        super().__init__()
        self.projection = nn.Linear(width, hidden)
        self.classifier = nn.Linear(hidden, labels)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        return Output(logits=self.classifier(mean_token(self.projection(x), flow)))

    def output_loss_sums(self, output: Output, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        return {"loss": summed_cross_entropy(not_none(output.logits), single_tensor(labels), smoothing)}


class WeightedLayerSum(nn.Module):
    """Learned weighted sum of hidden states: Σ softmax(weights)_l · state_l, before the first block and after each.

    Source: Peters et al. 2018, section 3.2, without the common factor; Yang et al. 2021, section 3.
    """

    def __init__(self, states: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(states))

    def forward(self, states: Iterable[Tensor]) -> Tensor:
        mixed: Tensor = torch.stack(list(states), dim=-1) @ self.weights.softmax(-1)
        return mixed


@dataclass(frozen=True, kw_only=True, slots=True)
class SpansSpec(Spec):
    """Random masking spans of `length`, as many as cover a `share` of all if none overlap, and at least `minimum`."""

    share: Probability
    length: Count
    minimum: NonNegativeInt = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class SpecAugmentSpec(Spec):
    """SpecAugment of `width`

    channels: masking spans of time and of channels; None = no masking.
    """

    width: Count
    time: SpansSpec | None = None
    channels: SpansSpec | None = None


class SpecAugment(nn.Module):
    """SpecAugment: in training, replace spans of time by a learned vector, and spans of channels by 0.

        time       a a ▒ ▒ ▒ a a a ▒ ▒ ▒ a          channels     a a a a
                   b b ▒ ▒ ▒ b b b ▒ ▒ ▒ b                       0 0 0 0
                   c c ▒ ▒ ▒ c c c ▒ ▒ ▒ c                       c c c c

    Spans of time lie within the sound, not in its padding. In evaluation nothing is masked.

    Args:
        x: frames. [B, T, D]
        keep: False where frames are padding. [B, 1, T]; None = nowhere
    Source: Park et al. 2019, section 2; the learned vector, and hiding after the first layers: Baevski et al. 2020,
        section 3.1 and appendix B.
    """

    def __init__(self, spec: SpecAugmentSpec) -> None:
        super().__init__()
        self.spec = spec
        self.vector = nn.Parameter(torch.zeros(spec.width))

    def forward(self, x: Float[Tensor, "B T D"], keep: Bool[Tensor, "B 1 T"] | None = None) -> Float[Tensor, "B T D"]:
        if not self.training:
            return x
        B, T, D = x.shape
        if self.spec.time is not None:
            lengths = [T] * B if keep is None else keep[:, 0].sum(-1).tolist()
            masked = random_spans(lengths, T, self.spec.time).to(x.device)  # [B, T]
            x = torch.where(masked[..., None], self.vector, x)
        if self.spec.channels is not None:
            masked = random_spans([D] * B, D, self.spec.channels).to(x.device)  # [B, D]
            x = x.masked_fill(masked[:, None], 0.0)
        return x


def random_spans(lengths: list[int], size: int, spec: SpansSpec) -> Bool[Tensor, "B size"]:
    """Random masking spans within the first `length` positions of each row. They may overlap; none begins twice.

    Their number: share · length / span length, rounded up or down at random so that its mean is that; at least
    `minimum`, and no more than fit next to each other in `size` positions.
    """
    masked = torch.zeros(len(lengths), size, dtype=torch.bool)
    rounding = float(torch.rand(()))
    for row, length in zip(masked, lengths, strict=True):
        candidates = max(length - spec.length + 1, 0)
        count = max(int(spec.share * length / spec.length + rounding), spec.minimum)
        starts = torch.randperm(candidates)[: min(count, size // spec.length)]
        row[(starts[:, None] + torch.arange(spec.length)).flatten()] = True
    return masked


def spec_augment(c: Values) -> SpecAugmentSpec | None:
    """SpecAugment in training; its learned vector exists as soon as a share is masked, used or not, from a config."""
    spans = mask_spans(c)
    used = spans if c.augments else {}
    return SpecAugmentSpec(width=c.width, time=used.get("time"), channels=used.get("feature")) if spans else None


def mask_spans(c: Values) -> dict[str, SpansSpec]:
    """SpecAugment's spans along "time" and "feature", of which some are masked at all, from a config."""
    spans = {
        axis: SpansSpec(
            share=c.reader.probability(f"mask_{axis}_prob", default=share),
            length=c.reader.integer(f"mask_{axis}_length", default=10),
            minimum=c.reader.integer(f"mask_{axis}_min_masks", default=minimum, minimum=0),
        )
        for axis, share, minimum in (("time", 0.05, 2), ("feature", 0.0, 0))
    }
    return {axis: span for axis, span in spans.items() if span.share}
