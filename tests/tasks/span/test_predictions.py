"""Answers: the best span of all windows of a row."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.data.rows import RowSequence, read_rows
from glassformer.tasks.span.task import Answer
from tests.training.learners import NUMBER, training_module

LONG = "a banana works . a fruit flies . an arrow flies . time flies like an arrow"
ROWS: list[dict[str, Any]] = [
    {"question": "time ?", "context": "jeff deans works at fruit", "answers": "deans", "answer_start": 5},
    {"question": "an arrow ?", "context": "a banana .", "answers": "", "answer_start": 0},
    {"question": "an ?", "context": LONG, "answers": "arrow", "answer_start": 36},
]


def task_of(tokens: int = 4_096) -> Answer:
    task = Answer(training_module("bert", "question-answering"), max_tokens=14, stride=3)
    return task.for_evaluation(tokens=tokens)


def rows_of() -> RowSequence:
    return read_rows(ROWS)


def plant(task: Answer, monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    """A head that begins and ends its answers at a word, the later in the text the surer, and else says none."""

    def answers(output: Any, item: Any) -> list[tuple[Tensor, Tensor]]:
        found = []
        texts = item.batch.input_ids[0].split(list(item.flow.packing.lengths))
        for index, ids in zip(item.indices, texts, strict=True):
            scores = torch.where(ids == NUMBER[word], 2.0 + index, 0.0)
            scores[0] = 1.0
            found.append((scores, scores))
        return found

    monkeypatch.setattr(task, "unbatch", answers)


def test_the_best_window_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_of()
    assert len(task.encode(rows_of())) > 4  # the last row is several
    plant(task, monkeypatch, "arrow")
    records = list(task.predict(rows_of()))
    assert [record.predicted for record in records] == ["", "", "arrow"]  # not the "arrow" of the question
    assert [record.label for record in records] == [["deans"], [], ["arrow"]]
    assert [record.correct for record in records] == [False, True, True]
    assert task.metrics(records).values() == {"f1": pytest.approx(2 / 3), "exact_match": pytest.approx(2 / 3)}
    assert task.notes(records) == ["1 of 3 questions have no answer"]
    plant(task, monkeypatch, "##s")
    assert [record.predicted for record in task.predict(rows_of())] == ["s", "", ""]


def test_the_same_score_at_any_batch_size() -> None:
    few, many = (list(task_of(tokens).predict(rows_of())) for tokens in (14, 4_096))
    assert [record.predicted for record in few] == [record.predicted for record in many]
    assert [record.loss for record in few] == pytest.approx([record.loss for record in many], rel=1e-4)


def test_baselines_and_progress() -> None:
    task, done = task_of(), []
    records = list(task.predict(rows_of(), done.append))
    assert sum(done) == len(ROWS)
    found = {baseline.name: baseline for baseline in task.baselines(None, records)}
    assert task.metrics(found["no answer"].predictions).values()["exact_match"] == pytest.approx(1 / 3)
    assert found["first sentence"].predictions[0].predicted == ROWS[0]["context"]
    assert all(record.loss is None for record in found["no answer"].predictions)
