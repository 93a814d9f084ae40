"""Labels of texts: what was said of each row, and the figures of it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from glassformer.data.rows import RowSequence, read_rows
from glassformer.errors import DataError
from glassformer.tasks.classify.task import Classify, labels_of
from glassformer.tasks.metrics.metric import intervals
from glassformer.tasks.microbatch import run_examples
from tests.tasks.word_pieces import check_scores, tiny_model

TEXTS = ["time flies", "fruit flies", "an arrow", "a banana works", "time", "an arrow flies at time"] * 4
CLASSES = ["a", "b", "c", "a", "b", "b"] * 4
LABELS: dict[str, list[Any]] = {
    "one": CLASSES,
    "any": [[], ["a"], ["a", "b"], ["c"], [], ["b"]] * 4,
    "number": [0.5, 1.0, 2.25, 3.0, 1.0, 0.0] * 4,
}


def rows_of(labels: list[Any]) -> RowSequence:
    return read_rows([{"text": text, "label": label} for text, label in zip(TEXTS, labels, strict=True)])


def task_of(rows: RowSequence, **options: Any) -> Classify:
    task = Classify(tiny_model("bert", "text-classification", labels_of(rows, "label").config()))
    return task.for_evaluation(**options)


@pytest.mark.parametrize("kind", LABELS)
def test_the_figures_are_those_of_the_meter(kind: str) -> None:
    """What a validation adds up pass by pass, from records: the same figures, and the same loss."""
    rows = rows_of(LABELS[kind])
    check_scores(task_of(rows), rows)


def test_what_a_record_holds() -> None:
    one = next(task_of(rows_of(CLASSES)).predict(rows_of(CLASSES)))
    assert (one.row, one.label, one.where) == ({"text": "time flies"}, "a", "the list: row 0")
    scores = one.details["scores"]
    assert one.predicted == max(scores, key=scores.__getitem__) and sum(scores.values()) == pytest.approx(1)
    assert one.loss == pytest.approx(-math.log(scores["a"])) and one.correct == (one.predicted == "a")

    many = list(task_of(rows_of(LABELS["any"])).predict(rows_of(LABELS["any"])))[2]
    assert many.label == ["a", "b"] and set(many.details["scores"]) == {"a", "b", "c"}
    assert many.predicted == [name for name, score in many.details["scores"].items() if score > 0.5]
    number = list(task_of(rows_of(LABELS["number"])).predict(rows_of(LABELS["number"])))[2]
    assert number.correct is None and number.loss == pytest.approx((number.predicted - 2.25) ** 2)


@pytest.mark.parametrize("kind", LABELS)
def test_the_same_score_at_any_batch_size(kind: str) -> None:
    rows = rows_of(LABELS[kind])
    few = rows[:6]  # no text twice: two that share a rank must be alike to the last bit
    found = []
    for tokens in (4, 64, 4_096):
        task = task_of(rows, tokens=tokens)
        torch.manual_seed(0)
        with torch.no_grad():  # a fresh network says almost the same of every text
            for weight in task.model.network.parameters():
                weight += 0.3 * torch.randn_like(weight)
        records = list(task.predict(few))
        found.append((intervals(task.metrics(records), 50), [record.loss for record in records]))
    for figures, losses in found[1:]:
        assert losses == pytest.approx(found[0][1], rel=1e-4, abs=1e-6)
        for name, figure in figures.items():
            assert figure.value == pytest.approx(found[0][0][name].value, rel=1e-4)
            assert figure.low == pytest.approx(found[0][0][name].low, rel=1e-3, abs=1e-5)


def test_labels_that_do_not_match_the_head() -> None:
    task = task_of(rows_of(CLASSES))
    with pytest.raises(DataError, match=r"row 1: the label 'd' is none of the 3 that the model knows.*a, b, c"):
        list(task.predict(read_rows([{"text": "time", "label": "a"}, {"text": "time", "label": "d"}])))
    with pytest.raises(DataError, match="a class is a text or a whole number"):
        list(task.predict(read_rows([{"text": "time", "label": 0.5}])))
    with pytest.raises(DataError, match="no column 'label'"):
        list(task.predict(read_rows([{"text": "time"}])))


def test_classes_without_rows_are_told() -> None:
    task = task_of(rows_of(CLASSES))
    rows = read_rows([{"text": text, "label": "a"} for text in TEXTS])
    records = list(task.predict(rows))
    classes = task.metrics(records).report()
    assert classes is not None and classes.names == ["a", "b", "c"] and classes.confusion is not None
    assert sum(classes.confusion[0]) == len(TEXTS) and classes.scores["b"]["recall"] is None
    assert any(note.startswith("no row is ") for note in task.metrics(records).notes())


@pytest.mark.parametrize("kind", ["one", "any"])
def test_a_pipeline_answers_what_a_report_scores(kind: str) -> None:
    """Of several labels none, too, where none is above the threshold."""
    from glassformer.tasks.pipeline_registry import pipeline

    rows = rows_of(LABELS[kind])
    task = task_of(rows)
    torch.manual_seed(3)
    with torch.no_grad():
        for weight in task.model.network.parameters():
            weight += 0.5 * torch.randn_like(weight)
        logits = torch.stack(list(run_examples(task, task.encode(rows))))
        task.head.classifier.bias -= logits.quantile(0.7, dim=0)  # each label holds for a few texts
    predicted = [x.predicted for x in task.predict(rows)]
    answers = pipeline("text-classification", task.model)(TEXTS)
    labels = [[result.label for result in answer] for answer in answers]
    if kind == "one":
        assert labels == [[label] for label in predicted]
    else:
        assert [sorted(each) for each in labels] == predicted and [] in predicted
