"""Files of published data sets: their layouts, their labels and sizes, and what is wrong with a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from glassformer.data.published import published_sets
from glassformer.data.rows import read_rows
from glassformer.data.streams import stream_rows
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
    assert FILES.keys() == {name.removeprefix("glue/") for name in published_sets() if name.startswith("glue/")}


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
        ("rte", FILES["qnli"][0], "no column 'sentence1'.*is it a file of glue/rte"),
        (
            "sst2",
            "sentence\tlabel\na joy\t2\n",
            "line 2 has '2' as 'label'; it must be one of: negative, positive; or its number",
        ),
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
    with pytest.raises(ConfigError, match="on_bad_rows is 'drop'; allowed: error, skip"):
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


ISSUE = {"title": "It fails", "body": None, "labels": [{"name": "wontfix"}, {"name": "Core: Modeling"}]}
ANSWERS = {"text": ["great"], "answer_start": [3]}

# Data set → a row as its files have it, and what is read of it.
ROWS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "panx": (
        {"tokens": ["In", "Bern"], "ner_tags": [0, 5], "langs": ["de", "de"]},
        {"tokens": ["In", "Bern"], "tags": ["O", "B-LOC"]},
    ),
    "cnn_dailymail": (
        {"article": "It flew.", "highlights": "A bird.", "id": "a1"},
        {"source": "It flew.", "target": "A bird.", "id": "a1"},
    ),
    "samsum": (
        {"id": "1", "dialogue": "A: Hi", "summary": "A greets."},
        {"source": "A: Hi", "target": "A greets.", "id": "1"},
    ),
    "subjqa": (
        {
            "domain": "electronics",
            "id": "7",
            "title": "B0",
            "question": "Is it?",
            "context": "So great",
            "answers": ANSWERS,
        },
        {"title": "B0", "question": "Is it?", "context": "So great", "answers": ANSWERS, "id": "7"},
    ),
    "github_issues": (ISSUE, {"text": "It fails", "label": ["model training"]}),
    "imdb": ({"text": "A joy", "label": 1}, {"text": "A joy", "label": "pos"}),
    "codeparrot": (
        {"repo_name": "a/b", "path": "c.py", "content": "x = 1", "license": "mit"},
        {"text": "x = 1", "path": "c.py", "license": "mit"},
    ),
    "wikipedia": (
        {"id": "12", "url": "u", "title": "Fly", "text": "A fly."},
        {"text": "A fly.", "title": "Fly", "id": "12"},
    ),
    "c4": ({"text": "A page.", "timestamp": "t", "url": "u"}, {"text": "A page."}),
    "webtext": ({"text": "A page."}, {"text": "A page."}),
    "bookcorpus": ({"text": "it flew ."}, {"text": "it flew ."}),
    "whisper_ytb_uk": ({"audio": "1.mp3", "text": "Так"}, {"audio": "1.mp3", "text": "Так"}),
}


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    """A file of these rows, as its name says."""
    if path.suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path


def test_every_data_set_has_a_row_here() -> None:
    assert ROWS.keys() == {name for name in published_sets() if "/" not in name}


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
@pytest.mark.parametrize("name", ROWS)
def test_rows_have_the_columns_of_their_task(tmp_path: Path, name: str, ending: str) -> None:
    row, expected = ROWS[name]
    path = written(tmp_path / f"train.{ending}", [row, row])
    rows = read_rows(path, kind=name)
    assert list(rows) == [expected, expected] and rows[1] == expected and set(rows.columns) == set(expected)
    assert list(stream_rows(path, kind=name)) == [expected, expected]
    some = list(expected)[:1]
    assert read_rows(path, kind=name, columns=some)[0] == {some[0]: expected[some[0]]}


def test_labels_are_read_by_name_or_number_and_others_are_errors(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", [{"text": "A joy", "label": "neg"}])
    assert read_rows(path, kind="imdb")[0] == {"text": "A joy", "label": "neg"}
    unknown = read_rows(written(tmp_path / "b.jsonl", [{"text": "A joy", "label": -1}]), kind="imdb")
    assert unknown[0] == {"text": "A joy", "label": None}
    for ending, where in (("jsonl", "line 2"), ("parquet", "row 1")):
        path = written(tmp_path / f"c.{ending}", [ROWS["panx"][0], {**ROWS["panx"][0], "ner_tags": [0, 7]}])
        with pytest.raises(DataError, match=rf"{where} has 7 as 'ner_tags'; .* one of: O, B-PER, .* from 0 to 6"):
            read_rows(path, kind="panx")
    with pytest.raises(DataError, match="line 1 has no column 'tokens'; there are: 'text', 'label'"):
        read_rows(tmp_path / "a.jsonl", kind="panx")


@pytest.mark.parametrize(
    ("name", "path", "count", "note"),
    [
        (
            "panx",
            "PAN-X.de/train-00000-of-00001.parquet",
            19_999,
            "has 19,999 rows; panx as published has 20,000 in its",
        ),
        ("panx", "train.jsonl", 20_000, None),
        ("panx", "dev.jsonl", 9_000, "10,000 in its part validation"),
        ("panx", "all.jsonl", 3, None),
        ("c4", "train-00000-of-01024.parquet", 3, None),
        ("glue/mnli", "dev_mismatched.tsv", 9_815, "9,832 in its part validation_mismatched"),
        ("github_issues", "github-issues-transformers.jsonl", 9_929, "9,930 in its part issues"),
    ],
)
def test_files_of_another_size_than_published_are_noted(name: str, path: str, count: int, note: str | None) -> None:
    said = published_sets()[name].size_note(path, count)
    assert said is None if note is None else said is not None and note in said


def test_kinds_that_are_none_are_refused_with_the_nearest(tmp_path: Path) -> None:
    path = written(tmp_path / "train.jsonl", [{"text": "A joy"}])
    with pytest.raises(ConfigError, match=r"kind is 'pan-x'; nearest: 'panx'"):
        read_rows(path, kind="pan-x")
    with pytest.raises(ConfigError, match=r"'header' is no option of jsonl"):
        read_rows(path, kind="c4", header=True)


def test_dialogues_as_published_are_read(shared: Path) -> None:
    rows = read_rows(shared / "data" / "samsum" / "part_a.jsonl.gz", kind="samsum")
    assert len(rows) == 600 and rows[0]["source"].startswith("Hannah: Hey")
