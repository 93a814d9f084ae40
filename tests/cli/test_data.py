"""`glassformer data`: inspect, split, card."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from glassformer.cli.app import app
from glassformer.data.rows import read_rows
from glassformer.errors import GlassformerError
from glassformer.hub import data_sets
from tests.cli.conftest import Command

ROWS = [("so glad", "joy"), ("So glad", "anger"), ("leave", "anger"), ("\x1b[31mred", "joy")] + [
    (f"number {i}", "joy" if i % 4 else "fear") for i in range(40)
]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")
    path = tmp_path / "all.csv"
    path.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in ROWS), encoding="utf-8")
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["data", *map(str, arguments)])


def output_of(*arguments: object) -> str:
    done = run(*arguments)
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


def refused(*arguments: object) -> str:
    done = run(*arguments)
    assert isinstance(done.exception, GlassformerError), (done.output, done.exception)
    return str(done.exception)


def test_bad_rows_are_left_out_where_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label\na,joy\nb,c,d\nc,sad\n")
    out = output_of("inspect", path, "--skip-bad-rows")
    assert "note: " in out and "1 of 3 rows were left out" in out
    assert re.search(r"a\.csv +text \(a text\), label \(a text\) +2\n", out)
    assert CliRunner().invoke(app, ["data", "inspect", str(path)]).exit_code != 0


def test_a_file_with_semicolons_names_the_option_to_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    path = tmp_path / "reviews.csv"
    path.write_text("text;label\nGood, nice;joy\nbad;sad\n")
    for words in (("inspect", path), ("split", path, "--output", tmp_path / "parts"), ("clean", path)):
        assert "looks separated by ';', and so does line 2: read it with --delimiter ';'" in refused(*words)
    read = r"reviews\.csv +text \(a text\), label \(a text\) +2\n"
    assert re.search(read, output_of("inspect", path, "--delimiter", ";"))
    path.write_text("text\tlabel\nGood, nice\tjoy\nbad\tsad\n")
    assert r"read it with --delimiter '\t'" in refused("inspect", path)
    assert re.search(read, output_of("inspect", path, "--delimiter", r"\t"))


def test_inspect_shows_classes_lengths_and_what_is_odd(table: Path) -> None:
    out = output_of("inspect", table, "--column", "label=label")
    assert re.search(r"all\.csv +text \(a text\), label \(a text\) +44\n", out) and "32 · 72.7%" in out and "██" in out
    assert "! 1 text repeated with another label" in out and "line 3: anger" in out
    assert "\x1b" not in out and "\\x1b[31mred" in out


def test_a_column_called_label_is_one_unless_it_holds_fractions(table: Path, tmp_path: Path) -> None:
    assert "32 · 72.7%" in output_of("inspect", table)
    scores = tmp_path / "scores.csv"
    scores.write_text("text,label\na b,0.25\nc d,1.5\n", encoding="utf-8")
    out = output_of("inspect", scores)
    assert "label (a text)     2" in out and "class" not in out


def test_inspect_as_json_and_as_a_page(table: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    report = json.loads(output_of("inspect", table, "--column", "label=label", "--json", "--html", page))
    assert report["files"][0]["classes"] == {"joy": 32, "fear": 10, "anger": 2}
    assert {each["kind"] for each in report["findings"]} == {"conflict", "repeat", "damaged"}
    assert page.read_text("utf-8").startswith("<!doctype html>")


def test_a_disk_that_refuses_leaves_no_half_of_a_page_or_a_card(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr("glassformer.files.atomic.os.fsync", full)
    before = sorted(tmp_path.iterdir())
    for arguments in (
        ("inspect", table, "--html", tmp_path / "page.html"),
        ("card", table, "--title", "T", "--output", tmp_path / "CARD.md"),
    ):
        assert "no space left on device; no file is left half-written" in refused(*arguments)
    assert sorted(tmp_path.iterdir()) == before


def test_inspect_counts_tokens_of_a_model(table: Path, minilm: Path) -> None:
    report = json.loads(output_of("inspect", table, "--tokenizer", minilm, "--limit", 4, "--json"))
    tokens = report["files"][0]["lengths"]["tokens"]
    assert (tokens["limit"], tokens["quantiles"]["min"], tokens["quantiles"]["50%"]) == (4, 3, 4)
    assert tokens["over_limit"] == 1  # the one with control characters
    assert "512" in output_of("inspect", table, "--tokenizer", minilm, "--json")
    assert "--tokenizer" in refused("inspect", table, "--limit", 4)


def test_inspect_reads_tables_of_any_form_and_leaks_between_files(tmp_path: Path) -> None:
    form = ("--kind", "csv", "--delimiter", ";", "--names", "said,mood", "--no-quotes")
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text('im "fine;joy\n' + f"only {name};joy\n", encoding="utf-8")
    files = (tmp_path / "a.txt", tmp_path / "b.txt")
    out = output_of("inspect", *files, "--column", "text=said", "--column", "label=mood", *form)
    assert "! 1 text of" in out and "measures memorisation" in " ".join(out.split())


def test_split_writes_parts_that_have_each_label_in_its_share(table: Path, tmp_path: Path) -> None:
    out = output_of("split", table, "-c", "label=label", "-c", "text=text", "--seed", 1, "--output", tmp_path / "parts")
    assert "1 of 44 rows repeat an earlier text" in out
    parts = [read_rows(tmp_path / "parts" / f"{name}.csv") for name in ("train", "validation", "test")]
    assert [len(part) for part in parts] == [35, 4, 4]
    assert [sum(row["label"] == "fear" for row in part) for part in parts] == [8, 1, 1]
    texts = [row["text"] for part in parts for row in part]
    assert sorted(texts) == sorted({text for text, _ in ROWS} - {"So glad"})
    assert "already exists" in refused("split", table, "--output", tmp_path / "parts")


def test_split_of_a_folder_of_sound_and_of_a_list_in_an_object(tmp_path: Path) -> None:
    for name in ("yes/1.wav", "yes/2.wav", "no/3.wav", "no/4.wav"):
        (tmp_path / "calls" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "calls" / name).write_bytes(b"RIFF")
    output_of("split", tmp_path / "calls", "-c", "label=label", "--fractions", "0.5,0.5", "--output", tmp_path / "a")
    assert {row["label"] for row in read_rows(tmp_path / "a" / "train.jsonl")} == {"yes", "no"}
    (tmp_path / "moods.json").write_text('{"train": [["a", "joy"], ["b", "joy"], ["c", "joy"]], "val": []}')
    assert "--part" in refused("inspect", tmp_path / "moods.json")
    form = ("--part", "train", "--names", "text,label")
    output_of("split", tmp_path / "moods.json", *form, "--fractions", "0.5,0.5", "--output", tmp_path / "b")
    assert read_rows(tmp_path / "b" / "train.jsonl").columns == ("text", "label")


def test_split_drops_rows_of_which_both_texts_are_repeated(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = [f"q{number % 2},c{number // 2}" for number in range(20)]
    path.write_text("\n".join(["question,context", *rows, rows[0], "Q1, c0"]) + "\n")
    for column in ("question", "context"):
        out = output_of("split", path, "-c", f"text={column}", "--output", tmp_path / column)
        assert "2 of 22 rows repeat an earlier text and were dropped" in out
    path.write_text("title,body\n" + "a,b\n" * 2 + "a,c\n" * 20)
    out = output_of(
        "split", path, "-c", "text=title", "-c", "text_pair=body", "-o", tmp_path / "b", "--fractions", ".5,.5"
    )
    assert "20 of 22 rows repeat" in out


def test_split_reads_words_and_missing_texts(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for same in ("null", '["a", "b"]'):
        path.write_text(
            "".join(f'{{"text": {value}}}\n' for value in (same, same, '"c"' if same == "null" else "null"))
        )
        out = output_of("split", path, "-c", "text=text", "-o", tmp_path / same[:1], "--fractions", ".5,.5")
        assert "1 of 3 rows repeat an earlier text" in out
    path.write_text('{"text": {"a": 1}}\n' * 3)
    done = run("split", path, "-c", "text=text", "-o", tmp_path / "c")
    assert "is {'a': 1}, an object; it must be a text" in str(done.exception)


def test_split_by_groups_into_another_format(table: Path, tmp_path: Path) -> None:
    output_of(
        "split",
        table,
        "--column",
        "group=label",
        "--fractions",
        "0.6,0.4",
        "--format",
        "jsonl",
        "--output",
        tmp_path / "g",
    )
    train, validation = (read_rows(tmp_path / "g" / f"{name}.jsonl") for name in ("train", "validation"))
    assert not {row["label"] for row in train} & {row["label"] for row in validation}


def test_card_holds_what_is_stated_and_measured(table: Path, tmp_path: Path) -> None:
    card = tmp_path / "CARD.md"
    options = (
        "--title",
        "Moods",
        "--licence",
        "CC0-1.0",
        "--bias",
        "Short.",
        "--bias",
        "Mine.",
        "--output",
        card,
    )
    output_of("card", table, "--column", "label=label", *options)
    text = card.read_text("utf-8")
    assert "# Moods" in text and "CC0-1.0" in text and "- Mine." in text and "| joy | 32 (72.7%) |" in text
    assert "already exists" in refused("card", table, *options)
    assert "the title is empty" in refused("card", table, "--title", " ", "--output", tmp_path / "none.md")
    assert not (tmp_path / "none.md").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("inspect", "{}", "--column", "text=txt"), "no column 'txt'; nearest: 'text'"),
        (("inspect", "{}", "-c", "label=mood"), "there are: 'text', 'label'; say which one it is: --column label=NAME"),
        (("split", "{}", "--output", "x", "--fractions", "0.5;0.5"), "numbers separated by commas"),
        (("split", "{}", "--output", "x", "--fractions", "0.5,0.1"), "make 0.6"),
        (("split", "{}", "--output", "x", "-c", "label=lable"), "nearest: 'label'"),
        (("split", "{}", "--output", "x", "-c", "label"), "--column takes name=value; got 'label'"),
        (
            ("split", "{}", "--output", "x", "-c", "by=label"),
            "--column is 'by'; it must be label, group, text or text_pair",
        ),
        (("split", "{}", "--output", "x", "--format", "xlsx"), "csv, tsv, jsonl"),
        (("inspect", "no.csv"), "no.csv"),
    ],
)
def test_error_messages(table: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str) -> None:
    monkeypatch.chdir(table.parent)
    assert message in refused(*(argument.format(table) for argument in arguments))
    assert not (table.parent / "x").exists()


def test_a_file_of_a_published_data_set_is_read_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text('{"tokens": ["Bern", "lies"], "ner_tags": [5, 0]}\n' * 2)
    done = run("inspect", path, "--kind", "panx", "--json")
    assert done.exit_code == 0 and json.loads(done.stdout)["files"][0]["classes"] == {"B-LOC": 2, "O": 2}
    assert "note: train.jsonl: has 2 rows; panx as published has 20,000 in its part train" in done.stderr
    done = run("inspect", path, "--kind", "imdb")
    assert "line 1 has no column 'text'; there are: 'tokens', 'ner_tags'" in str(done.exception)


def test_data_sets_are_listed_and_fetched(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("huggingface_hub.constants"), "HF_ASSETS_CACHE", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    listed = command("data", "list").stdout
    assert "emotion " in listed and "CC BY 3.0" in listed and "educational and" in listed
    assert max(map(len, listed.splitlines())) <= 80 and "✓" not in listed
    assert "classify:" in listed and re.search(r"tokens, +", listed) and "glassformer data list NAME" in listed
    report = json.loads(command("data", "list", "--json").stdout)
    first, fetched = report["data_sets"][0], report["fetched"]
    assert first["rows"]["train"] == 16_000 and first["files"]["val.txt"]["sha256"] is None and not fetched
    assert first["columns"] == {"text": "text", "label": "label"}

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    done = command("data", "fetch", "sst2", "-o", tmp_path / "here")
    assert done.returncode == 2 and "connections are off" in done.stderr
    assert "licence  none stated; the treebank is offered for research: not for commercial use" in done.stderr
    done = command("data", "fetch", "wnut17", "c4")
    assert done.returncode == 2 and "get its files from https://huggingface.co/datasets/allenai/c4" in done.stderr
    assert "licence  " not in done.stderr
    done = command("data", "fetch", "wnut17", "emotiom")
    assert done.returncode == 2 and "nearest: 'emotion'" in done.stderr and "licence" not in done.stderr

    monkeypatch.setattr(data_sets, "fetch_data_set", lambda name, output: output / name)
    done = command("data", "fetch", "wnut17", "-o", tmp_path, "--json")
    assert json.loads(done.stdout)[0]["folder"] == str(tmp_path / "wnut17") and "licence" not in done.stderr


def test_one_data_set_is_described(command: Command) -> None:
    described = command("data", "list", "panx", "clinc150").stdout
    assert re.search(r"splits +train 20,000, validation 10,000, test 10,000\n", described)
    assert "de 12,580, fr 4,580" in described and re.search(r"columns +tokens, tags\n", described)
    assert re.search(r"source +github.com/clinc/oos-eval @ 828f809\n", described)
    assert re.search(r"clinc150 +English questions .*; 2.49 MB\n", described) and "oos_test 1,000" in described
    (panx,) = json.loads(command("data", "list", "panx", "--json").stdout)["data_sets"]
    assert panx["sample"]["it"] == 1_680 and "Swiss" in panx["note"]
    done = command("data", "list", "pan-x")
    assert done.returncode == 2 and "no data set is called 'pan-x'; nearest: 'panx'" in done.stderr


def test_a_folder_of_a_published_data_set_is_read_by_its_split(tmp_path: Path) -> None:
    for name in ("train", "dev"):
        (tmp_path / f"{name}.tsv").write_text(f"sentence\tlabel\n{name} a\t1\n{name} b\t0\n")
    done = run("inspect", tmp_path, "--kind", "glue/sst2", "--part", "validation", "--json")
    assert done.exit_code == 0 and json.loads(done.stdout)["files"][0]["classes"] == {"positive": 1, "negative": 1}
    assert "has 2 rows; glue/sst2 as published has 872 in its part validation" in done.stderr
    assert "say which to read: --part validation" in refused("inspect", tmp_path, "--kind", "glue/sst2")
    assert "nearest: 'train'" in refused("inspect", tmp_path, "--kind", "glue/sst2", "--part", "trian")


def test_a_run_reads_fetched_data_or_a_folder_laid_out_alike(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.import_module("huggingface_hub.constants"), "HF_ASSETS_CACHE", str(tmp_path / "none"))
    config = tmp_path / "run.yaml"
    config.write_text("{task: tag, model: m, output: o, data: {fetch: wnut17, train: wnut17/en.train.conll.gz}}")
    done = command("train", config)
    assert done.returncode == 2 and "fetch it: glassformer data fetch wnut17" in done.stderr
    shown = command("train", config, "--data", tmp_path, "--show").stdout
    assert f"folder: {tmp_path}" in shown and "train: wnut17/en.train.conll.gz" in shown
    shown = command("train", config, "--data", "mine.conll", "--show").stdout
    assert "folder: null" in shown and "train: mine.conll" in shown
    done = command("train", config, "--data", tmp_path, "--output", tmp_path / "run", "--set", "model=m")
    assert done.returncode == 2 and "FOLDER in FOLDER/wnut17/en.train.conll.gz" in done.stderr
    done = command("train", config, "--set", "data.fetch=wnut")
    assert done.returncode == 2 and "no data set is called 'wnut'" in done.stderr


def test_inspect_knows_the_columns_of_conll_files(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("Ann\tB-person\nflies\tO\n\nTime\tO\nflies\tO\n\n", encoding="utf-8")
    report = json.loads(output_of("inspect", path, "--json"))
    assert "B-person" in json.dumps(report) and "words" in json.dumps(report)


def test_inspect_reads_the_first_column_of_texts_where_none_is_called_text(tmp_path: Path) -> None:
    path = tmp_path / "squad.json"
    questions = [{"id": "q1", "question": "Which city is it?", "answers": [{"text": "Rome", "answer_start": 0}]}]
    path.write_text(json.dumps({"data": [{"paragraphs": [{"context": "Rome is a city.", "qas": questions}]}]}))
    done = run("inspect", path)
    assert done.exit_code == 0 and "inspecting 'question'; for another one: --column text=NAME" in done.output
    assert "inspecting" not in output_of("inspect", path, "--column", "text=context")
