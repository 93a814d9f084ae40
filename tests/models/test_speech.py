"""Audio heads: CTC over all alignments, and mean pooling without padding."""

from __future__ import annotations

import math
from itertools import groupby, product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.core import Flow, Output
from glassformer.errors import ConfigError, DataError
from glassformer.models._speech import CTCHead, MeanPoolingClassifier, WeightedLayerSum
from tests.core.small import assert_close, keeps, perturbed

B, T, D = 3, 7, 16
X = torch.randn(B, T, D, generator=torch.Generator().manual_seed(5))


def collapsed(path: tuple[int, ...], blank: int) -> tuple[int, ...]:
    """What a path of frames spells: runs become one letter, blanks none."""
    return tuple(letter for letter, _ in groupby(path) if letter != blank)


def by_all_paths(logits: Tensor, labels: tuple[int, ...], blank: int) -> float:
    """-log of the summed probability of every path that spells the labels. logits: [T, V]"""
    probs = logits.double().softmax(-1)
    paths = [p for p in product(range(logits.shape[1]), repeat=len(logits)) if collapsed(p, blank) == labels]
    return -math.log(sum(math.prod(float(probs[t, v]) for t, v in enumerate(path)) for path in paths))


@pytest.mark.parametrize("blank", [0, 2])
@torch.no_grad()
def test_a_transcribers_loss_is_that_of_all_paths(blank: int) -> None:
    head = perturbed(CTCHead(D, 4, blank=blank))
    keep = keeps([6, 5, 3], 6, "right")
    output = head(X[:, :6], Flow(keep=keep))
    assert output.frames is not None and output.frames.tolist() == [6, 5, 3]
    labels = torch.tensor([[1, 1, 3], [3, -100, 1], [1, blank, -100]])
    rows = [(1, 1, 3), (3, 1), (1,)]
    assert output.logits is not None
    expected = [by_all_paths(output.logits[row, :frames], rows[row], blank) for row, frames in enumerate([6, 5, 3])]
    assert float(head.loss(output, labels)) == pytest.approx(sum(expected), rel=1e-5)
    head.reduction = "mean"
    mean = sum(loss / len(row) for loss, row in zip(expected, rows, strict=True)) / 3
    assert float(head.loss(output, labels)) == pytest.approx(mean, rel=1e-5)


@torch.no_grad()
def test_letters_that_do_not_fit_in_their_frames() -> None:
    """Two equal letters need a blank between them: three frames."""
    labels = torch.tensor([[1, 1]])
    for frames, finite in ((2, False), (3, True)):
        output = CTCHead(D, 4)(X[:1, :frames], Flow())
        assert bool(CTCHead(D, 4).loss(output, labels).isfinite()) == finite
        forgiving = CTCHead(D, 4, zero_infinity=True).loss(output, labels)
        assert bool(forgiving.isfinite()) and (float(forgiving) > 0) == finite


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (torch.tensor([1, 2, 3]), r"int64 of shape \[3\].*\[3, letters\]"),
        (torch.tensor([[1, 2]]), r"\[1, 2\].*\[3, letters\]"),
        (torch.rand(3, 2), r"float32.*padded with -100"),
        (torch.tensor([[1], [2], [4]]), "from 1 to 4; allowed: 0 to 3, and -100"),
        (torch.tensor([[1], [2], [-7]]), "from -7 to 2"),
        ({"labels": torch.ones(3, 2)}, "takes one tensor"),
    ],
)
def test_letters_that_are_no_letters_are_refused(labels: Any, says: str) -> None:
    head = CTCHead(D, 4)
    with pytest.raises(DataError, match=says):
        head.loss(head(X, Flow()), labels)


@pytest.mark.parametrize("blank", [-1, 4])
def test_the_blank_is_one_of_the_letters(blank: int) -> None:
    with pytest.raises(ConfigError, match=rf"the blank has id {blank}.*4 ids.*pad_token_id"):
        CTCHead(D, 4, blank=blank)


@torch.no_grad()
def test_a_mean_is_one_of_what_is_not_padding() -> None:
    head = perturbed(MeanPoolingClassifier(D, 5, 3))
    padded = head(X, Flow(keep=keeps([7, 4, 1], T, "right"))).logits
    for row, length in enumerate([7, 4, 1]):
        mean = X[row, :length].mean(0) @ head.projection.weight.T + head.projection.bias
        by_hand = mean @ head.classifier.weight.T + head.classifier.bias
        assert_close(padded[row], by_hand)
        assert_close(head(X[row : row + 1, :length], Flow()).logits[0], by_hand)
    labels = torch.tensor([0, 2, -100])
    assert_close(head.loss(Output(logits=padded), labels), F.cross_entropy(padded[:2], labels[:2]))


def test_a_mix_of_layers_begins_as_their_mean_and_can_be_any_of_them() -> None:
    mix, states = WeightedLayerSum(3), list(torch.randn(3, B, T, D))
    assert_close(mix(states), torch.stack(states).mean(0))
    with torch.no_grad():
        mix.weights[1] = 50.0
    assert_close(mix(states), states[1])
