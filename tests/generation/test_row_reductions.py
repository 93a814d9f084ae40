"""What NumPy does for a few rows is what torch does for any."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from glassformer.generation.row_reductions import row_argmax, row_maximum, without_tokens

ROWS = torch.tensor([[0.0, 3.0, 3.0, -1.0], [-torch.inf] * 4, [1.0, torch.nan, 2.0, 0.0], [5.0, 0.0, torch.inf, 1.0]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_same_by_both_ways(dtype: torch.dtype) -> None:
    logits = ROWS.to(dtype)
    plain = logits.clone().requires_grad_()  # which torch reads
    for function in (row_argmax, row_maximum):
        assert torch.equal(function(logits).double().nan_to_num(7), function(plain).detach().double().nan_to_num(7))
    assert row_argmax(logits).tolist() == [1, 0, 1, 2]


@pytest.mark.parametrize("banned", [[1], [0, 3], []])
def test_banned_tokens_are_gone_from_a_copy(banned: list[int]) -> None:
    def ban(logits: Tensor) -> Tensor:
        return without_tokens(logits, banned)

    got = ban(ROWS[:1])
    assert torch.equal(got, ban(ROWS[:1].clone().requires_grad_()).detach())
    assert [i for i in range(4) if got[0, i] == -torch.inf] == banned and ROWS[0, 1] == 3
