"""Published data sets: miniatures and real files of each, parts and prompts, and what is wrong with a file."""

from __future__ import annotations

import gzip
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.data import sets
from glassformer.data.files import inspect_files, split_file
from glassformer.data.lines import data_extension
from glassformer.data.options import InspectionOptions, ReadingOptions, SplitOptions
from glassformer.data.rows import read_rows
from glassformer.data.sets import DataSet, data_sets, find_data_set
from glassformer.data.streams import stream_rows
from glassformer.errors import ConfigError, DataError
from glassformer.runs.config import parse_config
from glassformer.runs.data import read_splits
from glassformer.tasks.registry import task_class
from glassformer.tasks.transcribe.clean import clean_table
from glassformer.tasks.transcribe.clean_options import CleanOptions
from tests.data.set_files import CONTEXT, ISSUE, MINIATURES, REVIEWS, SQUAD, Miniature, written
from tests.project.data_set_page import PAGE, page

# Data set → a file or folder in ../shared/data, its options, how many rows it has, and the columns of the first.
REAL: list[tuple[str, str, dict[str, Any], int]] = [
    ("emotion", "emotion/train.txt.gz", {}, 15_998),
    ("emotion", "emotion", {"part": "validation"}, 1_998),
    ("clinc150", "clinc150", {"part": "train"}, 15_000),
    ("clinc150", "clinc150/data.json.gz", {"part": ["val", "oos_val"]}, 3_100),
    ("clinc150", "clinc150", {"part": "oos_train_plus"}, 250),
    ("github_issues_nlbse24", "github_issues_nlbse24", {}, 1_500),
    ("ag_news", "ag_news/train.tsv.gz", {}, 6_400),
    ("sst2", "sst2", {"part": "dev"}, 872),
    ("glue/stsb", "stsb/en.train.tsv.gz", {}, 5_749),
    ("snli", "snli", {"part": "dev"}, 1_000),
    ("wikiann", "wikiann", {"part": "de.train"}, 20_000),
    ("panx", "wikiann/en.val.conll.gz", {}, 5_000),
    ("wikineural", "wikineural", {"part": "validation"}, 5_000),
    ("wnut17", "wnut17", {"part": "validation"}, 1_009),
    ("xquad", "xquad/xquad.de.shared.json.gz", {}, 925),
    ("subjqa_electronics", "subjqa_electronics", {"part": "train"}, 2_345),
    ("subjqa", "subjqa_electronics/dev.csv.gz", {}, 261),
    ("samsum", "samsum/part_a.jsonl.gz", {}, 600),
    ("dialogsum", "dialogsum", {}, 500),
    ("scitldr_a", "scitldr_a", {"part": "dev"}, 619),
    ("tinystories", "tinystories", {}, 2_000),
    ("tinyshakespeare", "tinyshakespeare", {"limit": 2_000_000}, 1),
]


def names(mini: Miniature) -> str:
    return f"{mini.data_set} {mini.path}"


def read(folder: Path, data_set: str, content: Any, path: str = "train.jsonl", **options: Any) -> list[dict[str, Any]]:
    return list(read_rows(written(folder / path, content), kind=data_set, **options))


def test_every_layout_of_every_data_set_has_a_miniature() -> None:
    layouts = {(name, extension) for name, each in data_sets().items() for extension in each.formats}
    there = {(mini.data_set, data_extension(Path(mini.path)).removeprefix(".") or "any") for mini in MINIATURES}
    assert not layouts - there and {name for name, _ in there} == data_sets().keys()


