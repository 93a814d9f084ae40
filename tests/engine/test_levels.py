"""Rounding to levels and back: by compiled kernels as by torch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from glassformer.engine import levels, native
from glassformer.engine.levels import OFFSET, rescale_, row_steps, token_levels
from glassformer.engine.program import LEVELS

SHAPES = [(1, 1), (1, 64), (7, 33), (300, 384), (3, 20_000)]
needs_kernels = pytest.mark.skipif(not native.available(), reason="needs numba and an x86 processor")


@pytest.fixture(params=["torch", pytest.param("kernels", marks=needs_kernels)])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Who computes."""
    if request.param == "torch":
        monkeypatch.setattr(native, "_kernel", [None])
    return str(request.param)


def numbers(shape: tuple[int, int], dtype: torch.dtype) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES)
def test_each_token_is_within_half_a_step(way: str, shape: tuple[int, int], dtype: torch.dtype) -> None:
    x = numbers(shape, dtype)
    found, step = token_levels(x)
    torch.testing.assert_close(step, row_steps(x.float()), rtol=1e-6, atol=0)
    back = (found.float() - OFFSET) * step
    assert ((back - x.float()).abs() <= step * 0.5001).all()
    assert (found.int() - OFFSET).abs().amax(1).eq(LEVELS).all()


@needs_kernels
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES)
def test_kernels_and_torch_choose_the_same_levels(shape: tuple[int, int], dtype: torch.dtype) -> None:
    x = numbers(shape, dtype)
    assert native.kernel() is not None
    (ours, step), (theirs, _) = token_levels(x), levels._token_levels_by_torch(x)
    apart = ours != theirs  # by one, where a number lies between two levels to its last digit
    assert apart.float().mean() < 1e-3
    assert ((ours.int() - theirs.int()).abs() <= 1).all()
    between = (x.float() / step)[apart]
    assert ((between - between.floor() - 0.5).abs() < 1e-4).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("with_bias", [True, False])
def test_back_to_numbers(way: str, dtype: torch.dtype, with_bias: bool) -> None:
    y, step, bias = numbers((300, 50), dtype), torch.rand(300, 1), torch.randn(50) if with_bias else None
    wanted = y.float() * step + (0 if bias is None else bias)
    found = rescale_(y.clone(), step, bias)
    torch.testing.assert_close(found.float(), wanted, rtol=1e-2 if dtype == torch.bfloat16 else 1e-6, atol=2e-2)


def test_odd_rows(way: str) -> None:
    """Zeros stay zeros, NaN makes its own token NaN and no other, and no tokens are none."""
    x = torch.zeros(3, 8)
    x[1, 2], x[2, 3] = float("nan"), 5.0
    found, step = token_levels(x)
    assert found[0].eq(OFFSET).all() and step[1].isnan() and step[2] == 5 / LEVELS
    assert token_levels(torch.zeros(0, 8))[0].shape == (0, 8)
    columns = torch.randn(8, 6).T  # not in order in memory
    assert torch.equal(token_levels(columns)[0], token_levels(columns.contiguous())[0])


@needs_kernels
def test_several_threads_at_once() -> None:
    inputs = [numbers((200 + 50 * i, 96), torch.bfloat16) for i in range(4)] * 8
    alone = [token_levels(x)[0] for x in inputs]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda x: token_levels(x)[0], inputs))
    assert all(torch.equal(a, b) for a, b in zip(alone, together, strict=True))
