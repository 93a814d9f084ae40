"""Rows from files of every kind: what they hold, what is said of a wrong one, and how little memory they take.

Rows that are written come back as they were.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer import ConfigError, DataError
from glassformer.data.json_rows import CHUNK_BYTES
from glassformer.data.rows import open_sources, read_rows, write_rows
from glassformer.data.streams import stream_rows

CSV = 'text,label\r\n"so ""glad"",\nreally",joy\r\n\r\nüber,anger\r\n'
READ = [{"text": 'so "glad",\nreally', "label": "joy"}, {"text": "über", "label": "anger"}]


def put(path: Path, text: str | bytes) -> Path:
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


KINDS: list[tuple[str, str, dict[str, Any], list[dict[str, Any]], list[int]]] = [
    ("a.csv", CSV, {}, READ, [2, 5]),
    ("a.CSV.gz", "\ufeff" + CSV, {}, READ, [2, 5]),
    ("a.tsv", 'text\tn\n"so\t1\n', {"types": {"n": "int"}}, [{"text": '"so', "n": 1}], [2]),
    (
        "a.tsv",
        'text\tn\n"s\to"\t1.5',
        {"quotes": True, "types": {"n": "float"}},
        [{"text": "s\to", "n": 1.5}],
        [2],
    ),
    (
        "a.txt.gz",
        "i am glad;joy\ni am 5' 2\";fear\n",
        {"kind": "csv", "delimiter": ";", "quotes": False, "header": False, "names": ["text", "label"]},
        [{"text": "i am glad", "label": "joy"}, {"text": "i am 5' 2\"", "label": "fear"}],
        [1, 2],
    ),
    ("a.jsonl", '{"t": "a"}\n\n  {"t": "\\ud83d\\ude00"}', {}, [{"t": "a"}, {"t": "😀"}], [1, 3]),
    ("a.ndjson.gz", '\ufeff{"t": [1]}\n', {}, [{"t": [1]}], [1]),
    ("a.json", '\ufeff\n [{"t": "ü"},\n\n {"t":\n 2.5 , "u": {}}\n]\n', {"columns": ["u"]}, [], []),
    (
        "b.json",
        '\ufeff\n [{"t": "ü"},\n\n {"t":\n "a" , "u": {}}\n]\n',
        {},
        [{"t": "ü"}, {"t": "a", "u": {}}],
        [2, 4],
    ),
    ("c.json", '[{"t":"[]{,"},{"t":"\\"}"}]', {}, [{"t": "[]{,"}, {"t": '"}'}], [1, 1]),
    (
        "p.json",
        '{"a": 12,\n "train": [["x", "joy"],\n ["[]", "anger"]], "skip": [{"u": [1]}, [2, 3]], "none": [],\n'
        ' "more": [ ["y",\n "joy"] ], "b": {"c": null}}\n',
        {"part": ["more", "train"], "names": ["t", "label"]},
        [{"t": "x", "label": "joy"}, {"t": "[]", "label": "anger"}, {"t": "y", "label": "joy"}],
        [2, 3, 4],
    ),
    (
        "p.json.gz",
        '{"val": [{"t": 1}, {"t": 2}], "train": [{"t": "x"}]}',
        {"part": "val"},
        [{"t": 1}, {"t": 2}],
        [1, 1],
    ),
    (
        "l.json",
        '[["a", 1],\n["b", 2]]',
        {"names": ["t", "n"]},
        [{"t": "a", "n": 1}, {"t": "b", "n": 2}],
        [1, 2],
    ),
    ("d.json", '{"t": 1}\n{"t": 2}\n', {}, [{"t": 1}, {"t": 2}], [1, 2]),
    (
        "a.conll",
        "-DOCSTART- O\n\nA b\tB-X\nc\tO\n\n\n\nd\tO",
        {},
        [{"tokens": ["A b", "c"], "tags": ["B-X", "O"]}, {"tokens": ["d"], "tags": ["O"]}],
        [3, 8],
    ),
    (
        "a.bio",
        "# id 1\nVinken NNP  O\n# more\njoins VBZ O\n",
        {"fields": {"tokens": 0, "pos": 1}, "comment": "# "},
        [{"tokens": ["Vinken", "joins"], "pos": ["NNP", "VBZ"]}],
        [1],
    ),
    ("a.txt", " a \r\n\n\nb", {}, [{"text": " a "}, {"text": "b"}], [1, 4]),
    ("a.txt", " a \r\n\nb", {"blank": True, "name": "x"}, [{"x": " a "}, {"x": ""}, {"x": "b"}], [1, 2, 3]),
    (
        "a.txt",
        "\na\n\nb\n<|e|>\nc\n<|e|>\n\n<|e|>\n",
        {"separator": "<|e|>"},
        [{"text": "a\n\nb"}, {"text": "c"}],
        [2, 6],
    ),
    ("a.txt", "a\nb\n\n \nc", {"separator": ""}, [{"text": "a\nb"}, {"text": "c"}], [1, 5]),
    ("a.txt", "\na\n\nb\n", {"whole": True}, [{"text": "a\n\nb"}], [2]),
]


@pytest.mark.parametrize(("name", "text", "options", "expected", "lines"), KINDS)
def test_kinds(
    tmp_path: Path, name: str, text: str, options: dict[str, Any], expected: list[Any], lines: list[int]
) -> None:
    path = put(tmp_path / name, text)
    if not expected:
        with pytest.raises(DataError, match="line 2: no column 'u'; there are: 't'"):
            read_rows(path, **options)
        return
    rows = read_rows(str(path), **options)
    assert list(rows) == expected == [rows[index] for index in range(len(rows))]
    assert [rows.where(index) for index in range(len(rows))] == [f"{path}: line {line}" for line in lines]
    assert rows[-1] == expected[-1] and rows.file(0) == str(path)
    assert list(rows.columns) == list({column: None for row in expected for column in row})
    with pytest.raises(IndexError, match="there is no row"):
        rows[len(rows)]


TORN = gzip.compress(b"text\na cat\n", mtime=0)  # the time would be part of a test's name
TORN = TORN[:-8] + bytes(4) + TORN[-4:]
"""An archive whose checksum is another."""
WRONG: list[tuple[str, str | bytes, dict[str, Any], str]] = [
    ("a.csv", "", {}, "a.csv: holds no row"),
    ("a.csv", "text,label\n", {}, "holds no row"),
    ("a.jsonl", "\n\n", {}, "holds no row"),
    ("a.json", "[]", {}, "holds no row"),
    ("a.json", "", {}, "holds no row"),
    ("a.conll", "\n\n", {}, "holds no row"),
    (
        "a.csv",
        "text,lable\na,b\n",
        {"columns": ["text", "label"]},
        "line 2: no column 'label'; nearest: 'lable'",
    ),
    ("a.csv", "text,text\na,b\n", {}, "line 1 names the column 'text' twice"),
    (
        "a.csv",
        "text,label\na,b\na,b,c\n",
        {},
        "line 3 has 3 fields, the first line names 2; .* double quotes",
    ),
    ("a.csv", "a;b;c\n", {"header": False, "names": ["x", "y"]}, "line 1 has 1 fields, names has 2"),
    ("a.csv", 'text,label\na,b\nc,"d\ne,f\n', {}, "line 3 cannot be read as a row: unexpected end"),
    (
        "a.csv",
        'text,label\na,b\nc,"d\n' + "e,f\n" * 50,
        {"limit": 100},
        "line 3 begins a row of more than 100 bytes",
    ),
    ("a.csv", "text,label\na," + "b" * 1_000_000, {}, "line 2 begins a row of more than 1,000,000 bytes"),
    ("a.csv", b"text,label\na,\xff\n", {}, "line 2 is not UTF-8"),
    (
        "a.csv",
        "text,n\na,1\nb,joy\n",
        {"types": {"n": "int"}},
        "line 3 has 'joy' as 'n'; it must be a whole number",
    ),
    ("a.csv", "text,n\na,nan\n", {"types": {"n": "float"}}, "line 2 has 'nan' as 'n'; it must be a number"),
    ("a.csv", "text,n\na,1\n", {"types": {"m": "int"}}, "types names 'm', which is no column"),
    ("a.jsonl", '{"n": 1}\n{"n": 2.5}\n{"n": "joy"}', {}, "line 3: 'n' is 'joy', a text, where .* a number"),
    ("a.jsonl", '{"n": 1}\n{"n": true}', {}, "line 2: 'n' is True, true or false"),
    ("a.jsonl", '{"n": 1}\n{"n": null}', {"columns": ["n"]}, "line 2: 'n' is empty"),
    ("a.jsonl", '{"n": 1}\n{"m": 1}', {"columns": ["n"]}, "line 2: no column 'n'"),
    ("a.jsonl", '{"n": 1, "n": 2}', {}, "line 1 is not valid JSON: duplicate key 'n'"),
    ("a.jsonl", '{"n": 1}\n{"n": NaN}', {}, "line 2 is not valid JSON: NaN"),
    ("a.jsonl", '{"n": "\\ud83d"}', {}, "line 1 is not valid JSON: a lone surrogate"),
    ("a.jsonl", '{"n": 1}\n{"n"', {}, "line 2 is not valid JSON"),
    ("a.jsonl", "[1]", {}, r"line 1 is not a JSON object, but \[1\]"),
    ("a.jsonl", '{"n": "' + "b" * 500 + '"}', {"limit": 400}, "line 1 begins a row of more than 400 bytes"),
    ("a.jsonl", b'{"n": "a"}\n\n{"n": "\xe4"}', {}, "line 3 is not UTF-8"),
    ("a.json", '[{"n": 1},\n {"n": 2}\n {"n": 3}]', {}, "line 3 is not valid JSON: a comma is missing"),
    ("a.json", '[{"n": 1},\n]', {}, "line 2 is not a list of rows: .* with ']'"),
    ("a.json", '[{"n": 1},\n 5]', {}, "line 2 is not a list of rows: .* with '5'"),
    ("a.json", '[{"n": 1},\n {"n": }]', {}, "line 2 is not valid JSON: Expecting value"),
    ("a.json", '[{"n": 1},\n {"n":\n NaN}]', {}, "line 2 is not valid JSON: NaN"),
    ("a.json", '[{"n": 1}', {}, "the file ends before the list does"),
    ("a.json", '[{"n": 1}]\n\n x', {}, "line 3 is not valid JSON: 'x' follows the end"),
    ("a.json", '"abc"', {}, "line 1 begins neither a list of rows"),
    (
        "a.json",
        '{"train": [{"n": 1}]}',
        {"part": "trian"},
        "no part 'trian'; nearest: 'train'; there are: 'train'",
    ),
    ("a.json", '{"a": [{"n": 1}]}', {"part": ["a", "b"]}, "no part 'b'; there are: 'a'"),
    ("a.json", "{}", {"part": "a"}, "no part 'a'; there are: none"),
    ("a.json", '{"a": []}', {"part": "a"}, "holds no row"),
    ("a.json", '{\n"a": [],\n"a": []}', {"part": "a"}, "line 3 is not valid JSON: duplicate key 'a'"),
    ("a.json", '{"a": {}}', {"part": "a"}, r"line 1 is not valid JSON: \[ is missing before '{'"),
    ("a.json", '{"b": [1, ],\n"a": []}', {"part": "a"}, "line 1 is not valid JSON: Expecting value"),
    ("a.json", '{"b": [1 2]}', {"part": "a"}, "line 1 is not valid JSON: ] is missing before '2'"),
    (
        "a.json",
        '{"a": [{"n": 1}],\n b',
        {"part": "a"},
        "line 2 is not valid JSON: the name of a list, .* before 'b'",
    ),
    (
        "a.json",
        '{"a": [{"n": 1}]',
        {"part": "a"},
        "is not valid JSON: } is missing before the end of the file",
    ),
    (
        "a.json",
        '{"a": [{"n": 1}]}\n]',
        {"part": "a"},
        "line 2 is not valid JSON: ']' follows the end of the object",
    ),
    (
        "a.json",
        '{"a": [["x", 1],\n["y"]]}',
        {"part": "a", "names": ["t", "n"]},
        "line 2 has 1 values, and names has 2",
    ),
    (
        "a.json",
        '{"a": [["x", 1]]}',
        {"part": "a"},
        r"line 1 is not a list of rows: .* name their columns: names=",
    ),
    ("a.json", '[{"n": 1}]', {"names": ["n"]}, r"line 1 is not a list of rows: .* a list \(\[\) is needed"),
    ("a.json", '[{"n": 1}]', {"part": "a"}, "line 1 begins a list, which has no parts"),
    ("a.json", '{"a": [{"n": 1}], "b": [[2]], "c": 3}', {}, "line 1 is one object that holds lists of rows, 'a', 'b';"),
    ("a.json", '{\n"a": [{"n": 1}]}', {}, "line 1 is not valid JSON: .* say which to read: part="),
    ("a.json", b'[{"n": "a"},\n {"n": "\xe4"}]', {}, "line 2 is not UTF-8"),
    (
        "a.json",
        '[{"n": 1},\n{"n": "' + "b" * 200_000 + '"}]',
        {"limit": 70_000},
        "line 2 begins a row of more than 70,000",
    ),
    ("a.conll", "a\tO\nb\n", {}, "line 2 has 1 fields, and the sentence has 2"),
    ("a.conll", "a\tO\n\tO\n", {}, "line 2 has nothing as 'tokens'"),
    (
        "a.conll",
        "a O\n",
        {"fields": {"tokens": 0, "tags": 3}},
        "line 1 has 2 fields, and 'tags' should be number 3",
    ),
    ("a.txt", b"a\n\nb\xff", {}, "line 3 is not UTF-8"),
    ("a.txt", "a\nb\nc\n" * 9, {"separator": "--", "limit": 20}, "line 1 begins a row of more than 20 bytes"),
    ("a.csv.gz", b"no archive", {}, r"a.csv.gz: cannot be unpacked: Not a gzipped .*; the archive is damaged, get it"),
    ("b.csv.gz", TORN, {}, r"b.csv.gz: cannot be unpacked: CRC check failed .*; the archive is damaged, get it again$"),
    ("a.jsonl", '{"n": 1}\n{"n": -1e999}', {}, "line 2 is not valid JSON: the number '-1e999' is too large"),
    ("a.json", '[{"n": 1},\n {"n": 1e400}]', {}, "line 2 is not valid JSON: the number '1e400' is too large"),
    ("a.parquet", b"PAR1 no parquet", {}, "a.parquet: cannot be read as Parquet"),
    ("a.doc", "", {}, "its name does not say what it holds; it should end in .csv"),
]


@pytest.mark.parametrize(("name", "text", "options", "message"), WRONG)
def test_what_is_wrong_is_reported_with_its_line(
    tmp_path: Path, name: str, text: str | bytes, options: dict[str, Any], message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(DataError, match=message) as caught:
        read_rows(path, **options)
    assert str(caught.value).startswith(str(path))


def test_columns_without_a_name_have_their_number(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(",text,label, \n0,a,b,\n")
    assert [*read_rows(tmp_path / "a.csv")] == [{"column 1": "0", "text": "a", "label": "b", "column 4": ""}]


@pytest.mark.parametrize(
    ("text", "delimiter", "line"),
    [
        ("text;label\nGood, nice;pos\nbad;neg\n", ";", 2),
        ("text;label\nbad;neg\n", ";", 2),  # no comma at all: one column of whole lines
        ('"text";"label"\n"Good, nice";"pos"\n', ";", 2),
        ('text;label\n\n"Good\nnice";pos\n', ";", 4),
        ("\ufefftext\tlabel\r\nGood, nice\tpos\r\n", "\t", 2),
        ("text|label|id\ngood|pos|3\n", "|", 2),
    ],
)
def test_another_delimiter_is_named_not_guessed(tmp_path: Path, text: str, delimiter: str, line: int) -> None:
    path = put(tmp_path / "a.csv", text)
    message = rf"the first line looks separated by {delimiter!r}, and so does line {line}: .* delimiter= {delimiter!r}"
    for options in ({}, {"on_bad_rows": "skip"}, {"columns": ["text"]}):
        with pytest.raises(DataError, match=re.escape(message).replace(r"\.\*", ".*")):
            read_rows(path, **options)  # type: ignore[arg-type]
    rows = read_rows(path, delimiter=delimiter)
    assert "label" in rows.columns and rows[len(rows) - 1]["label"] in ("pos", "neg")


@pytest.mark.parametrize(
    "text", ['"text;label"\n"good;pos"\n', "a;b\nx\n", "text\na;b\n", "text;label\none; two; three\nfour;five\n"]
)
def test_one_column_stays_one_where_the_next_line_does_not_fit_another_delimiter(tmp_path: Path, text: str) -> None:
    rows = read_rows(put(tmp_path / "a.csv", text))
    assert len(rows.columns) == 1 and len(list(rows)) == len(rows) == text.count("\n") - 1
    assert rows[len(rows) - 1] == list(rows)[-1]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="recordings: there is no such file or folder"):
        read_rows(tmp_path / "recordings")


def test_an_archive_that_swells_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.files.FREELY_UNPACKED_BYTES", 1_000_000)
    path = put(tmp_path / "a.csv.gz", "text\n" + "time flies like an arrow\n" * 30_000)
    assert len(read_rows(path)) == 30_000  # shrunk 300 times, and small
    path = put(tmp_path / "a.csv.gz", "text\n" + "time flies like an arrow\n" * 60_000)
    for read in (read_rows, lambda path: list(open_sources(path, None, {})[0].scan(None, None, 1_000))):
        with pytest.raises(DataError, match=r"a\.csv\.gz: .*unpacks to more than 1,000,000 bytes"):
            read(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "cvs"}, "kind is 'cvs'; nearest: 'csv'"),
        (
            {"delimeter": ";"},
            "'delimeter' is no option of csv; nearest: 'delimiter'; it has: delimiter, quotes",
        ),
        ({"delimiter": "::"}, "delimiter is '::'; it must be one character"),
        ({"quotes": "no"}, "quotes is 'no'; it must be true or false"),
        ({"header": False}, "a table has a header, or header=False and names"),
        ({"names": ["a"]}, "a table has a header, or"),
        ({"types": {"text": "number"}}, "types has 'number'; a column is one of: text, int, float"),
        ({"kind": "text", "whole": True, "blank": True}, "give one of them"),
        ({"kind": "conll", "fields": {"tokens": "0"}}, "it must say column: number"),
        ({"kind": "jsonl", "header": True}, "'header' is no option of jsonl; it has: on_bad_rows"),
        ({"kind": "json", "part": ["a", "a"]}, "part is ('a', 'a'); give one name or more, each once"),
        ({"kind": "json", "part": 3}, "part is 3; give one name"),
        ({"kind": "json", "names": [1]}, "names is (1,); give one name"),
        ({"columns": "text"}, "columns is 'text'; give the names"),
        ({"columns": ["text", "text"]}, "each once"),
        ({"columns": 3}, "columns is 3; give the names"),
        ({"columns": [["text"]]}, "columns is [['text']]; give the names"),
        ({"limit": 0}, "limit is 0 bytes"),
        ({"limit": "1 MB"}, "limit is '1 MB' bytes; take a whole number"),
        ({"limit": 10**300}, "bytes; take a whole number"),
        ({"kind": 3}, "kind is 3; formats: csv, tsv"),
        ({"kind": "x" * 50_000}, "… (50002 characters)"),
        ({"kind": "glue"}, "kind is 'glue'; it is several: glue/cola, glue/sst2"),
        ({"kind": ["glue"]}, "kind is ['glue']; formats: csv"),
        ({"kind": "conll", "comment": 3}, "comment is 3; it must be a text"),
        ({"kind": "conll", "numbers": "0"}, "numbers is '0'; it must be a whole number"),
        ({"kind": "text", "name": ["text"]}, "name is ['text']; it must be a text"),
        ({"kind": "text", "separator": 3}, "separator is 3; it must be a text"),
        ({"kind": "conll", "fields": ["tokens"]}, "fields is ('tokens',); it must say column: number"),
        ({"types": ["text"]}, "types is ('text',); it must say column: int or float"),
        ({"types": {"text": ["int"]}}, "types has ['int']; a column is one of"),
    ],
)
def test_options_that_do_not_fit(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        read_rows(put(tmp_path / "a.csv", CSV), **options)


BAD_ROWS = 'text,score\ngood,1\na,b,c\n\nbad,x\nshort\n"two\nlines",2.5\nlast,3\n'


def test_bad_rows_of_a_table_are_left_out_where_asked_for(tmp_path: Path) -> None:
    path, options = put(tmp_path / "a.csv", BAD_ROWS), {"types": {"score": "float"}}
    good = [{"text": "good", "score": 1.0}, {"text": "two\nlines", "score": 2.5}, {"text": "last", "score": 3.0}]
    message = "3 of 6 rows were left out as they are damaged; the first: line 3 has 3 fields, the first line names 2"
    with pytest.warns(UserWarning, match=message) as warned:
        rows = read_rows(path, on_bad_rows="skip", **options)
    assert len(warned) == 1 and list(rows) == good and [rows[number] for number in (2, 0, 1)] == [good[2], *good[:2]]
    assert [rows.where(number).rpartition(": ")[2] for number in range(3)] == ["line 2", "line 7", "line 9"]
    with pytest.warns(UserWarning, match="3 of 6 rows were left out"):
        assert list(stream_rows(path, buffer=1, on_bad_rows="skip", **options)) == good
    with pytest.raises(DataError, match="line 3 has 3 fields"):
        read_rows(path, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(read_rows(put(tmp_path / "b.csv", CSV), on_bad_rows="skip")) > 1  # nothing to tell


@pytest.mark.parametrize(
    "columns",
    [
        {"text": {"0": "good", "1": "bad"}, "label": {"0": "pos", "1": "neg"}},  # DataFrame.to_json
        {"0": {"text": "good", "label": "pos"}, "1": {"text": "bad", "label": "neg"}},  # orient="index"
        {"columns": ["text"], "index": [0], "data": [["good"]]},  # orient="split"
        {"text": ["good", "bad"], "label": ["pos", "neg"]},
    ],
)
def test_json_by_columns_is_not_one_row(tmp_path: Path, columns: dict[str, Any]) -> None:
    path = put(tmp_path / "a.json", json.dumps(columns))
    with pytest.raises(DataError, match=r"is one object of columns, .*to_json\(path, orient='records'\)"):
        read_rows(path)
    words = put(tmp_path / "b.json", json.dumps({"tokens": ["Ann", "sings"], "tags": ["B-PER", "O"]}))
    assert len(read_rows(words)) == 1  # a row of words


def test_bad_lines_of_json_are_left_out_where_asked_for(tmp_path: Path) -> None:
    """As a process that was killed while it wrote, or two that wrote at once, leave them."""
    path = put(tmp_path / "a.jsonl", '{"n": 1}\n{"n": \n\n[2]\n{"n": 3}\n{"n": 4, "n": 5}\n{"n": 6}\n{"n"')
    message = "4 of 7 rows were left out as they are damaged; the first: line 2 is not valid JSON"
    with pytest.warns(UserWarning, match=message):
        rows = read_rows(path, on_bad_rows="skip")
    assert [rows[number]["n"] for number in (2, 0, 1)] == [6, 1, 3]
    assert [rows.where(number).rpartition(": ")[2] for number in range(3)] == ["line 1", "line 5", "line 7"]
    with pytest.warns(UserWarning, match="4 of 7 rows"):
        assert [row["n"] for row in stream_rows(path, buffer=1, on_bad_rows="skip")] == [1, 3, 6]
    with pytest.raises(DataError, match="line 2 is not valid JSON"):
        read_rows(path)
    with pytest.raises(ConfigError, match="on_bad_rows is 'drop'"):
        read_rows(path, on_bad_rows="drop")


def test_a_file_of_bad_rows_alone_is_an_error(tmp_path: Path) -> None:
    path = put(tmp_path / "a.csv", "text,label\n1\n2\n")
    with pytest.warns(UserWarning, match="2 of 2 rows"), pytest.raises(DataError, match="holds no row"):
        read_rows(path, on_bad_rows="skip")


def test_parts_across_pieces(tmp_path: Path) -> None:
    for before in range(CHUNK_BYTES - 30, CHUNK_BYTES):  # the number, the name or the row lies across two pieces
        text = json.dumps({"pad": "x" * (before - 10), "n": 123456, "train": [["ü", 1]], "val": [["v", 2]]})
        path = put(tmp_path / "a.json", text)
        assert list(read_rows(path, part=("train", "val"), names=("t", "n"))) == [
            {"t": "ü", "n": 1},
            {"t": "v", "n": 2},
        ]


def test_parts_are_streamed_from_any_row_on(tmp_path: Path) -> None:
    parts = {"train": [["a", 1], ["b", 2]], "skip": [["c", 3]], "more": [["d", 4]]}
    path, options = (
        put(tmp_path / "a.json", json.dumps(parts)),
        {"part": ("train", "more"), "names": ("t", "n")},
    )
    whole = list(stream_rows(path, buffer=1, **options))
    assert [row["t"] for row in whole] == ["a", "b", "d"]
    for count in range(4):
        stream = stream_rows(path, buffer=1, **options)
        assert [next(stream) for _ in range(count)] == whole[:count]
        again = stream_rows(path, buffer=1, **options).restore(json.loads(json.dumps(stream.state())))
        assert list(again) == whole[count:]


def test_intents_of_several_parts(shared: Path) -> None:
    path, names = shared / "data" / "clinc150" / "data.json.gz", ("text", "label")
    rows = read_rows(path, part=("train", "oos_train"), names=names)
    assert len(rows) == 15_100 and len({row["label"] for row in rows}) == 151
    with gzip.open(path) as file:
        data = json.load(file)
    assert [[row["text"], row["label"]] for row in rows] == data["train"] + data["oos_train"]


def test_a_limit_is_of_the_row_not_of_the_line(tmp_path: Path) -> None:
    path = put(tmp_path / "a.csv", 'text\n"' + "b\n" * 100 + '"\nc\n')
    assert len(read_rows(path, limit=202)) == 2
    with pytest.raises(DataError, match="line 2 begins a row of more than 201 bytes"):
        read_rows(path, limit=201)


def test_several_files_are_put_one_behind_the_other(tmp_path: Path) -> None:
    german, french = (
        put(tmp_path / "de.csv", "text,label\na,1\n"),
        put(tmp_path / "fr.csv", "label,text\n2,b\n3,c\n"),
    )
    rows = read_rows([german, str(french)])
    assert [row["text"] for row in rows] == ["a", "b", "c"] == [rows[index]["text"] for index in range(3)]
    assert [rows.where(index) for index in (0, 2)] == [f"{german}: line 2", f"{french}: line 3"]
    assert [rows.file(index) for index in range(3)] == [str(german), str(french), str(french)]
    assert list(read_rows(str(tmp_path / "*.csv"))) == list(rows) == list(read_rows(tmp_path))
    put(tmp_path / "it.csv", "text,tag\na,1\n")
    with pytest.raises(DataError, match=r"it.csv has the columns text, tag, and .*de.csv has text, label"):
        read_rows(tmp_path)
    assert len(read_rows(tmp_path, columns=["text"])) == 4
    put(tmp_path / "c.jsonl", '{"text": 5}')
    with pytest.raises(DataError, match=r"c.jsonl: 'text' is a number, and in .*de.csv a text"):
        read_rows([german, tmp_path / "c.jsonl"], columns=["text"])
    with pytest.raises(DataError, match="files of several kinds: csv, jsonl; name the files"):
        read_rows(tmp_path)


def test_places_without_rows(tmp_path: Path) -> None:
    for source, message in (
        (tmp_path / "none.csv", "none.csv: cannot be opened: No such file"),
        (str(tmp_path / "*.csv"), "no file matches this pattern"),
        (tmp_path, "holds neither sound nor rows"),
        (5, "got int"),
        ({}, "names a file of lines for each column, and not none"),
        ([], "the list: holds no row"),
        ([5], "row 0 is 5; a row is a dict"),
    ):
        with pytest.raises(DataError, match=message):
            read_rows(source)  # type: ignore[arg-type]


def test_a_file_that_changes_is_not_read_on(tmp_path: Path) -> None:
    path = put(tmp_path / "a.jsonl", '{"t": 1}\n{"t": 2}\n')
    rows = read_rows(path)
    path.write_text('{"t": 1}\n{"t": 200}\n')
    with pytest.raises(DataError, match=r"a\.jsonl: was changed after it had been read"):
        rows[1]


def test_fingerprints_are_of_the_content(tmp_path: Path) -> None:
    first = read_rows(put(tmp_path / "a.csv", CSV))
    assert first.fingerprint == read_rows(put(tmp_path / "b.csv", CSV)).fingerprint
    others = [
        read_rows(put(tmp_path / "c.csv", CSV.replace("joy", "Joy"))),
        read_rows(tmp_path / "a.csv", columns=["text"]),
        first.select([0]),
        first.select([1, 0]),
        read_rows([tmp_path / "a.csv", tmp_path / "b.csv"]),
    ]
    assert len({rows.fingerprint for rows in [first, *others]}) == 6


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.fixed_dictionaries({"a": TEXTS, "b": TEXTS}), min_size=1, max_size=5),
    st.sampled_from([None, 1, "\n"]),
)
def test_what_json_and_csv_write_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, str]], indent: Any
) -> None:
    import csv

    folder = tmp_path_factory.mktemp("json")
    (folder / "a.json").write_text(json.dumps(rows, indent=indent, ensure_ascii=False), encoding="utf-8", newline="")
    assert list(read_rows(folder / "a.json")) == rows
    (folder / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert list(read_rows(folder / "a.jsonl")) == rows
    with (folder / "a.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["a", "b"], quoting=csv.QUOTE_ALL)
        writer.writeheader()
        writer.writerows(rows)
    rows_read = read_rows(folder / "a.csv")
    assert list(rows_read) == rows == [rows_read[index] for index in range(len(rows_read))]


def test_a_list_in_json_longer_than_what_is_held_of_it(tmp_path: Path) -> None:
    rows = [{"n": number, "text": "ü" * (number % 97)} for number in range(3_000)]
    for indent in (None, 2):
        rows_read = read_rows(put(tmp_path / "a.json", json.dumps(rows, indent=indent, ensure_ascii=False)))
        assert list(rows_read) == rows and rows_read[1_234] == rows[1_234]
        assert rows_read.where(2_999).endswith(": line 1" if indent is None else f": line {2 + 4 * 2_999}")


def test_memory_stays_far_below_the_size_of_a_file(tmp_path: Path) -> None:
    """24 MB in a process of its own, which may take a quarter of that."""
    row = '{},"' + "lorem ipsum, dolor " * 40 + '",label\n'
    path = put(tmp_path / "a.csv", "id,text,label\n" + "".join(map(row.format, range(1_000))) * 30)
    code = f"""
        import re
        from glassformer.data.rows import read_rows
        def most():
            return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
        before = most()
        rows = read_rows({str(path)!r})
        words = sum(len(row["text"]) for row in rows)
        assert rows[29_999]["id"] == "999" and words == 30_000 * 760, words
        print(most() - before)
    """
    if not Path("/proc/self/status").exists():
        pytest.skip("the peak of memory is read from /proc, which this system has not")
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    size = path.stat().st_size / 2**20
    assert size > 20 and float(done.stdout) < size / 4


def test_the_real_sets(shared: Path) -> None:
    data = shared / "data"
    emotion = read_rows(
        data / "emotion/train.txt.gz",
        **{"kind": "csv", "delimiter": ";", "quotes": False, "header": False, "names": ("text", "label")},
    )
    assert (len(emotion), emotion[2]) == (15_998, {"text": "i am feeling grouchy", "label": "anger"})
    assert len(read_rows(data / "multi30k/val.{en,de}.gz")) == 1_014
    stories = read_rows(data / "tinystories/stories.txt.gz", separator="<|endoftext|>")
    assert len(stories) == 2_000 and "<|endoftext|>" not in stories[1_999]["text"]
    assert len(read_rows([data / f"wikiann/{name}.val.conll.gz" for name in ("es", "nl")])) == 5_000
    assert len(read_rows(data / "subjqa_electronics/dev.csv.gz")) == 261
    assert len(read_rows(data / "speech")) == 45


WILD = [
    {"text": 'a "b", c', "label": "x"},
    {"text": "two\nlines ✓", "label": "y"},
    {"text": "end", "label": "z"},
]


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("a.csv", WILD),
        ("a.jsonl", [{"text": "n", "label": [1, 2.5, None]}, {"text": "m", "label": ["q"]}]),
        ("b.jsonl", WILD),
        ("a.tsv", [{"text": 'a "b", c', "label": "x"}]),
    ],
)
def test_what_is_written_is_read(tmp_path: Path, name: str, rows: list[dict[str, Any]]) -> None:
    write_rows(tmp_path / name, rows, ["text", "label"])
    assert list(read_rows(tmp_path / name)) == rows


def test_what_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="csv, tsv, jsonl"):
        write_rows(tmp_path / "a.xlsx", WILD, ["text"])
    with pytest.raises(DataError, match=r"row 1: 'text' is 'two\\nlines ✓', which tsv cannot hold; take jsonl"):
        write_rows(tmp_path / "a.tsv", WILD, ["text"])
    with pytest.raises(DataError, match=r"'text' is \[1\], which csv cannot hold"):
        write_rows(tmp_path / "b.csv", [{"text": [1]}], ["text"])
    (tmp_path / "c.csv").write_text("mine")
    with pytest.raises(DataError, match="already exists"):
        write_rows(tmp_path / "c.csv", WILD, ["text"])
    assert (tmp_path / "c.csv").read_text() == "mine"
    with pytest.raises(DataError, match="cannot be written"):
        write_rows(tmp_path / "no" / "c.csv", WILD, ["text"])
