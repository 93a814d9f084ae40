"""GPTQ, AWQ, SmoothQuant and the sensitivity sweep: less error of the outputs than rounding to the nearest level."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from glassformer.compression.awq import activation_aware_factors, searched_round
from glassformer.compression.gptq import gptq, output_error
from glassformer.compression.layer_inputs import LayerInputs, recorded_inputs
from glassformer.compression.quantise import Levels, Scheme, grid_of, round_to_nearest
from glassformer.compression.sensitivity import sensitivity_sweep
from glassformer.compression.smooth import best_factors, smoothing_scales
from glassformer.core.levels import dequantise
from glassformer.errors import DataError

SCHEME = Scheme(4, 32)


def correlated_inputs(count: int = 2000, *, outliers: float = 1.0) -> Tensor:
    """Inputs of 64 channels that depend on each other, of which every sixteenth is larger."""
    dice = torch.Generator().manual_seed(0)
    x = torch.randn(count, 16, generator=dice) @ torch.randn(16, 64, generator=dice)
    x += 0.3 * torch.randn(count, 64, generator=dice)
    x[:, ::16] *= outliers
    return x


def weights() -> Tensor:
    return torch.randn(48, 64, generator=torch.Generator().manual_seed(1))


def recorded(x: Tensor) -> LayerInputs:
    inputs = LayerInputs(x.shape[1], hessian=True)
    for part in x.split(500):
        inputs.add(part)
    return inputs


def numbers(made: Levels) -> Tensor:
    return dequantise(made.levels, made.scale, made.zero)


@pytest.mark.parametrize("scheme", [SCHEME, Scheme(4, 0), Scheme(4, 32, symmetric=False), Scheme(8)])
def test_gptq_moves_the_outputs_less_than_the_nearest_levels(scheme: Scheme) -> None:
    x, weight = correlated_inputs(), weights()
    made = gptq(weight, recorded(x).hessian, scheme)
    nearest = searched_round(weight, scheme)
    assert made.levels.dtype == torch.int8 and int(made.levels.min()) >= -(1 << (scheme.bits - 1))
    assert int(made.levels.max()) < 1 << (scheme.bits - 1)
    errors = [float(((numbers(w) - weight) @ x.T).square().mean()) for w in (made, nearest)]
    assert errors[0] < 0.5 * errors[1]


def test_gptq_of_independent_inputs_is_the_nearest_level() -> None:
    made, nearest = gptq(weights(), torch.eye(64), SCHEME), searched_round(weights(), SCHEME)
    assert torch.equal(made.levels, nearest.levels) and torch.equal(made.scale, nearest.scale)


def test_gptq_of_inputs_that_are_always_zero() -> None:
    x = correlated_inputs()
    x[:, 5] = 0
    assert torch.isfinite(numbers(gptq(weights(), recorded(x).hessian, SCHEME))).all()
    assert torch.isfinite(numbers(gptq(weights(), torch.zeros(64, 64), SCHEME))).all()


def test_the_error_by_second_moments_is_that_of_the_outputs() -> None:
    x, weight = correlated_inputs(), weights()
    rounded = numbers(round_to_nearest(weight, SCHEME))
    direct = ((weight - rounded) @ x.T).square().mean()
    assert output_error(weight, rounded, recorded(x).hessian) == pytest.approx(float(direct), rel=1e-3)


def test_activation_aware_scaling_moves_the_outputs_less() -> None:
    x, weight = correlated_inputs(outliers=20.0), weights()
    factors = activation_aware_factors(weight, recorded(x), SCHEME)
    assert factors is not None
    scaled = numbers(searched_round(weight / factors, SCHEME)) * factors
    plain = numbers(searched_round(weight, SCHEME))
    errors = [float(((w - weight) @ x.T).square().mean()) for w in (scaled, plain)]
    assert errors[0] < 0.7 * errors[1]
    assert float(factors[::16].max()) < float(factors[1::16].min())  # inputs that are large are divided


def test_outliers_migrate_to_the_weights() -> None:
    x, weight = correlated_inputs(outliers=50.0), weights()
    inputs = recorded(x)
    factors = best_factors(weight, inputs, Scheme(8))
    assert factors is not None

    def error(scales: Tensor) -> float:
        made, scaled = round_to_nearest(weight * scales, Scheme(8)), x / scales
        return float((grid_of(scaled, 8).round(scaled) @ numbers(made).T - x @ weight.T).square().mean())

    assert error(1 / factors) < 0.2 * error(torch.ones(64))
    assert best_factors(torch.ones(4, 64), recorded(torch.ones(40, 64)), Scheme(8)) is None


def test_alpha_says_how_much_migrates() -> None:
    largest, weight = torch.tensor([1.0, 100.0]), torch.tensor([[1.0, 4.0], [-2.0, 1.0]])
    assert torch.allclose(smoothing_scales(largest, weight, 1.0), largest)
    assert torch.allclose(smoothing_scales(largest, weight, 0.0), torch.tensor([0.5, 0.25]))
    assert torch.allclose(smoothing_scales(largest, weight, 0.5), torch.tensor([0.5**0.5, 5.0]))


def test_recorded_inputs_of_layers() -> None:
    network = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    layers = {"up": network[0], "down": network[1]}
    with recorded_inputs(layers, hessian=True, factors={"up": torch.tensor([1.0, 2.0, 0.0])}) as inputs:
        network(torch.ones(5, 3))
        network(-torch.ones(2, 3))
    assert inputs["up"].largest.tolist() == [1.0, 2.0, 0.0]
    assert inputs["up"].hessian.tolist() == [[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 0.0]]
    assert inputs["up"].magnitudes.tolist() == [1.0, 2.0, 0.0]
    assert inputs["down"].samples.shape == (7, 4)
    with pytest.raises(DataError, match="calibration set is empty"), recorded_inputs(layers):
        pass


def test_the_sweep_finds_the_layer_that_matters_and_leaves_the_network_as_it_was() -> None:
    network = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16))
    torch.manual_seed(0)
    for layer in network:
        nn.init.orthogonal_(layer.weight)
    network[1].weight.data[:, 0] *= 300  # an outlier column makes the steps of its rows wide
    x = torch.randn(50, 16)
    x[:, 0] = 0
    nn.init.eye_(network[0].weight)
    nn.init.zeros_(network[0].bias)
    before, modules = network(x), list(network)
    layers = {str(i): layer for i, layer in enumerate(network)}
    steps: list[int] = []
    report = sensitivity_sweep(network, layers, Scheme(8), lambda: [network(x)], progress=steps.append)
    assert report.most_sensitive(1) == ["1"] and steps == [1, 1, 1]
    assert list(network) == modules and torch.equal(network(x), before)
    assert report.errors["1"] > 10 * report.errors["2"] > 0
    assert report.tables()[0].rows[0][0] == "1"
