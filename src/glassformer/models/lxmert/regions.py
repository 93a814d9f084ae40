"""Image regions from an object detector: their embedding, and the cross-modal heads of LXMERT.

    head                     reads                            gives                          trained by
    CrossModalStates         text and regions                 states, pooled_output          (the head on top of it)
    VisualAnswerHead         the text's first token           question_answering_score       the index of the answer
    VisualPreTrainingHead    text, regions, the first token   a score for each objective     masked words, regions, …

By cross-attention the text's first token has read all of the text and all regions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.core.checks import Count, NonNegative, NonNegativeInt, Probability, Spec, any_true
from glassformer.core.feed_forward import make_activation
from glassformer.core.flow import Flow, Node, Output
from glassformer.core.heads import Head, Labels, Pooler, not_none
from glassformer.core.language_heads import MaskedLMHead
from glassformer.core.losses import checked_labels, count_labels, refuse_smoothing, summed_cross_entropy
from glassformer.core.norms import LayerNormSpec, make_norm
from glassformer.errors import DataError

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True, kw_only=True, slots=True)
class RegionsSpec(Spec):
    """Region embedding: `features` numbers from an object detector, and a box of `corners` numbers."""

    features: Count
    corners: Count
    norm: LayerNormSpec
    dropout: Probability = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class VisualPreTrainingSpec(Spec):
    """Pre-training objectives of a network of text and image regions (LXMERT).

    objects, attributes: how many classes a region is given; 0 = no such objective
    features: width of the detector's features, which are regressed; 0 = no such objective
    losses: the labels that have a loss
    region_weight: weight of the losses of regions
    """

    objects: NonNegativeInt
    attributes: NonNegativeInt
    features: NonNegativeInt
    losses: frozenset[str] = frozenset({"labels", "matched_label", "obj_labels", "ans"})
    region_weight: NonNegative = 1.0


ROUNDING = 1e-3
"""Tolerance for boxes that lie beyond their image by rounding."""

SCORE_FIELDS = {
    "labels": "prediction_logits",
    "matched_label": "cross_relationship_score",
    "ans": "question_answering_score",
}
"""Label of pre-training → the field of the output with its scores."""


class RegionEmbedding(Node):
    """Region embedding: visual features and box of each region.

        x = dropout((norm(W features) + norm(V box)) / 2)

    Args:
        features: of each region, from the detector. [B, R, F]
        boxes: its corners, as fractions of the image's width and height. [B, R, corners]
    Raises: DataError: their shapes do not fit, or boxes lie beyond the image.
    Taps: out [B R D]
    Source: Tan and Bansal 2019, section 2.1.
    """

    TAPS = ("out",)

    def __init__(self, spec: RegionsSpec) -> None:
        super().__init__()
        self.spec = spec
        self.features = nn.Linear(spec.features, spec.norm.width)
        self.features_norm = make_norm(spec.norm)
        self.boxes = nn.Linear(spec.corners, spec.norm.width)
        self.boxes_norm = make_norm(spec.norm)
        self.dropout = nn.Dropout(spec.dropout)

    def forward(
        self, features: Float[Tensor, "B R F"], boxes: Float[Tensor, "B R corners"], flow: Flow
    ) -> Float[Tensor, "B R D"]:
        self._check(features, boxes)
        dtype = self.features.weight.dtype
        embedded = self.features_norm(self.features(features.to(dtype)))
        positions = self.boxes_norm(self.boxes(boxes.to(dtype)))
        return self.tap(flow, "out", self.dropout((embedded + positions) / 2))

    def _check(self, features: Tensor, boxes: Tensor) -> None:
        rows = list(features.shape[:2])
        if features.shape[2] != self.spec.features:
            raise DataError(
                f"visual_feats has shape {list(features.shape)}; it must be {[*rows, self.spec.features]}: take the "
                "detector that the model was trained with (config.json: visual_feat_dim)"
            )
        if list(boxes.shape) != [*rows, self.spec.corners]:
            raise DataError(
                f"visual_pos has shape {list(boxes.shape)}; it must be {[*rows, self.spec.corners]}, a box for each "
                "region of visual_feats (config.json: visual_pos_dim)"
            )
        if any_true(~((boxes >= -ROUNDING) & (boxes <= 1 + ROUNDING))):  # so that NaN is refused too
            smallest, largest = map(float, boxes.aminmax())
            raise DataError(
                f"visual_pos holds numbers from {smallest:.4g} to {largest:.4g}; allowed: 0 to 1, fractions of "
                "the image's width and height; divide pixels by them"
            )


class CrossModalHead(Head):
    """Base class of heads that read a text and the regions of an image."""

    def read_both(self, text: Float[Tensor, "B T D"], image: Float[Tensor, "B R D"], flow: Flow) -> Output:
        """The output for the final states of both; `flow` is the text's."""
        raise NotImplementedError(f"{type(self).__name__} does not implement read_both(text, image, flow)")


