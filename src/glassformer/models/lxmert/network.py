"""LXMERT's network: an encoder of text and one of image regions, which attend to each other."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from glassformer.core.blocks import BlockSpec, run_block
from glassformer.core.embeddings import Embedding, EmbeddingSpec
from glassformer.core.flow import Batch, EncoderOutput, Flow, Output
from glassformer.core.language_heads import MaskedLMHead
from glassformer.core.norms import LayerNormSpec
from glassformer.core.stack import AttentionGroup, Stack, StackSpec
from glassformer.errors import DataError, UnsupportedError
from glassformer.models._network import READS_SEVERAL_STREAMS, Network, Sizes, require, require_ids
from glassformer.models.lxmert.cross_modality import ModalityEncoder
from glassformer.models.lxmert.regions import (
    CrossModalHead,
    CrossModalStates,
    RegionEmbedding,
    RegionPredictionHead,
    RegionsSpec,
    VisualAnswerHead,
    VisualPreTrainingHead,
    VisualPreTrainingSpec,
)


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


class TextEmbedding(Embedding):
    """Input embedding whose first row of every table is not trained, as in the published training.

    Differs from BERT's: not of padding alone, but of the first position and of the first token type, too.
    """

    def __init__(self, spec: EmbeddingSpec) -> None:
        super().__init__(spec)
        for table in (self.positions, self.segments):
            if isinstance(table, nn.Embedding):
                table.padding_idx = 0

    def first_segment(self, segments: nn.Embedding) -> Tensor:
        row: Tensor = segments(torch.zeros((), dtype=torch.long, device=segments.weight.device))
        return row


class Lxmert(Network):
    """LXMERT: an encoder for text, one for image regions, cross-modality blocks, and a head over both.

    Raises: ConfigError: no regions. DataError: not as many images as texts, or regions of the wrong shape.
    Taps: text.… · vision.… · final [B T D], of the text · the fields of the head
    """

    READS = ("input_ids", "token_type_ids", "visual_feats", "visual_pos")

    head: CrossModalHead

    def __init__(self, spec: LxmertSpec, task: str) -> None:
        super().__init__(Sizes.of_text(spec.embed))
        self.text = ModalityEncoder(TextEmbedding(spec.embed), spec.text, spec.crossed)
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

    def head_stream(self) -> str:
        return "text"

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
        if features.shape[0] != ids.shape[0]:
            raise DataError(
                f"visual_feats has {features.shape[0]} images, input_ids has {ids.shape[0]} texts; each text has one "
                "image"
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

    @property
    def unreadable(self) -> str:
        return READS_SEVERAL_STREAMS
