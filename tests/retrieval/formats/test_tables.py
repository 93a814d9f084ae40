"""Tables: a row a part, damaged rows counted, and what is no table read as text."""

from __future__ import annotations

import json

import pytest

from glassformer.errors import DataError
from glassformer.retrieval.document import Document
from glassformer.retrieval.formats.tables import csv_table, json_lines, json_list, tsv_table


def rows(document: Document) -> list[tuple[str, int]]:
    return [(document.text[part.start : end].rstrip("\n"), part.line) for part, end in document.spans()]


def test_each_row_is_a_part_with_its_columns() -> None:
    document = csv_table('sort,weeks,remark\nGala,12,"sweet,\nfirm"\nFuji,20,\n')
    assert rows(document) == [("sort: Gala\nweeks: 12\nremark: sweet,\nfirm", 2), ("sort: Fuji\nweeks: 20", 4)]
    assert document.parts[0].metadata == {"sort": "Gala", "weeks": "12", "remark": "sweet,\nfirm"}
    assert document.parts[1].metadata == {"sort": "Fuji", "weeks": "20"} and not document.notes


@pytest.mark.parametrize("sign", [",", ";", "\t", "|"])
def test_the_delimiter_is_that_of_the_first_line(sign: str) -> None:
    text = f"sort{sign}weeks\nGala{sign}12\n"
    assert rows(csv_table(text)) == [("sort: Gala\nweeks: 12", 2)]
    if sign == "\t":
        assert rows(tsv_table(text)) == rows(csv_table(text))


def test_damaged_rows_are_counted_and_the_first_is_named() -> None:
    document = csv_table("a,b\n1,2\n1,2,3\n4\n5,6\n")
    assert [text for text, _ in rows(document)] == ["a: 1\nb: 2", "a: 5\nb: 6"]
    (note,) = document.notes
    assert "2 of 4 rows were left out" in note and "line 3 has 3 fields" in note
    document = json_lines('{"a": 1}\nno json\n[2]\n{"a": 3}\n')
    assert [text for text, _ in rows(document)] == ["1", "3"]
    assert "2 of 4 rows were left out" in document.notes[0]


def test_a_row_with_a_text_is_that_text_below_its_title() -> None:
    row = {"_id": "d1", "title": " Gala  apples", "text": "They are sweet.", "year": 2020, "tags": ["a"], "ok": True}
    document = json_lines(json.dumps(row))
    assert rows(document) == [("They are sweet.", 1)]
    (part,) = document.parts
    assert part.headings == ("Gala apples",)
    assert part.metadata == {"_id": "d1", "title": " Gala  apples", "year": 2020, "ok": True}


def test_nested_and_missing_values_are_written_as_json_or_left_out() -> None:
    document = json_lines('{"a": {"b": [1, "é"]}, "c": null, "d": 1.5, "e": "x"}')
    assert rows(document) == [('a: {"b": [1, "é"]}\nd: 1.5\ne: x', 1)]
    assert document.parts[0].metadata == {"d": 1.5, "e": "x"}


def test_long_values_are_text_and_no_metadata() -> None:
    document = csv_table(f"a,b\n{'x' * 201},y\n")
    assert document.parts[0].metadata == {"b": "y"} and "x" * 201 in document.text


def test_a_list_of_rows_is_a_table_and_other_json_a_text() -> None:
    document = json_list('[{"a": "x", "b": 2},\n {"a": "y", "b": 3}]')
    assert rows(document) == [("a: x\nb: 2", 1), ("a: y\nb: 3", 2)]
    for text in ('{"name": "x", "sizes": {"a": 1}}', "[1, 2]", '"text"', "{damaged"):
        document = json_list(text)
        assert document.text == text or rows(document), text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('a,b\n1,"never closed\n2,3\n', "line 2 cannot be read as a row"),
        ("a,a\n1,2\n", "names the column 'a' twice"),
        ("a,b\n", "holds no row"),
    ],
)
def test_what_is_no_table_is_read_as_text_with_the_reason(text: str, reason: str) -> None:
    document = csv_table(text)
    assert document.text == text and document.verbatim and len(document.parts) == 1
    assert document.notes[0].startswith("it is read as text: ") and reason in document.notes[0]


def test_an_empty_table_has_no_text() -> None:
    for read in (csv_table, tsv_table, json_lines, json_list):
        with pytest.raises(DataError, match="it holds no text"):
            read("\n")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_may_end_in_any_way(end: str) -> None:
    assert rows(csv_table(f"a,b{end}1,2{end}3,4{end}")) == [("a: 1\nb: 2", 2), ("a: 3\nb: 4", 3)]
    assert csv_table("a,b\rc\n1,2\n").notes[0].startswith("it is read as text: line 1 ")


def test_fields_of_any_length_are_read() -> None:
    long = "x " * 200_000
    assert rows(csv_table(f"a,b\n{long},y\n")) == [(f"a: {long.strip()}\nb: y", 2)]
    assert csv_table(f'"{long}",b\n1,2\n').text.endswith("b: 2\n")
