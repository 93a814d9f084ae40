"""Regions of a picture: what they are made of, what is none, and what a network of them is asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.core import Flow, LayerNormSpec
from glassformer.core.heads import MaskedLanguageModel
from glassformer.core.regions import (
    BothSides,
    RegionEmbedding,
    RegionQuestions,
    TwoSided,
    VisualAnswer,
    VisualPreTraining,
)
from glassformer.core.specs import RegionsSpec, VisualPreTrainingSpec
from glassformer.errors import ConfigError, DataError
from tests.core.small import assert_close, perturbed

D, V = 8, 19
NORM = LayerNormSpec(width=D, eps=1e-12)
REGIONS = RegionsSpec(features=5, corners=4, norm=NORM)
ASKED = VisualPreTrainingSpec(objects=6, attributes=7, features=5, region_weight=2.0)
TEXT = torch.randn(2, 4, D, generator=torch.Generator().manual_seed(3))
IMAGE = torch.randn(2, 3, D, generator=torch.Generator().manual_seed(4))


def drawn() -> tuple[Tensor, Tensor]:
    """Features and boxes of two pictures of three regions."""
    draw = torch.Generator().manual_seed(5)
    return torch.randn(2, 3, 5, generator=draw), torch.rand(2, 3, 4, generator=draw)


# ------------------------------------------------------------------------------------------------- the embedding


def test_a_region_is_the_mean_of_what_it_shows_and_where_it_is() -> None:
    embed = perturbed(RegionEmbedding(REGIONS)).eval()
    features, boxes = drawn()
    seen, placed = embed.features_norm(embed.features(features)), embed.boxes_norm(embed.boxes(boxes))
    assert_close(embed(features, boxes, Flow()), (seen + placed) / 2, 1e-6)
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
    features, _ = drawn()
    assert RegionEmbedding(REGIONS)(features, torch.full((2, 3, 4), 1.0005), Flow()).shape == (2, 3, D)


# ------------------------------------------------------------------------------------------------------ the heads


def pre_training(spec: VisualPreTrainingSpec = ASKED) -> VisualPreTraining:
    torch.manual_seed(1)
    masked = MaskedLanguageModel(D, V, "gelu", NORM)
    head = VisualPreTraining(spec, masked, VisualAnswer(NORM, 9), RegionQuestions(spec, NORM, "gelu"))
    return perturbed(head).eval()


def labels() -> dict[str, Any]:
    draw = torch.Generator().manual_seed(6)

    def number(below: int, *shape: int) -> Tensor:
        return torch.randint(0, below, shape, generator=draw)

    sure = torch.rand(2, 3, generator=draw)
    shows = {"obj": number(6, 2, 3), "attr": number(7, 2, 3), "feat": torch.randn(2, 3, 5, generator=draw)}
    return {
        "labels": number(V, 2, 4),
        "matched_label": number(2, 2),
        "ans": number(9, 2),
        "obj_labels": {name: (x, sure) for name, x in shows.items()},
    }


def test_both_sides_as_they_are() -> None:
    head = perturbed(BothSides(D))
    found = head.join(TEXT, IMAGE, Flow())
    assert found.language_output is TEXT and found.vision_output is IMAGE
    assert_close(found.pooled_output, torch.tanh(head.pooler.dense(TEXT[:, 0])), 1e-6)


def test_an_answer_is_read_off_the_first_visible_token() -> None:
    head = perturbed(VisualAnswer(NORM, 9)).eval()
    keep = torch.tensor([[[False, True, True, True]], [[True, True, True, True]]])
    shown = head.join(TEXT, IMAGE, Flow(keep=keep)).question_answering_score
    assert_close(shown[0], head.join(TEXT[:, 1:], IMAGE, Flow()).question_answering_score[0], 1e-6)
    found = head.join(TEXT, IMAGE, Flow())
    assert_close(
        head.loss(found, torch.tensor([3, 8])),
        F.cross_entropy(found.question_answering_score, torch.tensor([3, 8])),
        1e-6,
    )
    with pytest.raises(DataError, match="one tensor"):
        head.loss(found, {"labels": torch.tensor([3, 8])})


def test_the_loss_is_the_sum_of_what_is_asked() -> None:
    head, asked = pre_training(), labels()
    found: Any = head.join(TEXT, IMAGE, Flow())
    parts = [head.loss(found, {name: asked[name]}) for name in asked]
    assert_close(head.loss(found, asked), torch.stack(parts).sum(), 1e-5)
    shows, sure = asked["obj_labels"]["obj"]
    each = F.cross_entropy(found.regions["obj"].mT, shows, reduction="none")
    alone = {"obj_labels": {**asked["obj_labels"]}}
    certain = {name: (x, torch.zeros_like(sure)) for name, (x, _) in asked["obj_labels"].items()}
    certain["obj"] = (shows, sure)
    assert_close(head.loss(found, {"obj_labels": certain}), 2.0 * (each * sure).mean(), 1e-5)
    assert head.loss(found, alone) > head.loss(found, {"obj_labels": certain})


def test_what_does_not_count_has_no_loss_and_what_is_not_asked_no_weights() -> None:
    head = pre_training(replace(ASKED, counts=frozenset({"ans"}), attributes=0))
    found: Any = head.join(TEXT, IMAGE, Flow())
    assert head.questions is None and found.regions == {}
    asked = labels()
    assert torch.equal(head.loss(found, asked), head.loss(found, {"ans": asked["ans"]}))
    assert head.loss(found, {"labels": asked["labels"]}) == 0
    assert set(RegionQuestions(replace(ASKED, attributes=0), NORM, "gelu").asked) == {"obj", "feat"}


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
        head.loss(head.join(TEXT, IMAGE, Flow()), given)


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
    head, asked = pre_training(), labels()
    asked["obj_labels"]["obj"] = pair
    with pytest.raises(DataError, match=says):
        head.loss(head.join(TEXT, IMAGE, Flow()), asked)


def test_a_head_says_what_it_reads() -> None:
    with pytest.raises(NotImplementedError, match="TwoSided"):
        TwoSided().join(TEXT, IMAGE, Flow())


@pytest.mark.parametrize(
    ("spec", "changes"),
    [
        (REGIONS, {"features": 0}),
        (REGIONS, {"corners": 0}),
        (REGIONS, {"dropout": 1.0}),
        (ASKED, {"objects": -1}),
        (ASKED, {"region_weight": -1.0}),
    ],
)
def test_specs_check_themselves(spec: Any, changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(changes))):
        replace(spec, **changes)
