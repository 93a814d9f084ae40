"""Sheets of labels: out, gone through, and back; changed exactly where somebody wrote something."""

from __future__ import annotations

import csv
import io
import json
import shlex
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as some

from glassformer.cli.app import main
from glassformer.data.rows import read_rows
from glassformer.errors import DataError, UnsupportedError
from glassformer.evaluation.error_analysis.corrected import (
    Corrections,
    RowComment,
    apply_corrections,
    retrain_command,
    write_corrected,
)
from glassformer.evaluation.error_analysis.review import (
    escape_formula,
    read_sheet,
    unescape_formula,
    write_sheet,
)
from glassformer.evaluation.runs import EvaluatedSplit, open_run
from glassformer.runs.config import parse_config
from glassformer.tasks.predictions import write_predictions
from glassformer.tasks.types import Prediction
from tests.evaluation.judged_run import NAMES, classified, report, tagged, write_run

Line = dict[str, str]


def lines_of(path: Path) -> list[Line]:
    return list(csv.DictReader(io.StringIO(path.read_text("utf-8-sig"), newline="")))


def write(path: Path, lines: list[Line], delimiter: str = ",", encoding: str = "utf-8", end: str = "\r\n") -> None:
    with path.open("w", encoding=encoding, newline="") as file:
        table = csv.DictWriter(file, list(lines[0]), delimiter=delimiter, lineterminator=end)
        table.writeheader()
        table.writerows(lines)


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    place = tmp_path / "sheet.csv"
    assert write_sheet(place, classified(), worst=6) == 6
    return place


@given(some.text())
def test_no_cell_is_a_formula_and_all_read_back(text: str) -> None:
    assert not escape_formula(text).startswith(("=", "+", "-", "@", "\t", "\r"))
    assert unescape_formula(escape_formula(text)) == text


@pytest.mark.parametrize(
    ("delimiter", "encoding", "end"),
    [(",", "utf-8", "\n"), (";", "utf-8-sig", "\r\n"), ("\t", "utf-8", "\n")],
)
def test_there_and_back(sheet: Path, delimiter: str, encoding: str, end: str) -> None:
    """As any spreadsheet saves it: sorted anew, with other delimiters, numbers rewritten, a column added."""
    lines = lines_of(sheet)
    lines[0] |= {"correction": "love", "comment": "=what(1)"}
    lines[1] |= {"correction": lines[1]["label"]}
    lines[2] |= {"correction": "delete"}
    changed = [line | {"loss": "3,1", "mine": "x"} for line in reversed(lines)]
    write(sheet, changed, delimiter, encoding, end)
    records = classified()
    found = read_sheet(sheet, records, NAMES)
    first, dropped = int(lines[0]["index"]), int(lines[2]["index"])
    assert found.labels == {first: "love"} and found.dropped_rows == {dropped} and found.unchanged == 4
    assert found.comments == [RowComment(records[first].where, "=what(1)")]
    rows = [{"text": x.row["text"], "label": x.label, "id": x.index} for x in records]
    new = list(apply_corrections(rows, records, found, "label"))
    assert new == [row | ({"label": "love"} if row["id"] == first else {}) for row in rows if row["id"] != dropped]


@pytest.mark.parametrize(
    ("cell", "escaped"),
    [
        ("=1+1", "'=1+1"),
        ("good film;=cmd|' /C calc'!A0;x", "good film;'=cmd|' /C calc'!A0;x"),
        ('a;"=1"; -2\t@x\n+y', "a;'\"=1\";' -2\t'@x\n'+y"),
        ("＝1;－2;＋3;＠4", "'＝1;'－2;'＋3;'＠4"),
        ("  =1", "'  =1"),
        ("plain; well - so, -1 + 2", "plain; well - so, -1 + 2"),
        ("", ""),
    ],
)
def test_no_cell_becomes_a_formula_where_semicolons_or_tabs_separate(cell: str, escaped: str) -> None:
    assert escape_formula(cell) == escaped and unescape_formula(escaped) == cell


@given(some.text(some.sampled_from("a'=;\t\n \"－")))
def test_escaping_is_reverted(cell: str) -> None:
    assert unescape_formula(escape_formula(cell)) == cell


