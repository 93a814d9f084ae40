"""`glassformer encode`: lines in, rows out, and nothing lost when something goes wrong."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import glassformer.cli.encode as module
from glassformer.cli.encode import _read_lines, encode
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.model import load

LINES = ["time flies like an arrow", "", "fruit flies like a banana", "été 你好 🙂"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def stories(shared: Path) -> str:
    """A model that loads at once; what its vectors mean does not matter here."""
    return str(shared / "models" / "stories260k")


def stdin(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))


def test_rows_are_the_vectors_of_the_lines(minilm: Path, file: Path, tmp_path: Path, capsys: Any) -> None:
    encode(str(minilm), str(file), output=tmp_path / "v.npy")
    vectors = np.load(tmp_path / "v.npy")
    assert (vectors.dtype, vectors.shape) == (np.float32, (4, 384))
    np.testing.assert_allclose(vectors, load(minilm).encode(LINES), atol=1e-5)
    out = capsys.readouterr().out
    assert "4 texts → 384 numbers each, in " in out
    assert f"saved in {tmp_path / 'v.npy'}" in out


def test_json(stories: str, file: Path, tmp_path: Path, capsys: Any) -> None:
    encode(stories, str(file), output=tmp_path / "v.npy", json=True)
    report = json.loads(capsys.readouterr().out)
    assert (report["texts"], report["width"], report["out"]) == (4, 64, str(tmp_path / "v.npy"))
    assert report["texts_per_second"] == pytest.approx(report["texts"] / report["seconds"])


def test_batch_tokens_changes_no_vector(stories: str, file: Path, tmp_path: Path) -> None:
    encode(stories, str(file), output=tmp_path / "a.npy")
    encode(stories, str(file), output=tmp_path / "b.npy", batch_tokens=1)
    np.testing.assert_allclose(np.load(tmp_path / "a.npy"), np.load(tmp_path / "b.npy"), atol=1e-5)


def test_an_empty_file_gives_an_empty_array(stories: str, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "empty.txt").touch()
    encode(stories, str(tmp_path / "empty.txt"), output=tmp_path / "v.npy")
    assert np.load(tmp_path / "v.npy").shape == (0, 64)
    assert "is empty: saved an array of shape [0, 64]" in capsys.readouterr().out


def test_standard_input(stories: str, tmp_path: Path, monkeypatch: Any) -> None:
    stdin(monkeypatch, b"one\ntwo\nthree")
    encode(stories, "-", output=tmp_path / "v.npy")
    assert np.load(tmp_path / "v.npy").shape == (3, 64)


def test_long_texts_are_cut_with_a_note_or_refused(minilm: Path, tmp_path: Path, capsys: Any) -> None:
    """The folder's max_seq_length is 256 tokens."""
    (tmp_path / "long.txt").write_text("word " * 300 + "\nshort\n")
    encode(str(minilm), str(tmp_path / "long.txt"), output=tmp_path / "v.npy", json=True)
    captured = capsys.readouterr()
    assert captured.err.count("note: 1 of 2 texts") == 1
    assert len(json.loads(captured.out)["notes"]) == 1
    before = (tmp_path / "v.npy").read_bytes()
    with pytest.raises(DataError, match="256 tokens"):
        encode(str(minilm), str(tmp_path / "long.txt"), output=tmp_path / "v.npy", truncate=False)
    assert (tmp_path / "v.npy").read_bytes() == before


# ------------------------------------------------------------------------------------------------------ lines


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a\nb", ["a", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\r\rb\r", ["a", "", "b"]),
        (b"a\n\n\nb\n", ["a", "", "", "b"]),
        (b"\xef\xbb\xbfa\n", ["a"]),
        ("a\u2028b\x0bc\x85d\n".encode(), ["a\u2028b\x0bc\x85d"]),
    ],
)
def test_what_is_a_line(content: bytes, lines: list[str], tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "file").write_bytes(content)
    assert _read_lines(str(tmp_path / "file")) == lines
    stdin(monkeypatch, content)
    assert _read_lines("-") == lines


def test_what_is_no_text_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes(b"one\ntwo\ncaf\xe9\n")
    with pytest.raises(DataError, match=r"latin\.txt: line 3 is not UTF-8"):
        _read_lines(str(tmp_path / "latin.txt"))
    (tmp_path / "nul.bin").write_bytes(b"one\n\0\0")
    with pytest.raises(DataError, match="line 2 holds a NUL byte"):
        _read_lines(str(tmp_path / "nul.bin"))
    with pytest.raises(DataError, match="No such file"):
        _read_lines(str(tmp_path / "missing.txt"))
    with pytest.raises(DataError, match="s a directory"):
        _read_lines(str(tmp_path))
    with pytest.raises(DataError, match="cannot be read"):
        _read_lines("a\0b")


# ----------------------------------------------------------------------------------------------------- saving


