"""Compressed sparse rows (CSR): a matrix as its non-zero values, the column of each, and where each row begins.

    0 0 3
    0 2 0        values 3 2 4        columns 2 1 0        pointers 0 1 2 3
    4 0 0

    sparse = CompressedRows.of(weight)
    sparse.matvec(x)                  as weight @ x
    sparse.bytes                      fewer than the dense matrix from `break_even` zeros on

A value costs its column as well, so zeros pay on disk from about a third of them on (with 16-bit columns), and in time
far later: a processor multiplies dense rows several values at a time, and has to gather the inputs of sparse ones.
Figures: docs/compression.md.
Source: Saad 2003, "Iterative Methods for Sparse Linear Systems", section 3.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor

from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from jaxtyping import Float, Int


@dataclass(frozen=True)
class CompressedRows:
    """A matrix [rows, columns] in compressed sparse rows.

    values: those that are not zero, row after row
    columns: the column of each, in 16 bits where they suffice
    pointers: row i is values[pointers[i] : pointers[i + 1]]
    width: number of columns
    """

    values: Float[Tensor, "N"]
    columns: Int[Tensor, "N"]
    pointers: Int[Tensor, "rows_and_one"]
    width: int

    @classmethod
    def of(cls, matrix: Float[Tensor, "rows columns"]) -> Self:
        """Compress a matrix. Raises: ConfigError: it has not two dimensions."""
        if matrix.dim() != 2:
            raise ConfigError(f"compressed rows are of a matrix; got {list(matrix.shape)}")
        filled = matrix != 0
        columns = filled.nonzero()[:, 1].to(index_type(matrix.shape[1]))
        pointers = torch.zeros(matrix.shape[0] + 1, dtype=torch.int32, device=matrix.device)
        pointers[1:] = filled.sum(dim=1).cumsum(dim=0)
        return cls(matrix[filled], columns, pointers, matrix.shape[1])

    @property
    def rows(self) -> int:
        return len(self.pointers) - 1

    @property
    def bytes(self) -> int:
        """Bytes of the three arrays."""
        return sum(x.numel() * x.element_size() for x in (self.values, self.columns, self.pointers))

    @property
    def row_numbers(self) -> Int[Tensor, "N"]:
        """The row of each value."""
        numbers = torch.arange(self.rows, device=self.pointers.device)
        return numbers.repeat_interleave(self.pointers.diff())

    def dense(self) -> Float[Tensor, "rows columns"]:
        """The matrix with its zeros, the same to the bit."""
        matrix = self.values.new_zeros(self.rows, self.width)
        matrix[self.row_numbers, self.columns.long()] = self.values
        return matrix

    def matvec(self, x: Float[Tensor, "columns"]) -> Float[Tensor, "rows"]:
        """The product with a vector: each value times the input of its column, summed by row.

        Raises: ConfigError: a vector of another length.
        """
        if x.shape != (self.width,):
            raise ConfigError(f"a matrix with {self.width} columns times a vector {list(x.shape)}")
        products = self.values * x[self.columns.long()]
        return products.new_zeros(self.rows).index_add_(0, self.row_numbers, products)


def index_type(width: int) -> torch.dtype:
    """The narrowest type of numbers that holds each column."""
    return torch.int16 if width <= 1 << 15 else torch.int32


def break_even(rows: int, width: int, dtype: torch.dtype = torch.float32) -> float:
    """The sparsity from which compressed rows take fewer bytes than the matrix.

    (1 − s) · rows · width · (value + column) + (rows + 1) · pointer = rows · width · value

    """
    value, column, pointer = dtype.itemsize, index_type(width).itemsize, torch.int32.itemsize
    return 1 - (rows * width * value - (rows + 1) * pointer) / (rows * width * (value + column))
