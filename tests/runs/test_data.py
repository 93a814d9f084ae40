"""Rows of a run: which columns may be left unread."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.data.sequence import InMemoryRows
from glassformer.errors import ConfigError, DataError
from glassformer.runs.config import DataConfig
from glassformer.runs.data import check_unused_columns
from glassformer.tasks.span import Answer


def test_a_column_that_numbers_the_rows_is_in_nobodys_way() -> None:
    row = {"id": "56be", "question": "Which?", "context": "Rome", "answers": {"text": ["Rome"], "answer_start": [0]}}
    check_unused_columns(InMemoryRows([row]), Answer.COLUMNS, [])
    with pytest.raises(ConfigError, match="unused columns 'titel'"):
        check_unused_columns(InMemoryRows([{**row, "titel": "x"}]), Answer.COLUMNS, [])


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
    with pytest.raises(DataError, match=r"digits: no such folder.*\(train\.csv\).*--data names another"):
        data.read(data.train or "")
    (tmp_path / "rows.csv").write_text("text\nhello\n")
    assert len(data.read(str(tmp_path / "rows.csv"))) == 1  # a file by its whole path lies in no folder