@pytest.mark.parametrize("mini", MINIATURES, ids=names)
def test_a_miniature_is_read_by_the_name_of_its_data_set(tmp_path: Path, mini: Miniature) -> None:
    path = written(tmp_path / mini.path, mini.content)
    rows = read_rows(path, kind=mini.data_set, **mini.options)
    assert list(rows) == mini.rows and [rows[index] for index in range(len(rows))] == mini.rows
    assert list(stream_rows(path, kind=mini.data_set, buffer=1, **mini.options)) == mini.rows
    assert set(rows.columns) == set(mini.rows[0]) and rows.fingerprint
    some = [name for name in mini.rows[0] if mini.rows[0][name] is not None][:1]
    assert read_rows(path, kind=mini.data_set, columns=some, **mini.options)[0] == {some[0]: mini.rows[0][some[0]]}
    assert list(read_rows(tmp_path, kind=mini.data_set, **mini.options)) == mini.rows  # by its folder


@pytest.mark.parametrize(("data_set", "path", "options", "count"), REAL)
def test_a_real_file_is_read(shared: Path, data_set: str, path: str, options: dict[str, Any], count: int) -> None:
    if not (shared / "data" / path).exists():
        pytest.skip(f"needs ../shared/data/{path}")
    rows = read_rows(shared / "data" / path, kind=data_set, **options)
    entry = find_data_set(data_set)
    assert len(rows) == count and list(rows.columns) == list(entry.columns)
    for role, known in entry.labels.items():
        labels = {label for row in rows[:500] for label in (row[role] if role == "tags" else [row[role]])}
        assert labels <= {*(known if isinstance(known, list) else known.values())}
    if entry.task == "answer":
        for row in rows[:300]:
            answers = row["answers"]
            pairs = zip(answers["text"], answers["answer_start"], strict=True) if isinstance(answers, dict) else ()
            pairs = pairs or [(each["text"], each["answer_start"]) for each in answers]
            assert all(row["context"][start:].startswith(text) for text, start in pairs)


def test_entries_say_what_they_are() -> None:
    for name, entry in data_sets().items():
        assert entry.name == name and task_class(entry.task) and entry.metric and entry.licence, name
        assert entry.published.startswith("https://") and entry.about and {"label", "tags"} >= {*entry.labels}
        assert entry.rows or name in ("subjqa", "codeparrot")
        assert set(entry.numbers) | set(entry.labels) <= set(entry.columns)


def test_the_sample_of_panx_has_the_shares_of_swiss_speakers() -> None:
    assert data_sets()["panx"].sample == {"de": 12_580, "fr": 4_580, "it": 1_680, "en": 1_180}
    clinc = data_sets()["clinc150"].rows
    assert sum(count or 0 for split, count in clinc.items() if "oos" not in split) == 22_500
    assert sum(count or 0 for split, count in clinc.items() if "oos" in split) == 1_200
    assert data_sets()["emotion"].rows == {"train": 16_000, "validation": 2_000, "test": 2_000}
    assert sum(count or 0 for count in data_sets()["cnn_dailymail"].rows.values()) == 311_971


# ------------------------------------------------------------------------------------------------ folders and parts


def folder_of_mnli(folder: Path) -> Path:
    head = "index\tsentence1\tsentence2\tgold_label\n"
    for name in ("train", "dev_matched", "dev_mismatched", "test_matched"):
        written(folder / f"{name}.tsv", f"{head}0\t{name}\tb\tneutral\n")
    (folder / "README.md").write_text("no rows")
    return folder


def test_a_folder_is_read_by_its_splits(tmp_path: Path) -> None:
    folder = folder_of_mnli(tmp_path)

    def texts(part: object) -> list[str]:
        return [row["text"] for row in read_rows(folder, kind="glue/mnli", part=part)]

    assert texts("train") == ["train"] and texts("validation_matched") == texts("dev_matched") == ["dev_matched"]
    assert texts("dev") == ["dev_matched", "dev_mismatched"] and texts(["train", "test"]) == ["test_matched", "train"]
    with pytest.raises(DataError, match=r"has files of validation_matched, .*, train; say which to read: part="):
        read_rows(folder, kind="glue/mnli")
    with pytest.raises(
        ConfigError, match="part is 'tarin', which glue/mnli does not have; nearest: 'train'; it has: tr"
    ):
        texts("tarin")
    with pytest.raises(
        DataError, match=r"has no file of test_mismatched of glue/mnli; its files are: dev_matched.tsv \("
    ):
        texts("test_mismatched")
    with pytest.raises(ConfigError, match=r"part is for folders, and .*train.tsv is a file: name its folder"):
        read_rows(folder / "train.tsv", kind="glue/mnli", part="train")
    for part in (3, [""], [None]):
        with pytest.raises(ConfigError, match=r"part is .*; give the name of a split of glue/mnli"):
            texts(part)


