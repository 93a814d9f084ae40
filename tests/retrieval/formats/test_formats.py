"""Formats by name and by content, and every kind of bad input in a sentence."""

from __future__ import annotations

import gzip
import io
import os
import zipfile
from pathlib import Path

import pytest

from glassformer.errors import DataError, MissingExtraError
from glassformer.retrieval.formats import FORMATS, read_document
from glassformer.retrieval.options import DocumentOptions
from tests.retrieval.formats.test_docx import manual as docx_manual
from tests.retrieval.formats.test_pdf import manual as pdf_manual


def written(folder: Path, name: str, data: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


@pytest.mark.parametrize(
    ("name", "data", "begins", "parts"),
    [
        ("a.txt", "Only text.\n", "Only text.", 1),
        ("a", "Only text.\n", "Only text.", 1),
        ("LICENSE", "Copyright\n", "Copyright", 1),
        ("a.log", "12:00 started\n", "12:00", 1),
        ("A.MD", "# One\na\n# Two\nb\n", "# One", 2),
        ("a.py", "def a(): pass\ndef b(): pass\n", "def a", 2),
        ("a.go", "func A() {\n}\nfunc B() {\n}\n", "func A", 2),
        ("a.csv", "x,y\n1,2\n3,4\n", "x: 1", 2),
        ("a.tsv", "x\ty\n1\t2\n3\t4\n", "x: 1", 2),
        ("a.jsonl", '{"x": "a"}\n{"x": "b"}\n', "a", 2),
        ("a.json", '[{"x": "a"}, {"x": "b"}]', "a", 2),
        ("a.html", "<h1>One</h1>a<h1>Two</h1>b", "One", 2),
        ("a.txt", "\ufeff<!DOCTYPE html><h1>One</h1>a<h1>Two</h1>b", "One", 2),
        ("a.pdf", pdf_manual(), "Apples", 3),
        ("a.txt", pdf_manual(), "Apples", 3),
        ("a.docx", docx_manual(), "The orchard", 4),
        ("a.bin", docx_manual(), "The orchard", 4),
        ("a.pdf", "Only text.\n", "Only text.", 1),
    ],
)
def test_a_file_is_read_by_its_name_or_its_content(
    tmp_path: Path, name: str, data: bytes | str, begins: str, parts: int
) -> None:
    document = read_document(written(tmp_path, name, data))
    assert document.text.startswith(begins) and len(document.parts) == parts
    starts = [part.start for part in document.parts]
    assert starts == sorted(set(starts)) and starts[-1] < len(document.text)


def archive() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        file.writestr("a.txt", "text")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.txt", b"", "it holds no text"),
        ("a.md", b" \n", "it holds no text"),
        ("a.txt", b"\x7fELF\x02\x01\x01\0", "it is a program or library"),
        ("a.txt", bytes(range(256)), "it is a binary file, not text"),
        ("a.csv", b"a,b\n\0\0\0\x01\x02", "it is a binary file, not text"),
        ("a.png", b"\x89PNG\r\n\x1a\n", "it is a PNG image"),
        ("a.txt", gzip.compress(b"text", mtime=0), "it is a gzip archive; unpack it"),
        ("a.xlsx", archive(), "it is a ZIP archive, or of an application that writes such; unpack or export it"),
        ("a.docx", archive(), "it is no DOCX, or a damaged one: "),
        ("a.pdf", b"%PDF-1.4 \0\0", "it is no PDF, or a damaged one"),
        ("a.html", b"<script>1</script>", "it shows no text: perhaps scripts write its content"),
        ("a.txt", b"\xff\xfet\0e\0x", "it is not valid UTF-16 text (truncated data at byte 6)"),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_sentence(tmp_path: Path, name: str, data: bytes, reason: str) -> None:
    with pytest.raises(DataError) as refusal:
        read_document(written(tmp_path, name, data))
    assert str(refusal.value).startswith(reason) and "\n" not in str(refusal.value)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-8-sig"])
@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.csv", "a.py"])
def test_every_text_format_takes_every_encoding(tmp_path: Path, name: str, encoding: str) -> None:
    text = "größe,straße\ngroß,süß\n"
    assert "süß" in read_document(written(tmp_path, name, text.encode(encoding))).text


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("a.md", "# One\n\ntext\n\n# Two\n\nmore\n", [1, 5]),
        ("a.py", "def a():\n    return 1\n\n\ndef b():\n    return 2\n", [1, 5]),
        ("a.csv", "x,y\n1,2\n3,4\n", [2, 3]),
        ("a.txt", "One.\n\nTwo.\n", [1]),
    ],
)
def test_lines_that_end_in_cr_alone_are_lines(tmp_path: Path, name: str, text: str, lines: list[int]) -> None:
    expected = read_document(written(tmp_path, name, text))
    document = read_document(written(tmp_path, name, text.replace("\n", "\r")))
    assert document == expected and [part.line for part in document.parts] == lines


def test_the_size_of_a_file_is_bounded_while_it_grows(tmp_path: Path) -> None:
    path = written(tmp_path, "a.txt", "x" * 11)
    with pytest.raises(DataError, match="it has more than 10 bytes, which is the limit"):
        read_document(path, DocumentOptions(max_bytes=10))
    assert read_document(path, DocumentOptions(max_bytes=11)).text == "x" * 11


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^it cannot be opened: No such file"):
        read_document(tmp_path / "missing.txt")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.txt")
        with pytest.raises(DataError, match=r"^it is not a regular file"):
            read_document(tmp_path / "pipe.txt")


def test_a_missing_package_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pypdfium2", None)
    with pytest.raises(MissingExtraError, match=r"reading PDF needs the package 'pypdfium2'.*glassformer\[documents\]"):
        read_document(written(tmp_path, "a.pdf", pdf_manual()))


def test_every_extension_is_written_in_lower_case() -> None:
    assert all(name.startswith(".") and name == name.lower() for name in FORMATS)
