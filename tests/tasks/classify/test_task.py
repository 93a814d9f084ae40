"""Texts and pairs of texts with labels: from rows to losses and figures."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer
from glassformer.data.rows import RowSequence, read_rows
from glassformer.errors import ConfigError, DataError
from glassformer.tasks.classify.task import Classify, labels_of
from tests.tasks.word_pieces import CLS, NUMBER, SEP, check_passes, families_for, tiny_model
from tests.tasks.words import Listed

HEAD = "text-classification"
TEXTS = ["time flies like an arrow", "fruit flies", "a banana . deans", "an arrow", "time", "a banana"]
LABELS: dict[str, list[Any]] = {
    "single": ["b", "a", "b", "c", "c", "a"],
    "multi": [["b"], ["a", "b"], [], ["c"], ["c", "a"], []],
    "regression": [0.5, 3.25, 1, 0, 2, 5],
}


def rows_of(problem: str = "single", **columns: list[str]) -> RowSequence:
    table = {"text": TEXTS, "label": LABELS[problem], **columns}
    return read_rows([dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)])


def classifier(family: str = "bert", rows: RowSequence | None = None, **options: Any) -> Classify:
    rows = rows or rows_of()
    return Classify(tiny_model(family, HEAD, labels_of(rows, "label").config(), **options))


@pytest.mark.parametrize("family", families_for(HEAD))
def test_every_family_learns_labels_packed_or_padded(family: str) -> None:
    rows = rows_of()
    objective = classifier(family, rows)
    check_passes(objective, objective.encode(rows))
    assert objective.packs == (family not in ("bart", "t5"))


@pytest.mark.parametrize("packs", [True, False])
@pytest.mark.parametrize("problem", ["multi", "regression"])
@pytest.mark.parametrize("family", ["bert", "gpt2", "bart"])
def test_kinds_of_labels_in_both_layouts(family: str, problem: str, packs: bool) -> None:
    rows = rows_of(problem, text_pair=TEXTS[::-1])
    objective = classifier(family, rows)
    objective.packs &= packs
    check_passes(objective, objective.encode(rows))
    assert {"multi": "f1_micro", "regression": "pearson"}[problem] == objective.VALIDATION_METRIC


def test_what_an_example_is() -> None:
    rows = rows_of()
    example = classifier(rows=rows).encode(rows)[2]
    words = "[CLS] a banana . dean ##s [SEP]".split()
    assert example["input_ids"].tolist() == [NUMBER[word] for word in words]
    assert example["labels"] == 1
    assert set(example) == {"input_ids", "labels"}


def test_what_an_example_of_a_pair_is() -> None:
    rows = rows_of(second=["time flies"] * 6)
    objective = Classify(
        tiny_model("bert", HEAD, labels_of(rows, "label").config()),
        columns={"text_pair": "second"},
        max_tokens=6,
    )
    with pytest.warns(UserWarning, match="5 of 6 pairs of texts were cut to 6 tokens"):
        examples = objective.encode(rows)
    first, flies, second = NUMBER["time"], NUMBER["flies"], NUMBER["time"]
    assert examples[0]["input_ids"].tolist() == [CLS, first, flies, SEP, second, SEP]
    assert examples[4]["input_ids"].tolist() == [CLS, first, SEP, second, flies, SEP]
    assert examples[4]["token_type_ids"].tolist() == [0, 0, 0, 1, 1, 1]
    item = objective.collate([examples[4], examples[5]])
    assert item.batch.token_type_ids is not None and item.batch.token_type_ids.shape == (1, 12)


def test_a_pair_is_read_where_rows_have_one() -> None:
    rows = rows_of(text_pair=["time flies"] * 6)
    assert len(classifier(rows=rows).encode(rows)[4]["input_ids"]) == 6
    assert len(classifier(rows=rows_of()).encode(rows_of())[4]["input_ids"]) == 3
    learned = classifier(rows=rows)
    learned.encode(rows)
    with pytest.raises(DataError, match="there is no column 'text_pair'"):
        learned.encode(rows_of())  # the other part, in which there is no pair
    objective = Classify(tiny_model("bert", HEAD, labels_of(rows, "label").config()), columns={"text_pair": "second"})
    with pytest.raises(DataError, match="there is no column 'second'; there are: 'text', 'label', 'text_pair'"):
        objective.encode(rows)
    with pytest.raises(ConfigError, match="no column for 'txt'; nearest: 'text'"):
        Classify(objective.model, columns={"txt": "text"})
    assert objective.columns_read() == {"text": "text", "text_pair": "second", "label": "label"}


def test_empty_texts_are_counted() -> None:
    rows: Any = Listed(*({"text": text, "label": label} for text, label in (("time", "a"), ("", "b"), (" \n", "a"))))
    with pytest.warns(
        UserWarning, match=r"^2 of 3 rows have an empty text, the first rows.csv: line 3; leave them out"
    ):
        examples = classifier(rows=rows).encode(rows)
    assert len(examples) == 3


def test_texts_that_were_cut_are_counted() -> None:
    rows = rows_of()
    objective = classifier(rows=rows, limit=5)
    with pytest.warns(UserWarning, match="2 of 6 texts were cut to 5 tokens"):
        examples = objective.encode(rows)
    assert examples.lengths.max() == 5 and examples[0]["input_ids"][-1] == SEP


def test_a_label_only_another_part_has(tmp_path: Path) -> None:
    (tmp_path / "test.csv").write_text("text,label\na,a\ntime,d\n")
    with pytest.raises(DataError, match=r"test\.csv: line 3: the label 'd' is none of the 3 .*: a, b, c"):
        classifier().encode(read_rows(tmp_path / "test.csv"))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": 3, "label": "a"}, "row 0: 'text' is 3; it must be a text"),
        ({"text": "a", "label": None}, "row 0: the label is empty; write one"),
    ],
)
def test_rows_without_a_text_or_label(row: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        classifier().encode(read_rows([row]))


def test_a_text_without_a_token() -> None:
    rows = read_rows([{"text": "a", "label": "a"}, {"text": "", "label": "b"}])
    with pytest.raises(DataError, match="row 1: the text '' has no token"):
        classifier("gpt2", framed=False).encode(rows)


def test_the_first_token_is_made_for_the_head() -> None:
    """A classifier that reads the first token reads [CLS], and says so where it would be a word."""
    with pytest.warns(UserWarning, match="should be '\\[CLS\\]', and this tokenizer does not put it there"):
        classifier(framed=False).encode(rows_of())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classifier().encode(rows_of())
        classifier("gpt2", framed=False).encode(rows_of())  # it reads the last


def test_whole_numbers_are_no_yes_or_no() -> None:
    objective = classifier(rows=rows_of("multi"))
    item = objective.collate([objective.encode(rows_of("multi"))[0]])
    assert item.labels.dtype == torch.float32  # type: ignore[union-attr]
    with pytest.raises(DataError, match=r"a multi problem needs floats: labels\.float\(\)"):
        objective.model.network.loss_sums(item.batch, item.flow, item.labels.long())  # type: ignore[union-attr]


def test_examples_are_kept_and_made_anew_where_they_would_be_others(tmp_path: Path) -> None:
    rows = rows_of()
    first = classifier(rows=rows).encode(rows, cache=tmp_path)
    again = classifier(rows=rows).encode(rows, cache=tmp_path)
    assert again.fingerprint == first.fingerprint and len(list(tmp_path.iterdir())) == 1
    with pytest.warns(UserWarning, match="were cut"):
        other = classifier(rows=rows, limit=5).encode(rows, cache=tmp_path)
    assert other.fingerprint != first.fingerprint and len(list(tmp_path.iterdir())) == 2


def test_a_saved_folder_knows_its_labels(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="the reference: pip install transformers")
    objective = classifier()
    objective.model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["id2label"] == {"0": "a", "1": "b", "2": "c"}
    again = Classify(glassformer.load(tmp_path))
    assert again.kind.names == ("a", "b", "c") and type(again.kind) is type(objective.kind)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert theirs.config.id2label == {0: "a", 1: "b", 2: "c"}
    assert theirs.config.problem_type == "single_label_classification"
    assert theirs.num_labels == 3


def test_the_checkpoints_own_head_keeps_its_names() -> None:
    model = tiny_model("bert", HEAD, {"id2label": {"0": "NEGATIVE", "1": "POSITIVE"}})
    rows = read_rows([{"text": "a", "label": 1}, {"text": "time", "label": 0}])
    assert [example["labels"] for example in Classify(model).encode(rows)] == [1, 0]


def test_a_model_for_another_task() -> None:
    with pytest.raises(ConfigError, match="was loaded for 'feature-extraction'; load it with task='text-cl"):
        Classify(tiny_model("bert", "feature-extraction"))


@pytest.mark.parametrize("problem", ["single", "multi", "regression"])
def test_training_learns_the_rows_by_heart(problem: str) -> None:
    rows = rows_of(problem)
    objective = classifier(rows=rows, initializer_range=0.3)
    item = objective.collate([objective.encode(rows)[i] for i in range(6)])
    network = objective.model.network
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    size = objective.head.label_counts(item.labels)["loss"]
    figures = []
    for step in range(61):
        if step in (0, 60):
            metric = objective.metric()
            with torch.no_grad():
                metric.update(network(item.batch, item.flow), item)
            figures.append(metric.compute())
        (loss,) = network.loss_sums(item.batch, item.flow, item.labels).values()
        gradients = torch.autograd.grad(loss / size, weights, allow_unused=True)
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients, strict=True):
                if gradient is not None:
                    weight -= 0.03 * (1 - step / 60) * gradient.sign()
    assert figures[1]["loss"] < 0.5 * figures[0]["loss"]
    assert figures[1][objective.VALIDATION_METRIC] > max(0.9, figures[0][objective.VALIDATION_METRIC])


def test_labels_that_differ_in_spelling_alone_are_warned_of() -> None:
    labels = ["joy", "joy ", "joy ", "sad", "sad"]
    rows = [{"text": str(number), "label": label} for number, label in enumerate(labels)]
    with pytest.warns(
        UserWarning,
        match="differ only in case, white space or the form of characters.*'joy ' and 'joy'.*--set 'data.rename=",
    ):
        labels_of(read_rows(rows), "label")
