"""Columns of data sets as inputs of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any


class KeyDataset(Sequence[Any]):
    """One column of a data set whose rows are mappings."""

    def __init__(self, dataset: Any, key: str) -> None:
        self._dataset, self._key = dataset, key

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: Any) -> Any:
        return self._dataset[index][self._key]

    def __iter__(self) -> Iterator[Any]:
        return (row[self._key] for row in self._dataset)
