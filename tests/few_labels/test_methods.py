"""Every method: it learns what one word decides, of one label and of several, and refuses what teaches nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch

from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.few_labels import METHODS, LabelledTexts, Method, Setting, find_method, make_method, register
from glassformer.few_labels.contrastive import balanced_batches, overlap, pair_loss
from glassformer.few_labels.fine_tuning import FineTuning, FineTuningOptions, steps_of
from glassformer.few_labels.label_heads import balanced, with_names
from glassformer.few_labels.method import out_of_fold, rehearse
from glassformer.files.schema import Schema
from tests.few_labels.samples import encoder, one_label, setting, several_labels

__all__ = ["encoder", "setting"]

pytestmark = pytest.mark.filterwarnings("ignore:.*labels have a single row:UserWarning")

FAST: dict[str, dict[str, Any]] = {
    "contrastive": {"learning_rate": 1e-2, "steps": 40},
    "fine-tuning": {"learning_rate": 1e-2, "steps": 300, "most_epochs": 60},
    "self-training": {"learning_rate": 1e-2, "steps": 300, "most_epochs": 60, "rounds": 1},
    "uda": {"learning_rate": 1e-2, "steps": 600, "most_epochs": 120},  # half of them with unlabelled texts
}
"""Options for an encoder with new weights."""
LEARNING = [
    name
    for name in METHODS
    if {"labels", "decoder"} & {*find_method(name).NEEDS} == {"labels"} and name != "domain-adaptation"
]
"""Those that can do without a decoder, and without a mask token, which this encoder does not have."""
UNLABELLED = one_label(30, seed=7).texts


@pytest.mark.parametrize("name", LEARNING)
def test_a_method_learns_one_label(name: str, setting: Setting) -> None:
    method = make_method(name, setting, **FAST.get(name, {})).fit(one_label(40), UNLABELLED)
    test = one_label(40, seed=1)
    scores = method.scores(test.texts)
    assert scores.shape == (40, 2) and np.allclose(scores.sum(1), 1, atol=1e-2)
    right = np.mean([a == b for a, b in zip(method.predict(test.texts), test.labels, strict=True)])
    assert right >= 0.9, right


@pytest.mark.parametrize(  # these two train a network again; a rehearsal below runs them with several labels
    "name",
    [pytest.param(name, marks=pytest.mark.soak if name in ("self-training", "uda") else ()) for name in LEARNING],
)
def test_a_method_learns_several_labels(name: str, setting: Setting) -> None:
    method = make_method(name, setting, **FAST.get(name, {})).fit(several_labels(64), several_labels(30, seed=7).texts)
    test = several_labels(64, seed=1)
    predicted = method.decide(method.scores(test.texts))
    hits = (predicted & test.holds).sum()
    f1 = 2 * hits / (predicted.sum() + test.holds.sum())
    assert f1 >= 0.8, f1  # 0.667 where all labels always hold
    assert set(method.predict(test.texts[:1])[0]) <= set(test.kind.names)


@pytest.mark.parametrize("name", LEARNING)
def test_a_method_refuses_what_teaches_nothing(name: str, setting: Setting) -> None:
    method = make_method(name, setting)
    with pytest.raises(DataError, match="there are none: label some"):
        method.fit(LabelledTexts.names_only(["a", "b"]))
    same = one_label(4).select([0, 2])
    with pytest.raises(DataError, match="all 2 labelled texts have time: there is nothing to tell apart"):
        method.fit(same)


@pytest.mark.parametrize("name", LEARNING)
def test_a_label_with_one_row_is_learned_next_to_others(name: str, setting: Setting) -> None:
    texts = [*one_label(12).texts, "banana arrow"]
    labelled = LabelledTexts.of(texts, [*one_label(12).labels, "banana"])
    scores = (
        make_method(name, setting, **FAST.get(name, {})).fit(labelled, UNLABELLED).scores(["an arrow", "fruit like"])
    )
    assert scores.shape == (2, 3) and np.isfinite(scores).all()


@pytest.mark.parametrize("name", ["embeddings", "contrastive"])
def test_names_of_labels_are_further_labelled_texts(name: str, setting: Setting) -> None:
    setting = replace(setting, descriptions={"fruit": "banana"})
    labelled = LabelledTexts.of(["an arrow", "like flies"], ["time", "fruit"])  # which says nothing of the two
    texts = with_names(labelled, setting, "an {}")
    assert texts.texts == ["an arrow", "like flies", "an banana", "an time"]
    assert texts.labels == ["time", "fruit", "fruit", "time"]
    method = make_method(name, setting, names=30).fit(labelled)
    assert method.predict(["time", "banana"]) == ["time", "fruit"]
    assert make_method(name, setting, names=0).fit(labelled).predict(["an arrow"]) == ["time"]
    several = make_method(name, setting).fit(several_labels(24))
    assert several.scores(["time"]).shape == (1, 3) and np.isfinite(several.thresholds).all()


def test_every_label_weighs_the_same_in_a_regression_on_vectors() -> None:
    weights = balanced(np.array([1.0, 1.0, 1.0, 3.0]), np.array([0, 0, 2, 2]))  # of class 1 there is none
    assert np.allclose(weights, [1.5, 1.5, 0.75, 2.25])
    assert np.isclose(weights.sum(), 6)


@pytest.mark.parametrize("name", ["fine-tuning", "self-training", "uda"])
def test_all_labels_are_learned_from_unless_some_are_held_out(name: str, setting: Setting) -> None:
    options = {**FAST[name], "steps": 40}
    assert make_method(name, setting, **options).fit(one_label(16), UNLABELLED).withheld == 0
    assert make_method(name, setting, **options).fit(several_labels(16), UNLABELLED).withheld == 4
    held = make_method(name, setting, **options, held_out=0.5).fit(one_label(16), UNLABELLED)
    assert held.withheld == 8
    # one that has the highest loss at its end has the weights of an earlier step
    wild = make_method("fine-tuning", setting, learning_rate=1.0, steps=40, held_out=0.5).fit(one_label(16))
    assert isinstance(wild, FineTuning) and int(wild.best.split()[0]) < 40
    last = make_method("fine-tuning", setting, learning_rate=1.0, steps=40).fit(one_label(16))
    assert isinstance(last, FineTuning) and last.best == "40 of 40"


def test_few_labels_have_the_least_steps_very_few_the_most_epochs_and_many_the_least() -> None:
    options = FineTuningOptions(steps=100, epochs=3, most_epochs=40, batch_size=8)
    assert [steps_of(options, count) for count in (5, 16, 64, 800, 8_000)] == [40, 80, 100, 300, 3_000]


def test_label_names_need_no_label(setting: Setting) -> None:
    with pytest.raises(ConfigError, match=r"the labels are time alone; there is nothing to tell apart: name another"):
        LabelledTexts.names_only(["time"])
    names = LabelledTexts.names_only(["time", "fruit"])
    method = make_method("label-names", setting).fit(names)
    assert method.predict(["time", "fruit"]) == ["time", "fruit"]
    setting.descriptions = {"fruit": "time", "time": "fruit"}
    assert make_method("label-names", setting).fit(names).predict(["time", "fruit"]) == ["fruit", "time"]


def test_label_names_of_several_labels_are_the_first_or_those_above_a_threshold(setting: Setting) -> None:
    names = LabelledTexts.names_only(["time", "fruit", "banana"], several=True)
    assert make_method("label-names", setting).fit(names).predict(["time"]) == [["time"]]
    assert len(make_method("label-names", setting, top_k=2).fit(names).predict(["time"])[0]) == 2
    assert make_method("label-names", setting, threshold=0.999).fit(names).predict(["time"]) == [["time"]]


def test_a_template_without_a_gap_is_refused(setting: Setting) -> None:
    with pytest.raises(ConfigError, match=r"label-names.template is 'a text'; it must be a text with one {}"):
        make_method("label-names", setting, template="a text")


def test_an_unknown_method_is_named_with_the_nearest(setting: Setting) -> None:
    with pytest.raises(ConfigError, match="no method 'contrastiv'; nearest: 'contrastive'"):
        make_method("contrastiv", setting)


@dataclass(frozen=True, kw_only=True)
class ConstantOptions(Schema):
    """No options."""


class Constant(Method[ConstantOptions]):
    """Majority class."""

    OPTIONS = ConstantOptions

    def learn(self, labelled: LabelledTexts, unlabelled: Sequence[str]) -> None:
        self.shares = labelled.holds.mean(0)

    def scores(self, texts: Sequence[str]) -> np.ndarray:
        return np.tile(self.shares, (len(texts), 1))


def test_a_method_of_a_user_has_the_same_face(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.few_labels.method.METHODS", {})
    register("constant", Constant)
    labelled = LabelledTexts.of(["a", "b", "c"], ["x", "y", "y"])
    assert make_method("constant", setting).fit(labelled).predict(["d"]) == ["y"]
    with pytest.raises(ConfigError, match="there is a method 'constant' already"):
        register("constant", type("Other", (Constant,), {}))


def test_scores_out_of_fold_come_from_the_other_texts() -> None:
    labelled = one_label(10)
    seen: dict[str, set[str]] = {}

    def score(part: LabelledTexts, texts: Sequence[str]) -> np.ndarray:
        seen.update({text: {*part.texts} for text in texts})
        return np.zeros((len(texts), 2))

    distinct = LabelledTexts.of([f"{text} {i}" for i, text in enumerate(labelled.texts)], labelled.labels)
    assert not np.isnan(out_of_fold(distinct, 0, score)).any()
    assert all(text not in others for text, others in seen.items()) and len(seen) == 10


# ------------------------------------------------------------------------------------------ contrastive pairs


def test_batches_are_balanced_and_leave_no_text_out() -> None:
    holds = np.zeros((50, 3), dtype=bool)
    holds[:40, 0] = holds[40:48, 1] = holds[48:49, 2] = True  # the last has no label
    read = np.concatenate(list(balanced_batches(holds, 16, 60, seed=0)))
    assert {*read.tolist()} == {*range(50)}
    shares = [np.isin(read, np.flatnonzero(column)).mean() for column in [*holds.T, ~holds.any(1)]]
    assert np.allclose(shares, 0.25, atol=0.03), shares


def test_the_loss_of_pairs_is_the_squared_error_of_cosines() -> None:
    holds = torch.tensor([[1.0, 0], [1, 1], [0, 1], [0, 0]])
    expected = torch.tensor([[1, 0.5, 0, 0], [0.5, 1, 0.5, 0], [0, 0.5, 1, 0], [0, 0, 0, 1]])
    assert torch.equal(overlap(holds), expected)
    vectors = torch.tensor([[1.0, 0], [0, 2.0], [3.0, 0]])
    target = torch.tensor([[1.0, 1, 0], [1, 1, 0], [0, 0, 1]])
    # overlap: cosines of 0 and 1's pair are 0, target 1; others: 0-2 is 1, 1-2 is 0, target 0
    assert float(pair_loss(vectors, target)) == pytest.approx((1.0 + (1.0 + 0.0) / 2) / 2)


def test_memory_of_pairs_does_not_grow_with_the_square_of_the_rows() -> None:
    holds = np.zeros((100_000, 2), dtype=bool)
    holds[::2, 0] = holds[1::2, 1] = True
    batches = balanced_batches(holds, 16, 3, seed=0)
    assert all(len(batch) == 16 for batch in batches)  # all pairs of the rows would be 40 GB


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("name", [*LEARNING, "label-names"])
def test_a_rehearsal_is_short_and_leaves_nothing(
    name: str, several: bool, setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = (several_labels(8) if several else one_label(8)).kind
    steps = list[float]()
    step = torch.optim.AdamW.step
    monkeypatch.setattr(torch.optim.AdamW, "step", lambda *a, **b: (steps.append(1), step(*a, **b))[1])
    before, options = torch.get_rng_state(), {"changes": ["swap"]} if name == "uda" else {}
    rehearse(name, setting, kind, **options)
    assert len(steps) <= 3, "one of a teacher, two of its student"
    assert torch.equal(torch.get_rng_state(), before)
    assert not setting.recent and not setting.vectors._vectors and setting.vectors.borrowed == 0


def test_a_rehearsal_of_augmentation_shortens_the_method_that_learns() -> None:
    brief = find_method("augmented").brief({"copies": 2, "method": "contrastive", "options": {"weight": 1.0}})
    assert brief == {"copies": 2, "method": "contrastive", "options": {"weight": 1.0, "steps": 1}}


def test_what_is_not_fitted_or_no_list_is_refused() -> None:
    method = make_method("naive-bayes", Setting())
    with pytest.raises(UnsupportedError, match=r"naive-bayes has learned nothing yet; first fit it: method\.fit"):
        method.predict(["a text"])
    method.fit(one_label(12))
    assert method.predict([]) == []
    with pytest.raises(DataError, match="texts is one string; give a list of strings"):
        method.predict("a text")


def test_methods_that_ask_another_model_need_no_sentence_encoder() -> None:
    without = {name for name in METHODS if not make_method(name, Setting()).needs_encoder}
    assert without == {"naive-bayes", "logistic-regression", "augmented", "entailment", "prompts", "in-context"}
