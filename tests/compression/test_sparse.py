"""Compressed sparse rows: the same matrix, the same products, and fewer bytes from the sparsity that is stated."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from glassformer.compression.sparse import CompressedRows, break_even
from glassformer.errors import ConfigError


def sparse_matrix(seed: int, rows: int, width: int, sparsity: float) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(rows, width, generator=random) * (torch.rand(rows, width, generator=random) >= sparsity)


def test_the_example_of_the_text_books() -> None:
    sparse = CompressedRows.of(torch.tensor([[0.0, 0, 3], [0, 2, 0], [4, 0, 0]]))
    assert sparse.values.tolist() == [3, 2, 4]
    assert sparse.columns.tolist() == [2, 1, 0]
    assert sparse.pointers.tolist() == [0, 1, 2, 3]
    assert sparse.matvec(torch.tensor([1.0, 10, 100])).tolist() == [300, 20, 4]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6), rows=st.integers(1, 20), width=st.integers(1, 20), sparsity=st.sampled_from([0, 0.5, 1])
)
def test_matrix_and_products_are_the_same(seed: int, rows: int, width: int, sparsity: float) -> None:
    matrix = sparse_matrix(seed, rows, width, sparsity)
    sparse = CompressedRows.of(matrix)
    x = torch.randn(width, generator=torch.Generator().manual_seed(seed))
    assert torch.equal(sparse.dense(), matrix)
    torch.testing.assert_close(sparse.matvec(x), matrix @ x, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("width", [64, 40_000])
def test_fewer_bytes_from_break_even_on(dtype: torch.dtype, width: int) -> None:
    rows = 32
    limit = break_even(rows, width, dtype)
    dense = rows * width * dtype.itemsize
    for sparsity, fewer in ((limit + 0.01, True), (limit - 0.01, False)):
        matrix = torch.ones(rows * width, dtype=dtype)
        matrix[: round(sparsity * len(matrix))] = 0
        assert (CompressedRows.of(matrix.reshape(rows, width)).bytes < dense) == fewer


def test_what_is_no_matrix_or_no_vector_of_it() -> None:
    with pytest.raises(ConfigError, match=r"\[2, 2, 2\]"):
        CompressedRows.of(torch.ones(2, 2, 2))
    with pytest.raises(ConfigError, match="3 columns"):
        CompressedRows.of(torch.ones(2, 3)).matvec(torch.ones(2))