def test_words_there_and_back(tmp_path: Path) -> None:
    place = tmp_path / "sheet.csv"
    write_sheet(place, tagged())
    lines = lines_of(place)
    assert len(lines) == 7 and lines[5]["text"] == "'=Jeff"
    lines[2]["correction"] = "B-PER"
    lines[6]["text"] = "22/08/1996"  # as a spreadsheet may have it
    write(place, lines)
    found = read_sheet(place, tagged(), ["O", "B-PER", "B-LOC"])
    assert found.labels == {0: ["B-PER", "O", "B-PER"]} and found.corrected == 1
    numbered = [
        {"tokens": x.row["tokens"], "tags": [["O", "B-PER", "B-LOC"].index(t) for t in x.label]} for x in tagged()
    ]
    assert next(apply_corrections(numbered, tagged(), found, "tags"))["tags"] == [1, 0, 1], "by number, as they were"


@pytest.mark.parametrize(
    ("label", "said", "correction", "value", "written"),
    [
        (["bug"], ["docs"], "bug|docs", ["bug"], ["bug", "docs"]),
        (["bug"], ["docs"], "(none)", "bug", ""),
        ([], ["docs"], "docs", [], ["docs"]),
        (3.5, 1.0, "2,25", 3.5, 2.25),
        (-1.5, 1.0, "-2", "-1.5", "-2"),
        ("1", "0", "0", 1, 0),
    ],
)
def test_other_labels(tmp_path: Path, label: Any, said: Any, correction: str, value: Any, written: Any) -> None:
    first = replace(classified(1)[0], label=label, predicted=said)
    other = replace(classified(2)[1], label="0", predicted="0") if label == "1" else None
    records = [first, *([other] if other else [])]
    write_sheet(tmp_path / "sheet.csv", records)
    lines = lines_of(tmp_path / "sheet.csv")
    next(line for line in lines if line["index"] == "0")["correction"] = correction
    write(tmp_path / "sheet.csv", lines)
    found = read_sheet(tmp_path / "sheet.csv", records, ["bug", "docs", "0", "1"])
    assert next(apply_corrections([{"y": value}, {"y": 0}], records, found, "y"))["y"] == written


Edit = Callable[[list[Line]], Any]


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (
            lambda x: x[1].update(correction="lov"),
            r"line 3 has the correction 'lov', which is no label.*love",
        ),
        (lambda x: x[1].update(text="another"), "line 3 has another text than the row: 'another'"),
        (lambda x: x[1].update(label="hate"), "line 3 has 'hate' as label, .*column 'correction'"),
        (lambda x: x[1].update(row="r123"), "line 3 is about another row than val.csv: line"),
        (lambda x: x[1].update(index="77"), "line 3 has '77' as index; there is no such row"),
        (lambda x: x[1].update(index="²"), "line 3 has '²' as index; there is no such row"),
        (lambda x: x.append(x[0]), "line 8 repeats line 2"),
        (lambda x: [line.pop("row") for line in x], "lacks the column 'row'"),
    ],
)
def test_what_is_unclear_is_said_with_its_line(sheet: Path, edit: Edit, said: str) -> None:
    lines = lines_of(sheet)
    edit(lines)
    write(sheet, lines)
    with pytest.raises(DataError, match=said):
        read_sheet(sheet, classified(), NAMES)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "lacks the column 'index'"),
        (b"PK\x03\x04\xff", "a spreadsheet file; save it as CSV"),
        ("index,row".encode("utf-16"), "no UTF-8 text; save it as CSV"),
        (b'index,row,text,label,correction\n1,"2', "line 2 cannot be read as a row"),
        (b"index,row,text,label,correction,row\n", "has the column 'row' twice"),
    ],
)
def test_files_that_are_no_sheets(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "sheet.csv").write_bytes(content)
    with pytest.raises(DataError, match=said):
        read_sheet(tmp_path / "sheet.csv", classified(), NAMES)


def test_new_labels_are_asked_for_and_texts_have_no_sheet(sheet: Path, tmp_path: Path) -> None:
    lines = lines_of(sheet)
    lines[0]["correction"] = "awe"
    write(sheet, lines)
    assert [*read_sheet(sheet, classified(), NAMES, new_labels=True).labels.values()] == ["awe"]
    with pytest.raises(DataError, match="exists already and may contain edits"):
        write_sheet(sheet, classified())
    text = Prediction(index=0, where="x", row={"source": "a"}, label=["b"], predicted="c", loss=1.0)
    with pytest.raises(UnsupportedError, match="labels"):
        write_sheet(tmp_path / "texts.csv", [text])


