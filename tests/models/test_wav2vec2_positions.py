"""Convolutional position encoding of frames, next to torch's convolution with weight normalisation."""

from __future__ import annotations

import pytest
import torch

from glassformer.models.wav2vec2.positions import ConvolvedPositions, ConvolvedPositionsSpec
from tests.core.small import assert_close, perturbed


@pytest.mark.parametrize("kernel", [1, 2, 5, 8, 128])
@pytest.mark.parametrize("groups", [1, 4, 8])
@torch.no_grad()
def test_convolved_positions_are_torchs_convolution_with_normed_weights(kernel: int, groups: int) -> None:
    spec = ConvolvedPositionsSpec(width=8, kernel=kernel, groups=groups)
    ours = perturbed(ConvolvedPositions(spec))
    conv = torch.nn.Conv1d(8, 8, kernel, padding=kernel // 2, groups=groups)
    conv = torch.nn.utils.parametrizations.weight_norm(conv, dim=2)
    state = {"original0": ours.gain, "original1": ours.direction}
    conv.load_state_dict({"bias": ours.bias, **{f"parametrizations.weight.{k}": v for k, v in state.items()}})
    x = torch.randn(2, 7, 8)
    assert_close(ours(x), torch.nn.functional.gelu(conv(x.mT)[..., :7]).mT)


@torch.no_grad()
def test_convolved_positions_know_neighbours_and_no_number() -> None:
    """What stands far from both ends of a row is the same wherever it stands; an even kernel reaches further back."""
    ours = perturbed(ConvolvedPositions(ConvolvedPositionsSpec(width=8, kernel=4, groups=2)))
    x = torch.zeros(1, 20, 8)
    x[0, 9] = torch.randn(8)
    reached = (ours(x) - ours(torch.zeros(1, 20, 8))).abs().sum(-1)[0].nonzero().flatten().tolist()
    assert reached == [8, 9, 10, 11], "a frame reads two before it and one behind it"
    assert_close(ours(x.roll(3, dims=1))[0, 11:15], ours(x)[0, 8:12])


def test_a_direction_says_nothing_by_its_length() -> None:
    ours = perturbed(ConvolvedPositions(ConvolvedPositionsSpec(width=8, kernel=4, groups=2)))
    x = torch.randn(1, 9, 8)
    before = ours(x)
    with torch.no_grad():
        ours.direction *= torch.tensor([1.0, 2.0, 3.0, 0.5])
    assert_close(ours(x), before)


def test_convolved_positions_start_with_their_initial_weights() -> None:
    torch.manual_seed(0)
    ours = ConvolvedPositions(ConvolvedPositionsSpec(width=64, kernel=16, groups=4))
    assert float(ours.direction.detach().std()) == pytest.approx(2 / (64 * 16) ** 0.5, rel=0.05)
    assert_close(ours.gain, ours.direction.square().sum((0, 1), keepdim=True).sqrt())
    assert not ours.bias.any()
