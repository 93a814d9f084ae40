"""Text made safe, and tables that fit."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from glassformer.cli import screen
from glassformer.cli.app import main
from glassformer.cli.screen import folded, note, print_facts, print_lines, say, show_tables, table_of, visible
from glassformer.reports.table import IntervalCell, Table


@given(st.text())
def test_visible_text_is_printable(text: str) -> None:
    assert visible(text).isprintable()
    if text.isprintable():
        assert visible(text) == text


def test_intervals_go_below_where_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    def lines(width: int) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(width))
        console = Console()
        with console.capture() as shown:
            console.print(table_of(["model", "accuracy"], [["a", "0.959 [0.932, 0.987]"]], left=1))
        return shown.get().splitlines()

    assert lines(40)[1:] == ["a      0.959 [0.932, 0.987]"]
    assert [line.split()[-2:] for line in lines(24)[1:]] == [["a", "0.959"], ["[0.932,", "0.987]"]]
    assert lines(16)[1] == "a         0.959" and "without" in lines(16)[2]


def test_a_drawn_interval_is_named_where_several_columns_have_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")

    def headings(*names: str) -> list[str]:
        cells = [[IntervalCell(f"0.{i} [0.1, 0.9]", i / 10, 0.1, 0.9) for _ in names] for i in (3, 4)]
        console = Console()
        with console.capture() as shown:
            console.print(table_of(["k", *names], [[str(i), *row] for i, row in enumerate(cells)], left=1))
        assert "╶" in shown.get()
        return shown.get().splitlines()[0].split()

    assert headings("bm25", "dense") == ["k", "bm25", "bm25", "dense"]
    assert headings("bm25") == ["k", "bm25"]


@pytest.mark.parametrize(
    ("cell", "left_out"),
    [
        ("4.2 ms [3.9 ms, 4.5 ms]", True),
        ("+5.74 [-4.99, +6.51]", True),
        ("nan [nan, nan]", True),
        ("85% [80%, 90%]", True),
        ("see [this, that] first", False),
        ("a [CLS], and [SEP, then] more", False),
        ("tokens [[CLS], a, [SEP]]", False),
    ],
)
def test_brackets_of_texts_are_no_intervals(cell: str, left_out: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "9")
    table = table_of(["model", "x"], [["a", cell]], left=1)
    assert ("without intervals" in str(table.caption)) is left_out
    assert left_out or "".join(str(part) for part in table.columns[1].cells) == cell


def test_what_is_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Messages are folded between words, rows of columns cut; a file or a pipe gets all of both."""
    facts, row, message = (
        {"text": "fruit flies like a banana"},
        "loss  a b c d e f g h",
        "error: runs/a: no such folder",
    )
    monkeypatch.setenv("COLUMNS", "16")
    print_facts(facts)
    print_lines(row)
    assert capsys.readouterr().out.splitlines() == [" text  fruit flies like a banana", row]
    assert folded(message) == message
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    print_facts(facts)
    print_lines(row)
    lines = [line.rstrip() for line in re.sub(r"\x1b\[\d*m", "", capsys.readouterr().out).splitlines()]
    assert lines == [" text  fruit", "       flies", "       like a", "       banana", "loss  a b c d e…"]
    assert folded(message) == "error: runs/a:\nno such folder"


def test_columns_of_texts_fold_before_a_column_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    advice = "three rows repeat an earlier one, so that the validation data may hold training texts"
    example = "an example of a row that continues for quite a while, and is longer than a line"
    table = Table(
        ["column", "missing", "advice", "example"], [["text", "0", advice, example], ["label", "2", "rare", "x"]]
    )
    monkeypatch.setenv("COLUMNS", "80")
    show_tables([table])
    lines = capsys.readouterr().out.splitlines()
    assert "fit this terminal" not in lines[-1] and max(map(len, lines)) <= 80
    printed = [line[: lines[0].index("example")].rstrip() for line in lines[1:]]
    assert " ".join(" ".join(printed).split()) == f"text 0 {advice} label 2 rare", "each word whole, from the left"
    monkeypatch.setenv("COLUMNS", "40")
    show_tables([table])
    said = " ".join(capsys.readouterr().out.split())
    assert said.endswith("the first 2 of 3 columns fit this terminal; --json has all")


@pytest.mark.parametrize("score", ["0.53", "0.53 [0.41, 0.62]"])
def test_texts_keep_their_brackets_and_long_words(
    score: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"see [the guide](../guide.md), values [1, 2], {'x' * 100}"
    monkeypatch.setenv("COLUMNS", "40")
    show_tables([Table(["score", "place", "passage"], [[score, "modules.md", text]])])
    printed = capsys.readouterr().out
    assert "fit this terminal" not in printed
    assert all(word in printed for word in ("[the", "[1,", "2],")) and printed.count("x") == 100


def test_a_note_quotes_no_control_character(capsys: pytest.CaptureFixture[str]) -> None:
    note("a\x1b[31m name\x9b2J\nof two lines")
    assert capsys.readouterr().err == "note: a\\x1b[31m name\\x9b2J\nof two lines\n"


def test_an_error_quotes_no_control_character(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["predict", "classify", "no\x1b[31mfolder/\x07", "text"])
    printed = capsys.readouterr().err
    assert "no\\x1b[31mfolder/\\x07" in printed and not {"\x1b", "\x07"} & {*printed}


@pytest.mark.parametrize(
    "arguments",
    [
        ["EVIL"],
        ["--EVIL"],
        ["look", "--EVIL"],
        ["look", "model", "--port", "EVIL"],
        ["look", "model", "--port=EVIL"],
        ["corpus", "EVIL"],
        ["review", "in", "--EVIL"],
        ["embed-map", "model", "texts", "--method", "EVIL"],
        ["info", "model", "one", "EVIL"],
        ["train", "--lr", "EVIL"],
    ],
    ids=" ".join,
)
def test_a_usage_error_quotes_no_control_character(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Bidi marks would turn the rest of the line around, and escape sequences colour it."""
    evil = "e\u202ev\u2066i\x1b]0;l\x07\u200e\x9b2J\r"
    with pytest.raises(SystemExit, match="2"):
        main([argument.replace("EVIL", evil) for argument in arguments])
    printed = capsys.readouterr().err
    assert printed and not [c for c in printed if not c.isprintable() and c != "\n"]


def test_a_usage_error_shows_what_was_typed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["look", "--ev\u202eil"])
    assert "No such option: --ev\\u202eil" in capsys.readouterr().err


def test_a_traceback_quotes_no_control_character(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("glassformer")
    level = logger.level
    try:
        with pytest.raises(SystemExit, match="2"):
            main(["--debug", "predict", "classify", "no\x1b[31mfolder\u202e/\x07", "text"])
    finally:  # else every later test of this process would log as --debug does
        logger.setLevel(level)
    printed = capsys.readouterr().err
    assert "Traceback" in printed and not [c for c in printed if not c.isprintable() and c != "\n"]


def test_what_is_said_holds_no_escape_sequences(capsys: pytest.CaptureFixture[str]) -> None:
    say("\nsaved in page\x1b]0;title\x07.html")
    assert capsys.readouterr().out == "\nsaved in page\\x1b]0;title\\x07.html\n"


def test_commands_print_values_without_control_characters() -> None:
    """A sentence with values goes through `say`, or has its values made visible."""
    raw = [
        f"{file.name}: {line.strip()}"
        for file in sorted(Path(screen.__file__).parent.glob("*.py"))
        for line in file.read_text("utf-8").splitlines()
        if 'typer.echo(f"' in line and "visible" not in line
    ]
    assert not raw
