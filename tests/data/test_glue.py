"""The files of GLUE's tasks: their layouts, their labels, and what is wrong with a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.data.glue import TASKS
from glassformer.data.rows import read_rows
from glassformer.errors import ConfigError, DataError

# Task → a file in the layout of the published one, with sentences of our own, and its rows.
FILES = {
    "cola": (
        'gj04\t1\t\tTime flies.\ngj04\t0\t*\tTime fly a "arrow.\n',
        [{"text": "Time flies.", "label": "acceptable"}, {"text": 'Time fly a "arrow.', "label": "unacceptable"}],
    ),
    "sst2": ("sentence\tlabel\na joy \t1\n", [{"text": "a joy ", "label": "positive"}]),
    "mrpc": (
        '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t7\t8\tIt "flew.\tIt was flying.\r\n',
        [{"text": 'It "flew.', "text_pair": "It was flying.", "label": "equivalent"}],
    ),
    "stsb": (
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
        "0\tnews\tf\t2012\t1\tnone\tnone\tA bird.\tA plane.\t1.250\n",
        [{"text": "A bird.", "text_pair": "A plane.", "label": 1.25}],
    ),
    "qqp": (
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n3\t1\t2\tWhy?\tHow?\t0\n",
        [{"text": "Why?", "text_pair": "How?", "label": "not_duplicate"}],
    ),
    "mnli": (
        "index\tpromptID\tpairID\tgenre\tsentence1\tsentence2\tlabel1\tgold_label\n"
        "0\t1\t1n\tfiction\tIt flew.\tIt walked.\tneutral\tcontradiction\n",
        [{"text": "It flew.", "text_pair": "It walked.", "label": "contradiction"}],
    ),
    "qnli": (
        "index\tquestion\tsentence\tlabel\n0\tWho flew?\tA bird did.\tentailment\n",
        [{"text": "Who flew?", "text_pair": "A bird did.", "label": "entailment"}],
    ),
    "rte": (
        "index\tsentence1\tsentence2\tlabel\n0\tIt flew.\tIt ate.\tnot_entailment\n",
        [{"text": "It flew.", "text_pair": "It ate.", "label": "not_entailment"}],
    ),
    "wnli": (
        "index\tsentence1\tsentence2\tlabel\n0\tIt flew.\tIt ate.\t0\n",
        [{"text": "It flew.", "text_pair": "It ate.", "label": "not_entailment"}],
    ),
}


def test_every_task_has_a_file_here() -> None:
    assert FILES.keys() == TASKS.keys()


@pytest.mark.parametrize("task", FILES)
def test_columns_and_labels_have_the_same_names_in_every_task(tmp_path: Path, task: str) -> None:
    text, expected = FILES[task]
    path = tmp_path / "train.tsv"
    path.write_text(text, encoding="utf-8", newline="")
    rows = read_rows(path, kind="glue", task=task)
    assert list(rows) == expected and rows[0] == expected[0]


def test_rows_of_a_test_part_have_no_label(tmp_path: Path) -> None:
    path = tmp_path / "test.tsv"
    path.write_text("index\tquestion\tsentence\n0\tWho flew?\tA bird did.\n", encoding="utf-8")
    assert list(read_rows(path, kind="glue", task="qnli")) == [{"text": "Who flew?", "text_pair": "A bird did."}]


@pytest.mark.parametrize(
    ("task", "text", "message"),
    [
        ("rte", FILES["qnli"][0], "no column 'sentence1'.*is it a file of the task rte"),
        ("sst2", "sentence\tlabel\na joy\t2\n", "line 2 has '2' as 'label'; it must be one of: 0, 1"),
        ("stsb", FILES["stsb"][0].replace("1.250", "high"), "line 2 has 'high' as 'score'; it must be a number"),
        ("stsb", FILES["stsb"][0].replace("1.250", "nan"), "must be a number"),
        ("cola", "gj04\t1\tTime flies.\n", "line 1 has 3 fields"),
    ],
)
def test_a_file_of_another_task_or_a_damaged_one_is_refused(tmp_path: Path, task: str, text: str, message: str) -> None:
    path = tmp_path / "train.tsv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_rows(path, kind="glue", task=task)


def test_broken_rows_of_qqp_are_left_out_and_counted(tmp_path: Path) -> None:
    text, [row] = FILES["qqp"]
    path = tmp_path / "train.tsv"
    path.write_text(text + "4\t1\t2\tA question with\na line end?\tHow?\t1\n5\t1\t2\tWhy?\tHow?\t0\n", "utf-8")
    with pytest.warns(
        UserWarning, match="2 of 4 rows were left out as they are damaged; the first: line 3 has 4 fields"
    ):
        rows = read_rows(path, kind="glue", task="qqp")
    assert list(rows) == [row, row] and rows[1] == row and rows.where(1).endswith("line 5")
    with pytest.raises(DataError, match="line 3 has 4 fields, the first line names 6"):
        read_rows(path, kind="glue", task="qqp", on_bad_rows="error")
    with pytest.raises(ConfigError, match="on_bad_rows is 'drop'; it must be error or skip"):
        read_rows(path, kind="glue", task="qqp", on_bad_rows="drop")


def test_other_tasks_leave_rows_out_where_they_are_told_to(tmp_path: Path) -> None:
    text, [row] = FILES["sst2"]
    path = tmp_path / "train.tsv"
    path.write_text(text + "a joy\nno joy\tmaybe\n" + text.splitlines()[1] + "\n", "utf-8")
    with pytest.raises(DataError, match="line 3 has 1 fields"):
        read_rows(path, kind="glue", task="sst2")
    with pytest.warns(UserWarning, match="2 of 4 rows were left out"):
        assert list(read_rows(path, kind="glue", task="sst2", on_bad_rows="skip")) == [row, row]


def test_an_unknown_task_is_refused_with_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("a\tb\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="nearest: 'mnli'"):
        read_rows(tmp_path / "train.tsv", kind="glue", task="mnlli")
    with pytest.raises(ConfigError, match="task is ''"):
        read_rows(tmp_path / "train.tsv", kind="glue")


def test_pairs_have_the_columns_that_classification_reads() -> None:
    from glassformer.tasks.classify.task import Classify

    assert set(Classify.COLUMNS.values()) == {"text", "text_pair", "label"}
