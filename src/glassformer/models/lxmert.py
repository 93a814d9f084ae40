"""LXMERT: a cross-modality encoder of text and image regions, for visual question answering.

    text      ids + positions + types ─ norm ─ [ BERT's block ] × L ─────┬─ attention to the regions ─ BERT's block ─┬─
                                                                          × X, the same weights both ways            │
    regions   (norm(W features) + norm(V boxes)) / 2 ─ [ BERT's block ] × R ─ attention to the text ─ BERT's block ───┴─

Source: Tan and Bansal 2019, section 2. An object detector, which is no part of it, gives the regions.
Differs: the reference library never trains position 0 and token type 0; here they are trained like all others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from glassformer.core.attention import CrossAttentionSpec
from glassformer.core.attention_layout import AttentionGroup
from glassformer.core.blocks import BlockSpec, run_block
from glassformer.core.embeddings import Embedding, EmbeddingSpec
from glassformer.core.flow import Batch, EncoderOutput, Flow, Output
from glassformer.core.language_heads import MaskedLMHead
from glassformer.core.norms import LayerNormSpec
from glassformer.core.regions import (
    CrossModalHead,
    CrossModalStates,
    RegionEmbedding,
    RegionPredictionHead,
    RegionsSpec,
    VisualAnswerHead,
    VisualPreTrainingHead,
    VisualPreTrainingSpec,
)
from glassformer.core.stack import Stack, StackSpec
from glassformer.errors import DataError, UnsupportedError
from glassformer.models import bert
from glassformer.models._cross_modality import ModalityEncoder
from glassformer.models._family import Family, architectures
from glassformer.models._keys import Values, constant, flag, layer_count, number, rows, size
from glassformer.models._network import Network, TextSpec, require, require_ids
from glassformer.weights.name_table import NameTable

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


KEYS = bert.KEYS.extend(
    layers=constant(1),  # of a kind: see the next three
    classifier_dropout=constant(0.0),
    text_layers=layer_count("l_layers", 9),
    image_layers=layer_count("r_layers", 5),
    crossed_layers=layer_count("x_layers", 5),
    eps=constant(1e-12),
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
    """config.json → spec."""
    like_bert = bert.text_spec(c, TextSpec)
    block, norm = like_bert.blocks.blocks[0], LayerNormSpec(**c("width eps"))
    assert isinstance(block, BlockSpec)  # a BERT's is
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


BLOCK = """
    {ours}.attn.qkv                     {attention}.self.(query|key|value)
    {ours}.attn.out                     {attention}.output.dense
    {ours}.attn_residual.on_residual    {attention}.output.LayerNorm
    {ours}.ffn.up                       {up}.dense
    {ours}.ffn.down                     {down}.dense
    {ours}.ffn_residual.on_residual     {down}.LayerNorm
"""
CROSS = """
    {ours}.cross.q                         encoder.x_layers.{i}.visual_attention.att.query
    {ours}.cross.kv                        encoder.x_layers.{i}.visual_attention.att.(key|value)
    {ours}.cross.out                       encoder.x_layers.{i}.visual_attention.output.dense
    {ours}.cross_residual.on_residual      encoder.x_layers.{i}.visual_attention.output.LayerNorm
"""
"""One module in the checkpoint, for both modalities."""


def modality_lines(modality: str, layers: str, their: str) -> str:
    """The lines of a modality's blocks: those of its own encoder, and those that attend to the other modality."""
    i, layer, crossed = "{i}", f"encoder.{layers}.{{i}}", f"encoder.x_layers.{{i}}.{their}"
    own = BLOCK.format(
        ours=f"{modality}.blocks.{{i}}",
        attention=f"{layer}.attention",
        up=f"{layer}.intermediate",
        down=f"{layer}.output",
    )
    ours = f"{modality}.crossed.{{i}}"
    return (
        own
        + BLOCK.format(ours=ours, attention=f"{crossed}_self_att", up=f"{crossed}_inter", down=f"{crossed}_output")
        + CROSS.format(ours=ours, i=i)
    )


NAMES = NameTable(
    modality_lines("text", "layer", "lang")
    + modality_lines("vision", "r_layers", "visn")
    + """
    text.embed.tokens                  embeddings.word_embeddings
    text.embed.positions               embeddings.position_embeddings
    text.embed.segments                embeddings.token_type_embeddings
    text.embed.norm                    embeddings.LayerNorm
    vision.embed.features              encoder.visn_fc.visn_fc
    vision.embed.features_norm         encoder.visn_fc.visn_layer_norm
    vision.embed.boxes                 encoder.visn_fc.box_fc
    vision.embed.boxes_norm            encoder.visn_fc.box_layer_norm
    head.pooler.dense                  pooler.dense
    head.answer.pooler.dense           pooler.dense

    [head]
    head.dense                         answer_head.logit_fc.0
    head.norm                          answer_head.logit_fc.2
    head.classifier                    answer_head.logit_fc.3
    head.answer.dense                  answer_head.logit_fc.0
    head.answer.norm                   answer_head.logit_fc.2
    head.answer.classifier             answer_head.logit_fc.3
    head.masked.transform              cls.predictions.transform.dense
    head.masked.norm                   cls.predictions.transform.LayerNorm
    head.masked.decoder.weight         cls.predictions.decoder.weight            =
    head.masked.decoder.bias           cls.predictions.bias
    head.matched                       cls.seq_relationship
    head.questions.transform           obj_predict_head.transform.dense
    head.questions.norm                obj_predict_head.transform.LayerNorm
    head.questions.asked.obj           obj_predict_head.decoder_dict.obj
    head.questions.asked.attr          obj_predict_head.decoder_dict.attr
    head.questions.asked.feat          obj_predict_head.decoder_dict.feat
    """,
    prefix="lxmert",
)

FAMILY = Family(
    model_type="lxmert",
    distinction="regions of an image beside the text; cross-attention in both directions with the same weights",
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
