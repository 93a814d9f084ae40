"""Masked language models are judged by tokens that are hidden, the same ones each time."""

from __future__ import annotations

import math

import numpy as np
import pytest

from glassformer.data.order import example_generator
from glassformer.data.rows import read_rows
from glassformer.errors import DataError
from glassformer.evaluation.evaluate import evaluate
from glassformer.tasks.masked.task import Masked
from tests.tasks.words import NUMBER, judged, tiny

TEXTS = [
    "time flies like an arrow . fruit flies like a banana .",
    "the bird eats figs",
    "a dog ran home . " * 4,
]
ROWS = read_rows([{"text": text} for text in TEXTS])


def objective(**options: object) -> Masked:
    return Masked(tiny("bert", "fill-mask", "bert"), rate=0.4, **options)  # type: ignore[arg-type]


def test_figures_are_those_of_a_validation_on_the_same_masks() -> None:
    learner = objective(max_tokens=10)  # the long texts go on in further examples
    task = learner.for_evaluation()
    records = list(task.predict(ROWS))
    assert len(records) == len(ROWS) and [r.row["text"] for r in records] == TEXTS
    examples = learner.encode(ROWS)
    seen = [learner.augment(examples[i], example_generator(0, 0, i)) for i in range(len(examples))]
    assert len(seen) > len(ROWS)
    wanted = judged(learner, [learner.collate([example]) for example in seen])
    values = task.metrics(records).values()
    assert values["loss"] == pytest.approx(wanted["loss"], rel=1e-5)
    assert values["perplexity"] == pytest.approx(math.exp(wanted["loss"]), rel=1e-5)
    hidden = sum(int((example["labels"] >= 0).sum()) for example in seen)
    assert sum(len(r.label) for r in records) == hidden
    right = sum(a == b for r in records for a, b in zip(r.label, r.predicted, strict=True))
    assert values["accuracy"] == pytest.approx(right / hidden)
    again = list(task.predict(ROWS))
    assert [r.details for r in again] == [r.details for r in records]


def test_the_most_frequent_token_is_to_be_beaten() -> None:
    task = objective(whole_words=True).for_evaluation()
    found = evaluate("fill", task, ROWS, train=ROWS, resamples=10)
    (unigram,) = task.baselines(ROWS, found.predictions)
    assert {word for record in unigram.predictions for word in record.predicted} == {"."}
    words = " ".join(TEXTS).split()
    loss = -math.log((words.count("flies") + 1) / (len(words) + task.model.network.vocabulary))
    each = [
        loss
        for record in unigram.predictions
        for number, loss in zip(record.details["ids"], record.details["losses"], strict=True)
        if number == NUMBER["flies"]
    ]
    assert np.allclose(each, loss, atol=1e-4)
    assert found.report.metric == "perplexity" and found.report.baselines["unigram"].difference is not None


def test_a_text_too_short_to_hide_anything_is_told() -> None:
    rows = read_rows([{"text": "time flies like an arrow . fruit flies like a banana"}, {"text": ""}])
    task = objective().for_evaluation()
    records = list(task.predict(rows))
    assert records[1].loss is None and records[1].correct is None
    assert task.notes(records) == ["1 texts are too short for a token of theirs to be hidden"]
    with pytest.raises(DataError, match="must not be blank"):
        list(task.predict(rows.select([1])))
