"""Rows that are watched while a task reads them."""

from __future__ import annotations

from glassformer.data.rows import read_rows
from glassformer.tasks.columns import _WatchedRows


def test_a_row_that_is_read_twice_counts_once() -> None:
    counts: list[int] = []
    rows = _WatchedRows(read_rows([{"text": "a"}, {"text": "b"}, {"text": "c"}]), ["text"], counts.append)
    assert rows[0] == {"text": "a"}
    assert len([*rows, rows[2], rows[1], rows[0]]) == 6
    assert counts == [1, 1, 1]
