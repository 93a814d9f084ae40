"""Image regions: their embedding, the cross-modal heads, and labels that do not fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.core import Flow, LayerNormSpec
from glassformer.core.language_heads import MaskedLMHead
from glassformer.errors import ConfigError, DataError
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
from tests.core.small import assert_close, perturbed

D, V = 8, 19
NORM = LayerNormSpec(width=D, eps=1e-12)
REGIONS = RegionsSpec(features=5, corners=4, norm=NORM)
OBJECTIVES = VisualPreTrainingSpec(objects=6, attributes=7, features=5, region_weight=2.0)
TEXT = torch.randn(2, 4, D, generator=torch.Generator().manual_seed(3))
IMAGE = torch.randn(2, 3, D, generator=torch.Generator().manual_seed(4))


def random_regions() -> tuple[Tensor, Tensor]:
    """Features and boxes of two pictures of three regions."""
    draw = torch.Generator().manual_seed(5)
    return torch.randn(2, 3, 5, generator=draw), torch.rand(2, 3, 4, generator=draw)


# ------------------------------------------------------------------------------------------------- the embedding


def test_a_region_is_the_mean_of_what_it_shows_and_where_it_is() -> None:
    embed = perturbed(RegionEmbedding(REGIONS)).eval()
    features, boxes = random_regions()
    embedded, positions = embed.features_norm(embed.features(features)), embed.boxes_norm(embed.boxes(boxes))
    assert_close(embed(features, boxes, Flow()), (embedded + positions) / 2, 1e-6)
    assert embed.to(torch.bfloat16)(features, boxes, Flow()).dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("features", "boxes", "says"),
    [
        (
            torch.zeros(2, 3, 6),
            torch.zeros(2, 3, 4),
            r"visual_feats has shape \[2, 3, 6\]; it must be \[2, 3, 5\]",
        ),
        (
            torch.zeros(2, 3, 5),
            torch.zeros(2, 3, 2),
            r"visual_pos has shape \[2, 3, 2\]; it must be \[2, 3, 4\]",
        ),
        (
            torch.zeros(2, 3, 5),
            torch.zeros(2, 2, 4),
            r"visual_pos has shape \[2, 2, 4\]; it must be \[2, 3, 4\]",
        ),
        (
            torch.zeros(2, 3, 5),
            torch.full((2, 3, 4), 640.0),
            "from 640 to 640; allowed: 0 to 1.*divide pixels",
        ),
        (torch.zeros(2, 3, 5), torch.full((2, 3, 4), -0.5), "from -0.5 to -0.5; allowed: 0 to 1"),
        (torch.zeros(2, 3, 5), torch.full((2, 3, 4), torch.nan), "from nan to nan; allowed: 0 to 1"),
    ],
)
def test_what_are_no_regions(features: Tensor, boxes: Tensor, says: str) -> None:
    with pytest.raises(DataError, match=says):
        RegionEmbedding(REGIONS)(features, boxes, Flow())


def test_a_box_may_be_rounded_out_of_its_picture() -> None:
    features, _ = random_regions()
    assert RegionEmbedding(REGIONS)(features, torch.full((2, 3, 4), 1.0005), Flow()).shape == (2, 3, D)


# ------------------------------------------------------------------------------------------------------ the heads


def pre_training(spec: VisualPreTrainingSpec = OBJECTIVES) -> VisualPreTrainingHead:
    torch.manual_seed(1)
    masked = MaskedLMHead(D, V, "gelu", NORM)
    head = VisualPreTrainingHead(spec, masked, VisualAnswerHead(NORM, 9), RegionPredictionHead(spec, NORM, "gelu"))
    return perturbed(head).eval()


def labels() -> dict[str, Any]:
    draw = torch.Generator().manual_seed(6)

    def number(below: int, *shape: int) -> Tensor:
        return torch.randint(0, below, shape, generator=draw)

    confidence = torch.rand(2, 3, generator=draw)
    targets = {"obj": number(6, 2, 3), "attr": number(7, 2, 3), "feat": torch.randn(2, 3, 5, generator=draw)}
    return {
        "labels": number(V, 2, 4),
        "matched_label": number(2, 2),
        "ans": number(9, 2),
        "obj_labels": {name: (x, confidence) for name, x in targets.items()},
    }


def test_both_sides_as_they_are() -> None:
    head = perturbed(CrossModalStates(D))
    output = head.read_both(TEXT, IMAGE, Flow())
    assert output.language_output is TEXT and output.vision_output is IMAGE
    assert_close(output.pooled_output, torch.tanh(head.pooler.dense(TEXT[:, 0])), 1e-6)


def test_an_answer_is_read_off_the_first_visible_token() -> None:
    head = perturbed(VisualAnswerHead(NORM, 9)).eval()
    keep = torch.tensor([[[False, True, True, True]], [[True, True, True, True]]])
    scores = head.read_both(TEXT, IMAGE, Flow(keep=keep)).question_answering_score
    assert_close(scores[0], head.read_both(TEXT[:, 1:], IMAGE, Flow()).question_answering_score[0], 1e-6)
    output = head.read_both(TEXT, IMAGE, Flow())
    assert_close(
        head.loss(output, torch.tensor([3, 8])),
        F.cross_entropy(output.question_answering_score, torch.tensor([3, 8])),
        1e-6,
    )
    with pytest.raises(DataError, match="one tensor"):
        head.loss(output, {"labels": torch.tensor([3, 8])})


def test_the_loss_is_the_sum_of_what_is_asked() -> None:
    head, given_labels = pre_training(), labels()
    output: Any = head.read_both(TEXT, IMAGE, Flow())
    parts = [head.loss(output, {name: given_labels[name]}) for name in given_labels]
    assert_close(head.loss(output, given_labels), torch.stack(parts).sum(), 1e-5)
    targets, confidence = given_labels["obj_labels"]["obj"]
    losses = F.cross_entropy(output.regions["obj"].mT, targets, reduction="none")
    uncertain = {"obj_labels": {**given_labels["obj_labels"]}}
    certain = {name: (x, torch.zeros_like(confidence)) for name, (x, _) in given_labels["obj_labels"].items()}
    certain["obj"] = (targets, confidence)
    assert_close(head.loss(output, {"obj_labels": certain}), 2.0 * (losses * confidence).mean(), 1e-5)
    assert head.loss(output, uncertain) > head.loss(output, {"obj_labels": certain})


def test_what_does_not_count_has_no_loss_and_what_is_not_asked_no_weights() -> None:
    head = pre_training(replace(OBJECTIVES, losses=frozenset({"ans"}), attributes=0))
    output: Any = head.read_both(TEXT, IMAGE, Flow())
    assert head.questions is None and output.regions == {}
    given_labels = labels()
    assert torch.equal(head.loss(output, given_labels), head.loss(output, {"ans": given_labels["ans"]}))
    assert head.loss(output, {"labels": given_labels["labels"]}) == 0
    assert set(RegionPredictionHead(replace(OBJECTIVES, attributes=0), NORM, "gelu").asked) == {"obj", "feat"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "with some of labels, matched_label, ans, obj_labels"),
        (torch.zeros(2), "takes labels as a dict"),
        ({"next_sentence_label": torch.zeros(2)}, "with some of"),
        ({"obj_labels": torch.zeros(2)}, "must be a dict with obj, attr, feat"),
        ({"obj_labels": {"obj": ()}}, "must be a dict with obj, attr, feat"),
        ({"ans": torch.tensor([9, 0])}, "allowed: 0 to 8"),
    ],
)
def test_labels_that_do_not_fit(given: Any, says: str) -> None:
    head = pre_training()
    with pytest.raises(DataError, match=says):
        head.loss(head.read_both(TEXT, IMAGE, Flow()), given)


@pytest.mark.parametrize(
    ("pair", "says"),
    [
        (torch.zeros(2, 3), r"obj_labels\['obj'\] is Tensor; it must be a pair"),
        ((torch.zeros(2, 3),), r"\[\[2, 3\]\]; it must be a pair of tensors of shapes \[2, 3\] and \[2, 3\]"),
        ((torch.zeros(2, 4), torch.zeros(2, 3)), r"is \[\[2, 4\], \[2, 3\]\]"),
        ((torch.zeros(2, 3), torch.zeros(2, 3)), "labels are torch.float32"),
        ((torch.full((2, 3), 6), torch.zeros(2, 3)), "allowed: 0 to 5"),
    ],
)
def test_regions_labelled_wrongly(pair: Any, says: str) -> None:
    head, given_labels = pre_training(), labels()
    given_labels["obj_labels"]["obj"] = pair
    with pytest.raises(DataError, match=says):
        head.loss(head.read_both(TEXT, IMAGE, Flow()), given_labels)


def test_a_head_says_what_it_reads() -> None:
    with pytest.raises(NotImplementedError, match="CrossModalHead"):
        CrossModalHead().read_both(TEXT, IMAGE, Flow())


@pytest.mark.parametrize(
    ("spec", "changes"),
    [
        (REGIONS, {"features": 0}),
        (REGIONS, {"corners": 0}),
        (REGIONS, {"dropout": 1.0}),
        (OBJECTIVES, {"objects": -1}),
        (OBJECTIVES, {"region_weight": -1.0}),
    ],
)
def test_specs_check_themselves(spec: Any, changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(changes))):
        replace(spec, **changes)
