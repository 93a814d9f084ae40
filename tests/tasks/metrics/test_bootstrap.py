"""Figures of samples: those of all rows are the packages', whatever was true and said; 0 / 0 is 0."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from glassformer.errors import ConfigError, DataError
from glassformer.tasks.metrics.bootstrap import Bootstrap, BootstrapMeans, differences, intervals
from glassformer.tasks.metrics.classes import ClassificationScores, MultiLabelScores, undefined_scores
from glassformer.tasks.metrics.entities import EntityScores
from glassformer.tasks.metrics.regression import RegressionScores

TAGS = ["O", "B-PER", "I-PER", "E-PER", "S-LOC", "B-LOC", "I-LOC"]
SEEDS = st.integers(0, 2**32 - 1)


def drawn(seed: int, kind: str) -> Bootstrap:
    """Something said at random."""
    draw = np.random.default_rng(seed)
    classes, rows = (int(draw.integers(1, most)) for most in (8, 20))
    if kind == "classes":
        return ClassificationScores(list("abcdefg"[:classes]), *draw.integers(0, classes, (2, rows)))
    if kind == "labels":
        return MultiLabelScores(list("abcdefg"[:classes]), *(draw.random((2, rows, classes)) < draw.random()))
    if kind == "numbers":
        return RegressionScores(
            draw.integers(0, classes, rows), draw.normal(size=rows).round(int(draw.integers(3)))
        )
    lengths = draw.integers(1, 6, rows)
    true, said = ([[TAGS[i] for i in draw.integers(0, len(TAGS), n)] for n in lengths] for _ in range(2))
    return EntityScores(TAGS, true, said)


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.sampled_from(["classes", "labels", "numbers", "entities"]))
def test_ours_are_those_of_the_packages(seed: int, kind: str) -> None:
    """`values` refuses to go on where they differ; a sample is judged as its rows would be, each as often as drawn."""
    judged = drawn(seed, kind)
    values = judged.values()
    assert set(values) == set(judged.methods)
    nothing = isinstance(judged, EntityScores) and all(
        row["f1"] is None for row in judged.per_class().values()
    )
    # seqeval has no macro mean where there is no entity at all
    assert set(judged.reference_scores()) == set(values) - ({"f1_macro"} if nothing else set())
    draw = np.random.default_rng(seed)
    picks = draw.integers(0, len(judged), len(judged))
    if isinstance(judged, RegressionScores):
        again: Bootstrap = RegressionScores(judged.true[picks], judged.predicted[picks])
    elif isinstance(judged, ClassificationScores | MultiLabelScores):
        again = type(judged)(judged.names, judged.true[picks], judged.predicted[picks])
    else:
        assert isinstance(judged, EntityScores)
        again = EntityScores(TAGS, [judged.true[i] for i in picks], [judged.predicted[i] for i in picks])
    times = np.bincount(picks, minlength=len(judged))[None]
    sampled = {name: float(figure[0]) for name, figure in judged.scores(times).items()}
    assert sampled == pytest.approx(again.values(), abs=1e-9)


def test_by_hand() -> None:
    said = ClassificationScores(["a", "b", "c"], np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1]))
    values = said.values()
    assert values["accuracy"] == 0.75 and values["f1_weighted"] == pytest.approx((2 / 3 + 4 / 5) / 2)
    assert said.confusion_matrix() == [[1, 1, 0], [0, 2, 0], [0, 0, 0]]
    assert said.per_class()["a"] == {"precision": 1, "recall": 0.5, "f1": pytest.approx(2 / 3), "support": 2}
    assert said.per_class()["c"] == {"precision": None, "recall": None, "f1": None, "support": 0}
    labels = MultiLabelScores(["a", "b"], np.array([[1, 0], [1, 1]], bool), np.array([[1, 0], [0, 1]], bool))
    assert labels.values()["subset_accuracy"] == 0.5 and labels.values()["f1_micro"] == 0.8


def test_words_are_drawn_with_their_row() -> None:
    """Three words in two rows: a sample of the first row twice has four words."""
    said = ClassificationScores(["a", "b"], np.array([0, 1, 0]), np.array([0, 0, 0]), np.array([0, 0, 1]))
    assert len(said) == 2 and said.values()["accuracy"] == pytest.approx(2 / 3)
    assert said.scores(np.array([[2, 0]]))["accuracy"][0] == 0.5


def test_partly_found_is_not_found() -> None:
    true = [["O", "O", "O", "B-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]]
    said = [["O", "O", "B-MISC", "I-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]]
    found = EntityScores(["O", "B-MISC", "I-MISC", "B-PER", "I-PER"], true, said)
    assert found.values() == {"f1": 0.5, "precision": 0.5, "recall": 0.5, "f1_macro": 0.5, "accuracy": 0.8}
    assert found.per_class()["MISC"]["f1"] == 0 and found.per_class()["PER"]["f1"] == 1
    nothing = EntityScores(["O", "B-PER"], [["O"]], [["O"]])
    assert nothing.values()["f1"] == 0 and nothing.per_class()["PER"]["f1"] is None


def test_many_classes_take_seconds_and_agree_with_a_plain_loop() -> None:
    draw = np.random.default_rng(0)
    true, said = draw.integers(0, 151, (2, 3_000))
    judged = ClassificationScores(
        [str(i) for i in range(151)], true, np.where(draw.random(3_000) < 0.8, true, said)
    )
    found = intervals(judged, resamples=200)["f1_weighted"]
    samples = [draw.integers(0, 3_000, 3_000) for _ in range(60)]
    loop = [
        metrics.f1_score(judged.true[p], judged.predicted[p], average="weighted", zero_division=0)
        for p in samples
    ]
    assert found.low is not None and found.high is not None and found.low < found.value < found.high
    assert found.high - found.low == pytest.approx(2 * 1.96 * np.std(loop), rel=0.35)


def test_numbers_that_do_not_vary() -> None:
    flat = RegressionScores(np.array([1.0, 2.0, 3.0]), np.full(3, 0.1))
    assert flat.values()["pearson"] == flat.values()["spearman"] == 0 and flat.constant() == ["predicted"]
    assert all(math.isfinite(x.low) for x in intervals(flat, 50).values() if x.low is not None)
    ranks = RegressionScores(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 10.0, 100.0, 1e6]))
    assert ranks.values()["spearman"] == 1 > ranks.values()["pearson"]
    tied = np.array([1.0, 1.0, 2.0, 5.0])
    assert (
        RegressionScores(tied, tied[::-1]).values()["spearman"] == scipy.stats.spearmanr(tied, tied[::-1])[0]
    )


def test_differences_are_of_the_same_rows() -> None:
    draw = np.random.default_rng(1)
    hard = draw.random(400)
    mine, theirs = (
        BootstrapMeans({"score": (hard < share).astype(float)}, {"score": "ours"}) for share in (0.55, 0.5)
    )
    found = differences(mine, theirs, 300)["score"]
    alone = intervals(mine, 300)["score"]
    assert found.leaves_out_zero and found.high - found.low < alone.high - alone.low  # type: ignore[operator]
    with pytest.raises(DataError, match="400 rows, the other on 3"):
        differences(mine, BootstrapMeans({"score": np.ones(3)}, {}))
    with pytest.raises(ConfigError, match="resamples is 0"):
        intervals(mine, 0)
    with pytest.raises(DataError, match="no row"):
        intervals(BootstrapMeans({"score": np.ones(0)}, {}))


def test_a_package_that_disagrees_is_a_bug_of_ours() -> None:
    class Wrong(BootstrapMeans):
        def reference_scores(self) -> dict[str, float]:
            return {"score": 0.5}

    with pytest.raises(RuntimeError, match=r"score is 0\.5 by theirs 1\.0, and 1\.0 by our counts"):
        Wrong({"score": np.ones(3)}, {"score": "theirs 1.0"}).values()


def test_what_is_not_defined_is_said() -> None:
    each = ClassificationScores(list("abc"), np.array([0, 0, 2]), np.array([0, 1, 0])).per_class()
    assert undefined_scores(each, "no row is", left_out=True) == [
        "no row is 'b': recall is not defined there and counts as 0 in the macro mean",
        "never predicted: 'c': precision is not defined there and counts as 0 in the macro and weighted means",
    ]
    many = ClassificationScores([f"k{i}" for i in range(9)], np.array([0]), np.array([0])).per_class()
    (said,) = undefined_scores(many, "no row is", left_out=False)
    assert "… (8 in all), and none was predicted to be: counts as 0" in said
