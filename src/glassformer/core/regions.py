"""Regions of a picture that a detector found: how they become tokens, and heads that read them beside a text.

    head                 reads                         gives                          trained by
    BothSides            both sides                    their states, pooled_output    (whatever stands on it)
    VisualAnswer         the text's first token        question_answering_score       the number of the answer
    VisualPreTraining    both sides, and that token    a score for each question      hidden words, regions, answers

The text's first token has read all of both sides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.core.feed_forward import make_activation
from glassformer.core.flow import Flow, Node, Output
from glassformer.core.heads import Head, Labels, MaskedLanguageModel, Pooler, made
from glassformer.core.losses import checked_labels, count, summed_cross_entropy, unsmoothed
from glassformer.core.norms import make_norm
from glassformer.core.specs import LayerNormSpec, RegionsSpec, VisualPreTrainingSpec
from glassformer.errors import DataError

if TYPE_CHECKING:
    from jaxtyping import Float

ROUNDING = 1e-3
"""How far beyond its picture a box may lie."""

SCORES = {
    "labels": "prediction_logits",
    "matched_label": "cross_relationship_score",
    "ans": "question_answering_score",
}
"""Labels of pre-training → the scores that they judge."""


class RegionEmbedding(Node):
    """Look at what a region shows and where it is.

        x = dropout((norm(W features) + norm(V box)) / 2)

    Args:
        features: what a detector says of each region. [B, R, F]
        boxes: its corners, as parts of the picture's width and height. [B, R, corners]
    Raises: DataError: their shapes do not fit, or boxes lie beyond the picture.
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
        seen = self.features_norm(self.features(features.to(dtype)))
        placed = self.boxes_norm(self.boxes(boxes.to(dtype)))
        return self.tap(flow, "out", self.dropout((seen + placed) / 2))

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
        least, most = map(float, boxes.aminmax())
        if not -ROUNDING <= least <= most <= 1 + ROUNDING:
            raise DataError(
                f"visual_pos holds numbers from {least:.4g} to {most:.4g}; allowed: 0 to 1, parts of the picture's "
                "width and height; divide pixels by them"
            )


class TwoSided(Head):
    """A head that reads a text and the regions beside it."""

    def join(self, text: Float[Tensor, "B T D"], image: Float[Tensor, "B R D"], flow: Flow) -> Output:
        """What it reads off the final states of both; `flow` is the text's."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it reads off the two sides")


class BothSides(TwoSided):
    """Both sides as they are, and one vector for the two: the text's first token, pooled."""

    FIELDS = ("language_output", "vision_output", "pooled_output")

    def __init__(self, width: int) -> None:
        super().__init__()
        self.pooler = Pooler(width)

    def join(self, text: Float[Tensor, "B T D"], image: Float[Tensor, "B R D"], flow: Flow) -> Output:
        pooled = self.pooler.pooled(text, flow)
        return Output(language_output=text, vision_output=image, pooled_output=pooled)


