"""CLIP: contrastive language-image pre-training, a text tower and a vision tower with one embedding space.

    ids + positions ─ [ norm ─ causal attention ─ add ─ norm ─ feed-forward ─ add ] × L ─ norm ─ end token ─ project ─ t
    patches + [CLS] + positions ─ norm ─ [ the same, not causal ] × L ─ [CLS] ─ norm ─ project ─ i

    score = eˢ · cosine of t and i

Zero-shot classification of images: write a text for each class ("a photo of a cat") and take the nearest.
Source: Radford et al. 2021, section 2.4 and figure 3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from glassformer.core.classification_heads import Problem, SequenceClassifier
from glassformer.core.embeddings import Embedding
from glassformer.core.flow import Batch, Flow, Node, Output
from glassformer.core.heads import Head, Labels
from glassformer.core.losses import cross_entropy
from glassformer.core.norms import make_norm
from glassformer.core.patches import Patches
from glassformer.core.stack import Stack
from glassformer.errors import ConfigError, DataError
from glassformer.models._clip import (
    POSITION_IDS,
    TextTowerSpec,
    VisionTowerSpec,
    end_token_state,
    initialise_towers,
    text_names,
    text_spec,
    vision_names,
    vision_spec,
)
from glassformer.models._config import ConfigReader
from glassformer.models._family import Family
from glassformer.models._image import ImageEncoder, require_pixels
from glassformer.models._network import Network, require_ids
from glassformer.weights.names import WeightNames

if TYPE_CHECKING:
    from jaxtyping import Float, Int


@dataclass(frozen=True, kw_only=True, slots=True)
class ClipSpec:
    """Both towers and the contrastive head.

    projection: width of the shared embedding space · scale: log of the initial temperature factor of cosines
    factor: multiplies the standard deviations of initialisation
    """

    text: TextTowerSpec
    vision: VisionTowerSpec
    projection: int
    scale: float
    labels: int
    problem: Problem | None
    factor: float


def spec(reader: ConfigReader) -> ClipSpec:
    """config.json → spec."""
    return ClipSpec(
        text=text_spec(reader.section("text_config_dict", "text_config")),
        vision=vision_spec(reader.section("vision_config_dict", "vision_config")),
        projection=reader.integer("projection_dim", default=512),
        scale=reader.number("logit_scale_init_value", default=2.6592),
        labels=reader.labels(),
        problem=reader.problem(),
        factor=reader.number("initializer_factor", default=1.0),
    )


class TextTower(Node):
    """The text tower: ids ─ embedding ─ blocks ─ norm.

    Taps: final [B T D]
    """

    TAPS = ("final",)

    def __init__(self, spec: TextTowerSpec) -> None:
        super().__init__()
        self.end = spec.end
        self.embed = Embedding(spec.embed)
        self.blocks = Stack(spec.blocks)
        self.final_norm = make_norm(spec.final_norm)

    def forward(self, ids: Int[Tensor, "B T"], flow: Flow) -> Float[Tensor, "B T D"]:
        return self.tap(flow, "final", self.final_norm(self.blocks(self.embed(ids, flow), flow)))

    def pooled(self, x: Float[Tensor, "B T D"], ids: Int[Tensor, "B T"]) -> Float[Tensor, "B D"]:
        """The hidden state of each text's end token."""
        return end_token_state(x, ids, self.end)


