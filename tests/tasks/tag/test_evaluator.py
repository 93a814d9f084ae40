"""Tags of words: every word is judged, also one that the model never saw."""

from __future__ import annotations

from typing import Any

import pytest

from glassformer.data.rows import Rows, read_rows
from glassformer.errors import DataError
from glassformer.tasks.predictions import Record
from glassformer.tasks.tag.evaluator import TagJudge
from glassformer.tasks.tag.task import Tag, tags_of
from tests.training.learners import learner

ENTITIES = [("jeff deans works at time .", "B-PER I-PER O O B-ORG O"), ("an arrow", "O O"), ("time", "B-ORG")]
SPEECH = [("jeff works at fruit", "noun verb at noun"), ("time flies .", "noun verb point")]


def rows_of(sentences: list[tuple[str, str]]) -> Rows:
    return read_rows([{"tokens": words.split(), "tags": tags.split()} for words, tags in sentences])


def judge_of(rows: Rows, tokens: int = 4_096, **options: Any) -> TagJudge:
    return TagJudge(
        Tag(learner("bert", "token-classification", tags_of(rows).config()), **options), tokens=tokens
    )


@pytest.mark.parametrize("sentences", [ENTITIES, SPEECH])
def test_the_figures_are_those_of_the_meter(sentences: list[tuple[str, str]]) -> None:
    rows = rows_of(sentences)
    judge = judge_of(rows)
    records = list(judge.records(rows))
    values = judge.judged(records).values()
    objective, meter = judge.objective, judge.objective.meter()
    examples = objective.examples(rows)
    item = objective.passed([examples[i] for i in range(len(examples))])
    meter.add(judge.model.network(item.batch, item.flow), item)
    theirs = meter.figures()
    losses = [loss for record in records for loss in record.details["losses"]]
    assert sum(losses) / len(losses) == pytest.approx(theirs["loss"], rel=1e-5)
    shared = set(values) & set(theirs)
    assert shared and {name: values[name] for name in shared} == pytest.approx(
        {name: theirs[name] for name in shared}, abs=1e-6
    )
    assert judge.METRIC in values and records[0].row == {"tokens": sentences[0][0].split()}


def test_the_same_score_at_any_batch_size() -> None:
    rows = rows_of(ENTITIES * 5)
    few, many = (list(judge_of(rows, tokens).records(rows)) for tokens in (8, 4_096))
    assert [record.said for record in few] == [record.said for record in many]
    assert [record.loss for record in few] == pytest.approx([record.loss for record in many], rel=1e-4)


def test_words_that_were_cut_off_count() -> None:
    """Of six words, whose second has two tokens, five tokens see the first two: "[CLS] jeff dean ##s [SEP]"."""
    rows = rows_of(ENTITIES)
    judge = judge_of(rows, max_tokens=5)
    with pytest.warns(UserWarning, match="were cut to 5 tokens"):
        records = list(judge.records(rows))
    assert [loss is None for loss in records[0].details["losses"]] == [False, False, True, True, True, True]
    assert records[0].said[2:] == ["O"] * 4 and records[0].right is False
    assert "4 of 9 words were cut off, or have no token; each counts as 'O'" in judge.notes(records)
    assert judge.judged(records).values()["recall"] <= 2 / 3  # the B-ORG of the first row is missed

    rows = rows_of(SPEECH)
    judge = judge_of(rows, max_tokens=4)
    with pytest.warns(UserWarning, match="were cut"):
        records = list(judge.records(rows))
    seen = [tag for record in records for tag in record.said[:2]]
    assert set(records[0].said[2:]) == {max(dict.fromkeys(seen), key=seen.count)}
    assert any("the tag that was said most often" in note for note in judge.notes(records))


def test_types_and_what_was_taken_for_what() -> None:
    judge = judge_of(rows_of(ENTITIES))
    said = [["B-PER", "O", "O", "O", "B-ORG", "O"], ["O", "O"], ["O"]]
    records = [
        Record(index=i, where=f"row {i}", row={"tokens": words.split()}, label=tags.split(), said=tags_said)
        for i, ((words, tags), tags_said) in enumerate(zip(ENTITIES, said, strict=True))
    ]
    classes = judge.classes(records)
    assert classes.names == ["O", "B-ORG", "B-PER", "I-PER"]
    assert classes.confusion == [[5, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 0]]
    assert classes.each["ORG"] == {"precision": 1, "recall": 0.5, "f1": pytest.approx(2 / 3), "support": 2}
    assert classes.each["PER"]["f1"] == 0  # its first word is no entity
    assert judge.judged(records).values()["f1"] == pytest.approx(2 / 5)


def test_records_that_do_not_fit() -> None:
    judge = judge_of(rows_of(ENTITIES))
    for label, said, message in (
        (["O"], ["O", "O"], "1 tags are true, and 2 were said"),
        (["O"], ["B-X"], "'B-X' is none"),
    ):
        with pytest.raises(DataError, match=message):
            judge.judged([Record(index=0, where="row 0", row={}, label=label, said=said)])
    with pytest.raises(DataError, match="'B-LOC' is none of the 4 that the model knows"):
        list(judge.records(rows_of([("time", "B-LOC")])))