def test_languages_are_read_in_their_proportions(tmp_path: Path) -> None:
    sample = data_sets()["panx"].sample
    for language, count in sample.items():
        rows = [{"tokens": [language, str(i)], "ner_tags": [0, i % 7]} for i in range(count // 10)]
        written(tmp_path / f"PAN-X.{language}" / "train-00000-of-00001.parquet", rows)
        written(tmp_path / f"PAN-X.{language}" / "validation-00000-of-00001.parquet", rows[:5])
    data = {"train": [str(tmp_path / f"PAN-X.{language}") for language in sample]}
    data |= {"format": {"kind": "panx", "part": "train"}, "limit": [count // 20 for count in sample.values()]}
    config = parse_config({"task": "tag", "model": "m", "output": "o", "data": data})
    train, _ = read_splits(config, task_class("tag"))
    counts = Counter(row["tokens"][0] for row in train)
    assert counts == {"de": 629, "fr": 229, "it": 84, "en": 59} and len(train) == 1_001
    validation = read_rows(data["train"], kind="panx", part="dev")
    assert len(validation) == 20 and validation.file(0) != validation.file(19)


def test_folders_without_rows_or_of_several_formats_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds neither sound nor rows; name the files"):
        read_rows(tmp_path / "empty", kind="imdb", part="train")
    written(tmp_path / "train.jsonl", [{"text": "a", "label": 1}])
    written(tmp_path / "train.parquet", [{"text": "a", "label": 1}])
    with pytest.raises(DataError, match=r"holds files of several kinds: .jsonl, .parquet; name the files"):
        read_rows(tmp_path, kind="imdb", part="train")


def test_lists_of_one_object_are_splits(tmp_path: Path) -> None:
    path = written(tmp_path / "data_full.json", {"train": [["bye", "b"]], "val": [["hi", "a"]], "extra": [["x", "y"]]})
    for part, text in (("dev", "hi"), ("val", "hi"), ("extra", "x")):
        assert read_rows(path, kind="clinc150", part=part)[0]["text"] == text
    with pytest.raises(DataError, match="no part 'oos_val'; nearest: 'val'; there are: 'train', 'val', 'extra'"):
        read_rows(path, kind="clinc150", part="oos_val")
    with pytest.raises(DataError, match=r"holds train, val, test, oos_train.*; say which to read: part= train"):
        read_rows(path, kind="clinc150")


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_issues_are_labelled_or_not(tmp_path: Path, ending: str) -> None:
    other = {"title": "Why?", "body": "So", "labels": [{"name": "wontfix"}]}
    path = written(tmp_path / f"github-issues-transformers.{ending}", [other, ISSUE, other])
    options: dict[str, Any] = {"kind": "github_issues"}
    labelled, unlabelled = (read_rows(path, part=part, **options) for part in ("labelled", "unlabelled"))
    assert list(labelled) == [labelled[0]] == [{"text": "It fails", "label": ["model training"]}]
    assert list(unlabelled) == [unlabelled[0], unlabelled[1]] and unlabelled[1] == {"text": "Why?\n\nSo", "label": []}
    assert list(stream_rows(path, part="unlabelled", **options)) == list(unlabelled)
    assert list(read_rows(tmp_path, part="labelled", **options)) == list(labelled)
    with pytest.raises(ConfigError, match="part names labelled and unlabelled; github_issues is read by one of them"):
        read_rows(path, part=["labelled", "unlabelled"], **options)
    written(path, [other])
    with pytest.raises(DataError, match="holds no row"):
        read_rows(path, part="labelled", **options)


def test_dialogues_and_their_summaries_each_have_a_histogram_of_lengths(tmp_path: Path) -> None:
    rows = [{"id": str(i), "dialogue": "A: Hi. " * (i + 1), "summary": "A greets."} for i in range(20)]
    path = written(tmp_path / "train.jsonl", rows)
    for role, longest in (("source", 40), ("target", 2)):
        report = inspect_files([path], InspectionOptions(columns={"text": role}), ReadingOptions(kind="samsum"))
        assert report.files[0].lengths["words"].values.max() == longest and report.charts(), role


def test_labelled_issues_are_split_in_halves_and_quarters(tmp_path: Path) -> None:
    labels = list(data_sets()["github_issues"].labels["label"])
    issues = [{**ISSUE, "title": str(i), "labels": [{"name": labels[i % 9]}] if i < 440 else []} for i in range(900)]
    path = written(tmp_path / "github-issues-transformers.jsonl", issues)
    options = SplitOptions(output=tmp_path / "parts", columns={"label": "label"}, fractions=(0.5, 0.25, 0.25))
    files = split_file(path, options, ReadingOptions(kind="github_issues", part="labelled")).files
    assert list(files.values()) == [220, 110, 110]
    counts = [Counter(row["label"][0] for row in read_rows(file)) for file in files]
    assert all(max(each.values()) - min(each.values()) <= 1 for each in counts) and len(counts[0]) == 9


def test_modules_alone_are_read_of_python_files(tmp_path: Path) -> None:
    files = [{"path": path, "content": "x", "license": "mit"} for path in ("__init__.py", "a/__init__.py", "a/init.py")]
    assert [row["path"] for row in read(tmp_path, "codeparrot", files, "file-0.json.gz", part="modules")] == [
        "a/init.py"
    ]


def test_most_questions_about_electronics_ask_how(shared: Path) -> None:
    path = shared / "data" / "subjqa_electronics" / "train.csv.gz"
    if not path.exists():
        pytest.skip(f"needs {path}")
    report = inspect_files([path], InspectionOptions(columns={"label": "type"}), ReadingOptions(kind="subjqa"))
    kinds = dict([*report.files[0].classes.items()][:8])
    assert kinds.keys() == {"How", "What", "Is", "Does", "Do", "Where", "Why", "Was"} and kinds["How"] == 1_409


def test_transcripts_of_doubtful_quality_are_reported(shared: Path, tmp_path: Path) -> None:
    clips = shared / "data" / "speech" / "ljspeech"
    if not clips.is_dir():
        pytest.skip(f"needs {clips}")
    texts = ("Printing, in the only sense.", "IN BEING COMPARATIVELY MODERN.", "")
    rows = "".join(f"0a\tLJ001-000{number}.flac\t{text}\n" for number, text in enumerate(texts, 1))
    shutil.copytree(clips, tmp_path / "clips")
    written(tmp_path / "validated.tsv", "client_id\tpath\tsentence\n" + rows)
    reading = ReadingOptions(kind="common_voice", part="validated")
    report = clean_table(str(tmp_path), CleanOptions(language="uk"), reading=reading)
    assert report.rows == 3 and report.reasons["not written in 'uk'"] >= 1 and report.reasons["capitals alone"] == 1


# ------------------------------------------------------------------------------------------------ prompts


def test_rows_are_written_as_a_prompt(tmp_path: Path) -> None:
    row = {"id": "1", "dialogue": "A: Hi. B: Bye.", "summary": "A greets."}
    assert read(tmp_path, "samsum", [row], prompt="t5") == [
        {"source": "summarize: A: Hi. B: Bye.", "target": "A greets."}
    ]
    cut = read(tmp_path, "samsum", [row], prompt="tldr", characters=5)
    assert cut == [{"prompt": "A: Hi\nTL;DR:\n", "answer": "A greets."}]
    test = "index\tsentence1\tsentence2\n0\tIt flew.\tIt ate.\n"
    filled = {"source": "rte sentence1: It flew. sentence2: It ate."}
    assert read(tmp_path, "glue/rte", test, "test.tsv", prompt="t5") == [filled]
    with pytest.raises(ConfigError, match="prompt is 't55'; nearest: 't5'; it is one of: t5, tldr"):
        read(tmp_path, "samsum", [row], prompt="t55")
    with pytest.raises(ConfigError, match="prompt is 't5'; imdb has none"):
        read(tmp_path, "imdb", [{"text": "a", "label": 1}], prompt="t5")


def test_texts_are_cut_to_a_number_of_characters(tmp_path: Path) -> None:
    row = {"article": "It flew over it.", "highlights": "A long summary.", "id": "1"}
    assert read(tmp_path, "cnn_dailymail", [row], characters=7)[0] == {
        "source": "It flew",
        "target": row["highlights"],
        "id": "1",
    }
    for size in (0, 2.5, True, "7"):
        with pytest.raises(ConfigError, match=r"characters is .*; it must be a whole number from 1 up"):
            read(tmp_path, "cnn_dailymail", [row], characters=size)


# ------------------------------------------------------------------------------------------------ what is wrong


@pytest.mark.parametrize(
    ("data_set", "path", "content", "message"),
    [
        (
            "glue/rte",
            "train.tsv",
            "index\tquestion\tsentence\tlabel\n0\ta\tb\tentailment\n",
            "train.tsv: no column 'sentence1'.*; is it a file of glue/rte. Its columns are those of glue/qnli",
        ),
        (
            "panx",
            "a.jsonl",
            [{"text": "a", "label": 1}],
            "line 1 has no column 'tokens'; there are: 'text', 'label'; is it",
        ),
        (
            "panx",
            "a.parquet",
            [{"text": "a", "label": 1}],
            "row 0 has no column 'tokens'; there are: 'text', 'label'; is it",
        ),
        (
            "sst2",
            "a.tsv",
            "sentence\tlabel\na joy\t2\n",
            "line 2 has '2' as 'label'; .* one of: negative, positive; or its n",
        ),
        ("sst2", "a.tsv", "sentence\tlabel\na joy\n", "line 2 has 1 fields"),
        ("imdb", "train", '{"text": "a"}', "its name does not say what imdb is in it; let it end in .csv, .tsv"),
        ("emotion", "train.txt", "text,label\nso glad,joy\n", "line 1 has 1 fields, names has 2"),
        ("glue/cola", "a.tsv", "gj04\t1\tTime flies.\n", "line 1 has 3 fields"),
        (
            "glue/stsb",
            "a.tsv",
            "sentence1\tsentence2\tscore\na\tb\thigh\n",
            "line 2 has 'high' as 'score'; it must be a num",
        ),
        ("glue/stsb", "a.tsv", "sentence1\tsentence2\tscore\na\tb\tnan\n", "must be a number"),
        ("panx", "train", "Bern\tB-LOC\n", r"line 1 has 'Bern' as 'tokens'; it must match \[a-z-\]\+"),
        (
            "panx",
            "a.jsonl",
            [{"tokens": ["In"], "ner_tags": [0]}, {"tokens": ["In"], "ner_tags": [7]}],
            "line 2 has 7 as 'ner_tags'; it must be one of: O, B-PER, .* from 0 to 6",
        ),
        (
            "panx",
            "a.parquet",
            [{"tokens": ["In"], "ner_tags": [0]}, {"tokens": ["In"], "ner_tags": [-2]}],
            "row 1 has -2 as 'ner_tags'; it must be one of: O, B-PER, .* from 0 to 6",
        ),
        (
            "subjqa",
            "a.csv",
            REVIEWS.replace("(3, 8)", "(3, 99)"),
            "line 2 has .*99.* as 'human_ans_indices'; it must be the",
        ),
        ("subjqa", "a.csv", REVIEWS.replace("(9, 23)", "9-23"), "line 3 has '9-23' as 'human_ans_indices'; .* such as"),
        (
            "squad",
            "a.jsonl",
            [{"id": "1", "question": "a", "context": None, "answers": []}],
            "None as 'context'; .* a text",
        ),
        (
            "squad",
            "a.jsonl",
            [{"id": "1", "question": "a", "context": "b", "answers": "b"}],
            "it must be a list or an object",
        ),
        ("squad", "a.json", {"train": [["hi", "a"]]}, "the file has no list 'data'; .* data > paragraphs > qas"),
        (
            "squad",
            "a.json",
            '{"data": [{"title": "t", "paragraphs": [{"con',
            "is not valid JSON: .*ends too early: get it",
        ),
        (
            "clinc150",
            "data.json",
            '{"val": [["hi", "greet',
            "line 1 is not valid JSON: Unterminated .*; the file ends too early: get it again",
        ),
        (
            "github_issues",
            "a.jsonl",
            [{"title": "a", "body": "b", "labels": ["bug"]}],
            "line 1 has 'bug' in a list; it must be an object with 'name'",
        ),
        (
            "imdb",
            "a.jsonl",
            '{"text": "a", "label": 1}\n{"text": "b", "la',
            "line 2 is not valid JSON: Unterminated .*; the file ends too early: get it again",
        ),
    ],
)
def test_other_files_and_damaged_ones_are_refused(
    tmp_path: Path, data_set: str, path: str, content: Any, message: str
) -> None:
    written(tmp_path / path, content)
    part = {"part": "val"} if data_set == "clinc150" else {}
    with pytest.raises(DataError, match=message) as caught:
        read_rows(tmp_path / path, kind=data_set, **part)
    assert path in str(caught.value)


CELLS = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 9) | st.floats() | st.text(max_size=9) | st.just(10**400)
    | st.sampled_from(["(0, 1)", "9" * 5000, "(9, " + "9" * 5000 + ")", "-1", "2"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "a"]), inner, max_size=2),
    max_leaves=6,
)  # fmt: skip


@pytest.mark.parametrize("name", data_sets())
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_odd_cells_are_read_or_refused(name: str, data: st.DataObject) -> None:
    entry = data_sets()[name]
    extension = data.draw(st.sampled_from(["jsonl", *entry.formats]))
    options: dict[str, Any] = {"part": "train"} if entry.layout(Path(f"a.{extension}")).keys else {}
    options |= {"prompt": data.draw(st.sampled_from([None, *entry.prompts])), "characters": 3}
    reader, _, _ = entry.reader(Path(f"a.{extension}"), options, in_folder=False)
    needed = [each for column in reader.data_set.columns.values() for each in sets._needed(column)]
    row = {column: data.draw(CELLS) for column in needed if data.draw(st.integers(0, 9))}
    try:
        made = reader.row(row)
    except DataError as problem:
        assert len(str(problem)) < 2_000
    else:
        assert made is not None and (reader.prompt is None or all(isinstance(x, str) for x in made.values()))


def test_names_that_are_none_are_refused_with_the_nearest(tmp_path: Path) -> None:
    path = written(tmp_path / "train.jsonl", [{"text": "A joy"}])
    with pytest.raises(ConfigError, match=r"kind is 'pan-x'; nearest: 'panx'"):
        read_rows(path, kind="pan-x")
    with pytest.raises(ConfigError, match=r"kind is 'glue'; it is several: glue/cola, .*glue/wnli.*; formats: csv"):
        read_rows(path, kind="glue")
    with pytest.raises(ConfigError, match=r"'header' is no option of jsonl"):
        read_rows(path, kind="c4", header=True)
    with pytest.raises(ConfigError, match=r"'delimiter' is no option of records"):
        read_rows(written(tmp_path / "a.json", SQUAD), kind="squad", delimiter=";")
    with pytest.raises(ConfigError, match=r"no data set is called 'glue'; it is several: glue/cola"):
        find_data_set("glue")


def test_broken_rows_of_qqp_are_left_out_and_counted(tmp_path: Path) -> None:
    text = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n3\t1\t2\tWhy?\tHow?\t0\n"
    row = {"text": "Why?", "text_pair": "How?", "label": "not_duplicate"}
    path = written(
        tmp_path / "train.tsv", text + "4\t1\t2\tA question with\na line end?\tHow?\t1\n5\t1\t2\tWhy?\tHow?\t0\n"
    )
    with pytest.warns(
        UserWarning, match="2 of 4 rows were left out as they are damaged; the first: line 3 has 4 fields"
    ):
        rows = read_rows(path, kind="glue/qqp")
    assert list(rows) == [row, row] and rows[1] == row and rows.where(1).endswith("line 5")
    with pytest.raises(DataError, match="line 3 has 4 fields, the first line names 6"):
        read_rows(path, kind="glue/qqp", on_bad_rows="error")
    with pytest.raises(ConfigError, match="on_bad_rows is 'drop'; allowed: error, skip"):
        read_rows(path, kind="glue/qqp", on_bad_rows="drop")


def test_other_sets_leave_rows_out_where_they_are_told_to(tmp_path: Path) -> None:
    text, row = "sentence\tlabel\na joy \t1\n", {"text": "a joy ", "label": "positive"}
    path = written(tmp_path / "train.tsv", text + "a joy\nno joy\tmaybe\n" + text.splitlines()[1] + "\n")
    with pytest.raises(DataError, match="line 3 has 1 fields"):
        read_rows(path, kind="glue/sst2")
    with pytest.warns(UserWarning, match="2 of 4 rows were left out"):
        assert list(read_rows(path, kind="glue/sst2", on_bad_rows="skip")) == [row, row]


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
        ("common_voice", "train.tsv", 3, None),
        ("squad", "train-v2.0.json", 130_319, "has 130,319 rows; squad as published has 87,599 in its part train"),
        ("glue/mnli", "dev_mismatched.tsv", 9_815, "9,832 in its part validation_mismatched"),
        ("github_issues", "github-issues-transformers.jsonl", 9_929, "9,930 in its part issues"),
    ],
)
def test_files_of_another_size_than_published_are_noted(name: str, path: str, count: int, note: str | None) -> None:
    said = data_sets()[name].size_note(path, count)
    assert said is None if note is None else said is not None and note in said