class VisionTower(Node):
    """The vision tower: pixels ─ patches ─ norm ─ blocks; the final norm is applied to the pooled state alone.

    Taps: final [B T D]
    """

    TAPS = ("final",)

    def __init__(self, spec: VisionTowerSpec) -> None:
        super().__init__()
        self.embed = Patches(spec.embed)
        self.blocks = Stack(spec.blocks)
        self.final_norm = make_norm(spec.final_norm)

    def forward(self, pixels: Float[Tensor, "B C height width"], flow: Flow) -> Float[Tensor, "B T D"]:
        flow = Flow(tape=flow.tape, recompute=flow.recompute)  # masks and positions are the text's
        return self.tap(flow, "final", self.blocks(self.embed(pixels, flow), flow))

    def pooled(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B D"]:
        """The hidden state of [CLS], normed."""
        normed: Tensor = self.final_norm(x[:, 0])
        return normed


NEEDS_WHOLE_BATCH = (
    "a contrastive loss compares all texts and images of a step with each other, so it cannot be added up over "
    "several calls; give the whole batch in one call, with labels: its `loss` is that of the step"
)


class ContrastiveHead(Head):
    """Contrastive head: scaled cosine similarity of projected texts and images, with a learned temperature.

        logits_per_text = eˢ · t̂ îᵀ,   t̂ = W_t t / |W_t t|,   î = W_i i / |W_i i|

    The loss is the mean of two cross-entropies: each text over all images of the batch, each image over all texts.
    Source: Radford et al. 2021, figure 3.
    """

    FIELDS = ("text_embeds", "image_embeds", "logits_per_text", "logits_per_image")

    def __init__(self, spec: ClipSpec) -> None:
        super().__init__()
        self.text = nn.Linear(spec.text.blocks.width, spec.projection, bias=False)
        self.image = nn.Linear(spec.vision.blocks.width, spec.projection, bias=False)
        self.scale = nn.Parameter(torch.tensor(spec.scale))

    def compare(self, texts: Tensor | None, images: Tensor | None) -> Output:
        """Pooled texts [texts, D] and images [images, D'] → their embeddings of length 1; with both, all scores."""
        t = None if texts is None else l2_normalise(self.text(texts))
        i = None if images is None else l2_normalise(self.image(images))
        if t is None or i is None:
            return Output(text_embeds=t, image_embeds=i)
        scores = self.scale.exp() * t @ i.T  # [texts, images]
        return Output(text_embeds=t, image_embeds=i, logits_per_text=scores, logits_per_image=scores.T)

    def label_counts(self, labels: Labels) -> dict[str, int]:
        raise ConfigError(NEEDS_WHOLE_BATCH)

    def output_loss_sums(self, output: Output, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        raise ConfigError(NEEDS_WHOLE_BATCH)

    def loss(self, output: Output, labels: Labels) -> Tensor:
        """Contrastive loss. labels: index of each text's own image in the batch; `torch.arange(N)` for aligned pairs.

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


class Clip(Network):
    """CLIP: both towers and the contrastive head; a call with texts alone, or with images alone, runs one tower.

    Taps: text.… · vision.… · text_embeds [texts E] · image_embeds [images E] · logits_per_text, logits_per_image
    """

    READS = ("input_ids", "pixel_values")

    head: ContrastiveHead

    def __init__(self, spec: ClipSpec) -> None:
        super().__init__()
        self.text = TextTower(spec.text)
        self.vision = VisionTower(spec.vision)
        self.head = ContrastiveHead(spec)
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

    def forward(self, batch: Batch, flow: Flow) -> Output:
        texts, images = self._run_towers(batch, flow)
        output = self.head.compare(
            None if texts is None else self.text.pooled(texts, require_ids(batch)),
            None if images is None else self.vision.pooled(images),
        )
        fields = {name: x for name in self.head.FIELDS if (x := output[name]) is not None}
        tapped: dict[str, Tensor] = {name: self.tap(flow, name, x) for name, x in fields.items()}
        return replace(output, **tapped)  # type: ignore[arg-type]

    loss_sums = Network.loss_sums_from_output

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
        super().__init__()
        self.embed = Patches(spec.vision.embed)
        self.blocks = Stack(spec.vision.blocks)
        self.final_norm = make_norm(spec.vision.final_norm)
        self.head = MeanPatchClassifier(spec.vision.blocks.width, spec.labels, pooling="mean", problem=spec.problem)
        self.name_nodes()

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        x: Tensor = self.blocks(self.embed(require_pixels(batch), flow), flow)
        return x


def build(spec: ClipSpec, task: str) -> Network:
    """The network of a task."""
    return ClipClassifier(spec) if task == "image-classification" else Clip(spec)


def names(spec: ClipSpec, task: str) -> WeightNames:
    """Weight names."""
    ignored = tuple(f"{tower}_model.{POSITION_IDS}" for tower in ("text", "vision"))
    if task == "image-classification":
        vision = vision_names(spec.vision, "", "vision_model.")
        return WeightNames(body={**vision, "head.classifier": "classifier"}, ignored=ignored)
    return WeightNames(
        body={
            **text_names(spec.text, "text.", "text_model."),
            **vision_names(spec.vision, "vision.", "vision_model."),
            "head.text": "text_projection",
            "head.image": "visual_projection",
            "head.scale": "logit_scale",
        },
        ignored=ignored,
    )


def initialise(network: nn.Module, spec: ClipSpec) -> None:
    """Initialise both towers; standard deviations of projections fall with the width of their inputs."""
    initialise_towers(network, spec.factor)
    for module in network.modules():
        if isinstance(module, ContrastiveHead):
            for projection in (module.text, module.image):
                nn.init.normal_(projection.weight, std=projection.in_features**-0.5 * spec.factor)
            nn.init.constant_(module.scale, spec.scale)


FAMILY = Family(
    model_type="clip",
    architectures={
        "CLIPModel": "zero-shot-image-classification",
        "CLIPForImageClassification": "image-classification",
    },
    spec=spec,
    build=build,
    names=names,
    initialise=initialise,
    modality="picture",
    distinction="a text tower and an image tower, joined only by the cosine of their embeddings",
    tiny={
        "model_type": "clip",
        "projection_dim": 16,
        "text_config": {
            "vocab_size": 99,
            "hidden_size": 24,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 40,
            "max_position_embeddings": 40,
            "eos_token_id": 2,
        },
        "vision_config": {
            "hidden_size": 32,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "intermediate_size": 48,
            "image_size": 12,
            "patch_size": 4,
        },
    },
)
