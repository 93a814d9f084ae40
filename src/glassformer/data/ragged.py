"""Ragged arrays: vectors of different lengths, stored end to end with offsets.

[5 8 2] [9 2] [7]        values 5 8 2 9 2 7      offsets 0 3 5 6
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.errors import DataError
from glassformer.files import safe_repr

NUMBERS = "biuf"  # dtype kinds: boolean, signed and unsigned integer, float


@dataclass(frozen=True)
class RaggedColumn:
    """A column of examples: a number each, or (`ragged`) an array each, of which only the first axis may differ.

    shape: of the other axes
    """

    name: str
    dtype: str
    ragged: bool
    shape: tuple[int, ...] = ()

    @property
    def values(self) -> str:
        """The file of all values."""
        return f"{self.name}.values"

    @property
    def offsets(self) -> str:
        """The file of the offsets at which vectors begin."""
        return f"{self.name}.offsets"

    @classmethod
    def of(cls, name: str, value: Any) -> RaggedColumn:
        """Infer a column from its first value. Raises: DataError: it is not numeric."""
        array = _numbers(value, name, "the first example")
        typed = isinstance(value, (np.ndarray, np.generic))
        if array.ndim and not typed:  # a list has no dtype: whole numbers are ids, others weights
            dtype = {"b": "bool", "f": "float32"}.get(array.dtype.kind if array.size else "i", "int32")
        else:
            dtype = array.dtype.newbyteorder("=").name
        return cls(name, dtype, array.ndim > 0, array.shape[1:])

    def array(self, value: Any, where: str) -> np.ndarray:
        """A value as an array of this column. Raises: DataError: another rank, shape or dtype, or overflow."""
        array = _numbers(value, self.name, where)
        if (array.ndim > 0) != self.ragged or array.shape[1:] != self.shape:
            raise DataError(
                f"{where}: {self.name!r} has shape {_shape(array.shape)}, and before it "
                f"{_shape((None, *self.shape) if self.ragged else ())}; only the first axis may differ"
            )
        cast = array.astype(self.dtype)
        if array.size and array.dtype != cast.dtype:
            fits = np.can_cast(array.dtype, cast.dtype, "same_kind")
            if not fits or (cast.dtype.kind in "iu" and bool((cast != array).any())):
                raise DataError(
                    f"{where}: {self.name!r} is {safe_repr(value)}, which is no {self.dtype}, as the "
                    "first example's is; "
                    "give arrays of one type"
                )
        return cast


class RaggedWriter:
    """Writes examples column by column, with a SHA-256 digest of each file.

    Args: first: the example that defines the columns · write: called with a file name and bytes to append
    """

    def __init__(self, first: Mapping[str, Any], write: Callable[[str, bytes], None]) -> None:
        if not first:
            raise DataError("the first example is empty; it needs at least one array or number")
        self.columns = [RaggedColumn.of(name, value) for name, value in first.items()]
        self.count = 0
        self._write = write
        self._ends = dict.fromkeys(first, 0)
        self._digests: dict[str, Any] = {}
        for column in self.columns:
            if column.ragged:
                self._put(column.offsets, np.zeros(1, dtype=np.int64))

    def add(self, examples: Sequence[Mapping[str, Any]]) -> None:
        """Append examples. Raises: DataError: one does not have the columns of the first."""
        names = self._ends.keys()
        for number, example in enumerate(examples, start=self.count):
            if example.keys() != names:
                raise DataError(
                    f"example {number} has {', '.join(example)}, and the first has {', '.join(names)}; "
                    "all must have the same"
                )
        for column in self.columns:
            arrays = [
                column.array(example[column.name], f"example {number}")
                for number, example in enumerate(examples, start=self.count)
            ]
            if column.ragged:
                offsets = self._ends[column.name] + np.cumsum(
                    [len(array) for array in arrays], dtype=np.int64
                )
                self._ends[column.name] = int(offsets[-1])
                self._put(column.values, np.concatenate(arrays))
                self._put(column.offsets, offsets)
            else:
                self._put(column.values, np.stack(arrays))
        self.count += len(examples)

    def digests(self) -> dict[str, str]:
        """File → digest of its bytes."""
        return {name: digest.hexdigest() for name, digest in self._digests.items()}

    def _put(self, name: str, array: np.ndarray) -> None:
        data = array.tobytes()
        self._digests.setdefault(name, hashlib.sha256()).update(data)
        self._write(name, data)


def _numbers(value: Any, name: str, where: str) -> np.ndarray:
    try:
        array = np.asarray(value)
    except ValueError:  # rows of different lengths
        array = np.asarray(None)
    if array.dtype.kind not in NUMBERS:
        raise DataError(
            f"{where}: {name!r} is {safe_repr(value)}; it must be a number, or an array of numbers"
        )
    return array


def _shape(shape: tuple[int | None, ...]) -> str:
    return (
        "[" + ", ".join("n" if size is None else str(size) for size in shape) + "]"
        if shape
        else "of a number"
    )
