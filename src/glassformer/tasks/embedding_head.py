"""Sentence-embedding head: one vector a text, pooled as the model's folder says, and a loss of the vectors of a batch.

    row        text, text_pair, negatives …         an example has two texts or more, each of which is encoded apart
    packed     ▒▒ ▓▓▓ ░░░░                          the texts of a micro-batch by length, in one row
    vectors    ─ pooling ─ in the order of the examples again ─ similarities ─ loss (`core/embedding_losses.py`)

Matryoshka: the loss of the first 64 dimensions, of the first 128, …, and of all, added up.
Source: Reimers and Gurevych 2019, "Sentence-BERT"; Kusupati et al. 2022, "Matryoshka Representation Learning".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, cast

import torch
from torch import Tensor
from torch.nn.functional import normalize

from glassformer.core.embedding_losses import (
    contrastive_loss,
    cosent_loss,
    false_negatives,
    ranking_loss,
    squared_error_loss,
    triplet_loss,
)
from glassformer.core.flow import Flow, Output
from glassformer.core.heads import Head, Labels, not_none
from glassformer.core.losses import refuse_smoothing
from glassformer.core.masks import Packing
from glassformer.engine.pooling import SIMILARITIES, PoolingSettings
from glassformer.errors import ConfigError
from glassformer.files.schema import Count, Doc, Positive, Schema


@dataclass(frozen=True, slots=True)
class LossKind:
    """What a loss reads of a row, by role, and how a model is evaluated that was trained by it.

    compares: the examples of a batch, with one another
    validation, report: the metric that chooses the best model, and that of a report
    """

    reads: tuple[str, ...]
    validation: str
    report: str
    compares: bool = False

    @property
    def scored(self) -> bool:
        """Whether a row is a pair of texts with a score or label."""
        return "negative" not in self.reads


PAIR, TRIPLE = ("text", "text_pair", "label"), ("text", "text_pair", "negative")
LOSSES = {
    "multiple-negatives-ranking": LossKind(TRIPLE, "mrr@10", "recall@10", compares=True),
    "triplet": LossKind(TRIPLE, "mrr@10", "recall@10"),
    "margin-mse": LossKind((*TRIPLE, "label"), "mrr@10", "recall@10"),
    "cosine": LossKind(PAIR, "spearman", "spearman"),
    "mse": LossKind(PAIR, "spearman", "spearman"),
    "cosent": LossKind(PAIR, "spearman", "spearman", compares=True),
    "contrastive": LossKind(PAIR, "average_precision", "average_precision"),
}
"""Losses by name."""
RANKING_SCALE = 20.0  # of cosines, as in sentence-transformers: a temperature of 0.05
LossName = Literal["multiple-negatives-ranking", "triplet", "margin-mse", "cosine", "mse", "cosent", "contrastive"]


@dataclass(frozen=True, kw_only=True)
class LossOptions(Schema):
    """A loss of sentence embeddings."""

    loss: Annotated[LossName, Doc("Name of the loss.")] = "multiple-negatives-ranking"
    scale: Annotated[Positive | None, Doc("Scale of similarities; None = 20 of cosines, else 1.")] = None
    margin: Annotated[Positive | None, Doc("Margin of distances; None = 0.5 by cosine, else 5.")] = None
    dimensions: Annotated[Sequence[Count], Doc("Matryoshka: sizes of vectors that are trained.")] = ()
    dimension_weights: Annotated[Sequence[Positive], Doc("Weight of the loss of each size; none = 1 each.")] = ()

    @property
    def kind(self) -> LossKind:
        """What the loss reads."""
        return LOSSES[self.loss]

    def check_dimensions(self, width: int) -> None:
        """Raises: ConfigError: dimensions that vectors of this width do not have; weights of other dimensions."""
        for size in self.dimensions:
            if size > width:
                raise ConfigError(f"dimensions has {size}; the vectors have {width}, so it must be from 1 to {width}")
        if len(set(self.dimensions)) < len(self.dimensions):
            raise ConfigError(f"dimensions is {list(self.dimensions)}; name each once")
        if self.dimension_weights and len(self.dimension_weights) != len(self.dimensions):
            raise ConfigError(
                f"dimension_weights has {len(self.dimension_weights)} numbers, dimensions {len(self.dimensions)}; give "
                "one for each"
            )


class EmbeddingHead(Head):
    """One vector a text, and a loss of them. It has no weights: the folder's pooling has none that are trained.

    Labels, by name, those of several micro-batches end to end:

        texts    how many texts each example has: a text, the other of the pair, negatives [N]
        order    where each text, in the order of the examples, is in the packed row [texts]
        keys     a number for each text, equal for equal texts [texts]
        scores   of each pair, or for `margin-mse` of each negative

    Args:
        settings: pooling and similarity
        options: the loss
    """

    FIELDS = ("text_embeds",)

    def __init__(self, settings: PoolingSettings, options: LossOptions) -> None:
        super().__init__()
        self.settings, self.options = settings, options
        self.similarity = "cosine" if options.loss in ("cosine", "cosent", "contrastive") else settings.similarity
        by_cosine = self.similarity == "cosine"
        self.scale = options.scale or (RANKING_SCALE if by_cosine else 1.0)
        self.margin = options.margin or (0.5 if by_cosine else 5.0)

    def forward(self, x: Tensor, flow: Flow) -> Output:
        packing = flow.packing or Packing((x.shape[1],) * len(x))  # a lone text needs no packing
        return Output(text_embeds=self.settings.pool_row(x.flatten(0, 1), packing))

    def label_counts(self, labels: Labels) -> dict[str, int]:
        texts = cast(dict[str, Tensor], labels)["texts"]
        triples = self.options.loss in ("triplet", "margin-mse")
        return {"loss": int((texts - 2).sum()) if triples else len(texts)}

    def output_loss_sums(self, output: Output, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        refuse_smoothing(smoothing, "texts are compared by their vectors")
        return self.vector_losses(self.vectors(output, labels), [labels])

    def vectors(self, output: Output, labels: Labels) -> Tensor:
        """The vectors of the texts, in the order of the examples. [texts, D]"""
        return not_none(output.text_embeds)[cast(dict[str, Tensor], labels)["order"]]

    def vector_losses(self, vectors: Tensor, labels: Sequence[Labels]) -> dict[str, Tensor]:
        """The loss of vectors, of the texts of these labels."""
        several = cast(Sequence[dict[str, Tensor]], labels)
        texts, keys, scores = (torch.cat([one[name] for one in several]) for name in ("texts", "keys", "scores"))
        if not self.options.dimensions:
            return {"loss": self._loss(vectors, texts, keys, scores)}
        weights = self.options.dimension_weights or [1.0] * len(self.options.dimensions)
        parts = [
            weight * self._loss(normalize(vectors[:, :size], dim=-1), texts, keys, scores)
            for size, weight in zip(self.options.dimensions, weights, strict=True)
        ]
        return {"loss": torch.stack(parts).sum()}

    def pair_similarities(self, a: Tensor, b: Tensor) -> Tensor:
        """The similarity of vectors, in pairs. [N, D], [N, D] → [N]"""
        return SIMILARITIES[self.similarity](a[:, None], b[:, None])[:, 0, 0]

    def distances(self, a: Tensor, b: Tensor) -> Tensor:
        """The distance of vectors, in pairs: 1 - cosine, or minus another similarity. [N]"""
        return float(self.similarity == "cosine") - self.pair_similarities(a, b)

    def _loss(self, vectors: Tensor, texts: Tensor, keys: Tensor, scores: Tensor) -> Tensor:
        first = texts.cumsum(0) - texts  # of each example
        a, b = vectors[first], vectors[first + 1]
        if self.options.loss == "contrastive":
            return contrastive_loss(self.distances(a, b), scores, self.margin)
        if self.options.loss == "cosent":
            return cosent_loss(self.pair_similarities(a, b), scores, self.scale)
        if self.options.kind.scored:
            return squared_error_loss(self.pair_similarities(a, b), scores)
        further = torch.ones(len(vectors), dtype=torch.bool, device=vectors.device)
        further[first] = further[first + 1] = False
        negatives = vectors[further]
        if self.options.loss == "multiple-negatives-ranking":
            own = torch.arange(len(a), device=a.device)
            left_out = false_negatives(keys[first], torch.cat([keys[first + 1], keys[further]]), own)
            similarities = SIMILARITIES[self.similarity](a, torch.cat([b, negatives]))
            return ranking_loss(similarities, own, self.scale, left_out)
        of = torch.repeat_interleave(texts - 2)  # the example of each negative
        if self.options.loss == "triplet":
            return triplet_loss(self.distances(a, b)[of], self.distances(a[of], negatives), self.margin)
        margins = self.pair_similarities(a, b)[of] - self.pair_similarities(a[of], negatives)
        return squared_error_loss(margins, scores)
