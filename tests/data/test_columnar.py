"""Parquet files and `datasets` objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from glassformer import DataError
from glassformer.data.rows import read_rows

arrow = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'glassformer[data]'")

ROWS: list[dict[str, Any]] = [{"text": f"t {n}", "n": n / 2, "l": ["a"] * (n % 3), "u": {"v": n}} for n in range(2_500)]


def parquet(path: Path, rows: list[dict[str, Any]], group: int = 700) -> Path:
    from pyarrow import parquet as format

    format.write_table(arrow.Table.from_pylist(rows), path, row_group_size=group)
    return path


def test_parquet(tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.parquet", ROWS)
    rows = read_rows(path)
    assert list(rows) == ROWS and all(rows[place] == ROWS[place] for place in (0, 699, 700, 1_000, 2_499))
    assert rows.kinds == {"text": "a text", "n": "a number", "l": "a list", "u": "an object"}
    assert rows.where(700) == f"{path}: row 700"
    assert read_rows(path, columns=["n", "text"])[3] == {"n": 1.5, "text": "t 3"}
    some = read_rows(path, columns=["n"])
    assert some[5] == {"n": 2.5} and some.fingerprint != rows.fingerprint == read_rows(path).fingerprint
    both = read_rows([path, parquet(tmp_path / "b.parquet", ROWS[:3])])
    assert len(both) == 2_503 and both[2_502] == ROWS[2]


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        (ROWS, ["txt"], "no column 'txt'; nearest: 'text'"),
        ([*ROWS[:1_500], {"text": None}], ["text"], "row 1500: 'text' is empty"),
        ([{"text": "a"}][:0], None, "holds no row"),
    ],
)
def test_what_is_wrong_with_it(tmp_path: Path, rows: list[Any], columns: list[str] | None, message: str) -> None:
    with pytest.raises(DataError, match=rf"a\.parquet: {message}"):
        read_rows(parquet(tmp_path / "a.parquet", rows), columns=columns)


def test_a_damaged_page(tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.parquet", ROWS)
    data = bytearray(path.read_bytes())
    data[200:4_000] = b"\xff" * 3_800
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"a\.parquet: cannot be read as Parquet"):
        read_rows(path)


@pytest.mark.parametrize(("length", "count"), [(2_000, 1_000), (2_000_000, 20)])
def test_a_file_that_swells_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: int, count: int
) -> None:
    """A value that stands once in the file, and in each of its rows; or a value that shrinks a hundred times."""
    monkeypatch.setattr("glassformer.files.FREELY_UNPACKED_BYTES", 1_000_000)
    with pytest.raises(DataError, match=r"a\.parquet: .*unpacks to more than [\d,]+ bytes"):
        read_rows(parquet(tmp_path / "a.parquet", [{"text": "a" * length}] * count))


def test_datasets() -> None:
    datasets = pytest.importorskip("datasets", reason="needs datasets: pip install datasets")
    data = datasets.Dataset.from_list(ROWS)
    rows = read_rows(data)
    assert list(rows) == ROWS and rows[1_700] == ROWS[1_700] and rows.where(3) == "the dataset: row 3"
    assert rows.kinds["l"] == "a list" and rows.columns == ("text", "n", "l", "u")
    assert read_rows(datasets.Dataset.from_list(ROWS)).fingerprint == rows.fingerprint
    turned = read_rows(data.select(range(2_499, -1, -1)).with_format("numpy"), columns=["text"])
    assert turned[0] == {"text": "t 2499"} and turned.fingerprint != rows.fingerprint
    with pytest.raises(DataError, match="the dataset: row 1: 'text' is empty"):
        read_rows(datasets.Dataset.from_list([{"text": "a"}, {"text": None}]), columns=["text"])
    with pytest.raises(DataError, match="for each column, and not Dataset; of several data sets, give one"):
        read_rows(datasets.DatasetDict(train=data))