class CrossModalStates(CrossModalHead):
    """The final states of text and regions, and one vector for both: the text's first token, pooled."""

    FIELDS = ("language_output", "vision_output", "pooled_output")

    def __init__(self, width: int) -> None:
        super().__init__()
        self.pooler = Pooler(width)

    def read_both(self, text: Float[Tensor, "B T D"], image: Float[Tensor, "B R D"], flow: Flow) -> Output:
        pooled = self.pooler.pooled(text, flow)
        return Output(language_output=text, vision_output=image, pooled_output=pooled)


class VisualAnswerHead(CrossModalHead):
    """Visual question answering: a score for each known answer.

        score = W norm(gelu(V pooled))

    Source: Tan and Bansal 2019, section 3.1.3; the layers are in the released code.
    """

    FIELDS = ("question_answering_score",)

    def __init__(self, norm: LayerNormSpec, answers: int) -> None:
        super().__init__()
        wide = replace(norm, width=2 * norm.width)
        self.pooler = Pooler(norm.width)
        self.dense = nn.Linear(norm.width, wide.width)
        self.activation = make_activation("gelu")
        self.norm = make_norm(wide)
        self.classifier = nn.Linear(wide.width, answers)

    def read_both(self, text: Float[Tensor, "B T D"], image: Float[Tensor, "B R D"], flow: Flow) -> Output:
        return Output(question_answering_score=self.score(self.pooler.pooled(text, flow)))

    def score(self, pooled: Float[Tensor, "B D"]) -> Float[Tensor, "B answers"]:
        """Scores of the answers, from the pooled vector."""
        scores: Tensor = self.classifier(self.norm(self.activation(self.dense(pooled))))
        return scores

    def output_loss_sums(self, output: Output, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        """Labels are indices of answers. [B]"""
        if not isinstance(labels, Tensor):
            raise DataError("this head takes labels as one tensor [B], the indices of the answers")
        return {"loss": summed_cross_entropy(not_none(output.question_answering_score), labels, smoothing)}


class RegionPredictionHead(nn.Module):
    """Masked region prediction: a region's object, its attribute, and the detector's features.

        prediction = W norm(activation(V x)), with a W for each of the three

    Source: Tan and Bansal 2019, section 3.1.2.
    """

    def __init__(self, spec: VisualPreTrainingSpec, norm: LayerNormSpec, activation: str) -> None:
        super().__init__()
        self.transform = nn.Linear(norm.width, norm.width)
        self.activation = make_activation(activation)
        self.norm = make_norm(norm)
        sizes = {"obj": spec.objects, "attr": spec.attributes, "feat": spec.features}
        # `asked` is a weight name: saved optimizer states and adapters know it.
        self.asked = nn.ModuleDict({name: nn.Linear(norm.width, size) for name, size in sizes.items() if size})

    def forward(self, x: Float[Tensor, "B R D"]) -> dict[str, Tensor]:
        x = self.norm(self.activation(self.transform(x)))
        return {name: linear(x) for name, linear in self.asked.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class RegionPredictions(Output):
    """Output of pre-training.

    regions: predictions by name: obj, attr, feat. [B, R, …]
    """

    OWN: ClassVar[frozenset[str]] = Output.OWN | {"regions"}

    regions: dict[str, Tensor]


class VisualPreTrainingHead(CrossModalHead):
    """LXMERT's pre-training: masked words, matching of text and image, masked regions, question answering.

    Source: Tan and Bansal 2019, section 3.1.
    """

    FIELDS = ("prediction_logits", "cross_relationship_score", "question_answering_score")

    def __init__(
        self,
        spec: VisualPreTrainingSpec,
        masked: MaskedLMHead,
        answer: VisualAnswerHead,
        questions: RegionPredictionHead,
    ) -> None:
        super().__init__()
        self.spec = spec
        self.masked = masked
        self.matched = nn.Linear(answer.dense.in_features, 2)
        self.answer = answer
        self.questions = questions if "obj_labels" in spec.losses else None

    def read_both(self, text: Float[Tensor, "B T D"], image: Float[Tensor, "B R D"], flow: Flow) -> Output:
        pooled = self.answer.pooler.pooled(text, flow)
        return RegionPredictions(
            prediction_logits=self.masked(text, flow).logits,
            cross_relationship_score=self.matched(pooled),
            question_answering_score=self.answer.score(pooled),
            regions={} if self.questions is None else self.questions(image),
        )

    def label_counts(self, labels: Labels) -> dict[str, int]:
        """Number of labelled words, texts and answers, and of regions."""
        trained = self._trained_labels(labels)
        counts = {name: count_labels(trained[name]) for name in SCORE_FIELDS if name in trained}
        regions = trained.get("obj_labels") or {}
        return counts | {name: confidence.numel() for name, (_, confidence) in regions.items()}

    def output_loss_sums(self, output: Output, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        """Losses of the objectives that have labels and are trained.

        labels [B, T] words · matched_label [B], 1 where the text fits · ans [B] indices of answers
        obj_labels: "obj", "attr", "feat" → the labels of regions, and the detector's confidence [B, R]
        """
        assert isinstance(output, RegionPredictions)  # from `read_both`
        trained = self._trained_labels(labels)
        sums = {
            name: summed_cross_entropy(not_none(output[score]), trained[name], smoothing)
            for name, score in SCORE_FIELDS.items()
            if name in trained
        }
        if "obj_labels" in trained:
            refuse_smoothing(smoothing, "regions have labels of several kinds")
            sums |= self._region_sums(output.regions, trained["obj_labels"])
        return sums

    def loss(self, output: Output, labels: Labels) -> Tensor:
        """The sum of the losses that are trained; 0 where none is."""
        if not self._trained_labels(labels):
            return not_none(output.prediction_logits).new_zeros(())
        return super().loss(output, labels)

    def _trained_labels(self, labels: Labels) -> dict[str, Any]:
        """The labels of the objectives that are trained.

        Raises: DataError: labels are no mapping, or have unknown names.
        """
        known = (*SCORE_FIELDS, "obj_labels")
        if not isinstance(labels, dict) or not labels or not set(labels) <= set(known):
            raise DataError(f"pre-training takes labels as a dict, with some of {', '.join(known)}")
        return {name: labels[name] for name in known if name in labels and name in self.spec.losses}

    def _region_sums(self, predictions: dict[str, Tensor], labels: object) -> dict[str, Tensor]:
        """Summed losses of regions, weighted by the detector's confidence."""
        if not isinstance(labels, Mapping) or set(labels) != set(predictions):
            raise DataError(
                f"obj_labels must be a dict with {', '.join(predictions)}: each a pair, labels and confidence [B, R]"
            )
        sums = {}
        for name, prediction in predictions.items():
            target, confidence = _target_and_confidence(name, labels[name], prediction)
            if name == "feat":
                losses = F.smooth_l1_loss(prediction, target, reduction="none").mean(dim=-1)  # [B, R]
            else:
                target = checked_labels(target, prediction.shape)
                losses = F.cross_entropy(prediction.mT, target, reduction="none")
            sums[name] = (losses * confidence).sum() * self.spec.region_weight
        return sums


def _target_and_confidence(name: str, pair: object, prediction: Float[Tensor, "B R kinds"]) -> tuple[Tensor, Tensor]:
    """Labels of regions, and the detector's confidence in them.

    Raises: DataError: no pair of tensors of the shapes that fit the prediction.
    """
    regions = list(prediction.shape[:2])
    expected = [list(prediction.shape) if name == "feat" else regions, regions]
    tensors = [x for x in pair if isinstance(x, Tensor)] if isinstance(pair, (tuple, list)) else []
    shapes = [list(x.shape) for x in tensors]
    if shapes != expected:
        raise DataError(
            f"obj_labels[{name!r}] is {shapes or type(pair).__name__}; it must be a pair of tensors of shapes "
            f"{expected[0]} and {expected[1]}: labels, and their confidence"
        )
    return tensors[0], tensors[1]
