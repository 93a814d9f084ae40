"""Contrastive head of CLIP, and the projection of one tower alone: pooled states → one embedding space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn

from glassformer.core.flow import Output
from glassformer.core.heads import Head, Labels
from glassformer.core.losses import cross_entropy
from glassformer.errors import DataError

if TYPE_CHECKING:
    from jaxtyping import Float


class ContrastiveHead(Head):
    """Contrastive head: scaled cosine similarity of projected texts and images, with a learned temperature.

        logits_per_text = eˢ · t̂ îᵀ,   t̂ = W_t t / |W_t t|,   î = W_i i / |W_i i|

    The loss is the mean of two cross-entropies: each text over all images of the batch, each image over all texts.

    Args:
        text_width, image_width: of the pooled states
        projection: width of the embeddings
        scale: s at first, the logarithm of the temperature factor
    Source: Radford et al. 2021, figure 3.
    """

    FIELDS = ("text_embeds", "image_embeds", "logits_per_text", "logits_per_image")
    WHOLE_BATCH = True

    def __init__(self, text_width: int, image_width: int, projection: int, scale: float) -> None:
        super().__init__()
        self.text = nn.Linear(text_width, projection, bias=False)
        self.image = nn.Linear(image_width, projection, bias=False)
        self.scale = nn.Parameter(torch.tensor(scale))

    def project(self, texts: Tensor | None, images: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """Pooled texts [texts, D] and images [images, D'] → their embeddings of any length. [texts, E], [images, E]"""
        return None if texts is None else self.text(texts), None if images is None else self.image(images)

    def compare(self, texts: Tensor | None, images: Tensor | None) -> Output:
        """Pooled texts [texts, D] and images [images, D'] → their embeddings of length 1; with both, all scores."""
        t, i = (None if x is None else l2_normalise(x) for x in self.project(texts, images))
        if t is None or i is None:
            return Output(text_embeds=t, image_embeds=i)
        scores = self.scale.exp() * t @ i.T  # [texts, images]
        return Output(text_embeds=t, image_embeds=i, logits_per_text=scores, logits_per_image=scores.T)

    def loss(self, output: Output, labels: Labels) -> Tensor:
        """Contrastive loss.

        Args:
            labels: index of each text's own image in the batch; `torch.arange(N)` for aligned pairs.

        Raises: DataError: scores are missing, or the labels are no permutation.
        """
        scores = output.logits_per_text
        if scores is None or isinstance(labels, dict) or not isinstance(labels, Tensor):
            raise DataError("the loss needs input_ids and pixel_values, and labels as one tensor [texts]")
        # The labels must be a permutation: the loss over images uses its inverse.
        N, integral = len(scores), labels.dtype in (torch.int64, torch.int32)
        pairs = torch.arange(N, device=labels.device)
        if scores.shape != (N, N) or not integral or not torch.equal(labels.flatten().sort().values, pairs.to(labels)):
            raise DataError(
                f"labels are {labels.dtype} of shape {list(labels.shape)}, for {N} texts and {scores.shape[1]} "
                "images; each text must have an image of its own: whole numbers from 0, each of them once"
            )
        labels = labels.flatten().long()
        return (cross_entropy(scores, labels) + cross_entropy(scores.T, labels.argsort())) / 2


def l2_normalise(x: Float[Tensor, "N E"]) -> Float[Tensor, "N E"]:
    """Scale vectors to length 1."""
    lengths: Tensor = x.norm(dim=-1, keepdim=True)
    return x / lengths


@dataclass(frozen=True, slots=True)
class TowerOutput(Output):
    """Output of a tower alone: its embeddings, and the hidden states that they are projected from."""

    OWN: ClassVar[frozenset[str]] = Output.OWN | {"pooler_output"}


class ProjectionHead(Head):
    """Projection of a tower alone into the embedding space that texts and images share.

        e = W pooled

    Differs: `ContrastiveHead` scales its embeddings to length 1; those of a tower alone are as they come, as in the
    reference library.
    """

    def __init__(self, width: int, projection: int) -> None:
        super().__init__()
        self.projection = nn.Linear(width, projection, bias=False)

    def project(self, pooled: Float[Tensor, "B D"]) -> Output:
        """Pooled states → embeddings. [B, D] → [B, E]"""
        raise NotImplementedError(f"{type(self).__name__} does not implement project(pooled)")


class TextProjection(ProjectionHead):
    """Projection of the text tower."""

    FIELDS = ("text_embeds",)

    def project(self, pooled: Float[Tensor, "B D"]) -> Output:
        return TowerOutput(text_embeds=self.projection(pooled))


class ImageProjection(ProjectionHead):
    """Projection of the vision tower."""

    FIELDS = ("image_embeds",)

    def project(self, pooled: Float[Tensor, "B D"]) -> Output:
        return TowerOutput(image_embeds=self.projection(pooled))
