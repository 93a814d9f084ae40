"""Text files in other encodings than UTF-8."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from glassformer import ConfigError, DataError
from glassformer.data.corpus import Corpus
from glassformer.data.rows import read_rows
from glassformer.data.streams import stream_rows

TEXTS = ["schön und gut", "Straße ß", "ça va", "plain"]
CONTENTS = {
    "a.csv": "text,n\n" + "".join(f'"{text}\nmore",{n}\n' for n, text in enumerate(TEXTS)),
    "a.jsonl": "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in TEXTS),
    "a.json": json.dumps([{"text": text} for text in TEXTS], ensure_ascii=False),
    "a.txt": "".join(f"{text}\n" for text in TEXTS),
    "a.conll": "".join(f"{text.replace(' ', '_')}\tO\n\n" for text in TEXTS),
}


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16-le", "utf-8-sig"])
@pytest.mark.parametrize("name", list(CONTENTS))
@pytest.mark.parametrize("packed", [False, True])
def test_rows_in_an_encoding_are_those_of_utf_8(tmp_path: Path, name: str, encoding: str, packed: bool) -> None:
    plain = tmp_path / name
    plain.write_text(CONTENTS[name], encoding="utf-8", newline="")
    other = tmp_path / "other" / (f"{name}.gz" if packed else name)
    other.parent.mkdir()
    data = CONTENTS[name].encode(encoding)
    other.write_bytes(gzip.compress(data) if packed else data)

    expected, rows = read_rows(plain), read_rows(other, encoding=encoding)
    assert list(rows) == list(expected) and rows[2] == expected[2] == list(expected)[2]
    assert rows.fingerprint == expected.fingerprint and rows.where(2).endswith(expected.where(2).rpartition(": ")[2])

    stream = stream_rows(other, encoding=encoding, buffer=1)
    first = iter(stream)
    assert [next(first), next(first)] == list(expected)[:2]
    assert list(first) == list(expected)[2:]


def test_a_file_with_the_mark_of_utf_16_is_read_without_its_encoding(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for encoding in ("utf-16", "utf-16-be"):
        path.write_bytes(
            ("\ufeff" if encoding.endswith("be") else "").encode(encoding) + CONTENTS["a.csv"].encode(encoding)
        )
        assert [row["text"] for row in read_rows(path)] == [f"{text}\nmore" for text in TEXTS]


def test_published_sets_nested_lists_and_parallel_files(tmp_path: Path) -> None:
    squad = {"data": [{"title": "t", "paragraphs": [{"context": "Größe", "qas": [
        {"id": "1", "question": "Was?", "answers": [{"text": "Größe", "answer_start": 0}]}]}]}]}  # fmt: skip
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(squad, ensure_ascii=False), encoding="latin-1")
    assert read_rows(path, encoding="latin-1")[0]["context"] == "Größe"
    assert read_rows(path, kind="squad", encoding="latin-1")[0]["context"] == "Größe"
    assert read_rows(path, records="data.paragraphs.qas", encoding="latin-1")[0]["context"] == "Größe"
    for name, text in (("de", "schön\n"), ("fr", "ça va\n")):
        (tmp_path / name).write_text(text, encoding="latin-1")
    both = {"source": tmp_path / "de", "target": tmp_path / "fr"}
    assert read_rows(both, encoding="latin-1")[0] == {"source": "schön", "target": "ça va"}


def test_a_corpus_in_an_encoding(tmp_path: Path) -> None:
    files = [tmp_path / "a.csv", tmp_path / "b.txt"]
    for file, name in zip(files, ("a.csv", "a.txt"), strict=True):
        file.write_text(CONTENTS[name], encoding="latin-1")
    assert list(Corpus(files, encoding="latin-1")) == [*(f"{text}\nmore" for text in TEXTS), *TEXTS]
    with pytest.raises(DataError, match=r"give its encoding: encoding= cp1252$"):
        list(Corpus(files))


@pytest.mark.parametrize("encoding", ["nope", "hex", 3, "a\0b", ""])
def test_what_is_no_encoding(tmp_path: Path, encoding: Any) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    with pytest.raises(ConfigError, match="it must be a text encoding of Python, such as latin-1"):
        read_rows(tmp_path / "a.txt", encoding=encoding)


def test_text_in_another_encoding_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("text\nschön\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"line 2 is not UTF-8 text; .* or give its encoding: encoding= cp1252$"):
        read_rows(path)
    assert read_rows(path, encoding="latin-1")[0] == {"text": "schön"}
    with pytest.raises(DataError, match=r"a\.csv: is not ascii text: .* in position 8"):
        read_rows(path, encoding="ascii")
    with pytest.raises(ConfigError, match="'encoding' is no option of rows that lie in memory"):
        read_rows([{"text": "a"}], encoding="latin-1")
