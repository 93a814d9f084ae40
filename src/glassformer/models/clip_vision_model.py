"""The tower of CLIP that reads pictures, alone, as models that talk about pictures see with.

    patches + [CLS] + positions ─ norm ─ [ norm ─ attention ─ add ─ norm ─ feed-forward ─ add ] × L ─ [CLS] ─ norm

Source: Radford et al. 2021, section 2.4.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from glassformer.core.flow import Batch, Flow, Output
from glassformer.core.norms import make_norm
from glassformer.core.patches import Patches
from glassformer.core.stack import Stack
from glassformer.models._clip import POSITIONS, PictureTowerSpec, init_towers, vision_names, vision_spec
from glassformer.models._family import Family, Reader
from glassformer.models._picture import PictureEncoder, reads_pixels
from glassformer.weights.names import Names


@dataclass(frozen=True, kw_only=True, slots=True)
class ClipVisionSpec:
    """The tower, and how far from the usual deviations its weights start."""

    tower: PictureTowerSpec
    factor: float


def spec(reader: Reader) -> ClipVisionSpec:
    """config.json → spec."""
    return ClipVisionSpec(tower=vision_spec(reader), factor=reader.number("initializer_factor", default=1.0))


class ClipVision(PictureEncoder):
    """Patches, stack, and a norm for what is pooled alone.

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
        x: Tensor = self.blocks(self.embed(reads_pixels(batch), flow), flow)
        return x

    def forward(self, batch: Batch, flow: Flow) -> Output:
        output = super().forward(batch, flow)
        assert output.last_hidden_state is not None
        pooled = self.final_norm(output.last_hidden_state[:, 0])
        return replace(output, pooler_output=self.tap(flow, "pooler_output", pooled))


def names(spec: ClipVisionSpec, task: str) -> Names:
    """Their tensor names; newer files have no prefix."""
    return Names(prefix="vision_model", body=vision_names(spec.tower, "", ""), ignored=(POSITIONS,))


FAMILY = Family(
    model_type="clip_vision_model",
    architectures={"CLIPVisionModel": "feature-extraction"},
    spec=spec,
    build=ClipVision,
    names=names,
    initialise=lambda network, spec: init_towers(network, spec.factor),
    opens="picture",
    oddity="CLIP's tower of pictures alone: a norm before its first layer, and one for [CLS] alone",
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