def test_a_folder_of_another_size_is_noted_by_its_part() -> None:
    assert "20,000 in its part train" in str(data_sets()["panx"].size_note("PAN-X.de", 3, "train"))
    assert data_sets()["github_issues"].size_note("issues.jsonl", 441, "labelled") is None


# ------------------------------------------------------------------------------------------------ another data set


def test_rows_of_annotators_are_no_questions(tmp_path: Path) -> None:
    """The 261 rows of dev.csv are the 255 pairs that are published, several by two annotators."""
    entry = data_sets()["subjqa_electronics"]
    assert entry.size_note("dev.csv.gz", 261) is None and entry.size_note("test.csv", 400) is None
    assert "has 255 rows; subjqa_electronics as published has 261" in str(entry.size_note("dev.csv.gz", 255))
    assert entry.size_note("validation.parquet", 255) is None
    assert "255 in its part validation" in str(entry.size_note("validation.parquet", 261))
    assert entry.size_note("electronics", 261, "validation", "electronics/dev.csv.gz") is None


def test_a_file_without_labels_is_noted(tmp_path: Path) -> None:
    pairs = "premise,hypothesis{}\nA cat.,An animal.{}\n"
    bare = written(tmp_path / "bare.csv", pairs.format("", ""))
    with pytest.warns(UserWarning, match=r"^bare\.csv: has no column 'label', so its rows have no label: a test part"):
        inspect_files([bare], InspectionOptions(columns={"text": "text"}), ReadingOptions(kind="snli"))
    lines = written(tmp_path / "bare.jsonl", '{"sentence1": "A cat.", "sentence2": "An animal."}\n')
    assert "no column 'gold_label'" in str(data_sets()["snli"].label_note("bare.jsonl", read_rows(lines).columns))
    full = written(tmp_path / "full.csv", pairs.format(",label", ",0"))
    assert data_sets()["snli"].label_note("full.csv", read_rows(full, kind="snli").columns) is None
    assert data_sets()["samsum"].label_note("a.json", ["source"]) is None