# --------------------------------------------------------------------------------------- at the command line


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as done:
        main([*map(str, arguments)])
    said = capsys.readouterr()
    return int(done.value.code or 0), said.out, said.err


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    """A run that was validated on a file."""
    rows = [{"text": x.row["text"], "label": x.label} for x in classified()]
    return write_run(tmp_path / "home", "classify", rows, classified(), NAMES)


def test_the_whole_way(judged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sheet, new = tmp_path / "sheet.csv", tmp_path / "new.jsonl"
    original = (tmp_path / "val.jsonl").read_bytes()
    code, out, _ = run(capsys, "review", "out", judged, sheet, "--worst", 2)
    assert code == 0 and "2 of 30 rows" in out
    lines = lines_of(sheet)
    lines[0]["correction"] = "love"
    write(sheet, lines)
    code, out, _ = run(capsys, "review", "in", judged, sheet, "-o", new)
    assert code == 0 and "1 label corrected in 1 row, " in out and "love      1" in out
    assert f"--validation {new}" in out and "--data" not in out
    before, after = ([json.loads(x) for x in text.splitlines()] for text in (original, new.read_bytes()))
    assert [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b] == [int(lines[0]["index"])]
    assert (tmp_path / "val.jsonl").read_bytes() == original
    code, _, err = run(capsys, "review", "in", judged, sheet, "-o", tmp_path / "val.jsonl")
    assert code == 2 and "already exists" in err and (tmp_path / "val.jsonl").read_bytes() == original


def test_rows_of_a_file_of_their_own(judged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They can be looked at without it; written with corrections they cannot."""
    shutil.copytree(judged / "evaluation" / "validation", judged / "evaluation" / "new")
    sheet, part = tmp_path / "sheet.csv", ["--part", "new", "--data", tmp_path / "val.jsonl"]
    code, out, _ = run(capsys, "review", "out", judged, sheet, *part)
    assert code == 0 and f"--part new --data {tmp_path / 'val.jsonl'}" in out
    corrected = tmp_path / "new.jsonl"
    code, _, err = run(capsys, "review", "in", judged, sheet, *part[:2], "-o", corrected)
    assert code == 2 and "files of their own (val.csv); name them too: --data FILE --part new" in err
    assert run(capsys, "review", "in", judged, sheet, *part, "-o", corrected)[0] == 0
    assert len(corrected.read_text().splitlines()) == 30

    own = (tmp_path / "val.jsonl").read_text()
    (tmp_path / "val.jsonl").write_text(own.replace('"text"', '"tweet"'))
    judged_then = report("classify", classified(), read_rows(str(tmp_path / "val.jsonl")).fingerprint)
    judged_then.save(judged / "evaluation" / "new" / "report.json")
    named = [*part, "--column", "text=tweet"]
    sheet.unlink()
    corrected.unlink()
    code, out, _ = run(capsys, "review", "out", judged, sheet, *named)
    assert code == 0 and f"--part new --data {tmp_path / 'val.jsonl'} --column text=tweet" in out
    assert run(capsys, "review", "in", judged, sheet, *named, "-o", corrected)[0] == 0
    assert json.loads(corrected.read_text().splitlines()[0]) == json.loads(own.splitlines()[0])


def test_rows_of_a_file_of_another_format(judged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(judged / "evaluation" / "validation", judged / "evaluation" / "new")
    table, sheet = tmp_path / "new.csv", tmp_path / "sheet.csv"
    rows = [json.loads(line) for line in (tmp_path / "val.jsonl").read_text().splitlines()]
    table.write_text("text;label\n" + "".join(f"{row['text']};{row['label']}\n" for row in rows))
    saved = report("classify", classified(), read_rows(str(table), delimiter=";").fingerprint)
    saved.save(judged / "evaluation" / "new" / "report.json")
    options = ["--data", table, "--part", "new", "--delimiter", ";"]
    code, out, err = run(capsys, "review", "out", judged, sheet, *options)
    assert code == 0, err
    command = shlex.split(out.partition("glassformer ")[2].replace("corrected.jsonl", str(tmp_path / "c.jsonl")))
    assert command[-2:] == ["--delimiter", ";"], "the command that is suggested reads the same file"
    code, out, err = run(capsys, *command)
    assert code == 0 and len((tmp_path / "c.jsonl").read_text().splitlines()) == 30, err


def test_data_that_were_changed_since(judged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sheet = tmp_path / "sheet.csv"
    run(capsys, "review", "out", judged, sheet)
    with (tmp_path / "val.jsonl").open("a") as file:
        file.write('{"text": "more", "label": "joy"}\n')
    code, _, err = run(capsys, "review", "in", judged, sheet, "-o", tmp_path / "new.jsonl")
    assert code == 2 and "its rows are not those that were evaluated" in err


def test_errors_in_the_terminal_and_as_json(judged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "errors", judged, "--print", "--top", 2)
    assert code == 0 and "30 rows, 4 of them wrong" in out and "true \\ predicted" in out
    code, out, _ = run(capsys, "errors", judged, "--json")
    assert code == 0 and json.loads(out)["confusion"]["names"] == NAMES
    code, out, _ = run(capsys, "errors", judged, "--html", tmp_path / "pages", "--look", 0, "--top", 1)
    assert code == 0 and (tmp_path / "pages" / "errors.html").read_text().startswith("<!doctype html>")
    for arguments, said in [
        ([tmp_path], "holds no run"),
        ([judged, "--part", "vlidation"], "no split 'vlidation'"),
        ([judged, "--html", tmp_path / "no" / "page.html"], "no such folder"),
    ]:
        code, _, err = run(capsys, "errors", *arguments)
        assert code == 2 and said in err


def test_a_share_that_was_held_out_is_mended_in_its_file(tmp_path: Path) -> None:
    rows = [{"text": f"t {i}", "label": NAMES[i % 3]} for i in range(30)]
    run = open_run(write_run(tmp_path / "home", "classify", rows, classified(), NAMES, validation=0.2))
    held = run.splits[1]
    assert held is not None
    records = [
        Prediction(
            index=i,
            where=held.where(i),
            row={"text": held[i]["text"]},
            label=held[i]["label"],
            predicted="joy",
            loss=1.0,
        )
        for i in range(len(held))
    ]
    part = EvaluatedSplit(run, "validation", None, report("classify", records, held.fingerprint), records)
    written = write_corrected(part, Corrections({0: "awe"}, {1}), tmp_path / "new.jsonl")
    after = [json.loads(x) for x in (tmp_path / "new.jsonl").read_text().splitlines()]
    expected = [
        row | ({"label": "awe"} if row["text"] == held[0]["text"] else {})
        for row in rows
        if row["text"] != held[1]["text"]
    ]
    assert after == expected and written.rows == 29
    assert f"--data {tmp_path / 'new.jsonl'}" in retrain_command(
        part, written
    ) and "--validation" not in retrain_command(part, written)


def test_a_part_of_a_file_is_mended_into_files_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is suggested then has to read them: in no part of them, whatever the run's own files were."""
    rows = [{"text": f"t {i}", "label": NAMES[i % 3]} for i in range(30)]
    parts = {"train": [[*row.values()] for row in rows], "val": [[*row.values()] for row in rows]}
    (tmp_path / "all.json").write_text(json.dumps(parts))
    reading = {
        "train": "all.json",
        "validation": "all.json",
        "format": {"part": "train", "names": ["text", "label"]},
        "validation_format": {"part": "val"},
    }
    folder = write_run(tmp_path / "home", "classify", rows, classified(), NAMES, **reading)
    judged_rows = open_run(folder).read_rows()
    records = [
        Prediction(
            index=i, where=judged_rows.where(i), row={"text": row["text"]}, label=row["label"],
            predicted="joy", loss=1.0,
        )
        for i, row in enumerate(rows)
    ]  # fmt: skip
    place = folder / "evaluation" / "validation"
    report("classify", records, judged_rows.fingerprint).save(place / "report.json")
    write_predictions(place / "examples.jsonl", records)

    sheet = tmp_path / "sheet.csv"
    assert run(capsys, "review", "out", folder, sheet, "--worst", 3)[0] == 0
    code, out, _ = run(capsys, "review", "in", folder, sheet, "--output", tmp_path / "new.jsonl")
    assert code == 0
    command = next(line for line in out.splitlines() if line.startswith("  glassformer"))
    words = shlex.split(command.removeprefix("  glassformer "))
    code, out, err = run(capsys, *words, "--show")
    assert code == 0, err
    data = parse_config(yaml.safe_load(out)).data
    assert len(data.read(data.train)) == len(data.for_validation.read(data.validation)) == 30
