"""Nested JSON, a row a record; SQuAD's files are of this kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from glassformer.data.json_records import is_squad
from glassformer.data.rows import open_sources, read_rows
from glassformer.errors import ConfigError, DataError
from tests.data.set_files import QUESTIONS, SQUAD, written

PLACES = {"regions": [{"name": "Bern", "towns": [{"id": 1, "name": "Thun"}, {"id": 2}]}, {"name": "Jura", "towns": []}]}


def test_a_record_has_the_fields_around_it(tmp_path: Path) -> None:
    path = written(tmp_path / "places.json", PLACES)
    rows = read_rows(path, records="regions.towns")
    assert list(rows) == [{"name": "Thun", "id": 1}, {"name": "Bern", "id": 2}]
    assert [row["name"] for row in read_rows(path, records="regions")] == ["Bern", "Jura"]
    assert read_rows(path, records="regions.towns", columns=("id",))[1] == {"id": 2}
    assert rows.where(1) == f"{path}: record 1"


@pytest.mark.parametrize("name", ["dev.json", "dev.json.gz"])
def test_squad_is_known_by_its_beginning(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / name, SQUAD)
    rows = read_rows(path)
    assert list(rows) == QUESTIONS == list(read_rows(path, kind="squad"))
    assert rows.columns == ("id", "question", "context", "answers") and rows.where(1) == f"{path}: record 57aa"
    assert [row.row["id"] for row in open_sources(path, None, {})[0].scan(1, None, 9)] == ["57aa"]
    bare = tmp_path / "bare.json"
    bare.write_bytes(b'\xef\xbb\xbf{ "data":\n [{"paragraphs" : []}]}')
    other = written(tmp_path / "other.json", {"data": [{"text": "a"}, {"text": "b"}]})
    assert [is_squad(place) for place in (path, bare, other)] == [True, True, False]
    assert list(read_rows(other, part="data")) == [{"text": "a"}, {"text": "b"}]
    assert read_rows(path, part="data")[0]["title"] == "Music"  # an option of JSON asks for JSON


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is not valid JSON: Expecting value.*; the file ends too early: get it again"),
        ('{"data": [{"title": "a', "is not valid JSON: .*; the file ends too early: get it again"),
        ('{"data": [}', "is not valid JSON: Expecting value: line 1 column 11"),
        ('{"data": [], "data": []}', "is not valid JSON: duplicate key"),
        ("[" * 100_000, "is not valid JSON"),
        ("[]", r"the file is \[\]; it must be an object"),
        ({"data": [3]}, r"data\[0\] is 3; it must be an object"),
        ({"data": [{"title": "t"}]}, r"data\[0\] has no list 'paragraphs'; got None; .* data > paragraphs > qas"),
        ({"data": [{"paragraphs": [{"qas": []}]}]}, "holds no row: its lists data.paragraphs.qas are empty"),
        ({"data": [{"paragraphs": [{"qas": [{"id": "1"}]}]}]}, "record 1 has no column 'question'"),
    ],
)
def test_what_is_no_such_file(tmp_path: Path, content: Any, message: str) -> None:
    path = written(tmp_path / "dev.json", content)
    with pytest.raises(DataError, match=message) as caught:
        read_rows(path, kind="squad")
    assert str(path) in str(caught.value)


def test_errors_of_files_and_options(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b'{"data":\n "\xff"}')
    with pytest.raises(DataError, match="line 2 is not UTF-8"):
        read_rows(tmp_path / "a.json", kind="squad")
    with pytest.raises(DataError, match=r"none\.json"):
        read_rows(tmp_path / "none.json", kind="squad")
    for records in ("", "a..b", 3, ["a"]):
        with pytest.raises(ConfigError, match=r"records is .*; give names of lists, such as data.paragraphs.qas"):
            read_rows(tmp_path / "a.json", records=records)
    with pytest.raises(ConfigError, match="'part' is no option of records"):
        read_rows(tmp_path / "a.json", records="data", part="a")
