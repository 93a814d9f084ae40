"""LXMERT: a cross-modality encoder of text and image regions, for visual question answering.

    text      ids + positions + types ─ norm ─ [ BERT's block ] × L ─────┬─ attention to the regions ─ BERT's block ─┬─
                                                                          × X, the same weights both ways            │
    regions   (norm(W features) + norm(V boxes)) / 2 ─ [ BERT's block ] × R ─ attention to the text ─ BERT's block ───┴─

Source: Tan and Bansal 2019, section 2. An object detector, which is no part of it, gives the regions.
Differs: the reference library never trains position 0 and token type 0; here they are trained like all others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torch import Tensor

from glassformer.core.attention_layout import AttentionGroup
from glassformer.core.blocks import run_block
from glassformer.core.embeddings import Embedding
from glassformer.core.flow import Batch, EncoderOutput, Flow, Output
from glassformer.core.language_heads import MaskedLMHead
from glassformer.core.regions import (
    CrossModalHead,
    CrossModalStates,
    RegionEmbedding,
    RegionPredictionHead,
    VisualAnswerHead,
    VisualPreTrainingHead,
)
from glassformer.core.specs import (
    BlockSpec,
    CrossAttentionSpec,
    EmbeddingSpec,
    LayerNormSpec,
    RegionsSpec,
    StackSpec,
    VisualPreTrainingSpec,
)
from glassformer.core.stack import Stack
from glassformer.errors import DataError, UnsupportedError
from glassformer.models import bert
from glassformer.models._config import MAX_LAYERS, MAX_ROWS, ConfigReader
from glassformer.models._cross_modality import ModalityEncoder
from glassformer.models._family import Family
from glassformer.models._network import Network, require, require_ids
from glassformer.weights.names import Fused, Rule, Tied, WeightNames

if TYPE_CHECKING:
    pass

TASK_KEYS = {
    "labels": "task_mask_lm",
    "matched_label": "task_matched",
    "obj_labels": "task_obj_predict",
    "ans": "task_qa",
}
"""Labels of pre-training tasks → the config keys that turn those tasks on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LxmertSpec:
    """Both encoders, their cross-modality blocks (`crossed`), and the heads."""

    embed: EmbeddingSpec
    regions: RegionsSpec
    text: StackSpec
    image: StackSpec
    crossed: tuple[BlockSpec, ...]
    norm: LayerNormSpec
    activation: str
    answers: int
    pre_training: VisualPreTrainingSpec
    init_std: float


def spec(reader: ConfigReader) -> LxmertSpec:
    """config.json → spec."""
    reader.fixed("tie_word_embeddings", True)
    reader.used.update(("layer_norm_eps", "num_hidden_layers"))  # always 1e-12; repeats the three below
    norm = LayerNormSpec(width=reader.integer("hidden_size"), eps=1e-12)
    block = bert.block_spec(reader, norm)
    cross = CrossAttentionSpec(width=norm.width, heads=block.attention.heads, dropout=block.attention.dropout)
    features = reader.integer("visual_feat_dim", default=2048)
    return LxmertSpec(
        embed=bert.embedding_spec(reader, norm),
        regions=RegionsSpec(
            features=features,
            corners=reader.integer("visual_pos_dim", default=4),
            norm=norm,
            dropout=block.dropout,
        ),
        text=StackSpec(blocks=(block,) * reader.integer("l_layers", default=9, maximum=MAX_LAYERS)),
        image=StackSpec(blocks=(block,) * reader.integer("r_layers", default=5, maximum=MAX_LAYERS)),
        crossed=(replace(block, cross=cross),) * reader.integer("x_layers", default=5, maximum=MAX_LAYERS),
        norm=norm,
        activation=reader.text("hidden_act", default="gelu"),
        answers=reader.integer("num_qa_labels", default=9500, maximum=MAX_ROWS),
        pre_training=_pre_training(reader, features),
        init_std=reader.number("initializer_range", default=0.02),
    )


