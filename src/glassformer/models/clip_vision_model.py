"""CLIP's vision tower alone, the image encoder of vision-language models, with or without its projection.

    patches + [CLS] + positions ─ norm ─ [ norm ─ attention ─ add ─ norm ─ feed-forward ─ add ] × L ─ [CLS] ─ norm
                                                                                        (─ project)

Source: Radford et al. 2021, section 2.4.
"""

from __future__ import annotations

from torch import Tensor

from glassformer.core import Batch
from glassformer.models._family import Family, architectures
from glassformer.models._image import ImageEncoder
from glassformer.models.clip import towers, weight_names
from glassformer.models.clip.contrastive import ImageProjection
from glassformer.models.clip.initialise import initialise
from glassformer.models.clip.network import PooledTower
from glassformer.models.clip.towers import VisionTowerSpec
from glassformer.weights.name_table import NameTable


class ClipVision(PooledTower, ImageEncoder):
    """CLIP's image encoder: patches, stack, and a norm applied to the pooled state alone, then perhaps a projection.

    Taps: final [B T D] · pooler_output [B D] · image_embeds [B E]
    """

    def __init__(self, spec: VisionTowerSpec, task: str) -> None:
        head = ImageProjection(spec.blocks.width, spec.projection) if task == "projection" else None
        super().__init__(spec.embed, spec.blocks, spec.final_norm, head)

    def pooled(self, x: Tensor, batch: Batch) -> Tensor:
        normed: Tensor = self.final_norm(x[:, 0])
        return normed


NAMES = NameTable(
    weight_names.VISION_LINES.format(ours="", theirs="")
    + """
    [head]
    head.projection    visual_projection
    """,
    prefix="vision_model",
    ignored=(weight_names.POSITION_IDS,),
)


FAMILY = Family(
    model_type="clip_vision_model",
    architectures=architectures("CLIPVision", "Model ModelWithProjection"),
    spec=towers.vision_spec,
    build=ClipVision,
    names=NAMES,
    initialise=lambda network, spec: initialise(network, spec.factor),
    modality="picture",
    distinction="CLIP's image tower alone; a norm before its first layer, and one for [CLS] alone",
    tiny=towers.VISION_KEYS.tiny("clip_vision_model", projection_dim=16, image_size=12, patch_size=4),
)