def test_parallel_files_of_a_folder_are_named_as_they_are_read(tmp_path: Path) -> None:
    for name in ("train.en", "train.de", "val.en", "val.de"):
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(b"a cat\n"))
    named = r"name parallel files by both: .*train\.\{en,de\}\.gz, .*val\.\{en,de\}\.gz$"
    with pytest.raises(DataError, match=named) as found:
        read_rows(tmp_path, kind="multi30k", part="val")
    pair = str(found.value).rpartition(", ")[2]
    assert list(read_rows(pair, kind="multi30k")) == [{"source": "a cat", "target": "a cat"}]


READ = {
    "classify": {"text", "label"},
    "tag": {"tokens", "tags"},
    "answer": {"question", "context", "answers"},
    "summarise": {"source", "target"},
    "translate": {"source", "target"},
    "generate": {"text"},
    "fill": {"text"},
    "transcribe": {"file", "text"},
}
"""Task → the columns that a row needs to be learnt from."""


def test_columns_have_the_names_that_the_task_reads() -> None:
    """What the first sentence of the page says."""
    answers = {*task_class("instruct").COLUMNS.values()}
    for name, entry in data_sets().items():
        known = task_class(entry.task).COLUMNS.values()
        assert READ[entry.task] <= {*known}, entry.task
        if not entry.columns:
            assert name in ("multi30k", "whisper_ytb_uk")  # as published
            continue
        if name == "code_search_net":  # pairs, as its prompt writes them
            assert [{*prompt} for prompt in entry.prompts.values()] == [answers]
            continue
        assert READ[entry.task] <= {*entry.columns}, name
        for prompt in entry.prompts.values():
            assert {*prompt} in ({"source", "target"}, answers), name


