"""The verb agrees with its subject, whatever stands between; and the number gets there by the way that is told."""

from __future__ import annotations

from random import Random

import pytest

import glassformer
from glassformer.lessons import agreement
from glassformer.lessons.agreement import (
    CHECKPOINT,
    CLEAN,
    CORRUPT,
    LENGTH,
    PLURAL,
    SINGULAR,
    VERB,
    VERBS,
    agreement_accuracy,
    beginnings,
    number_sweep,
    sentence,
    train_agreement,
)
from glassformer.model import Model


@pytest.fixture(scope="module")
def model() -> Model:
    return glassformer.load(CHECKPOINT)


def test_sentences_follow_the_grammar() -> None:
    random = Random(1)
    for _ in range(300):
        words, verb = sentence(random)
        subject = next(word for word in words if word in SINGULAR + PLURAL)
        assert len(words) <= LENGTH and verb == len(words) - 2
        assert words[verb] in [pair[subject in PLURAL] for pair in VERBS]
    assert all(text.split()[-1] in SINGULAR + PLURAL for text in beginnings(20, attracted=True))


def test_it_is_right_also_where_all_nouns_between_are_of_the_other_number(model: Model) -> None:
    for attracted in (False, True):
        assert agreement_accuracy(model, beginnings(100, attracted=attracted)) > 0.98


def test_the_number_goes_from_the_subject_to_the_verb_in_layer_1(model: Model) -> None:
    sweep = number_sweep(model, "residual")
    subject, end = 2, 5
    for row, position in enumerate((subject, subject, end)):
        line = sweep.effects[row]
        assert float(line[position]) == pytest.approx(1.0, abs=0.05)
        assert float(line.abs().sum() - line[position].abs()) < 0.05
    clean, corrupt = model.inspect(CLEAN), model.inspect(CORRUPT)
    for head in (0, 1):
        assert float(clean.head(1, head).probs(end)[0, subject]) > 0.9
    target, against = VERB
    by = {
        name: corrupt.patch(f"blocks.1.attn.{name}", source=clean, target=target, against=against).normalised
        for name in "qkv"
    }
    assert by["v"] == pytest.approx(1.0, abs=0.05) and by["q"] == pytest.approx(0.0, abs=0.05)


def test_training_begins_and_tells(model: Model, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(train_agreement(steps=3).losses) == 3
    agreement.tell(model)
    assert "right, nouns of the other number between" in capsys.readouterr().out
