"""Masked language models are judged by tokens that are hidden, the same ones each time."""

from __future__ import annotations

import math

import numpy as np
import pytest

from glassformer.data.order import generator
from glassformer.data.rows import read_rows
from glassformer.errors import DataError
from glassformer.evaluation.evaluate import evaluate
from glassformer.tasks.evaluator import judge_of
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
    judge = judge_of("fill", learner)
    records = list(judge.records(ROWS))
    assert len(records) == len(ROWS) and [r.row["text"] for r in records] == TEXTS
    examples = learner.examples(ROWS)
    seen = [learner.varied(examples[i], generator(0, 0, i)) for i in range(len(examples))]
    assert len(seen) > len(ROWS)
    wanted = judged(learner, [learner.passed([example]) for example in seen])
    values = judge.judged(records).values()
    assert values["loss"] == pytest.approx(wanted["loss"], rel=1e-5)
    assert values["perplexity"] == pytest.approx(math.exp(wanted["loss"]), rel=1e-5)
    hidden = sum(int((example["labels"] >= 0).sum()) for example in seen)
    assert sum(len(r.label) for r in records) == hidden
    right = sum(a == b for r in records for a, b in zip(r.label, r.said, strict=True))
    assert values["accuracy"] == pytest.approx(right / hidden)
    again = list(judge.records(ROWS))
    assert [r.details for r in again] == [r.details for r in records]


def test_the_most_frequent_token_is_to_be_beaten() -> None:
    judge = judge_of("fill", objective(whole_words=True))
    found = evaluate("fill", judge, ROWS, train=ROWS, resamples=10)
    (unigram,) = judge.baselines(ROWS, found.records)
    assert {word for record in unigram.records for word in record.said} == {"."}
    words = " ".join(TEXTS).split()
    loss = -math.log((words.count("flies") + 1) / (len(words) + judge.model.network.vocabulary))
    each = [
        loss
        for record in unigram.records
        for number, loss in zip(record.details["ids"], record.details["losses"], strict=True)
        if number == NUMBER["flies"]
    ]
    assert np.allclose(each, loss, atol=1e-4)
    assert found.report.metric == "perplexity" and found.report.baselines["unigram"].difference is not None


def test_a_text_too_short_to_hide_anything_is_told() -> None:
    rows = read_rows([{"text": "time flies like an arrow . fruit flies like a banana"}, {"text": ""}])
    judge = judge_of("fill", objective())
    records = list(judge.records(rows))
    assert records[1].loss is None and records[1].right is None
    assert judge.notes(records) == ["1 texts are too short for a token of theirs to be hidden"]
    with pytest.raises(DataError, match="must not be blank"):
        list(judge.records(rows.select([1])))
