"""Texts of files, by their kinds; standard input is tested with the commands that read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from glassformer.data.texts import is_table, read_text, read_texts
from glassformer.errors import DataError


@pytest.mark.parametrize(
    ("name", "content", "columns", "texts"),
    [
        ("a.txt", "one\n\ntwo", ["text"], ["one", "", "two"]),
        ("a.csv", "body,mood\none,1\ntwo,2\n", ["body"], ["one", "two"]),
        ("a.tsv", "a\tb\none\ttwo\n", ["a", "b"], [{"text": "one", "text_pair": "two"}]),
        ("a.jsonl", '"one"\n{"text": "two"}\n["a", "b"]\n', ["text"], ["one", "two", {"tokens": ["a", "b"]}]),
    ],
)
def test_texts_of_a_file(tmp_path: Path, name: str, content: str, columns: list[str], texts: list[Any]) -> None:
    (tmp_path / name).write_text(content)
    assert list(read_texts(tmp_path / name, columns)) == texts
    assert is_table(name) == (name != "a.txt")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"a\0b", r"line 1 holds a NUL byte, so this is a binary file"),
        ("a.csv", b"body\none\n", r"no column 'text'"),
        ("a.jsonl", b"3\n", r"line 1 holds 3; it must be a text, a list of words, or a conversation"),
    ],
)
def test_what_holds_no_texts(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        list(read_texts(tmp_path / name))


def test_a_file_as_one_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    assert read_text(tmp_path / "a.txt") == "one\r\ntwo"
    (tmp_path / "b.txt").write_bytes(b"\xff")
    with pytest.raises(DataError, match=r"b\.txt is not UTF-8 text \(byte 0\)"):
        read_text(tmp_path / "b.txt")
