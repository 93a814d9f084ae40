"""Labels of texts: what was said of each row, and the figures of it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from glassformer.data.rows import Rows, read_rows
from glassformer.errors import DataError
from glassformer.tasks.classify.evaluator import ClassifyJudge
from glassformer.tasks.classify.labels import labels_of
from glassformer.tasks.classify.task import Classify
from glassformer.tasks.metrics.bootstrap import intervals
from tests.training.learners import learner

TEXTS = ["time flies", "fruit flies", "an arrow", "a banana works", "time", "an arrow flies at time"] * 4
CLASSES = ["a", "b", "c", "a", "b", "b"] * 4
LABELS: dict[str, list[Any]] = {
    "one": CLASSES,
    "any": [[], ["a"], ["a", "b"], ["c"], [], ["b"]] * 4,
    "number": [0.5, 1.0, 2.25, 3.0, 1.0, 0.0] * 4,
}


def rows_of(labels: list[Any]) -> Rows:
    return read_rows([{"text": text, "label": label} for text, label in zip(TEXTS, labels, strict=True)])


def judge_of(rows: Rows, **options: Any) -> ClassifyJudge:
    return ClassifyJudge(
        Classify(learner("bert", "text-classification", labels_of(rows, "label").config())), **options
    )


@pytest.mark.parametrize("kind", LABELS)
def test_the_figures_are_those_of_the_meter(kind: str) -> None:
    """What a validation adds up pass by pass, from records: the same figures, and the same loss."""
    rows = rows_of(LABELS[kind])
    judge = judge_of(rows)
    records = list(judge.records(rows))
    values = judge.judged(records).values()
    assert judge.METRIC in values
    objective, meter = judge.objective, judge.objective.meter()
    examples = objective.examples(rows)
    item = objective.passed([examples[i] for i in range(len(examples))])
    meter.add(judge.model.network(item.batch, item.flow), item)
    theirs = meter.figures()
    mean = sum(record.loss or 0.0 for record in records) / len(records)
    assert mean == pytest.approx(theirs["loss"], rel=1e-5)
    shared = set(values) & set(theirs)
    assert shared and {name: values[name] for name in shared} == pytest.approx(
        {name: theirs[name] for name in shared}, abs=1e-6
    )


def test_what_a_record_holds() -> None:
    one = next(judge_of(rows_of(CLASSES)).records(rows_of(CLASSES)))
    assert (one.row, one.label, one.where) == ({"text": "time flies"}, "a", "the list: row 0")
    scores = one.details["scores"]
    assert one.said == max(scores, key=scores.__getitem__) and sum(scores.values()) == pytest.approx(1)
    assert one.loss == pytest.approx(-math.log(scores["a"])) and one.right == (one.said == "a")

    many = list(judge_of(rows_of(LABELS["any"])).records(rows_of(LABELS["any"])))[2]
    assert many.label == ["a", "b"] and set(many.details["scores"]) == {"a", "b", "c"}
    assert many.said == [name for name, score in many.details["scores"].items() if score > 0.5]
    number = list(judge_of(rows_of(LABELS["number"])).records(rows_of(LABELS["number"])))[2]
    assert number.right is None and number.loss == pytest.approx((number.said - 2.25) ** 2)


@pytest.mark.parametrize("kind", LABELS)
def test_the_same_score_at_any_batch_size(kind: str) -> None:
    rows = rows_of(LABELS[kind])
    few = rows[:6]  # no text twice: two that share a rank must be alike to the last bit
    found = []
    for tokens in (4, 64, 4_096):
        judge = judge_of(rows, tokens=tokens)
        torch.manual_seed(0)
        with torch.no_grad():  # a fresh network says almost the same of every text
            for weight in judge.model.network.parameters():
                weight += 0.3 * torch.randn_like(weight)
        records = list(judge.records(few))
        found.append((intervals(judge.judged(records), 50), [record.loss for record in records]))
    for figures, losses in found[1:]:
        assert losses == pytest.approx(found[0][1], rel=1e-4, abs=1e-6)
        for name, figure in figures.items():
            assert figure.value == pytest.approx(found[0][0][name].value, rel=1e-4)
            assert figure.low == pytest.approx(found[0][0][name].low, rel=1e-3, abs=1e-5)


def test_labels_that_do_not_match_the_head() -> None:
    judge = judge_of(rows_of(CLASSES))
    with pytest.raises(
        DataError, match=r"row 1: the label 'd' is none of the 3 that the model knows.*a, b, c"
    ):
        list(judge.records(read_rows([{"text": "time", "label": "a"}, {"text": "time", "label": "d"}])))
    with pytest.raises(DataError, match="a class is a text or a whole number"):
        list(judge.records(read_rows([{"text": "time", "label": 0.5}])))
    with pytest.raises(DataError, match="no column 'label'"):
        list(judge.records(read_rows([{"text": "time"}])))


def test_classes_without_rows_are_told() -> None:
    judge = judge_of(rows_of(CLASSES))
    rows = read_rows([{"text": text, "label": "a"} for text in TEXTS])
    records = list(judge.records(rows))
    classes = judge.classes(records)
    assert classes is not None and classes.names == ["a", "b", "c"] and classes.confusion is not None
    assert sum(classes.confusion[0]) == len(TEXTS) and classes.each["b"]["recall"] is None
    assert any(note.startswith("no row is ") for note in judge.notes(records))
