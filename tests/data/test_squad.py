"""SQuAD files, a row a question."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from glassformer.data.rows import open_sources, read_rows
from glassformer.data.squad import is_squad, read_squad
from glassformer.errors import ConfigError, DataError

ANSWER = {"text": "6000 hours", "answer_start": 9}
QUESTION = {"id": "56be", "question": "how long ?", "answers": [ANSWER]}
OTHER = {"id": "57aa", "question": "why ?", "answers": [], "is_impossible": True}


def squad(*questions: Any, **paragraph: Any) -> dict[str, Any]:
    whole = {"context": "It plays 6000 hours of music.", "qas": list(questions), **paragraph}
    return {"version": "v2.0", "data": [{"title": "t", "paragraphs": [whole]}]}


def written(folder: Path, content: Any, name: str = "dev.json") -> Path:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return folder / name


@pytest.mark.parametrize("name", ["dev.json", "dev.json.gz"])
def test_a_row_for_each_question(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, squad(QUESTION, OTHER), name)
    rows = read_squad(path)
    assert rows.columns == ("id", "question", "context", "answers")
    assert rows[0] == {**QUESTION, "context": "It plays 6000 hours of music."}
    assert [row["answers"] for row in rows] == [[ANSWER], []]
    assert rows.where(1) == f"{path}: question 57aa"
    assert rows.fingerprint != read_squad(written(tmp_path, squad(QUESTION))).fingerprint
    assert rows[1:][0]["id"] == "57aa"


def test_it_is_known_by_its_beginning(tmp_path: Path) -> None:
    path = written(tmp_path, squad(QUESTION, OTHER))
    bare = written(tmp_path, b'\xef\xbb\xbf{ "data":\n [{"paragraphs" : []}]}', "bare.json.gz")
    other = written(tmp_path, {"data": [{"text": "a"}, {"text": "b"}]}, "other.json")
    assert list(read_rows(path)) == list(read_rows(path, kind="squad")) == list(read_squad(path))
    assert read_rows(path, columns=("question",))[1] == {"question": "why ?"}
    assert [row.row["id"] for row in open_sources(path, None, {})[0].scan(1, None, 9)] == ["57aa"]
    assert [is_squad(place) for place in (path, bare, other)] == [True, True, False]
    assert list(read_rows(other, part="data")) == [{"text": "a"}, {"text": "b"}]
    assert read_rows(path, part="data")[0]["title"] == "t"  # an option of JSON asks for JSON
    with pytest.raises(ConfigError, match="'delimiter' is no option of squad"):
        read_rows(path, kind="squad", delimiter=";")


def test_real_questions(shared: Path) -> None:
    rows = read_squad(shared / "data" / "xquad" / "xquad.de.shared.json.gz")
    assert len(rows) == 925
    answer = rows[0]["answers"][0]
    assert rows[0]["context"][answer["answer_start"] :].startswith(answer["text"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not valid JSON"),
        (b"[", "is not valid JSON"),
        (b'{"data": "\xff"}', "line 1 is not UTF-8"),
        ([], "the file has no list 'data'"),
        ({"data": [{}]}, "an article has no list 'paragraphs'"),
        (squad(), "holds no question"),
        (squad(QUESTION, context=None), "a paragraph has no text 'context'"),
        (squad({**QUESTION, "answers": None}), "the question '56be' has no list 'answers'"),
        (squad({"question": "a"}), "a question has no text 'id'"),
    ],
)
def test_what_is_no_squad_file(tmp_path: Path, content: Any, message: str) -> None:
    path = written(tmp_path, content)
    with pytest.raises(DataError, match=message) as caught:
        read_squad(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.json"):
        read_squad(tmp_path / "none.json")
