"""Losses of sentence embeddings, from similarities: cosine, CoSENT, contrastive, triplet, ranking, and distillation.

    squared_error_loss      s(a, b) = score                       two texts, and how similar they are (cosine loss)
    cosent_loss             s(a, b) in the order of the scores    the same, where only their order means something
    contrastive_loss        near, or a margin away                two texts, and whether they belong together: 1 or 0
    triplet_loss            d(a, p) + margin < d(a, n)            an anchor, what belongs to it, and what does not
    ranking_loss            softmax over s(a, p), s(a, n), …      pairs that belong together, among those of a batch
    squared_error_loss      s(q, p) - s(q, n) = margin            a teacher's scores (margin-MSE distillation)

s is any similarity of two vectors, such as the cosine, and d a distance. Losses are sums over the examples of a batch,
as in `losses.py`, and those that compare examples with one another (CoSENT, ranking) need a whole batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int


def squared_error_loss(similarities: Float[Tensor, "N"], targets: Float[Tensor, "N"]) -> Float[Tensor, ""]:
    """Σ (s - target)²: of cosines and scores the cosine-similarity loss; of differences of similarities margin-MSE.

    Source: Reimers and Gurevych 2019, "Sentence-BERT", section 3; of margins: Hofstätter et al. 2020, "Improving
        Efficient Neural Ranking Models with Cross-Architecture Knowledge Distillation", section 3.1.
    """
    return (similarities - targets).square().sum()


def cosent_loss(similarities: Float[Tensor, "N"], scores: Float[Tensor, "N"], scale: float) -> Float[Tensor, ""]:
    """CoSENT: pairs with a higher score should have a higher similarity. N times the loss of a batch:

        log(1 + Σ_{score_i > score_j} exp(scale · (s_j - s_i)))

    Source: Su 2022, "CoSENT: a more effective sentence vector scheme than Sentence-BERT".
    """
    scaled = scale * similarities
    inversions = scaled[None, :] - scaled[:, None]  # of i by j
    inversions = inversions[scores[:, None] > scores[None, :]]
    return len(scores) * torch.cat([inversions.new_zeros(1), inversions]).logsumexp(0)


def contrastive_loss(distances: Float[Tensor, "N"], together: Float[Tensor, "N"], margin: float) -> Float[Tensor, ""]:
    """Σ of ½ d² for texts that belong together, and ½ max(0, margin - d)² for those that do not.

    Args:
        together: 1 or 0
    Source: Hadsell et al. 2006, "Dimensionality Reduction by Learning an Invariant Mapping", equation 4.
    """
    apart = F.relu(margin - distances).square()
    return (together * distances.square() + (1 - together) * apart).sum() / 2


def triplet_loss(
    to_positives: Float[Tensor, "N"], to_negatives: Float[Tensor, "N"], margin: float
) -> Float[Tensor, ""]:
    """Σ max(0, d(anchor, positive) - d(anchor, negative) + margin).

    Source: Schroff et al. 2015, "FaceNet", equation 3.
    """
    return F.relu(to_positives - to_negatives + margin).sum()


def ranking_loss(
    similarities: Float[Tensor, "N C"],
    own: Int[Tensor, "N"],
    scale: float,
    left_out: Bool[Tensor, "N C"] | None = None,
) -> Float[Tensor, ""]:
    """Multiple-negatives ranking (InfoNCE): the cross-entropy of each anchor's own candidate among all of the batch.

    Args:
        own: which candidate belongs to the anchor
        scale: of the similarities: 1 / temperature
        left_out: candidates that are no negatives of an anchor: see `false_negatives`
    Source: Henderson et al. 2017, "Efficient Natural Language Response Suggestion", section 4.4; van den Oord et al.
        2018, "Representation Learning with Contrastive Predictive Coding".
    """
    scores = scale * similarities
    if left_out is not None:
        scores = scores.masked_fill(left_out, -torch.inf)
    return F.cross_entropy(scores, own, reduction="sum")


def false_negatives(
    anchors: Int[Tensor, "N"], candidates: Int[Tensor, "C"], own: Int[Tensor, "N"]
) -> Bool[Tensor, "N C"]:
    """Which candidates of a batch belong to an anchor too, and so are no negatives of it: duplicates.

    Two rows with one anchor have two right candidates; two rows with one candidate have it twice.

    Args:
        anchors, candidates: numbers that are equal for equal texts
        own: which candidate belongs to the anchor of each row
    """
    same_anchor = anchors[:, None] == anchors[None, :]
    holds = candidates[own][:, None] == candidates[None, :]  # the candidates that are the right one of a row
    # Whether any row of the same anchor has this candidate: a product of counts, exact in fp32 below 2²⁴ rows.
    right = same_anchor.float() @ holds.float() > 0
    return right.scatter(1, own[:, None], False)
