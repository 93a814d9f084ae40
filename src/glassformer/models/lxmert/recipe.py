"""LXMERT: a cross-modality encoder of text and image regions, for visual question answering.

    text      ids + positions + types ─ norm ─ [ BERT's block ] × L ─────┬─ attention to the regions ─ BERT's block ─┬─
                                                                          × X, the same weights both ways            │
    regions   (norm(W features) + norm(V boxes)) / 2 ─ [ BERT's block ] × R ─ attention to the text ─ BERT's block ───┴─

Source: Tan and Bansal 2019, section 2. An object detector, which is no part of it, gives the regions.
Differs: the reference library never trains position 0 and token type 0; here they are trained like all others.
"""

from __future__ import annotations

from dataclasses import replace

from glassformer.core.cross_attention import CrossAttentionSpec
from glassformer.core.norms import LayerNormSpec
from glassformer.core.stack import StackSpec
from glassformer.models import bert
from glassformer.models._config import Values, constant, flag, layer_count, number, rows, size
from glassformer.models._family import Family, architectures
from glassformer.models._network import TextSpec
from glassformer.models.lxmert.names import NAMES
from glassformer.models.lxmert.network import Lxmert, LxmertSpec
from glassformer.models.lxmert.regions import RegionsSpec, VisualPreTrainingSpec

TASK_KEYS = {
    "labels": "task_mask_lm",
    "matched_label": "task_matched",
    "obj_labels": "task_obj_predict",
    "ans": "task_qa",
}
"""Labels of pre-training tasks → the config keys that turn those tasks on."""


KEYS = bert.KEYS.extend(
    layers=constant(1),  # of a kind: see the next three
    classifier_dropout=constant(0.0),
    text_layers=layer_count("l_layers", 9),
    image_layers=layer_count("r_layers", 5),
    crossed_layers=layer_count("x_layers", 5),
    eps=constant(1e-12),
    padding=constant(0),  # whatever the config says
    features=size("visual_feat_dim", 2048),
    corners=size("visual_pos_dim", 4),
    answers=rows("num_qa_labels", 9500),
    objects=rows("num_object_labels", 1600),
    attributes=rows("num_attr_labels", 400),
    object_loss=flag("visual_obj_loss", True),
    attribute_loss=flag("visual_attr_loss", True),
    feature_loss=flag("visual_feat_loss", True),
    region_weight=number("visual_loss_normalizer", 6.67),
    unused="layer_norm_eps num_hidden_layers",  # always 1e-12; repeats the numbers of layers
)


@KEYS.spec
def spec(c: Values) -> LxmertSpec:
    like_bert = bert.text_spec(c, TextSpec)
    block, norm = bert.block_spec(c), LayerNormSpec(**c("width eps"))
    cross = CrossAttentionSpec(**c("width heads"), dropout=c.attention_dropout)
    losses = frozenset(label for label, task in TASK_KEYS.items() if c.reader.flag(task, default=True))
    return LxmertSpec(
        embed=like_bert.embed,
        regions=RegionsSpec(**c("features corners dropout"), norm=norm),
        text=StackSpec(blocks=(block,) * c.text_layers),
        image=StackSpec(blocks=(block,) * c.image_layers),
        crossed=(replace(block, cross=cross),) * c.crossed_layers,
        norm=norm,
        pre_training=VisualPreTrainingSpec(
            objects=c.objects * c.object_loss,
            attributes=c.attributes * c.attribute_loss,
            features=c.features * c.feature_loss,
            losses=losses,
            region_weight=c.region_weight,
        ),
        **c("activation answers init_std"),
    )


FAMILY = Family(
    model_type="lxmert",
    distinction="regions of an image with the text; cross-attention in both directions with the same weights",
    architectures=architectures(
        "Lxmert",
        "Model ForPreTraining ForQuestionAnswering",
        ForQuestionAnswering="visual-question-answering",
    ),
    spec=spec,
    build=Lxmert,
    names=NAMES,
    tiny=KEYS.tiny(
        "lxmert",
        **{"l_layers": 3, "r_layers": 2, "x_layers": 2, "visual_feat_dim": 24},
        **{"num_qa_labels": 7, "num_object_labels": 6, "num_attr_labels": 5},
    ),
)