def _pre_training(reader: ConfigReader, features: int) -> VisualPreTrainingSpec:
    objects = reader.integer("num_object_labels", default=1600, maximum=MAX_ROWS)
    attributes = reader.integer("num_attr_labels", default=400, maximum=MAX_ROWS)
    return VisualPreTrainingSpec(
        objects=objects if reader.flag("visual_obj_loss", default=True) else 0,
        attributes=attributes if reader.flag("visual_attr_loss", default=True) else 0,
        features=features if reader.flag("visual_feat_loss", default=True) else 0,
        losses=frozenset(label for label, task in TASK_KEYS.items() if reader.flag(task, default=True)),
        region_weight=reader.number("visual_loss_normalizer", default=6.67),
    )


class Lxmert(Network):
    """LXMERT: an encoder for text, one for image regions, cross-modality blocks, and a head over both.

    Raises: ConfigError: no regions. DataError: not as many images as texts, or regions of the wrong shape.
    Taps: text.… · vision.… · final [B T D], of the text · the fields of the head
    """

    READS = ("input_ids", "token_type_ids", "visual_feats", "visual_pos")

    head: CrossModalHead

    def __init__(self, spec: LxmertSpec, task: str) -> None:
        super().__init__()
        self.text = ModalityEncoder(Embedding(spec.embed), spec.text, spec.crossed)
        self.vision = ModalityEncoder(RegionEmbedding(spec.regions), spec.image, spec.crossed)
        for text_block, image_block in zip(self.text.cross_blocks(), self.vision.cross_blocks(), strict=True):
            image_block.share_cross(text_block)
        self.head = self.make_head(spec, task)
        self.name_nodes()

    def make_head(self, spec: LxmertSpec, task: str) -> CrossModalHead:
        if task == "feature-extraction":
            return CrossModalStates(spec.norm.width)
        answer = VisualAnswerHead(spec.norm, spec.answers)
        if task == "visual-question-answering":
            return answer
        if "ans" not in spec.pre_training.losses:
            raise UnsupportedError(
                "config.json: task_qa = False is not supported for pre-training; to load the body, give "
                "task='feature-extraction'"
            )
        masked = MaskedLMHead(spec.norm.width, spec.embed.vocabulary, spec.activation, spec.norm)
        masked.decoder.weight = self.embedding.tokens.weight
        questions = RegionPredictionHead(spec.pre_training, spec.norm, spec.activation)
        return VisualPreTrainingHead(spec.pre_training, masked, answer, questions)

    def stacks(self) -> dict[str, Stack]:
        return {"text": self.text.blocks, "image": self.vision.blocks}

    def stream_taps(self) -> dict[str, tuple[str, ...]]:
        return {"text": self.text.stream_taps(), "image": self.vision.stream_taps()}

    def attention_layout(self) -> dict[str, AttentionGroup]:
        return {
            "text": self.text.self_attention_group("text"),
            "image": self.vision.self_attention_group("image"),
            "text to image": self.text.cross_attention_group(self.vision, "text", "image"),
            "image to text": self.vision.cross_attention_group(self.text, "image", "text"),
        }

    def token_labels(self, batch: Batch) -> dict[str, list[str]]:
        regions = require(batch.visual_feats, "visual_feats [B, regions, width]").shape[1]
        return {"image": [f"region {i}" for i in range(regions)]}

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        return self.run_modalities(batch, flow)[0]

    def run_modalities(self, batch: Batch, flow: Flow) -> tuple[Tensor, Tensor]:
        """The final hidden states of the text [B, T, D] and of the regions [B, R, D]."""
        ids = require_ids(batch)
        features = require(batch.visual_feats, "visual_feats [B, regions, width]")
        boxes = require(batch.visual_pos, "visual_pos [B, regions, 4]")
        if len(features) != len(ids):
            raise DataError(
                f"visual_feats has {len(features)} images, input_ids has {len(ids)} texts; each text has one image"
            )
        image_flow = Flow(keep=batch.visual_keep, tape=flow.tape, recompute=flow.recompute)
        x = self.text.blocks(self.text.embed(ids, flow, batch.token_type_ids), flow)
        y = self.vision.blocks(self.vision.embed(features, boxes, image_flow), image_flow)
        for text_block, image_block in zip(self.text.cross_blocks(), self.vision.cross_blocks(), strict=True):
            text, image = EncoderOutput(x, flow.keep), EncoderOutput(y, image_flow.keep)
            x, y = (
                run_block(text_block, x, replace(flow, memory=image)),
                run_block(image_block, y, replace(image_flow, memory=text)),
            )
        return x, y

    def forward(self, batch: Batch, flow: Flow) -> Output:
        text, image = self.run_modalities(batch, flow)
        text = self.tap(flow, "final", text)
        return self.tap_output(self.head.read_both(text, image, flow), text, flow)

    loss_sums = Network.loss_sums_from_output


