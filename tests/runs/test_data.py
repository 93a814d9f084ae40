"""Rows of a run: which columns may be left unread."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from glassformer.data.sequence import InMemoryRows
from glassformer.errors import ConfigError, DataError
from glassformer.runs.config import DataConfig
from glassformer.runs.data import check_unused_columns, read_usable
from glassformer.tasks.classify.task import Classify
from glassformer.tasks.span import AnswerText
from glassformer.tasks.transcribe.task import Transcribe


def test_a_column_that_numbers_the_rows_is_in_nobodys_way() -> None:
    row = {"id": "56be", "question": "Which?", "context": "Rome", "answers": {"text": ["Rome"], "answer_start": [0]}}
    check_unused_columns(InMemoryRows([row]), AnswerText.COLUMNS, [])
    with pytest.raises(ConfigError, match="unused columns 'titel'"):
        check_unused_columns(InMemoryRows([{**row, "titel": "x"}]), AnswerText.COLUMNS, [])


def test_unused_columns_name_what_is_read_and_what_to_type() -> None:
    row = {"review": "good", "sentiment": "pos", "channel": "web", "my stars": "5"}
    columns = {"text": "review", "text_pair": "text_pair", "label": "sentiment"}
    with pytest.raises(ConfigError) as refused:
        check_unused_columns(InMemoryRows([row]), columns, [])
    message = str(refused.value)
    assert "read are text=review, label=sentiment. To leave them out" in message, "no role without its column"
    assert "--ignore channel --ignore 'my stars' (or --ignore '*')" in message
    assert "to read one: --column text_pair=channel" in message
    with pytest.raises(ConfigError, match=r"none is read.*out: --ignore '\*'; to read one: --column text=review"):
        check_unused_columns(InMemoryRows([row]), {"text": "text", "label": "label"}, [])


def test_a_folder_of_data_that_is_not_there(tmp_path: Path) -> None:
    data = DataConfig(folder=str(tmp_path / "digits"), train="train.csv")
    with pytest.raises(DataError, match=r"digits: no such folder.*\(train\.csv\).*--data .* names another"):
        data.read(data.train or "")
    (tmp_path / "rows.csv").write_text("text\nhello\n")
    assert len(data.read(str(tmp_path / "rows.csv"))) == 1  # a file by its whole path lies in no folder


def test_rows_without_a_label_or_a_text_are_left_out_where_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("review,mood,id\ngood,a,1\nno label,,2\n ,b,3\n,,4\ntoo,many,5,6\nbad,b,\n")
    columns = {"text": "review", "label": "mood"}
    data = DataConfig(train=str(path), columns=columns, format={"on_bad_rows": "skip"})
    with pytest.warns(UserWarning) as caught:
        rows = read_usable(data, Classify, str(path))
    assert [row["review"] for row in rows] == ["good", "bad"], "an empty id is no reason"
    assert [str(each.message).partition(": ")[2].partition(";")[0] for each in caught] == [
        "1 of 6 rows were left out as they are damaged",
        "3 of 5 rows were left out: 2 without a label, 1 without a text",
    ]
    path.write_text("review,mood\n,a\n,b\n")
    with pytest.raises(DataError, match="drops all 2 rows"):
        read_usable(data, Classify, str(path))
    rows = read_usable(replace(data, format={}), Classify, str(path))
    assert len(rows) == 2
    sounds = replace(data, columns={"text": "review"})
    assert len(read_usable(sounds, Transcribe, str(path))) == 2, "a transcript of silence is empty"
