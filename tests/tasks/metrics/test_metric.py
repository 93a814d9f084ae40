"""Figures of batches and of samples equal those of the packages on everything at once; 0 / 0 is 0."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics
from torch import Tensor

from glassformer.core.classification_heads import SequenceClassifier, TokenClassifier
from glassformer.core.flow import Batch, Flow, Output
from glassformer.core.language_heads import CausalLMHead
from glassformer.errors import ConfigError, DataError
from glassformer.model import Model
from glassformer.models import FAMILIES
from glassformer.tasks.metrics.classes import (
    ClassificationMetric,
    ClassificationScores,
    MultiLabelMetric,
    MultiLabelScores,
    per_class,
)
from glassformer.tasks.metrics.entities import EntityScores
from glassformer.tasks.metrics.metric import (
    Bootstrap,
    BootstrapMeans,
    BootstrapUnion,
    Metric,
    PerplexityMetric,
    differences,
    greater_is_better,
    intervals,
)
from glassformer.tasks.metrics.regression import RegressionMetric, RegressionScores
from glassformer.tasks.types import MicroBatch

Make = Callable[[], Metric]


def judged(metric: Metric, logits: Tensor, labels: Tensor, cuts: list[int] | None = None) -> Metric:
    """The meter, when it has seen everything in passes that begin at `cuts`."""
    bounds = [0, *sorted({c % len(labels) for c in cuts or []} - {0}), len(labels)]
    for start, end in pairwise(bounds):
        item = MicroBatch(Batch(), Flow(), labels[start:end])
        metric.update(Output(logits=logits[start:end]), item)
    return metric


def check_additive(make: Make, logits: Tensor, labels: Tensor, cuts: list[int]) -> dict[str, float]:
    """However the data are cut, and whichever process has seen them, the figures are the same."""
    whole = judged(make(), logits, labels).compute()
    assert judged(make(), logits, labels, cuts).compute() == pytest.approx(whole, rel=1e-6, abs=1e-9)
    if len(labels) > 1:
        middle = len(labels) // 2
        first = judged(make(), logits[:middle], labels[:middle])
        second = judged(make(), logits[middle:], labels[middle:])
        idle = make()  # a process that had nothing to do
        assert {name: x.shape for name, x in idle.state.items()} == {name: x.shape for name, x in first.state.items()}
        for metric in (second, idle):
            for name in first.state:
                first.state[name] += metric.state[name]
        assert first.compute() == pytest.approx(whole, rel=1e-6, abs=1e-9)
    assert all(x.dtype == torch.float64 for x in make().state.values())
    return whole


sizes = {"count": st.integers(1, 40), "classes": st.integers(2, 6), "seed": st.integers(0, 2**32 - 1)}


@settings(max_examples=40, deadline=None)
@given(**sizes, cuts=st.lists(st.integers(0, 100), max_size=4))
def test_classification(count: int, classes: int, seed: int, cuts: list[int]) -> None:
    draw = np.random.default_rng(seed)
    true, logits = draw.integers(0, classes, count), draw.normal(size=(count, classes)).astype(np.float32)
    said = logits.argmax(-1)
    head, names = SequenceClassifier(3, classes), [f"class {i}" for i in range(classes)]
    logits, labels = torch.from_numpy(logits), torch.from_numpy(true)
    found = check_additive(lambda: ClassificationMetric(head, names), logits, labels, cuts)

    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(true, said))
    for average in ("macro", "weighted", "micro"):
        wanted = metrics.f1_score(true, said, average=average, zero_division=0)
        assert found[f"f1_{average}"] == pytest.approx(wanted)
    assert found["loss"] == pytest.approx(float(torch.nn.functional.cross_entropy(logits, labels)), rel=1e-5)

    each = per_class(names, *judged(ClassificationMetric(head, names), logits, labels).counts())  # type: ignore[attr-defined]
    table = metrics.precision_recall_fscore_support(true, said, labels=range(classes), zero_division=0)
    for i, name in enumerate(names):
        assert [x or 0.0 for x in each[name].values()] == pytest.approx([float(column[i]) for column in table])


def test_a_class_that_never_occurs_is_left_out_and_one_never_said_has_0() -> None:
    logits = torch.tensor([[9.0, 0, 0], [9.0, 0, 0], [9.0, 0, 0]])
    metric = judged(ClassificationMetric(SequenceClassifier(3, 3), "abc"), logits, torch.tensor([0, 0, 1]))
    assert metric.compute()["f1_macro"] == pytest.approx((0.8 + 0) / 2)
    assert per_class("abc", *metric.counts())["c"] == {
        "precision": None,
        "recall": None,
        "f1": None,
        "support": 0,
    }  # type: ignore[attr-defined]


def test_tokens_that_do_not_count_are_not_judged() -> None:
    logits = torch.tensor([[[0.0, 9], [9, 0], [9, 0]]])
    metric = judged(ClassificationMetric(TokenClassifier(3, 2), "ab"), logits, torch.tensor([[1, -100, 1]]))
    assert metric.compute()["accuracy"] == 0.5
    assert float(metric.state["loss.count"]) == 2


@settings(max_examples=40, deadline=None)
@given(**sizes, cuts=st.lists(st.integers(0, 100), max_size=4))
def test_several_labels(count: int, classes: int, seed: int, cuts: list[int]) -> None:
    draw = np.random.default_rng(seed)
    true = (draw.random((count, classes)) < 0.3).astype(np.float32)
    logits = draw.normal(size=(count, classes)).astype(np.float32)
    said = 1 / (1 + np.exp(-logits)) > 0.5
    head, names = SequenceClassifier(3, classes, problem="multi"), [f"label {i}" for i in range(classes)]
    labels = torch.from_numpy(true)
    found = check_additive(lambda: MultiLabelMetric(head, names), torch.from_numpy(logits), labels, cuts)
    for average in ("macro", "micro"):
        wanted = metrics.f1_score(true, said, average=average, zero_division=0)
        assert found[f"f1_{average}"] == pytest.approx(wanted)
    each = per_class(names, *judged(MultiLabelMetric(head, names), torch.from_numpy(logits), labels).counts())  # type: ignore[attr-defined]
    table = metrics.precision_recall_fscore_support(true, said, average=None, zero_division=0)
    for i, name in enumerate(names):
        assert [x or 0.0 for x in each[name].values()] == pytest.approx([float(column[i]) for column in table])


@settings(max_examples=40, deadline=None)
@given(
    count=st.integers(2, 40),
    seed=st.integers(0, 2**32 - 1),
    mean=st.floats(-1e3, 1e3),
    cuts=st.lists(st.integers(0, 100), max_size=4),
)
def test_regression(count: int, seed: int, mean: float, cuts: list[int]) -> None:
    draw = np.random.default_rng(seed)
    true = (draw.normal(size=count) + mean).astype(np.float32)
    said = (true + draw.normal(size=count)).astype(np.float32)
    head = SequenceClassifier(3, 1, problem="regression")
    logits, labels = torch.from_numpy(said)[:, None], torch.from_numpy(true)
    found = check_additive(lambda: RegressionMetric(head), logits, labels, cuts)
    wide = said.astype(np.float64), true.astype(np.float64)
    assert found["mse"] == pytest.approx(np.mean((wide[0] - wide[1]) ** 2))
    assert found["loss"] == pytest.approx(found["mse"], rel=1e-4)
    assert found["pearson"] == pytest.approx(np.corrcoef(*wide)[0, 1], abs=1e-6)


@pytest.mark.parametrize("constant", [0.0, 0.1, 12345.678])
def test_what_never_changes_rises_and_falls_with_nothing(constant: float) -> None:
    labels = torch.tensor([1.0, 2, 4])
    metric = RegressionMetric(SequenceClassifier(3, 1, problem="regression"))
    assert judged(metric, torch.full((3, 1), constant), labels).compute()["pearson"] == 0


def test_perplexity_is_1_where_certain_and_2_between_two() -> None:
    words = torch.tensor([[3, 1, 4, 1]])
    certain = torch.nn.functional.one_hot(words.roll(-1), 6).float() * 200
    metric = judged(PerplexityMetric(CausalLMHead(3, 6)), certain, words)
    assert metric.compute() == pytest.approx({"loss": 0, "perplexity": 1, "bits": 0}, abs=1e-6)
    undecided = certain + torch.nn.functional.one_hot((words.roll(-1) + 1) % 6, 6).float() * 200
    metric = judged(PerplexityMetric(CausalLMHead(3, 6)), undecided, words)
    assert metric.compute() == pytest.approx({"loss": math.log(2), "perplexity": 2, "bits": 1})


def test_perplexity_is_weighted_by_tokens_not_by_passes() -> None:
    head, draw = CausalLMHead(3, 6), torch.Generator().manual_seed(0)
    logits = torch.randn(3, 7, 6, generator=draw)
    words = torch.randint(0, 6, (3, 7), generator=draw)
    words[0, 2:] = -100  # a short text
    found = check_additive(lambda: PerplexityMetric(head), logits, words, [1])
    following = words[:, 1:].flatten()
    mean = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), following, ignore_index=-100)
    assert found["loss"] == pytest.approx(float(mean))
    assert found["perplexity"] == pytest.approx(math.exp(float(mean)))


def test_perplexity_before_learning_is_about_the_vocabulary() -> None:
    torch.manual_seed(0)
    model = Model.from_config(FAMILIES["gpt2"].tiny, task="text-generation")
    words = torch.randint(0, model.vocabulary, (8, 30))
    metric = PerplexityMetric(model.network.head)  # type: ignore[arg-type]
    with torch.no_grad():
        metric.update(model.network(Batch(input_ids=words), Flow()), MicroBatch(Batch(), Flow(), words))
    assert metric.compute()["perplexity"] == pytest.approx(model.vocabulary, rel=0.2)


def test_a_loss_beyond_all_bounds_is_still_a_number() -> None:
    logits = torch.tensor([[[0.0, 1e4], [0, 0]]])
    figures = judged(PerplexityMetric(CausalLMHead(3, 2)), logits, torch.tensor([[0, 0]])).compute()
    assert math.isfinite(figures["perplexity"]) and figures["perplexity"] > 1e300


@pytest.mark.parametrize(
    "make", [Metric, PerplexityMetric, RegressionMetric, lambda head: ClassificationMetric(head, "ab")]
)
def test_nothing_to_judge_is_said(make: Any) -> None:
    with warnings.catch_warnings(), pytest.raises(DataError, match="nothing to evaluate"):
        warnings.simplefilter("error")
        make(SequenceClassifier(3, 2)).compute()


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
        return RegressionScores(draw.integers(0, classes, rows), draw.normal(size=rows).round(int(draw.integers(3))))
    lengths = draw.integers(1, 6, rows)
    true, said = ([[TAGS[i] for i in draw.integers(0, len(TAGS), n)] for n in lengths] for _ in range(2))
    return EntityScores(TAGS, true, said)


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.sampled_from(["classes", "labels", "numbers", "entities"]))
def test_ours_are_those_of_the_packages(seed: int, kind: str) -> None:
    """`values` refuses to go on where they differ; a sample counts each row as often as it was drawn."""
    judged = drawn(seed, kind)
    values = judged.values()
    assert set(values) == set(judged.methods)
    nothing = isinstance(judged, EntityScores) and all(row["f1"] is None for row in judged.per_class().values())
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
    judged = ClassificationScores([str(i) for i in range(151)], true, np.where(draw.random(3_000) < 0.8, true, said))
    found = intervals(judged, resamples=200)["f1_weighted"]
    samples = [draw.integers(0, 3_000, 3_000) for _ in range(60)]
    loop = [metrics.f1_score(judged.true[p], judged.predicted[p], average="weighted", zero_division=0) for p in samples]
    assert found.low is not None and found.high is not None and found.low < found.value < found.high
    assert found.high - found.low == pytest.approx(2 * 1.96 * np.std(loop), rel=0.35)


def test_numbers_that_do_not_vary() -> None:
    flat = RegressionScores(np.array([1.0, 2.0, 3.0]), np.full(3, 0.1))
    assert flat.values()["pearson"] == flat.values()["spearman"] == 0
    assert [note.startswith("the predicted value is the same") for note in flat.notes()] == [True]
    assert all(math.isfinite(x.low) for x in intervals(flat, 50).values() if x.low is not None)
    ranks = RegressionScores(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 10.0, 100.0, 1e6]))
    assert ranks.values()["spearman"] == 1 > ranks.values()["pearson"]
    tied = np.array([1.0, 1.0, 2.0, 5.0])
    assert RegressionScores(tied, tied[::-1]).values()["spearman"] == scipy.stats.spearmanr(tied, tied[::-1])[0]


def test_differences_are_of_the_same_rows() -> None:
    draw = np.random.default_rng(1)
    hard = draw.random(400)
    mine, theirs = (BootstrapMeans({"score": (hard < share).astype(float)}, {"score": "ours"}) for share in (0.55, 0.5))
    found = differences(mine, theirs, 300)["score"]
    alone = intervals(mine, 300)["score"]
    assert found.leaves_out_zero and found.high - found.low < alone.high - alone.low  # type: ignore[operator]
    with pytest.raises(DataError, match="400 rows, the other on 3"):
        differences(mine, BootstrapMeans({"score": np.ones(3)}, {}))
    apart = differences(mine, theirs, 300, paired=False)["score"]  # as if they were of other rows
    assert apart.value == found.value and apart.high - apart.low > 2 * (found.high - found.low)  # type: ignore[operator]
    few = differences(mine, BootstrapMeans({"score": np.ones(3)}, {}), 300, paired=False)["score"]
    assert few.value == alone.value - 1 and few.low == pytest.approx(alone.low - 1)  # type: ignore[operator]
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
    with pytest.raises(RuntimeError, match=r"score is 0\.5"):
        BootstrapUnion(BootstrapMeans({"other": np.ones(3)}, {}), Wrong({"score": np.ones(3)}, {"score": ""})).values()


def test_what_is_not_defined_is_said() -> None:
    each = ClassificationScores(list("abc"), np.array([0, 0, 2]), np.array([0, 1, 0]))
    assert each.notes() == [
        "no row is 'b': recall is not defined there and counts as 0 in the macro mean",
        "never predicted: 'c': precision is not defined there and counts as 0 in the macro and weighted means",
    ]
    holds = np.eye(9, dtype=bool)[:1]
    (said,) = MultiLabelScores([f"k{i}" for i in range(9)], holds, holds).notes()
    assert "… (8 in all), and none was predicted to be: counts as 0" in said


@pytest.mark.parametrize(
    ("name", "greater"),
    [
        *[(name, False) for name in ("loss", "eval_loss", "loss_mlm", "mae", "rmse", "word_error", "bits_per_token")],
        *[(name, True) for name in ("accuracy", "f1", "bleu", "glossary", "wermut", "exact_match", "r2")],
    ],
)
def test_the_direction_of_a_metric_is_in_its_name(name: str, greater: bool) -> None:
    assert greater_is_better(name) == greater
