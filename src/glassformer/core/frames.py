"""Heads that read the frames of a sound.

head              reads              gives                   trained by
Transcriber       every frame        logits [B, T, V]        what is said, not when
MeanClassifier    the mean of all    logits [B, labels]      labels of a sound
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.core.flow import Flow, Output
from glassformer.core.heads import Head, Labels, made, mean_token, one_tensor
from glassformer.core.losses import HIDDEN, summed_cross_entropy, unsmoothed
from glassformer.errors import ConfigError, DataError

if TYPE_CHECKING:
    from jaxtyping import Float


class Transcriber(Head):
    """logits = W x + b at every frame: a letter, or the blank, which stands for none.

        frames    - t t - i - m e e -        runs of one letter are one, blanks are none: t i m e

        loss of a row = -log Σ of the probabilities of all the ways in which its frames can spell its labels

    Labels of -100, and blanks, do not count. Labels that are longer than their frames cannot be spelled: their loss is
    infinite.

    blank: its id · reduction: "sum" over the rows, or "mean" of each row's loss by its number of labels. In training
        rows are always averaged, or the step would grow with the batch
    forgives: an infinite loss counts as 0
    Source: Graves et al. 2006, sections 3 and 4.
    """

    FIELDS = ("logits",)

    def __init__(
        self,
        width: int,
        vocabulary: int,
        *,
        blank: int = 0,
        reduction: str = "sum",
        forgives: bool = False,
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
        self.forgives = forgives
        self.dropout = nn.Dropout(dropout)
        self.decoder = nn.Linear(width, vocabulary)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        B, T, _ = x.shape
        frames = torch.full((B,), T, device=x.device) if flow.keep is None else flow.keep[:, 0].sum(-1)
        return Output(logits=self.decoder(self.dropout(x)), frames=frames)

    def counts(self, labels: Labels) -> dict[str, int]:
        """Rows count, each with all its letters."""
        return {"loss": len(one_tensor(labels))}

    def sums(self, output: Output, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        unsmoothed(smoothing, "letters have no frame of their own")
        logits, labels = made(output.logits), one_tensor(labels)
        V = logits.shape[-1]
        if labels.dim() != 2 or len(labels) != len(logits) or labels.dtype not in (torch.int64, torch.int32):
            raise DataError(
                f"labels are {labels.dtype} of shape {list(labels.shape)}; they must be whole numbers "
                f"[{len(logits)}, letters], padded with -100"
            )
        counted = (labels != HIDDEN) & (labels != self.blank)
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
            made(output.frames),
            counted.sum(-1),
            blank=self.blank,
            reduction="none",
            zero_infinity=self.forgives,
        )
        if self.reduction == "mean":
            rows = rows / counted.sum(-1).clamp(min=1)
        return {"loss": rows.sum()}

    def loss(self, output: Output, labels: Labels) -> Tensor:
        """With the reduction "sum", that of the whole batch, however many rows it has."""
        if self.reduction == "sum":
            return self.sums(output, labels)["loss"]
        return super().loss(output, labels)


class MeanClassifier(Head):
    """logits = W mean(V x + c) + b: labels of a whole sound, read off the mean of its frames.

    Source: Yang et al. 2021, "SUPERB", section 3.
    """

    def __init__(self, width: int, hidden: int, labels: int) -> None:
        super().__init__()
        self.projection = nn.Linear(width, hidden)
        self.classifier = nn.Linear(hidden, labels)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        return Output(logits=self.classifier(mean_token(self.projection(x), flow)))

    def sums(self, output: Output, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        return {"loss": summed_cross_entropy(made(output.logits), one_tensor(labels), smoothing)}


class LayerMix(nn.Module):
    """mix = Σ softmax(weights)_l · state_l, over the stream before the first block and after each.

    Source: Peters et al. 2018, section 3.2, without the common factor; Yang et al. 2021, section 3.
    """

    def __init__(self, states: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(states))

    def forward(self, states: Iterable[Tensor]) -> Tensor:
        mixed: Tensor = torch.stack(list(states), dim=-1) @ self.weights.softmax(-1)
        return mixed
