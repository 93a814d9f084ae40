"""`glassformer tokenizer train`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from glassformer.cli.app import app
from glassformer.errors import DataError, GlassformerError
from glassformer.text import Tokenizer
from glassformer.text.train import train_tokenizer
from tests.text.families import lines

LINES = [line for line in lines()[:200] if line.strip()]


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")


def run(*arguments: object, command: str = "train") -> str:
    done = CliRunner().invoke(app, ["tokenizer", command, *map(str, arguments)])
    if isinstance(done.exception, GlassformerError):
        raise done.exception
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


def test_texts_tables_and_objects_give_what_python_gives(tmp_path: Path) -> None:
    text, rows = tmp_path / "a.txt.gz", tmp_path / "b.jsonl"
    with gzip.open(text, "wt", encoding="utf-8") as file:
        file.write("\n".join(LINES[:100]))
    rows.write_text("".join(json.dumps({"n": i, "said": line}) + "\n" for i, line in enumerate(LINES[100:])))
    options = (
        "--column",
        "text=said",
        "--kind",
        "wordpiece",
        "--lower",
        "--special",
        "<user>",
        "--size",
        400,
    )
    out = run(text, rows, *options, "--output", tmp_path / "there")
    expected = train_tokenizer(LINES, kind="wordpiece", lower=True, special=["<user>"], size=400)
    loaded = Tokenizer.from_folder(tmp_path / "there")
    assert loaded.engine.to_str() == expected.engine.to_str()
    assert "400" in out and "[PAD] 0 [UNK] 1 [CLS] 2" in out and " 0.000%" in out


def test_texts_that_are_not_utf_8(tmp_path: Path) -> None:
    (tmp_path / "l.txt").write_text("schön\n" * 9, encoding="latin-1")
    options = ("--kind", "characters", "--output", tmp_path / "there")
    with pytest.raises(DataError, match=r"or give its encoding: --encoding cp1252$"):
        run(tmp_path / "l.txt", *options)
    run(tmp_path / "l.txt", *options, "--encoding", "latin-1")
    assert "ö" in Tokenizer.from_folder(tmp_path / "there").get_vocab()


def test_like_a_model_with_a_report_for_programs(tmp_path: Path, minilm: Path) -> None:
    (tmp_path / "a.csv").write_text("text\n" + "time flies like an arrow\n" * 5, encoding="utf-8")
    out = run(tmp_path / "a.csv", "--like", minilm, "--size", 40, "--output", tmp_path / "there", "--json")
    report = json.loads(out)
    assert report["tokens"] == 40 and report["special"]["[PAD]"] == 0
    measured = report["coverage"]
    assert (measured["texts"], measured["words"], measured["unknown_share"]) == (5, 25, 0)
    assert Tokenizer.from_folder(tmp_path / "there").model_max_length == 512


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("", (), "a.txt: holds no row"),
        ("ab", ("--kind", "wordpiece", "--size", 5), "give a size above"),
        ("ab", ("--size", 300), "size 257"),
        ("ab", ("--for", "bort"), "nearest: 'bert'"),
    ],
)
def test_after_an_error_nothing_is_written(
    tmp_path: Path, content: str, options: tuple[object, ...], message: str
) -> None:
    (tmp_path / "a.txt").write_text(content)
    with pytest.raises(GlassformerError, match=message):
        run(tmp_path / "a.txt", *options, "--output", tmp_path / "there")
    assert not (tmp_path / "there").exists()


def test_places_are_named_and_tokenizers_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": 5}\n')
    with pytest.raises(GlassformerError, match=r"a\.jsonl: line 1: 'text' is 5; it must be a text"):
        run(tmp_path / "a.jsonl", "--output", tmp_path / "there")
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "vocab.txt").write_text("mine")
    with pytest.raises(GlassformerError, match=r"vocab\.txt: already exists; choose another folder with --output$"):
        run(tmp_path / "a.jsonl", "--output", tmp_path / "there")


def test_characters_of_a_plain_file_have_its_line_feeds(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("ROMEO:\nNay\n", encoding="utf-8")
    run(file, "--kind", "characters", "--output", tmp_path / "out")
    tokenizer = Tokenizer.from_folder(tmp_path / "out")
    assert tokenizer.decode(tokenizer.encode("Nay\nROMEO:"), skip_special_tokens=True) == "Nay\nROMEO:"
    run(file, "--kind", "words", "--min-frequency", 1, "--lower", "--output", tmp_path / "words")
    assert Tokenizer.from_folder(tmp_path / "words").tokenize("nay sayer") == ["nay", "[UNK]"]


def test_check_compares_tokenizers_on_files(tmp_path: Path, minilm: Path) -> None:
    file, names = tmp_path / "a.csv", tmp_path / "names.txt"
    file.write_text("body\ndef elif time\n", encoding="utf-8")
    names.write_text("time\nelif\n", encoding="utf-8")
    options = ("--column", "text=body", "--words", "python", "--words", names)
    shown = run(minilm, file, *options, command="check")
    assert "Python keywords: in pieces" in shown and "names.txt: in pieces" in shown and "1 of 2" in shown
    report = json.loads(run(minilm, file, *options, "--against", minilm, "--json", command="check"))
    (quality,) = report["tokenizers"]
    assert quality["split"]["names.txt"] == ["elif"]
    assert quality["coverage"]["words"] == 3 and quality["coverage"]["unknown_share"] == 0
    with pytest.raises(GlassformerError, match=r"--words pyton: there is no such file; give `python`, or a file"):
        run(minilm, file, "--words", "pyton", command="check")
