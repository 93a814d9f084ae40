"""What rows are labelled with, and how a config says it."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from glassformer.data.rows import RowSequence, read_rows
from glassformer.errors import ConfigError, DataError
from glassformer.tasks.classify.kinds import MultiLabel, RegressionTarget, SingleLabel
from glassformer.tasks.classify.task import label_kind_of, label_names, labels_of, relabelled


def rows_of(*labels: Any) -> RowSequence:
    return read_rows([{"text": "t", "label": label} for label in labels])


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["joy", "anger", "joy", "anger"], ("anger", "joy")),
        ([10, 9, 10, 9], ("9", "10")),
        (["10", "9", "10", "9"], ("9", "10")),
        ([True, False, True, False], ("false", "true")),
    ],
)
def test_classes_are_in_order_whatever_the_order_of_rows(labels: list[Any], names: tuple[str, ...]) -> None:
    for order in (labels, labels[::-1]):
        kind = labels_of(rows_of(*order), "label")
        assert type(kind) is SingleLabel and kind.names == names
        assert kind.read(order[0]) == names.index(str(order[0]).lower())
    assert kind.config() == {
        "id2label": {"0": names[0], "1": names[1]},
        "label2id": {names[0]: 0, names[1]: 1},
        "num_labels": 2,
        "problem_type": "single_label_classification",
    }


def test_several_labels() -> None:
    kind = labels_of(rows_of(["bug"], [], ["docs", "bug"], ["docs"]), "label")
    assert type(kind) is MultiLabel and kind.names == ("bug", "docs") and torch.float32 == kind.DTYPE
    assert kind.read(["docs"]).tolist() == [0, 1] and kind.read([]).tolist() == [0, 0]
    assert kind.config()["problem_type"] == "multi_label_classification"
    assert kind.read(["docs"]).dtype == np.float32
    separated = labels_of(rows_of("bug", "", "docs | bug", "docs"), "label", separator="|")
    assert separated.names == kind.names and separated.read("docs|bug").tolist() == [1, 1]
    with pytest.raises(DataError, match="several labels are a list, or a text with separator"):
        kind.read("docs")


def test_whole_numbers_are_named_alike_however_a_file_writes_them(tmp_path: Path) -> None:
    labels = [0.0, 1.0, 10.0, 1.0]
    (tmp_path / "rows.csv").write_text("text,label\n" + "".join(f"a,{x}\n" for x in labels))
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"text": "a", "label": x}) + "\n" for x in labels))
    kinds = [labels_of(read_rows(tmp_path / name), "label") for name in ("rows.csv", "rows.jsonl")]
    for kind in [*kinds, labels_of(rows_of(0, 1, 10, 1), "label")]:
        assert type(kind) is SingleLabel and kind.names == ("0", "1", "10")
        assert [int(kind.read(x)) for x in (1, 1.0, "1", "1.0")] == [1] * 4
    several = labels_of(rows_of("1.0|2.0", "2.0"), "label", separator="|")
    assert several.names == labels_of(rows_of([1.0, 2], [2.0]), "label").names == ("1", "2")
    elsewhere = SingleLabel(["1.0", "2.0"])  # as a model of another library may call its classes
    assert elsewhere.names == ("1.0", "2.0") and [elsewhere.number(x) for x in ("2.0", 2.0, 2, "1.0")] == [1, 1, 1, 0]
    assert labels_of(rows_of("1.0.0", "v1.0"), "label").names == ("1.0.0", "v1.0")


def test_numbers() -> None:
    for labels in ((3.8, 1.0, 4.5), ("3.8", "1", "4.5")):
        kind = labels_of(rows_of(*labels), "label")
        assert type(kind) is RegressionTarget and kind.read(labels[0]) == np.float32(3.8)
        assert kind.config() == {
            "id2label": {"0": "label"},
            "label2id": {"label": 0},
            "num_labels": 1,
            "problem_type": "regression",
        }
    assert type(labels_of(rows_of(1, 2, 1, 2), "label")) is SingleLabel
    assert type(labels_of(rows_of(1, 2, 1, 2), "label", problem="regression")) is RegressionTarget


def test_a_class_with_one_row_is_told(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("text,label\na,joy\nb,joy\nc,fear\n")
    with pytest.warns(UserWarning, match=r"1 of 2 labels have a single row: 'fear' \(.*train\.csv: line 4\)"):
        labels_of(read_rows(tmp_path / "train.csv"), "label")


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        (["joy", "joy"], {}, "every row of 'label' has the label 'joy'; there is nothing to tell apart"),
        ([["a"], None], {}, "row 1: the label is None; several labels are a list"),
        (["a", ""], {}, "row 1: the label is empty; write one into the row, or remove the row$"),
        ([1.5, None], {"problem": "regression"}, "row 1: the label is None; it must be a number"),
        ([1.5, 10**400], {"problem": "regression"}, "row 1: the label is 0x.*; it must be a number"),
        (["1.5", "much"], {"problem": "regression"}, "row 1: the label is 'much'"),
        ([1.5, 2.5], {"problem": "single"}, "row 0: the label is 1.5; a class is .* the model predicts the number"),
        (["a", "b"], {"problem": "multi"}, "row 0: the label is 'a'; several labels are a list"),
        ([[], []], {}, "every row of 'label' is without a label"),
    ],
)
def test_rows_that_cannot_be_learned(labels: list[Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        labels_of(rows_of(*labels), "label", **options)


def test_a_number_whose_square_is_infinite_is_no_target() -> None:
    kind = labels_of(rows_of(0.5, 1.5), "label")
    with pytest.raises(DataError, match=r"the label is 1e\+308; it must be from -1e\+18 to 1e\+18"):
        kind.read(1e308)
    assert float(kind.read("-1e18")) == pytest.approx(-1e18)


def test_names_of_thousands_of_digits_are_names() -> None:
    long = "1" * 5_000
    assert labels_of(rows_of("7", long), "label").names == (long, "7")


def test_options_that_there_are_not() -> None:
    with pytest.raises(ConfigError, match="problem is 'binary'; it must be one of: single, multi, regression"):
        labels_of(rows_of("a", "b"), "label", problem="binary")
    with pytest.raises(ConfigError, match="separator"):
        labels_of(rows_of("a", "b"), "label", problem="single", separator="|")
    with pytest.raises(DataError, match="no column 'lable'; nearest: 'label'; there are: 'text', 'label'"):
        labels_of(rows_of("a", "b"), "lable")


def test_a_config_alone_says_the_same() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in (
            labels_of(rows_of("a", "b"), "label"),
            labels_of(rows_of(["a"], ["b"]), "label"),
            labels_of(rows_of(0.5, 1), "label"),
        ):
            again = label_kind_of(kind.config())
            assert type(again) is type(kind) and again.names == kind.names
    assert type(label_kind_of({"id2label": {0: "NEGATIVE", 1: "POSITIVE"}})) is SingleLabel
    assert type(label_kind_of({"num_labels": 1})) is RegressionTarget
    assert label_names({}) == ["LABEL_0", "LABEL_1"]


def test_a_label_that_no_training_row_has() -> None:
    kind = SingleLabel(["anger", "joy"])
    with pytest.raises(DataError, match=r"the label 'jou' is none of the 2 .* nearest: 'joy': anger, joy; correct"):
        kind.read("jou")


def test_numbers_are_places_where_no_class_is_called_by_a_number() -> None:
    own = SingleLabel(["NEGATIVE", "POSITIVE"])  # the checkpoint's head, and rows of 0 and 1
    assert [int(own.read(value)) for value in (0, "1", "NEGATIVE")] == [0, 1, 0]
    with pytest.raises(DataError, match="'2' is none"):
        own.read(2)
    with pytest.raises(DataError, match="'0' is none"):
        SingleLabel(["1", "2"]).read(0)


def test_the_checkpoints_own_head_is_kept_where_it_knows_all_labels() -> None:
    own = {"model_type": "bert", "id2label": {"0": "NEGATIVE", "1": "POSITIVE"}}
    kept = {**own, "problem_type": "single_label_classification"}
    assert relabelled(own, SingleLabel(["NEGATIVE", "POSITIVE"]), own=True) == kept
    assert relabelled(own, SingleLabel(["0", "1"]), own=True) == kept
    assert relabelled(own, SingleLabel(["a", "b"]), own=True)["id2label"] == {"0": "a", "1": "b"}
    assert relabelled(own, SingleLabel(["0", "1"]), own=False)["id2label"] == {"0": "0", "1": "1"}
    assert relabelled(own, RegressionTarget(["score"]), own=True)["num_labels"] == 1
    one = {"num_labels": 1}
    assert relabelled(one, RegressionTarget(["score"]), own=True) == {**one, "problem_type": "regression"}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"id2label": {"0": "a", "2": "b"}}, "id2label has no name for 1; it must name 0 to 1"),
        ({"id2label": {"0": "a", "1": "a"}}, "gives two numbers one name"),
        ({"problem_type": "ranking"}, "problem_type is 'ranking'; it must be one of"),
        ({**SingleLabel("ab").config(), "problem_type": "regression"}, "a regression says one number"),
    ],
)
def test_configs_that_make_no_sense(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        label_kind_of(config)
