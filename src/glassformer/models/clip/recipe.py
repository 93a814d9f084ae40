"""CLIP: contrastive language-image pre-training, a text tower and a vision tower with one embedding space.

    ids + positions ─ [ norm ─ causal attention ─ add ─ norm ─ feed-forward ─ add ] × L ─ norm ─ end token ─ project ─ t
    patches + [CLS] + positions ─ norm ─ [ the same, not causal ] × L ─ [CLS] ─ norm ─ project ─ i

    score = eˢ · cosine of t and i

Zero-shot classification of images: write a text for each class ("a photo of a cat") and take the nearest.
Source: Radford et al. 2021, section 2.4 and figure 3.
"""

from __future__ import annotations

from torch import nn

from glassformer.models._config import Keys, Values, number, size
from glassformer.models._family import Family, architectures
from glassformer.models.clip import towers, weight_names
from glassformer.models.clip.contrastive import ContrastiveHead
from glassformer.models.clip.initialise import initialise
from glassformer.models.clip.network import ClipSpec, build
from glassformer.weights.name_table import NameTable

KEYS = Keys(
    projection=size("projection_dim", 512),
    scale=number("logit_scale_init_value", 2.6592),
    factor=number("initializer_factor", 1.0),
)


@KEYS.spec
def spec(c: Values) -> ClipSpec:
    return ClipSpec(
        text=towers.text_spec(c.reader.section("text_config_dict", "text_config")),
        vision=towers.vision_spec(c.reader.section("vision_config_dict", "vision_config")),
        **c("projection scale labels problem factor"),
    )


def initialise_clip(network: nn.Module, spec: ClipSpec) -> None:
    """Initialise both towers, the projections and the temperature."""
    initialise(network, spec.factor)
    for module in network.modules():
        if isinstance(module, ContrastiveHead):
            nn.init.constant_(module.scale, spec.scale)


NAMES = NameTable(
    weight_names.TEXT_LINES.format(ours="text.", theirs="text_model.")
    + weight_names.VISION_LINES.format(ours="vision.", theirs="vision_model.")
    + weight_names.VISION_LINES.format(ours="", theirs="vision_model.")  # of a classifier
    + """
    head.text           text_projection
    head.image          visual_projection
    head.scale          logit_scale

    [head]
    head.classifier     classifier
    """,
    ignored=tuple(f"{tower}_model.{weight_names.POSITION_IDS}" for tower in ("text", "vision")),
)


FAMILY = Family(
    model_type="clip",
    architectures=architectures("CLIP", "Model ForImageClassification", Model="zero-shot-image-classification"),
    spec=spec,
    build=build,
    names=NAMES,
    initialise=initialise_clip,
    modality="picture",
    distinction="a text tower and an image tower, joined only by the cosine of their embeddings",
    tiny=KEYS.tiny(
        "clip",
        projection_dim=16,
        text_config=towers.TEXT_KEYS.tiny(
            "clip_text_model", hidden_size=24, num_hidden_layers=2, intermediate_size=40, eos_token_id=2
        ),
        vision_config=towers.VISION_KEYS.tiny("clip_vision_model", image_size=12, patch_size=4),
    ),
)