@pytest.mark.parametrize(
    ("out", "message"),
    [("v.txt", "must end in .npy"), ("no/such/v.npy", "no such folder"), ("folder.npy", "is a folder")],
)
def test_a_place_that_does_not_do_is_refused_before_the_work(
    out: str, message: str, file: Path, tmp_path: Path
) -> None:
    (tmp_path / "folder.npy").mkdir()
    with pytest.raises(DataError, match=message):
        encode("org/not-needed", str(file), output=tmp_path / out)


def test_an_unknown_precision_is_refused(file: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="fp32, fp16, bf16, int8"):
        encode("org/not-needed", str(file), output=tmp_path / "v.npy", precision="fp8")


def test_an_old_file_stays_until_the_new_one_is_complete(tmp_path: Path, monkeypatch: Any) -> None:
    out = tmp_path / "v.npy"
    out.write_bytes(b"old")

    def full(stream: Any, vectors: Any, **options: Any) -> None:
        stream.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(DataError, match="No space left"):
        module._save(out, np.zeros((1, 2), dtype=np.float32))
    assert out.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["v.npy"]


def test_a_link_keeps_pointing_where_it_did(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "v.npy").symlink_to(tmp_path / "data" / "v.npy")
    module._save(tmp_path / "v.npy", np.ones((1, 2), dtype=np.float32))
    assert (tmp_path / "v.npy").is_symlink()
    assert np.load(tmp_path / "data" / "v.npy").tolist() == [[1.0, 1.0]]


def test_a_model_that_cannot_encode_says_so(tmp_path: Path, file: Path) -> None:
    from glassformer.model import Model
    from glassformer.models import FAMILIES

    Model.from_config(FAMILIES["transformer"].tiny).save_pretrained(tmp_path / "model")
    with pytest.raises((DataError, UnsupportedError)):
        encode(str(tmp_path / "model"), str(file), output=tmp_path / "v.npy")
    assert not (tmp_path / "v.npy").exists()


def test_a_column_of_a_table(stories: str, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("label,text\n1,time flies\n0,fruit flies\n", encoding="utf-8")
    expected = load(stories).encode(["time flies", "fruit flies"])
    encode(stories, str(rows), output=tmp_path / "v.npy")
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), expected, atol=1e-5)
    rows.write_text("label,body\n1,time flies\n0,fruit flies\n", encoding="utf-8")
    encode(stories, str(rows), output=tmp_path / "w.npy", columns=["text=body"])
    np.testing.assert_allclose(np.load(tmp_path / "w.npy"), expected, atol=1e-5)
    (tmp_path / "semicolons.csv").write_text("label;body\n1;time flies\n0;fruit flies\n", encoding="utf-8")
    words: dict[str, Any] = {"output": tmp_path / "y.npy", "columns": ["text=body"]}
    with pytest.raises(DataError, match="--delimiter ';'"):
        encode(stories, str(tmp_path / "semicolons.csv"), **words)
    encode(stories, str(tmp_path / "semicolons.csv"), delimiter=";", **words)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected, atol=1e-5)
    with pytest.raises(DataError, match=r"'label', 'body'; say which one it is: --column text=NAME"):
        encode(stories, str(rows), output=tmp_path / "x.npy")
    (tmp_path / "lines.txt").write_text("a\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="--column names a column of a table"):
        encode(stories, str(tmp_path / "lines.txt"), output=tmp_path / "x.npy", columns=["text=body"])


@pytest.mark.parametrize("name", ["lines.txt", "rows.csv"])
def test_a_file_that_is_not_utf_8(name: str, tmp_path: Path, stories: str) -> None:
    path = tmp_path / name
    path.write_text(f"{'text' if name == 'rows.csv' else 'so'}\nschön\n", encoding="latin-1")
    with pytest.raises(DataError, match=r"line 2 is not UTF-8 text; .* or give its encoding: --encoding cp1252$"):
        encode(stories, str(path), output=tmp_path / "v.npy")
    encode(stories, str(path), output=tmp_path / "v.npy", encoding="latin-1")
    np.testing.assert_allclose(np.load(tmp_path / "v.npy")[-1], load(stories).encode("schön"), atol=1e-5)


@pytest.mark.parametrize("name", ["rows.ndjson", "rows.csv.gz", "ROWS.CSV"])
def test_every_name_of_a_table_is_read_by_its_columns(name: str, tmp_path: Path, stories: str) -> None:
    content = b'{"body": "time flies"}\n' if "json" in name else b"body\ntime flies\n"
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    with pytest.raises(DataError, match=r"no column 'text'.*'body'; say which one it is: --column text=NAME"):
        encode(stories, str(tmp_path / name), output=tmp_path / "v.npy")
    encode(stories, str(tmp_path / name), output=tmp_path / "v.npy", columns=["text=body"])
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), load(stories).encode(["time flies"]), atol=1e-5)


def test_packed_lines(tmp_path: Path) -> None:
    (tmp_path / "lines.txt.gz").write_bytes(gzip.compress(b"a\nb\n"))
    assert _read_lines(str(tmp_path / "lines.txt.gz")) == ["a", "b"]
