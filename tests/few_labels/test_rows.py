"""Labelled texts, leaks, and thresholds, against plain counting."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.errors import DataError
from glassformer.few_labels import LabelledTexts
from glassformer.few_labels.rows import without_leaks
from glassformer.few_labels.thresholds import LEAST_POSITIVE, best_threshold, best_thresholds
from glassformer.tasks.classify.scorer import decide
from tests.few_labels.samples import one_label, several_labels

pytestmark = pytest.mark.filterwarnings("ignore:.*labels have a single row:UserWarning")


def test_labels_are_read_and_written() -> None:
    one = LabelledTexts.of(["x", "y", "z"], ["b", "a", "b"])
    assert not one.several and one.labels == ["b", "a", "b"] and one.classes.tolist() == [1, 0, 1]
    several = LabelledTexts.of(["x", "y", "z"], ["b|a", "", "a"], separator="|")
    assert several.several and several.labels == [["a", "b"], [], ["a"]]


@pytest.mark.parametrize(
    ("texts", "labels", "message"),
    [
        (["a", " "], ["x", "y"], "text 1 is ' '; a text that is classified must not be empty"),
        (["a"], ["x", "y"], "there are 1 texts and 2 labels; give one for each text"),
        (["a", "b"], ["x", "x"], "every row of 'label' has the label 'x'; there is nothing to tell apart"),
        (["a", "b"], [0.5, 1.5], "the labels are numbers with fractions; these methods learn classes"),
    ],
)
def test_rows_that_teach_nothing_are_refused(texts: list[str], labels: list[object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        LabelledTexts.of(texts, labels)


def test_whole_numbers_with_a_point_are_classes() -> None:
    """As a CSV file writes them where a row has no label."""
    assert LabelledTexts.of(["a", "b"], [0.0, 1.0]).labels == LabelledTexts.of(["a", "b"], [0, 1]).labels


def test_a_label_that_is_unknown_is_refused() -> None:
    with pytest.raises(DataError, match="the label 'banan' is none of the 2 that the model knows"):
        LabelledTexts.read(["a"], ["banan"], one_label(4).kind)


def test_held_out_texts_have_each_label_in_its_share() -> None:
    rows = several_labels(64)
    inner, outer = rows.held_out(0.25, seed=1)
    assert len(inner) == 48 and len(outer) == 16
    assert np.abs(outer.holds.sum(0) - rows.holds.sum(0) / 4).max() <= 1
    with pytest.raises(DataError, match="to hold 2 out at least 4 are needed"):
        one_label(3).held_out(0.25, seed=0)


def test_folds_leave_each_text_out_once() -> None:
    rows = one_label(7)
    folds = rows.folds(5, seed=0)
    assert sorted(np.concatenate([out for _, out in folds]).tolist()) == [*range(7)]
    assert all(len(np.intersect1d(inner, out)) == 0 for inner, out in folds)


def test_unlabelled_texts_that_are_labelled_ones_are_counted_and_dropped() -> None:
    remaining, leaked, others = without_leaks(["New one", "KNOWN  text", "new ONE", "  ", "other"], ["Known text"])
    assert (remaining, leaked, others) == (["New one", "other"], 1, 2)


def f1_at(scores: np.ndarray, holds: np.ndarray, threshold: float) -> float:
    predicted = scores > threshold
    return 2 * float((predicted & holds).sum()) / max(float(predicted.sum() + holds.sum()), 1.0)


@pytest.mark.parametrize("seed", range(20))
def test_no_other_threshold_has_a_higher_f1(seed: int) -> None:
    draw = np.random.default_rng(seed)
    scores, holds = draw.integers(0, 8, 30) / 8 + 0.01, draw.random(30) < 0.4
    best = max(f1_at(scores, holds, t) for t in [0.0, *(scores - 1e-6), *(scores + 1e-6)])
    assert f1_at(scores, holds, best_threshold(scores, holds)) == pytest.approx(best)


def test_rare_labels_share_the_threshold_of_all_and_learned_rows_are_left_out() -> None:
    scores = np.array([[0.9, 0.2], [0.8, 0.7], [0.7, 0.1], [0.6, 0.1], [0.1, 0.1], [0.2, 0.1], [np.nan, np.nan]])
    holds = np.array([[1, 0], [1, 1], [1, 0], [1, 0], [0, 0], [0, 0], [0, 1]], dtype=bool)
    assert holds[:, 0].sum() >= LEAST_POSITIVE > holds[:, 1].sum()
    first, second = best_thresholds(scores, holds)
    assert first == pytest.approx(0.4)  # between 0.6, which holds, and 0.2
    assert second == pytest.approx(best_threshold(scores[:6].ravel(), holds[:6].ravel()))
    assert best_threshold(np.array([0.2, 0.4]), np.array([False, False])) == 0.5


def test_labels_that_hold_of_scores() -> None:
    scores = np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])
    one = decide(scores, several=False, thresholds=0.9, top_k=None)
    assert one.tolist() == [[True, False, False], [False, False, True]]
    above = decide(scores, several=True, thresholds=np.array([0.4, 0.1, 0.9]), top_k=None)
    assert above.tolist() == [[True, True, False], [False, True, False]]
    assert decide(scores, several=True, thresholds=0.5, top_k=2).sum(1).tolist() == [2, 2]
