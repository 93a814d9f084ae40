"""Tags of words: every word is evaluated, also one that the model never saw."""

from __future__ import annotations

from typing import Any

import pytest

from glassformer.data.rows import RowSequence, read_rows
from glassformer.errors import DataError
from glassformer.tasks.tag.task import Tag, tags_of
from glassformer.tasks.types import Prediction
from tests.tasks.word_pieces import check_scores, tiny_model

ENTITIES = [("jeff deans works at time .", "B-PER I-PER O O B-ORG O"), ("an arrow", "O O"), ("time", "B-ORG")]
SPEECH = [("jeff works at fruit", "noun verb at noun"), ("time flies .", "noun verb point")]


def rows_of(sentences: list[tuple[str, str]]) -> RowSequence:
    return read_rows([{"tokens": words.split(), "tags": tags.split()} for words, tags in sentences])


def task_of(rows: RowSequence, tokens: int = 4_096, **options: Any) -> Tag:
    task = Tag(tiny_model("bert", "token-classification", tags_of(rows).config()), **options)
    return task.for_evaluation(tokens=tokens)


@pytest.mark.parametrize("sentences", [ENTITIES, SPEECH])
def test_the_figures_are_those_of_the_meter(sentences: list[tuple[str, str]]) -> None:
    rows = rows_of(sentences)
    records = check_scores(task_of(rows), rows)
    assert records[0].row == {"tokens": sentences[0][0].split()}


def test_the_same_score_at_any_batch_size() -> None:
    rows = rows_of(ENTITIES * 5)
    few, many = (list(task_of(rows, tokens).predict(rows)) for tokens in (8, 4_096))
    assert [record.predicted for record in few] == [record.predicted for record in many]
    assert [record.loss for record in few] == pytest.approx([record.loss for record in many], rel=1e-4)


def test_words_that_were_cut_off_count() -> None:
    """Of six words, whose second has two tokens, five tokens see the first two: "[CLS] jeff dean ##s [SEP]"."""
    rows = rows_of(ENTITIES)
    task = task_of(rows, max_tokens=5)
    with pytest.warns(UserWarning, match="were cut to 5 tokens"):
        records = list(task.predict(rows))
    assert [loss is None for loss in records[0].details["losses"]] == [False, False, True, True, True, True]
    assert records[0].predicted[2:] == ["O"] * 4 and records[0].correct is False
    assert "4 of 9 words were cut off, or have no token; each counts as 'O'" in task.notes(records)
    assert task.metrics(records).values()["recall"] <= 2 / 3  # the B-ORG of the first row is missed

    rows = rows_of(SPEECH)
    task = task_of(rows, max_tokens=4)
    with pytest.warns(UserWarning, match="were cut"):
        records = list(task.predict(rows))
    seen = [tag for record in records for tag in record.predicted[:2]]
    assert set(records[0].predicted[2:]) == {max(task.kind.names, key=seen.count)}
    assert any("the tag that was predicted most often" in note for note in task.notes(records))


def test_types_and_what_was_taken_for_what() -> None:
    task = task_of(rows_of(ENTITIES))
    said = [["B-PER", "O", "O", "O", "B-ORG", "O"], ["O", "O"], ["O"]]
    records = [
        Prediction(index=i, where=f"row {i}", row={"tokens": words.split()}, label=tags.split(), predicted=tags_said)
        for i, ((words, tags), tags_said) in enumerate(zip(ENTITIES, said, strict=True))
    ]
    classes = task.metrics(records).report()
    assert classes.names == ["O", "B-ORG", "B-PER", "I-PER"]
    assert classes.confusion == [[5, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 0]]
    assert classes.scores["ORG"] == {"precision": 1, "recall": 0.5, "f1": pytest.approx(2 / 3), "support": 2}
    assert classes.scores["PER"]["f1"] == 0  # its first word is no entity
    assert task.metrics(records).values()["f1"] == pytest.approx(2 / 5)


def test_records_that_do_not_fit() -> None:
    task = task_of(rows_of(ENTITIES))
    for label, said, message in (
        (["O"], ["O", "O"], "1 tags are true, and 2 were predicted"),
        (["O"], ["B-X"], "'B-X' is none"),
    ):
        with pytest.raises(DataError, match=message):
            task.metrics([Prediction(index=0, where="row 0", row={}, label=label, predicted=said)])
    with pytest.raises(DataError, match="'B-LOC' is none of the 4 that the model knows"):
        list(task.predict(rows_of([("time", "B-LOC")])))
