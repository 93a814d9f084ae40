"""Saved methods: what a folder answers is what the method answered, whatever it learned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glassformer
from glassformer.errors import ConfigError, UnsupportedError, WeightsError
from glassformer.few_labels import LabelledTexts, Setting, make_method
from glassformer.few_labels.saving import save_method
from glassformer.tasks.classify.scorer import SCORER, TENSORS, TextScorer
from tests.few_labels.samples import encoder, one_label, setting, several_labels

__all__ = ["encoder", "setting"]

SCORERS: list[tuple[str, dict[str, Any]]] = [
    ("naive-bayes", {}),
    ("naive-bayes", {"ngrams": 2}),
    ("logistic-regression", {"ngrams": 2}),
    ("embeddings", {}),
    ("nearest-neighbours", {}),
    ("label-names", {}),
    ("contrastive", {"steps": 2}),
    ("augmented", {"copies": 1}),
]
TEXTS = ["like an arrow", "time flies like time", "fruit flies", "a banana, time", "nothing known"]


@pytest.mark.parametrize(("name", "options"), SCORERS)
@pytest.mark.parametrize("rows", [one_label(16), several_labels(24)], ids=["one", "several"])
def test_a_scorer_answers_as_the_method(
    name: str, options: dict[str, Any], rows: LabelledTexts, setting: Setting, tmp_path: Path
) -> None:
    method = make_method(name, setting, **options).fit(rows)
    save_method(method, tmp_path / "saved")
    loaded = TextScorer.load(tmp_path / "saved")
    np.testing.assert_allclose(loaded.scores(TEXTS), method.scores(TEXTS), atol=2e-5)
    assert np.array_equal(loaded.decide(loaded.scores(TEXTS)), method.decide(method.scores(TEXTS)))
    assert loaded.method == name and loaded.kind.names == rows.kind.names and loaded.several == rows.several
    assert not any(path.suffix in (".pkl", ".pickle", ".joblib") for path in (tmp_path / "saved").rglob("*"))


def test_three_classes_one_of_which_no_row_has(setting: Setting, tmp_path: Path) -> None:
    rows = LabelledTexts.of(["time", "fruit", "banana", "time flies"], ["a", "b", "c", "a"]).select([0, 1, 3])
    method = make_method("logistic-regression", setting).fit(rows)
    save_method(method, tmp_path / "saved")
    scores = TextScorer.load(tmp_path / "saved").scores(TEXTS)
    np.testing.assert_allclose(scores, method.scores(TEXTS), atol=2e-5)
    assert (scores[:, 2] == 0).all()


@pytest.mark.parametrize("rows", [one_label(16), several_labels(24)], ids=["one", "several"])
def test_a_network_is_an_ordinary_model_folder(rows: LabelledTexts, setting: Setting, tmp_path: Path) -> None:
    method = make_method("fine-tuning", setting, steps=4).fit(rows)
    before, scores = method.predict(TEXTS), method.scores(TEXTS)
    for _ in range(2):  # the thresholds are added to what was learned, each time
        save_method(method, tmp_path / "saved")
    np.testing.assert_array_equal(method.scores(TEXTS), scores)
    answers = glassformer.pipeline("text-classification", tmp_path / "saved")(TEXTS)
    if rows.several:  # thresholds of the method are in the bias
        assert [sorted(x.label for x in answer) for answer in answers] == [sorted(labels) for labels in before]
    else:
        assert [answer[0].label for answer in answers] == before


def test_what_learns_nothing_is_refused(setting: Setting) -> None:
    method = make_method("prompts", setting)
    with pytest.raises(UnsupportedError, match="prompts asks another model each time"):
        method.saved()


def test_damaged_folders_are_refused(setting: Setting, tmp_path: Path) -> None:
    save_method(make_method("naive-bayes", setting).fit(one_label(8)), tmp_path)
    file = json.loads((tmp_path / SCORER).read_text())
    for change, message in (
        ({"version": 2}, "of a later Glassformer"),
        ({"thresholds": [1, 2, 3]}, "do not go together"),
    ):
        (tmp_path / SCORER).write_text(json.dumps({**file, **change}))
        with pytest.raises(ConfigError, match=message):
            TextScorer.load(tmp_path)
    (tmp_path / SCORER).write_text(json.dumps({**file, "words": file["words"][1:]}))
    with pytest.raises(WeightsError, match="its tensors do not fit"):
        TextScorer.load(tmp_path)
    (tmp_path / SCORER).write_text(json.dumps({**file, "scores": "neighbours"}))
    with pytest.raises(WeightsError, match="holds no tensor 'vectors'"):
        TextScorer.load(tmp_path)
    (tmp_path / TENSORS).write_bytes(b"no tensors")
    with pytest.raises(WeightsError):
        TextScorer.load(tmp_path)