class VisualAnswer(TwoSided):
    """Which of the known answers is it: a number for each.

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

    def join(self, text: Float[Tensor, "B T D"], image: Float[Tensor, "B R D"], flow: Flow) -> Output:
        return Output(question_answering_score=self.score(self.pooler.pooled(text, flow)))

    def score(self, pooled: Float[Tensor, "B D"]) -> Float[Tensor, "B answers"]:
        """The numbers, of what is pooled."""
        scores: Tensor = self.classifier(self.norm(self.activation(self.dense(pooled))))
        return scores

    def sums(self, output: Output, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        """Labels are the numbers of answers. [B]"""
        if not isinstance(labels, Tensor):
            raise DataError("this head takes labels as one tensor [B], the numbers of the answers")
        return {"loss": summed_cross_entropy(made(output.question_answering_score), labels, smoothing)}


class RegionQuestions(nn.Module):
    """What does a region show: which object, which attribute, and the detector's own features.

        guess = W norm(activation(V x)), with a W for each question

    Source: Tan and Bansal 2019, section 3.1.2.
    """

    def __init__(self, spec: VisualPreTrainingSpec, norm: LayerNormSpec, activation: str) -> None:
        super().__init__()
        self.transform = nn.Linear(norm.width, norm.width)
        self.activation = make_activation(activation)
        self.norm = make_norm(norm)
        sizes = {"obj": spec.objects, "attr": spec.attributes, "feat": spec.features}
        self.asked = nn.ModuleDict(
            {name: nn.Linear(norm.width, size) for name, size in sizes.items() if size}
        )

    def forward(self, x: Float[Tensor, "B R D"]) -> dict[str, Tensor]:
        x = self.norm(self.activation(self.transform(x)))
        return {name: guess(x) for name, guess in self.asked.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class Guesses(Output):
    """regions: what each shows, by the name of the question. [B, R, …]"""

    regions: dict[str, Tensor]


class VisualPreTraining(TwoSided):
    """Four questions: which words are hidden, does the text fit the picture, what do its regions show, the answer.

    Source: Tan and Bansal 2019, section 3.1.
    """

    FIELDS = ("prediction_logits", "cross_relationship_score", "question_answering_score")

    def __init__(
        self,
        spec: VisualPreTrainingSpec,
        masked: MaskedLanguageModel,
        answer: VisualAnswer,
        questions: RegionQuestions,
    ) -> None:
        super().__init__()
        self.spec = spec
        self.masked = masked
        self.matched = nn.Linear(answer.dense.in_features, 2)
        self.answer = answer
        self.questions = questions if "obj_labels" in spec.counts else None

    def join(self, text: Float[Tensor, "B T D"], image: Float[Tensor, "B R D"], flow: Flow) -> Output:
        pooled = self.answer.pooler.pooled(text, flow)
        return Guesses(
            prediction_logits=self.masked(text, flow).logits,
            cross_relationship_score=self.matched(pooled),
            question_answering_score=self.answer.score(pooled),
            regions={} if self.questions is None else self.questions(image),
        )

    def counts(self, labels: Labels) -> dict[str, int]:
        """Words, texts and answers with a label, and regions."""
        asked = self._asked(labels)
        counts = {name: count(asked[name]) for name in SCORES if name in asked}
        regions = asked.get("obj_labels") or {}
        return counts | {name: sure.numel() for name, (_, sure) in regions.items()}

    def sums(self, output: Output, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        """Of the questions whose answers are given, those that count.

        labels [B, T] words · matched_label [B], 1 where the text fits · ans [B] numbers of answers
        obj_labels: "obj", "attr", "feat" → what each region shows, and how sure that is [B, R]
        """
        assert isinstance(output, Guesses)  # `join` makes it
        asked = self._asked(labels)
        sums = {
            name: summed_cross_entropy(made(output[score]), asked[name], smoothing)
            for name, score in SCORES.items()
            if name in asked
        }
        if "obj_labels" in asked:
            unsmoothed(smoothing, "regions have labels of several kinds")
            sums |= self._region_sums(output.regions, asked["obj_labels"])
        return sums

    def loss(self, output: Output, labels: Labels) -> Tensor:
        """The sum over the questions that count; 0 where none does."""
        if not self._asked(labels):
            return made(output.prediction_logits).new_zeros(())
        return super().loss(output, labels)

    def _asked(self, labels: Labels) -> dict[str, Any]:
        """The labels of the questions that count."""
        known = (*SCORES, "obj_labels")
        if not isinstance(labels, dict) or not labels or not set(labels) <= set(known):
            raise DataError(f"pre-training takes labels as a dict, with some of {', '.join(known)}")
        return {name: labels[name] for name in known if name in labels and name in self.spec.counts}

    def _region_sums(self, guesses: dict[str, Tensor], labels: object) -> dict[str, Tensor]:
        """Each question's losses, weighed by how sure the detector was of each region."""
        if not isinstance(labels, Mapping) or set(labels) != set(guesses):
            raise DataError(
                f"obj_labels must be a dict with {', '.join(guesses)}: each a pair, labels and how sure they are [B, R]"
            )
        sums = {}
        for name, guess in guesses.items():
            shows, sure = _pair(name, labels[name], guess)
            if name == "feat":
                each = F.smooth_l1_loss(guess, shows, reduction="none").mean(dim=-1)  # [B, R]
            else:
                each = F.cross_entropy(guess.mT, checked_labels(shows, guess.shape), reduction="none")
            sums[name] = (each * sure).sum() * self.spec.region_weight
        return sums


def _pair(name: str, pair: object, guess: Float[Tensor, "B R kinds"]) -> tuple[Tensor, Tensor]:
    """What regions show, and how sure that is."""
    wanted = [list(guess.shape) if name == "feat" else list(guess.shape[:2]), list(guess.shape[:2])]
    given = [x for x in pair if isinstance(x, Tensor)] if isinstance(pair, (tuple, list)) else []
    if [list(x.shape) for x in given] != wanted:
        got = [list(x.shape) for x in given] or type(pair).__name__
        raise DataError(
            f"obj_labels[{name!r}] is {got}; it must be a pair of tensors of shapes {wanted[0]} and {wanted[1]}: "
            "labels, and how sure they are"
        )
    return given[0], given[1]
