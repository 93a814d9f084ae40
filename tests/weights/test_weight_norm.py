"""Weights as lengths and directions of their rows: torch's own, bit by bit, and back in every dtype."""

from __future__ import annotations

import pytest
import torch

from glassformer.weights.weight_norm import WeightNormed, fold


@pytest.mark.parametrize("shape", [(6, 4, 7), (1, 9, 3), (5, 8)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_a_weight_is_its_lengths_and_directions(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    draw = torch.Generator().manual_seed(1)
    rule, weight = WeightNormed("conv.parametrizations.weight"), torch.randn(shape, generator=draw).to(dtype)
    weight[-1] = 0.0
    gain, direction = rule.write(weight)
    assert rule.stems == ("conv.parametrizations.weight.original0", "conv.parametrizations.weight.original1")
    assert [tuple(gain.shape), tuple(direction.shape)] == rule.shapes(shape) and direction.dtype == dtype
    assert torch.equal(rule.read([gain, direction]).to(dtype), weight)


def test_it_is_folded_as_torch_does() -> None:
    layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Conv1d(6, 4, 5))
    stored = dict(layer.named_parameters())
    with torch.no_grad():
        gain = stored["parametrizations.weight.original0"].mul_(torch.linspace(0.5, 2, 4)[:, None, None])
    folded = fold(gain, stored["parametrizations.weight.original1"])
    assert torch.equal(folded, layer.weight)
    assert fold(gain.half(), folded.half()).dtype == torch.float32
