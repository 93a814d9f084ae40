"""Rows by number: chosen, filtered, joined, shown."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from glassformer import DataError
from glassformer.data.rows import read_rows
from glassformer.data.views import RelabelledRows, RenamedColumns

ROWS = [{"text": f"<b>{number}</b>", "label": number % 2} for number in range(7)]


def test_rows_of_a_list() -> None:
    rows = read_rows(ROWS)
    assert len(rows) == 7 and rows[3] == rows[-4] == ROWS[3] and rows.columns == ("text", "label")
    assert rows.where(3) == "the list: row 3" and rows.kinds == {"text": "a text", "label": "a number"}
    rows[0]["text"] = "changed"
    assert rows[0] == ROWS[0]
    assert read_rows(ROWS, columns=["label"])[1] == {"label": 1}
    assert read_rows(ROWS).fingerprint == rows.fingerprint != read_rows(ROWS[::-1]).fingerprint
    assert read_rows(rows) is rows
    with pytest.raises(DataError, match="row 1: 'text' is 5, a number, where the rows before have a text"):
        read_rows([ROWS[0], {"text": 5}])
    with pytest.raises(DataError, match="row 0: no column 'lable'; nearest: 'label'"):
        read_rows(rows, columns=["lable"])


def test_rows_of_rows(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('\n{"text": "a", "n": 1}\n{"text": "b", "n": null}')
    rows = read_rows(tmp_path / "a.jsonl")
    narrow = read_rows(rows, columns=["text"])
    assert list(narrow) == [{"text": "a"}, {"text": "b"}] and narrow.columns == ("text",)
    assert narrow.where(1) == f"{tmp_path / 'a.jsonl'}: line 3" and narrow.fingerprint != rows.fingerprint
    with pytest.raises(DataError, match=r"a\.jsonl: line 3: 'n' is empty"):
        read_rows(rows, columns=["n"])


def test_arrays_count_in_the_fingerprint() -> None:
    prints = {read_rows([{"a": np.array(values)}]).fingerprint for values in ([1, 2], [1, 3], [[1, 2]], [1.0, 2.0])}
    assert len(prints) == 4
    assert read_rows([{"a": np.float32(0.5)}, {"a": 1}]).kinds == {"a": "a number"}


def test_a_gap_is_a_value_where_no_column_is_named() -> None:
    rows = read_rows([{"a": None, "b": 1}, {"a": "x"}])
    assert list(rows) == [{"a": None, "b": 1}, {"a": "x"}]
    assert rows.columns == ("a", "b") and rows.kinds == {"a": "a text", "b": "a number"}


def test_selections() -> None:
    rows = read_rows(ROWS)
    some = rows[1:6].select([4, 0])
    assert list(some) == [ROWS[5], ROWS[1]] and some.where(0) == "the list: row 5"
    assert len(some) == 2 and some.columns == rows.columns
    with pytest.raises(DataError, match="none of the 7 rows"):
        rows[3:3]
    with pytest.raises(DataError, match="rows go from 0 to 6; got 2 to 7"):
        rows.select([2, 7])


def test_labels_of_other_names() -> None:
    rows = read_rows([{"tokens": ["a", "b"], "tags": ["B-MISC", "O"]}, {"tokens": ["c"], "tags": ["B-PER"]}])
    other = RelabelledRows(rows, "tags", {"B-MISC": "O", "I-MISC": "O"})
    assert [row["tags"] for row in other] == [["O", "O"], ["B-PER"]] == [other[0]["tags"], other[1]["tags"]]
    assert (
        other.missing_labels() == ["I-MISC"] and other.where(1) == rows.where(1) and rows[0]["tags"] == ["B-MISC", "O"]
    )
    assert other.fingerprint != rows.fingerprint != RelabelledRows(rows, "tags", {"O": "B-MISC"}).fingerprint
    assert list(other.select([1])) == [{"tokens": ["c"], "tags": ["B-PER"]}] == list(other[1:])
    numbers = RelabelledRows(read_rows([{"label": 1}, {"label": None}, {"label": 0}]), "label", {"1": "good"})
    assert [row["label"] for row in numbers] == ["good", None, "0"] and numbers.kinds["label"] == "a text"
    with pytest.raises(DataError, match="no column 'tag'; nearest: 'tags'"):
        RelabelledRows(rows, "tag", {})


def test_a_filter() -> None:
    rows = read_rows(ROWS)
    odd = rows.filter(lambda row: row["label"] == 1)
    assert list(odd) == ROWS[1::2] and odd.where(1) == "the list: row 3"
    assert rows.filter(lambda row: True) is rows
    with pytest.raises(DataError, match="the filter drops all 7 rows of the list; look at its condition"):
        rows.filter(lambda row: row["label"] > 1)


def test_how_rows_look(tmp_path: Path) -> None:
    rows = read_rows(ROWS)
    assert repr(rows).startswith("7 rows of the list: text, label\n  {'text': '<b>0</b>', 'label': 0}\n")
    page = rows._repr_html_()
    assert "<caption>7 rows of the list</caption>" in page and "&lt;b&gt;4&lt;/b&gt;</th><td>0</td>" in page
    assert "&gt;5&lt;" not in page
    (tmp_path / "a.csv").write_text("text\n" + "long " * 100)
    one = read_rows(tmp_path / "a.csv")
    assert repr(one).startswith(f"1 row of {tmp_path / 'a.csv'}: text") and len(one._repr_html_()) < 400


def test_a_frame_of_rows() -> None:
    pandas = pytest.importorskip("pandas", reason="needs pandas: pip install pandas")
    frame = read_rows(ROWS)[2:4].to_pandas()
    assert frame.to_dict("records") == ROWS[2:4]
    frame.loc[1, "text"] = None
    assert list(read_rows(frame)) == [ROWS[2], {"text": None, "label": 1}]
    with pytest.raises(DataError, match="the frame: row 1: 'text' is empty"):
        read_rows(pandas.DataFrame({"text": ["a", None], "n": [1, 2]}), columns=["text"])
    whole = read_rows(pandas.DataFrame({"n": [1, 2], "x": [0.5, float("nan")], 3: ["a", "b"]}))
    assert list(whole) == [{"n": 1, "x": 0.5, "3": "a"}, {"n": 2, "x": None, "3": "b"}]
    assert type(whole[0]["n"]) is int
    with pytest.raises(DataError, match="names the column 'a' twice"):
        read_rows(pandas.DataFrame([[1, 2]], columns=["a", "a"]))


def test_other_headings() -> None:
    rows = read_rows([{"tweet": "so glad", "text": "old", "mood": 1}, {"tweet": "so sad", "text": "old", "mood": 0}])
    same = RenamedColumns(rows, {"tweet": "text", "mood": "label"})
    assert list(same) == [{"text": "so glad", "label": 1}, {"text": "so sad", "label": 0}] and same[1] == list(same)[1]
    assert (same.columns, same.kinds["label"]) == (["text", "label"], rows.kinds["mood"])
    assert (len(same), same.where(1), same.fingerprint) == (2, rows.where(1), rows.fingerprint)
    swapped = RenamedColumns(rows, {"tweet": "text", "text": "tweet"})
    assert swapped[0] == {"text": "so glad", "tweet": "old", "mood": 1}
    with pytest.raises(DataError, match=r"no column 'twet'.*nearest: 'tweet'"):
        RenamedColumns(rows, {"twet": "text"})