def test_another_data_set_is_an_entry_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = """
moods:
  about: moods of our own
  task: classify
  metric: [accuracy]
  rows: {train: 1, dev: 1}
  licence: CC0-1.0
  published: https://example.com/moods
  columns: {text: said, label: mood}
  labels: {label: [sad, glad]}
"""
    table = tmp_path / "sets.yaml"
    table.write_text(sets.SETS.read_text("utf-8") + entry, "utf-8")
    known = data_sets(table)
    monkeypatch.setattr("glassformer.data.rows.data_sets", lambda: known)
    monkeypatch.setattr(sets, "data_sets", lambda: known)
    for name in ("train", "dev"):
        written(tmp_path / "moods" / f"{name}.csv", f"said,mood\n{name} it,1\n")
    assert list(read_rows(tmp_path / "moods", kind="moods", part="dev")) == [{"text": "dev it", "label": "glad"}]
    assert "--kind moods" not in str(known["moods"]) and known["moods"].facts["splits"] == "train 1, dev 1"


def test_the_page_of_the_docs_has_every_data_set() -> None:
    text = PAGE.read_text("utf-8")
    assert page(text) == text, "run: python -m tests.project.data_set_page"


def test_an_entry_with_a_mistake_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "sets.yaml"
    table.write_text("moods: {about: a, task: tag, licence: b, colums: {}}\n")
    with pytest.raises(ConfigError, match=r"moods: 'colums' is no option; nearest: 'columns'"):
        data_sets(table)


def test_pairs_have_the_columns_that_classification_reads() -> None:
    from glassformer.tasks.classify.task import Classify

    assert set(Classify.COLUMNS.values()) == {"text", "text_pair", "label"}


def test_reviews_end_in_the_text_of_no_answer() -> None:
    assert CONTEXT.endswith(str(data_sets()["subjqa"].no_answer)) and isinstance(data_sets()["subjqa"], DataSet)
