"""CLIP's vision tower alone, the image encoder of vision-language models.

    patches + [CLS] + positions ─ norm ─ [ norm ─ attention ─ add ─ norm ─ feed-forward ─ add ] × L ─ [CLS] ─ norm

Source: Radford et al. 2021, section 2.4.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from glassformer.core import Batch, Flow, Output, Patches, Stack, make_norm
from glassformer.models._clip import (
    POSITION_IDS,
    VisionTowerSpec,
    initialise_towers,
    vision_names,
    vision_spec,
)
from glassformer.models._config import ConfigReader
from glassformer.models._family import Family
from glassformer.models._image import ImageEncoder, require_pixels
from glassformer.weights.names import WeightNames


@dataclass(frozen=True, kw_only=True, slots=True)
class ClipVisionSpec:
    """The vision tower. factor: multiplies the standard deviations of initialisation"""

    tower: VisionTowerSpec
    factor: float


def spec(reader: ConfigReader) -> ClipVisionSpec:
    """config.json → spec."""
    return ClipVisionSpec(tower=vision_spec(reader), factor=reader.number("initializer_factor", default=1.0))


class ClipVision(ImageEncoder):
    """CLIP's image encoder: patches, stack, and a norm applied to the pooled state alone.

    Taps: final [B T D] · pooler_output [B D]
    """

    def __init__(self, spec: ClipVisionSpec, task: str) -> None:
        super().__init__()
        self.embed = Patches(spec.tower.embed)
        self.blocks = Stack(spec.tower.blocks)
        self.final_norm = make_norm(spec.tower.final_norm)
        self.head = None
        self.name_nodes()

    def own_taps(self) -> tuple[str, ...]:
        return (*super().own_taps(), "pooler_output")

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        x: Tensor = self.blocks(self.embed(require_pixels(batch), flow), flow)
        return x

    def forward(self, batch: Batch, flow: Flow) -> Output:
        output = super().forward(batch, flow)
        assert output.last_hidden_state is not None
        pooled = self.final_norm(output.last_hidden_state[:, 0])
        return replace(output, pooler_output=self.tap(flow, "pooler_output", pooled))


def names(spec: ClipVisionSpec, task: str) -> WeightNames:
    """Weight names; newer files have no prefix."""
    return WeightNames(prefix="vision_model", body=vision_names(spec.tower, "", ""), ignored=(POSITION_IDS,))


FAMILY = Family(
    model_type="clip_vision_model",
    architectures={"CLIPVisionModel": "feature-extraction"},
    spec=spec,
    build=ClipVision,
    names=names,
    initialise=lambda network, spec: initialise_towers(network, spec.factor),
    modality="picture",
    distinction="CLIP's image tower alone; a norm before its first layer, and one for [CLS] alone",
    tiny={
        "model_type": "clip_vision_model",
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "image_size": 12,
        "patch_size": 4,
    },
)
