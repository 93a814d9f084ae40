"""Calibration: histograms count every number, and each way chooses the range that it names."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from glassformer.compression.calibrate import CALIBRATIONS, Histogram, calibrated_grid, input_histograms
from glassformer.errors import ConfigError, DataError


def heavy_tailed() -> torch.Tensor:
    """Normal numbers and a few outliers thirty times as large."""
    x = torch.randn(10_000, generator=torch.Generator().manual_seed(0))
    x[:3] = 30.0
    return x


def histogram_of(*batches: torch.Tensor) -> Histogram:
    histogram = Histogram()
    for batch in batches:
        histogram.add(batch[:, None])
    return histogram


def test_a_histogram_grows_with_its_numbers_and_loses_none() -> None:
    small, large = torch.linspace(-0.3, 0.4, 100), torch.linspace(-50, 60, 77)
    one, other = histogram_of(small, large), histogram_of(large, small)
    assert one.counts.sum() == other.counts.sum() == 177
    assert (one.low, one.high) == (other.low, other.high) == (-50.0, 60.0)
    assert one.limit == other.limit == 64.0
    assert torch.equal(one.counts, other.counts)  # neither the order nor the first batch counts


def test_the_largest_of_each_channel() -> None:
    histogram = Histogram()
    histogram.add(torch.tensor([[1.0, -5.0], [-2.0, 3.0]]))
    histogram.add(torch.tensor([[[0.5, 6.0]]]))
    assert histogram.largest is not None
    assert histogram.largest.tolist() == [2.0, 6.0]


def test_ranges_of_the_ways() -> None:
    histogram = histogram_of(heavy_tailed())
    ranges = {name: way(histogram, 8) for name, way in CALIBRATIONS.items()}
    low = float(heavy_tailed().min())
    assert ranges["minmax"] == (pytest.approx(low), 30.0)
    assert ranges["percentile"][1] == pytest.approx(30.0)  # 3 of 10,000 are more than what is cut
    assert 2.5 < ranges["entropy"][1] < 15.0
    # Clipping three numbers by x costs 3 x², narrower steps save 10,000 of their squares over 12.
    assert ranges["mse"][1] > 20.0
    assert calibrated_grid(histogram, "mse", 4).scale < calibrated_grid(histogram, "minmax", 4).scale


def test_percentiles_cut_both_tails() -> None:
    from glassformer.compression.calibrate import percentile_range

    low, high = percentile_range(histogram_of(torch.linspace(-1, 1, 100_001)), 8, 90.0)
    assert (low, high) == (pytest.approx(-0.9, abs=2e-3), pytest.approx(0.9, abs=2e-3))


def test_the_mse_range_has_the_least_error_of_all() -> None:
    x = heavy_tailed()
    histogram = histogram_of(x)
    errors = {way: float((calibrated_grid(histogram, way, 4).round(x) - x).square().sum()) for way in CALIBRATIONS}
    assert errors["mse"] == min(errors.values())
    assert errors["mse"] < 0.9 * errors["minmax"]


def test_zeros_alone_have_a_grid() -> None:
    for way in CALIBRATIONS:
        grid = calibrated_grid(histogram_of(torch.zeros(5)), way)
        assert (grid.round(torch.zeros(2)) == 0).all()


def test_inputs_of_layers_over_a_calibration_set() -> None:
    network = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    layers = {"up": network[0], "down": network[2]}
    batches = [torch.randn(5, 3), torch.randn(2, 3)]
    histograms = input_histograms(layers, batches, network)
    assert histograms["up"].counts.sum() == 21 and histograms["down"].counts.sum() == 28
    assert histograms["down"].low == 0.0
    assert calibrated_grid(histograms["down"], "minmax").zero == -128  # one-sided numbers use every level
    assert not network[0]._forward_pre_hooks


def test_what_cannot_be_calibrated() -> None:
    network = nn.Sequential(nn.Linear(3, 4))
    with pytest.raises(DataError, match="calibration set is empty"):
        input_histograms({"up": network[0]}, [], network)
    with pytest.raises(DataError, match="never runs other"):
        input_histograms({"up": network[0], "other": nn.Linear(1, 1)}, [torch.zeros(1, 3)], network)
    with pytest.raises(DataError, match="not a number"):
        input_histograms({"up": network[0]}, [torch.full((1, 3), float("nan"))], network)
    with pytest.raises(ConfigError, match="minmax, percentile, mse, entropy"):
        calibrated_grid(histogram_of(torch.ones(2)), "minmx")
    with pytest.raises(DataError, match="empty"):
        calibrated_grid(Histogram(), "mse")