def names(spec: LxmertSpec, task: str) -> WeightNames:
    """Weight names."""
    return WeightNames(prefix="lxmert", body=_body_names(spec.norm.width), head=_head_names())


def _body_names(width: int) -> dict[str, str | Rule]:
    embed = {"tokens": "word", "positions": "position", "segments": "token_type"}
    regions = {
        "features": "visn_fc",
        "features_norm": "visn_layer_norm",
        "boxes": "box_fc",
        "boxes_norm": "box_layer_norm",
    }
    body: dict[str, str | Rule] = {
        **{f"text.embed.{ours}": f"embeddings.{theirs}_embeddings" for ours, theirs in embed.items()},
        "text.embed.norm": "embeddings.LayerNorm",
        **{f"vision.embed.{ours}": f"encoder.visn_fc.{theirs}" for ours, theirs in regions.items()},
        "head.pooler.dense": "pooler.dense",
        "head.answer.pooler.dense": "pooler.dense",
    }
    cross_layer = "encoder.x_layers.{i}"
    cross = f"{cross_layer}.visual_attention"  # one module in the checkpoint, for both modalities
    for modality, layers, their in (("text", "layer", "lang"), ("vision", "r_layers", "visn")):
        layer = f"encoder.{layers}.{{i}}"
        crossed = f"{modality}.crossed.{{i}}"
        body |= {
            **bert.block_names(
                f"{modality}.blocks.{{i}}",
                width,
                attention=f"{layer}.attention",
                up=f"{layer}.intermediate",
                down=f"{layer}.output",
            ),
            **bert.block_names(
                crossed,
                width,
                attention=f"{cross_layer}.{their}_self_att",
                up=f"{cross_layer}.{their}_inter",
                down=f"{cross_layer}.{their}_output",
            ),
            f"{crossed}.cross.q": f"{cross}.att.query",
            f"{crossed}.cross.kv": Fused((f"{cross}.att.key", f"{cross}.att.value"), (width,) * 2),
            f"{crossed}.cross.out": f"{cross}.output.dense",
            f"{crossed}.cross_residual.on_residual": f"{cross}.output.LayerNorm",
        }
    return body


def _head_names() -> dict[str, str | Rule]:
    answer = {
        "dense": "answer_head.logit_fc.0",
        "norm": "answer_head.logit_fc.2",
        "classifier": "answer_head.logit_fc.3",
    }
    return {
        **{f"head.{ours}": theirs for ours, theirs in answer.items()},
        **{f"head.answer.{ours}": theirs for ours, theirs in answer.items()},
        "head.masked.transform": "cls.predictions.transform.dense",
        "head.masked.norm": "cls.predictions.transform.LayerNorm",
        "head.masked.decoder.weight": Tied("cls.predictions.decoder.weight"),
        "head.masked.decoder.bias": "cls.predictions.bias",
        "head.matched": "cls.seq_relationship",
        "head.questions.transform": "obj_predict_head.transform.dense",
        "head.questions.norm": "obj_predict_head.transform.LayerNorm",
        **{
            f"head.questions.asked.{name}": f"obj_predict_head.decoder_dict.{name}"
            for name in ("obj", "attr", "feat")
        },
    }


FAMILY = Family(
    model_type="lxmert",
    distinction="regions of an image beside the text; cross-attention in both directions with the same weights",
    architectures={
        "LxmertModel": "feature-extraction",
        "LxmertForPreTraining": "pre-training",
        "LxmertForQuestionAnswering": "visual-question-answering",
    },
    spec=spec,
    build=Lxmert,
    names=names,
    tiny={
        "model_type": "lxmert",
        "vocab_size": 99,
        "hidden_size": 32,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "max_position_embeddings": 40,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "l_layers": 3,
        "r_layers": 2,
        "x_layers": 2,
        "visual_feat_dim": 24,
        "num_qa_labels": 7,
        "num_object_labels": 6,
        "num_attr_labels": 5,
    },
)
