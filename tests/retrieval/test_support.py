"""Support of a sentence by passages: the share of new content words, numbers, and entailment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import glassformer
from glassformer import ConfigError
from glassformer.retrieval.support import THRESHOLD, EntailmentCheck, WordOverlap
from tests.core.small import perturbed
from tests.e2e.tiny_models import make_folder

QUESTION = "When was the lighthouse built?"
PASSAGE = "The lighthouse was built in 1874 by the engineer Johan Berg."


@pytest.mark.parametrize(
    ("sentence", "score"),
    [
        ("It was built in 1874.", 1.0),  # new: 1874
        ("1874", 1.0),
        ("The lighthouse was built in 1884.", 0.0),  # a number that is not there
        ("Johan Berg, a painter, built it in 1874.", 3 / 4),  # johan berg painter 1874
        ("Napoleon built the lighthouse.", 0.0),
        ("The lighthouses are built.", 1.0),  # nothing new: all its words, by their stems
        ("It was never built.", 0.0),  # "never" is new
        ("It was.", 0.0),  # no content
        ("", 0.0),
    ],
)
def test_the_share_of_new_content_words(sentence: str, score: float) -> None:
    assert WordOverlap("en")(QUESTION, sentence, [PASSAGE, "Apples are red."]) == [pytest.approx(score), 0.0]


def test_other_languages() -> None:
    german = WordOverlap("de")
    assert german("Wann wurde der Turm gebaut?", "Er wurde 1874 von Berg gebaut.", ["Berg baute 1874."]) == [1.0]
    japanese = WordOverlap("ja")
    said, other = "灯台は1874年に建てられた。", "りんごは赤い。"
    assert japanese("いつ?", "1874年に建てられた", [said, other]) == [1.0, 0.0]


def make_judge(folder: Path, labels: list[str]) -> Path:
    make_folder(folder, "bert", task="text-classification", max_position_embeddings=64, num_labels=len(labels))
    config = json.loads((folder / "config.json").read_text())
    config["id2label"] = {str(i): label for i, label in enumerate(labels)}
    config["label2id"] = {label: i for i, label in enumerate(labels)}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_the_probability_of_entailment(tmp_path: Path) -> None:
    model = glassformer.load(make_judge(tmp_path / "nli", ["contradiction", "neutral", "ENTAILMENT"]))
    perturbed(model.network)
    texts = ["time flies like an arrow", "fruit flies"]
    scores = EntailmentCheck(model)("fruit ?", "a banana .", texts)
    for text, score in zip(texts, scores, strict=True):
        encoding = model.tokenizer(text, "fruit ? a banana .", return_tensors="pt")
        with torch.no_grad():
            expected = model(**encoding).logits.softmax(-1)[0, 2]
        assert score == pytest.approx(float(expected), abs=1e-6)
    assert scores[0] != scores[1] and 0 < THRESHOLD < 1


def test_a_judge_without_entailment(tmp_path: Path) -> None:
    folder = make_judge(tmp_path / "mood", ["good", "bad"])
    with pytest.raises(ConfigError, match="none says entailment"):
        EntailmentCheck(folder)
