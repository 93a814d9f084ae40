"""TAPAS learns cells and operators: the reference's labels and loss, a run from the command line that overfits."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glassformer
from glassformer.data.rows import read_rows
from glassformer.errors import ConfigError, DataError
from glassformer.runs.config import TrainingOptions
from glassformer.tasks.table_cells import OPERATORS, AnswerTable, cells_of, word_match
from glassformer.text.tables.table import TextTable
from glassformer.training.trainer import Trainer
from tests.cli.conftest import run_here
from tests.e2e.tiny_models import make_folder
from tests.tasks.resumed import assert_resumes

TABLE = {"fruit": ["banana", "arrow", "time"], "a": ["flies", "like", "an"]}
ROWS = [
    {"question": f"like {asked}", "table": TABLE, "cells": [[row, 1 - column]], "operator": operator}
    for row in range(3)
    for column, asked, operator in ((0, TABLE["fruit"][row], "COUNT"), (1, f"a {TABLE['a'][row]}", None))
] + [
    {"question": "fruit fruit", "table": TABLE, "cells": [[0, 0], [1, 0], [2, 0]], "operator": "SUM"},
    {"question": "a", "table": TABLE, "cells": [[0, 1], [2, 1]], "operator": "SUM"},
]
CELLS = [{key: value for key, value in row.items() if key != "operator"} for row in ROWS]


def tapas(folder: Path, **changes: Any) -> Path:
    sizes = {"hidden_size": 32, "intermediate_size": 48, "max_position_embeddings": 32, "num_hidden_layers": 2}
    make_folder(folder, "tapas", task="table-question-answering", **{"num_aggregation_labels": 0, **sizes, **changes})
    settings = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tapas(tmp_path / "tapas")


WITH_OPERATORS = {
    "num_aggregation_labels": 4,
    "aggregation_labels": {str(number): name for number, name in enumerate(OPERATORS)},
    "no_aggregation_label_index": 0,
}


def perturbed(folder: Path) -> glassformer.Model:
    model = glassformer.load(folder, task="answer-table")
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    return glassformer.load(folder, task="answer-table")


@pytest.mark.parametrize("head", ["one column", "all columns", "operators"])
def test_the_loss_and_its_gradients_are_the_references(head: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    changes = {"one column": {}, "all columns": {"select_one_column": False}, "operators": WITH_OPERATORS}[head]
    folder = tapas(tmp_path / "tapas", **changes)
    task, rows = AnswerTable(perturbed(folder)), read_rows(ROWS if head == "operators" else CELLS)
    reference = transformers.TapasForQuestionAnswering.from_pretrained(folder).eval()
    examples = task.encode(rows)
    trainer = Trainer(task.model, task, TrainingOptions(steps=1), train=examples, validation=examples)
    trainer.network.eval()
    batch = task.collate([examples[i] for i in range(len(rows))])
    assert batch.flow.keep is not None and not bool(batch.flow.keep.all())  # tables of unequal length
    labels = batch.labels if isinstance(batch.labels, dict) else {"labels": batch.labels}
    given = {"input_ids": batch.batch.input_ids, "token_type_ids": batch.batch.token_type_ids}
    labels = {**labels, "labels": labels["labels"].float()}  # which the reference needs without one column
    theirs = reference(**given, **labels, attention_mask=batch.flow.keep[:, 0].long()).loss
    theirs.backward()
    loss, _ = trainer.gradients.accumulate([batch])
    assert loss == pytest.approx(float(theirs.detach()), rel=1e-5)
    assert trainer.validate()["loss"] == pytest.approx(loss, rel=1e-5)
    for ours, name in (("head.token.weight", "output_weights"), ("head.column.weight", "column_output_weights")):
        theirs_gradient = reference.get_parameter(name).grad
        if theirs_gradient is not None:  # without one column, those of columns have none
            gradient = trainer.network.get_parameter(ours).grad
            torch.testing.assert_close(gradient, theirs_gradient, rtol=1e-4, atol=1e-6)


def test_the_labels_are_the_references(folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    pandas = pytest.importorskip("pandas")
    words = "[PAD] [CLS] [SEP] [UNK] time flies like an arrow fruit a banana . [EMPTY]".split()
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    reader = transformers.TapasTokenizer(str(folder / "vocab.txt"))
    examples = AnswerTable(glassformer.load(folder, task="answer-table")).encode(read_rows(CELLS))
    for row, example in zip(CELLS, examples, strict=True):
        places = [tuple(cell) for cell in row["cells"]]
        texts = [TABLE[list(TABLE)[c]][r] for r, c in places]
        theirs = reader(
            table=pandas.DataFrame(TABLE), queries=[row["question"]], answer_coordinates=[places], answer_text=[texts]
        )
        assert theirs["labels"][0] == example["labels"].tolist()
        assert theirs["token_type_ids"][0] == example["token_type_ids"].tolist()


@pytest.mark.parametrize("operators", [False, True])
def test_from_a_file_to_a_report(operators: bool, folder: Path, tmp_path: Path, capsys: Any) -> None:
    """Trained by the command line until each question has its cells; a new head of operators where rows name them."""
    table, run = tmp_path / "questions.jsonl", tmp_path / "run"
    table.write_text("".join(json.dumps(row) + "\n" for row in (ROWS if operators else CELLS)))
    given = ("--task", "answer-table", "--model", folder, "--data", table, "--validation", table, "--output", run)
    given += ("--steps", "250", "--batch-size", "8", "--lr", "3e-3", "--set", "training.schedule=constant")
    given += ("--set", "training.validate_every=250", "--set", "training.save_every=250")
    done = run_here(capsys, "train", *given)
    assert done.returncode == 0, done.stderr
    report = json.loads((run / "evaluation" / "validation" / "report.json").read_text("utf-8"))
    assert report["metrics"]["exact_match"]["value"] == 1.0 and report["metrics"]["cell_f1"]["value"] == 1.0
    assert ("operator_accuracy" in report["metrics"]) == operators
    assert report["baselines"]["word match"]["metrics"]["exact_match"]["value"] < 1.0
    done = run_here(capsys, "errors", run, "--json")
    assert json.loads(done.stdout)["label_kind"] == "texts"
    ask = glassformer.pipeline("table-question-answering", glassformer.load(run))
    for row in ROWS:
        answer = ask(table=TABLE, query=row["question"])
        assert [list(cell) for cell in answer.coordinates] == row["cells"]
        assert answer.get("aggregator") == ((row["operator"] or "NONE") if operators else None)


def test_each_method_of_the_trainer(folder: Path, tmp_path: Path) -> None:
    task, rows = AnswerTable(glassformer.load(folder, task="answer-table")), read_rows(CELLS)
    examples = task.encode(rows)
    options = TrainingOptions(epochs=2, batch_size=4, learning_rate=1e-2)
    trainer = Trainer(task.model, task, options, train=examples, validation=examples, folder=tmp_path / "run")
    assert set(trainer.validate()) == {"loss", "exact_match", "cell_precision", "cell_recall", "cell_f1"}
    assert trainer.train_step().loss > 0
    trainer.train_epoch()
    assert trainer.state.step == 2
    assert [len(logits) for logits, _, _ in trainer.predict(examples)] == examples.lengths.tolist()
    assert_resumes(lambda: AnswerTable(glassformer.load(folder, task="answer-table")), rows, tmp_path)


def test_predictions_are_those_of_validation_and_of_any_batch_size(tmp_path: Path) -> None:
    task, rows = AnswerTable(perturbed(tapas(tmp_path / "tapas", **WITH_OPERATORS))), read_rows(ROWS)
    one, all_ = (list(task.for_evaluation(tokens=tokens).predict(rows)) for tokens in (1, 4_096))
    for a, b in zip(one, all_, strict=True):
        assert (a.predicted, a.details) == (b.predicted, b.details)
        assert a.loss == pytest.approx(b.loss, abs=1e-5)
    examples = task.encode(rows)
    validated = Trainer(task.model, task, TrainingOptions(steps=1), train=examples, validation=examples).validate()
    evaluated = task.metrics(one).values()
    assert {name: validated[name] for name in evaluated} == pytest.approx(evaluated)
    assert validated["loss"] == pytest.approx(np.mean([x.loss for x in one]), rel=1e-5)


def test_tables_in_files_and_cells_as_text(folder: Path, tmp_path: Path) -> None:
    """The forms of SQA: a CSV file for each table, and coordinates as a text."""
    with (tmp_path / "fruit.csv").open("w", newline="") as file:
        csv.writer(file).writerows([list(TABLE), *zip(*TABLE.values(), strict=True)])
    with (tmp_path / "questions.tsv").open("w", newline="") as file:
        table = csv.writer(file, delimiter="\t")
        table.writerow(["question", "table", "cells"])
        table.writerow(["fruit", "fruit.csv", "['(0, 0)', '(2, 0)']"])
    task = AnswerTable(glassformer.load(folder, task="answer-table"))
    (ours,) = task.encode(read_rows(tmp_path / "questions.tsv"))
    (plain,) = task.encode(read_rows([{"question": "fruit", "table": TABLE, "cells": [[0, 0], [2, 0]]}]))
    assert all(np.array_equal(ours[name], plain[name]) for name in plain)
    with pytest.raises(DataError, match=r"questions\.tsv.*lies outside the folder"):
        table_file = tmp_path / "within" / "questions.tsv"
        table_file.parent.mkdir()
        table_file.write_text((tmp_path / "questions.tsv").read_text().replace("fruit.csv", "../fruit.csv"))
        task.encode(read_rows(table_file))


def test_the_baseline_takes_the_column_and_rows_of_the_questions_words() -> None:
    class Row:
        question, table = "which fruit has Arrow", TextTable.of(TABLE)

    assert word_match(Row) == {(1, 0)}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"cells": [[3, 0]]}, "names row 3, column 0; the table has rows 0 to 2"),
        ({"cells": [[0]]}, r"must be a list of \[row, column\]"),
        ({"cells": "row 1"}, r"must be a list of \[row, column\]"),
        ({"cells": "(0, 1), (2"}, r"must be a list of \[row, column\]"),
        ({"cells": None}, r"must be a list of \[row, column\]"),
        ({"cells": []}, "this model always selects a column.*allow_empty_column_selection"),
        ({"table": {"a": ["1"], "b": []}}, "the columns of a table have as many cells each"),
        ({"table": 3}, "the table is 3; a table is a dict"),
        ({"table": {"a": ["time"] * 9}, "cells": [[0, 0]]}, "the table has 9 rows, and the model tells 4 apart"),
        ({"question": None}, "'question' is None; it must be a text"),
        ({"table": "none.csv"}, r"none\.csv"),
    ],
)
def test_what_is_refused(folder: Path, given: dict[str, Any], message: str) -> None:
    task = AnswerTable(glassformer.load(folder, task="answer-table"))
    with pytest.raises(DataError, match=rf"row 0.*{message}"):
        task.encode(read_rows([{**CELLS[0], **given}]))


def test_operators_that_the_model_does_not_have(tmp_path: Path) -> None:
    task = AnswerTable(glassformer.load(tapas(tmp_path / "tapas", **WITH_OPERATORS), task="answer-table"))
    with pytest.raises(DataError, match="'operator' is 'MEAN'; the model has: NONE, SUM, AVERAGE, COUNT"):
        task.encode(read_rows([{**ROWS[0], "operator": "MEAN"}]))
    with pytest.raises(DataError, match="there is no column 'operator'"):
        task.encode(read_rows(CELLS))
    bert = glassformer.load(make_folder(tmp_path / "bert", "bert", task="text-classification"))
    with pytest.raises(ConfigError, match="load it with task='table-question-answering'"):
        AnswerTable(bert)


def test_the_heads_of_rows_with_and_without_operators() -> None:
    made = lambda rows, config, own: AnswerTable.head_config(  # noqa: E731
        read_rows(rows), config, own=own, columns=None, options={}
    )
    assert made(CELLS, WITH_OPERATORS, True)["num_aggregation_labels"] == 0
    weak = {**WITH_OPERATORS, "use_answer_as_supervision": True}
    assert made(ROWS, weak, True) == {**WITH_OPERATORS, "use_answer_as_supervision": False}
    assert made(ROWS, {}, False) == {**WITH_OPERATORS, "use_answer_as_supervision": False}
    others = made([{**ROWS[0], "operator": "MEDIAN"}, {**ROWS[1], "operator": ""}], WITH_OPERATORS, True)
    assert others["aggregation_labels"] == {"0": "NONE", "1": "MEDIAN"}


def test_operators_without_names_are_numbers(tmp_path: Path) -> None:
    folder = tapas(tmp_path / "tapas", num_aggregation_labels=3)
    task = AnswerTable(glassformer.load(folder, task="answer-table"))
    (example,) = task.encode(read_rows([{**ROWS[0], "operator": "2"}]))
    assert int(example["operator"]) == 2
    (one,) = task.predict(read_rows([{**ROWS[0], "operator": "2"}]))
    assert one.loss is not None and one.loss > 0


def test_what_is_cut_is_counted(folder: Path) -> None:
    task = AnswerTable(glassformer.load(folder, task="answer-table"), max_tokens=9)
    with pytest.warns(UserWarning) as caught:
        task.encode(read_rows([CELLS[0], {**CELLS[0], "cells": [[2, 0]]}]))
    messages = [str(warning.message) for warning in caught]
    assert messages == [
        "2 of 2 tables were cut to 9 tokens",
        "1 of 2 answers were cut to the cells that their tables were cut to",
    ]


def test_pairs_of_a_text() -> None:
    table = TextTable.of(TABLE)
    for text in ("[[0, 1], [2, 0]]", "[(0, 1), (2, 0)]", "['(0, 1)', '(2, 0)']"):
        assert cells_of({"cells": text}, "cells", table) == {(0, 1), (2, 0)}
    assert cells_of({"cells": "[]"}, "cells", table) == set()
