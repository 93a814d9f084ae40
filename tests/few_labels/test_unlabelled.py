"""Methods that learn from unlabelled texts: adaptation once a study, and pseudo-labels by their uncertainty."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from glassformer.errors import DataError
from glassformer.few_labels import Setting, make_method
from glassformer.few_labels.fine_tuning import new_classifier, scores_of
from glassformer.few_labels.self_training import bald, dropout_scores, most_certain
from tests.few_labels.samples import encoder, one_label, setting
from tests.few_labels.test_zero_shot import masked

__all__ = ["encoder", "masked", "setting"]

UNLABELLED = [f"{text} like" for text in one_label(40, seed=5).texts]


def test_an_adapted_encoder_is_made_once_for_all_numbers_of_labels(masked: str, tmp_path: Path) -> None:
    labelled = one_label(40)
    setting = Setting(model=masked, work=tmp_path)
    options = {"adaptation_steps": 4, "learning_rate": 1e-2, "held_out": 0.25}
    for count in (16, 40):
        others = [*labelled.texts[count:], *UNLABELLED]
        method = make_method("domain-adaptation", setting.seeded(count), **options)
        method.fit(labelled.select(range(count)), others)
        assert method.withheld == count // 4
    (folder,) = tmp_path.iterdir()
    assert (folder / "model.safetensors").is_file() and setting.vectors.borrowed > 0
    test = one_label(40, seed=1)
    assert np.mean([a == b for a, b in zip(method.predict(test.texts), test.labels, strict=True)]) >= 0.9


@pytest.mark.parametrize("name", ["domain-adaptation", "self-training", "uda"])
def test_unlabelled_texts_are_needed(name: str, setting: Setting) -> None:
    with pytest.raises(DataError, match="learns from unlabelled texts, and there are none"):
        make_method(name, setting).fit(one_label(12))


def test_the_teacher_is_the_classifier_that_was_fine_tuned_before(setting: Setting) -> None:
    """And what is learned from it is the same as if the teacher were trained anew, of which the time is charged."""
    options = {"steps": 4, "epochs": 1, "learning_rate": 1e-2}
    alone = make_method("self-training", setting, **options, rounds=1).fit(one_label(12), UNLABELLED)
    shared = Setting(model=setting.model)
    tuned = make_method("fine-tuning", shared, **options).fit(one_label(12))
    assert shared.vectors.borrowed == 0
    after = make_method("self-training", shared.seeded(0), **options, rounds=1).fit(one_label(12), UNLABELLED)
    assert shared.vectors.borrowed == shared.recent["fine-tuned"].seconds > 0
    assert np.array_equal(alone.scores(UNLABELLED), after.scores(UNLABELLED))
    assert not np.array_equal(tuned.scores(UNLABELLED), after.scores(UNLABELLED))
    again = make_method("fine-tuning", shared.seeded(1), **options).fit(one_label(12))
    assert not np.array_equal(tuned.scores(UNLABELLED), again.scores(UNLABELLED))


def test_passes_with_dropout_differ_and_leave_the_network_as_it_was(setting: Setting) -> None:
    task = new_classifier(setting.model, one_label(4), setting)
    before = scores_of(task, UNLABELLED[:8])
    passes = dropout_scores(task, UNLABELLED[:8], 4)
    assert passes.shape == (4, 8, 2) and passes.std(0).max() > 0
    assert np.allclose(passes.sum(-1), 1) and not task.model.network.training
    assert np.array_equal(scores_of(task, UNLABELLED[:8]), before)


def test_uncertainty_is_what_passes_disagree_about() -> None:
    sure, unsure, divided = [[0.9, 0.1]] * 2, [[0.5, 0.5]] * 2, [[1.0, 0.0], [0.0, 1.0]]
    passes = np.array([sure, unsure, divided]).transpose(1, 0, 2)
    assert bald(passes, several=False) == pytest.approx([0, 0, np.log(2)], abs=1e-6)
    assert bald(passes, several=True) == pytest.approx([0, 0, 2 * np.log(2)], abs=1e-6)


def test_the_most_certain_texts_of_each_label_are_learned() -> None:
    spread, groups = np.array([0.3, 0.1, 0.2, 0.0, 0.2]), np.array([2, 2, 0, 2, 2])
    assert most_certain(spread, groups, 2).tolist() == [2, 3, 1]
    assert most_certain(spread, groups, 9).tolist() == [2, 3, 1, 4, 0]
