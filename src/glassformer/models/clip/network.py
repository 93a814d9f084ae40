"""CLIP's networks: a tower alone, both with the contrastive head, and the vision tower with a classifier."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torch import Tensor

from glassformer.core.classification_heads import Problem, SequenceClassifier
from glassformer.core.flow import Batch, Flow, Output
from glassformer.core.stack import Stack
from glassformer.errors import ConfigError
from glassformer.models._image import ImageEncoder
from glassformer.models._network import READS_SEVERAL_STREAMS, Network, Sizes, require_ids
from glassformer.models.clip.contrastive import ContrastiveHead, ProjectionHead
from glassformer.models.clip.towers import TextTower, TextTowerSpec, VisionTower, VisionTowerSpec

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True, kw_only=True, slots=True)
class ClipSpec:
    """Both towers and the contrastive head.

    projection: width of the shared embedding space
    scale: log of the initial temperature factor of cosines
    factor: multiplies the standard deviations of initialisation
    """

    text: TextTowerSpec
    vision: VisionTowerSpec
    projection: int
    scale: float
    labels: int
    problem: Problem | None
    factor: float


class PooledTower(Network):
    """A tower alone: its pooled states with the final ones, and their projection, where it has one.

    Taps: final [B T D] · pooler_output [B D] · the fields of the projection
    """

    NORMED_LAST = False

    def own_taps(self) -> tuple[str, ...]:
        return (*super().own_taps(), "pooler_output")

    def pooled(self, x: Tensor, batch: Batch) -> Tensor:
        """One state for each text or image. [B, D]"""
        raise NotImplementedError(f"{type(self).__name__} does not implement pooled(x, batch)")

    def forward(self, batch: Batch, flow: Flow) -> Output:
        x = self.tap(flow, "final", self.states(batch, flow))
        pooled = self.tap(flow, "pooler_output", self.pooled(x, batch))
        if isinstance(self.head, ProjectionHead):
            output = self.tap_output(self.head.project(pooled), x, flow)
        else:
            output = self.apply_head(x, flow)
        return replace(output, pooler_output=pooled)

    loss_sums = Network.loss_sums_from_output

    @property
    def unreadable(self) -> str:
        return "a tower of CLIP gives an embedding and no logits"


class Clip(Network):
    """CLIP: both towers and the contrastive head; a call with texts alone, or with images alone, runs one tower.

    Taps: text.… · vision.… · text_embeds [texts E] · image_embeds [images E] · logits_per_text, logits_per_image
    """

    READS = ("input_ids", "pixel_values")

    head: ContrastiveHead

    def __init__(self, spec: ClipSpec) -> None:
        super().__init__(Sizes.of_text(spec.text.embed))
        self.text = TextTower(spec.text)
        self.vision = VisionTower(spec.vision)
        widths = spec.text.blocks.width, spec.vision.blocks.width
        self.head = ContrastiveHead(*widths, spec.projection, spec.scale)
        self.name_nodes()

    def own_taps(self) -> tuple[str, ...]:
        return self.head.FIELDS

    def stacks(self) -> dict[str, Stack]:
        return {"text": self.text.blocks, "image": self.vision.blocks}

    def token_labels(self, batch: Batch) -> dict[str, list[str]]:
        return {"image": self.vision.embed.token_labels()}

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        """The final hidden states of the text; of the image where there is no text. [B, T, D]"""
        texts, images = self._run_towers(batch, flow)
        states = images if texts is None else texts
        assert states is not None  # _run_towers raises before
        return states

    def pooled(self, batch: Batch, flow: Flow) -> tuple[Tensor | None, Tensor | None]:
        """What represents the texts, and the images. [texts, D], [images, D']"""
        texts, images = self._run_towers(batch, flow)
        return (
            None if texts is None else self.text.pooled(texts, require_ids(batch)),
            None if images is None else self.vision.pooled(images),
        )

    def forward(self, batch: Batch, flow: Flow) -> Output:
        output = self.head.compare(*self.pooled(batch, flow))
        fields = {name: x for name in self.head.FIELDS if (x := getattr(output, name)) is not None}
        tapped: dict[str, Tensor] = {name: self.tap(flow, name, x) for name, x in fields.items()}
        return replace(output, **tapped)  # type: ignore[arg-type]

    loss_sums = Network.loss_sums_from_output

    @property
    def unreadable(self) -> str:
        return READS_SEVERAL_STREAMS

    def _run_towers(self, batch: Batch, flow: Flow) -> tuple[Tensor | None, Tensor | None]:
        """Final hidden states of texts and images; None where the batch has none.

        Raises: ConfigError: it has neither.
        """
        if batch.input_ids is None and batch.pixel_values is None:
            raise ConfigError("this model reads input_ids [B, T], pixel_values [B, C, H, W], or both; got none")
        texts = None if batch.input_ids is None else self.text(batch.input_ids, flow)
        images = None if batch.pixel_values is None else self.vision(batch.pixel_values, flow)
        return texts, images


class MeanPatchClassifier(SequenceClassifier):
    """Image classifier over the mean of all patches."""

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Output:
        return super().forward(x[:, 1:], flow)


class ClipClassifier(ImageEncoder):
    """The vision tower with an image classifier; its final norm is in checkpoints, but unused."""

    def __init__(self, spec: ClipSpec) -> None:
        tower = spec.vision
        head = MeanPatchClassifier(tower.blocks.width, spec.labels, pooling="mean", problem=spec.problem)
        super().__init__(tower.embed, tower.blocks, tower.final_norm, head)


def build(spec: ClipSpec, task: str) -> Network:
    """The network of a task."""
    return ClipClassifier(spec) if task == "image-classification" else Clip(spec)
