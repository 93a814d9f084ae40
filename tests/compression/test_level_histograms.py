"""Histograms before and after quantisation: shares of all numbers, and a page that shows them."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from glassformer.compression.level_histograms import LevelHistogram, QuantisationHistograms, quantisation_histograms
from glassformer.compression.quantise import Scheme
from glassformer.compression.quantised_network import quantise_network
from glassformer.errors import ConfigError
from glassformer.reports.page import report_page


def test_shares_sum_to_one_and_few_levels_fill_few_bins() -> None:
    x = torch.randn(5000, generator=torch.Generator().manual_seed(0))
    coarse = (x / 1.0).round()
    histogram = LevelHistogram.of(x, coarse)
    assert sum(histogram.before) == pytest.approx(1) and sum(histogram.after) == pytest.approx(1)
    assert sum(share > 0 for share in histogram.after) < 10 < sum(share > 0 for share in histogram.before)
    assert histogram.centres[30] == pytest.approx(0, abs=1e-6)
    assert histogram.error == pytest.approx(12**-0.5, rel=0.05)  # a step of 1, over a deviation of 1
    assert LevelHistogram.of(x, x).error == 0


def test_a_report_of_two_networks() -> None:
    plain = nn.Sequential(nn.Linear(16, 8), nn.GELU(), nn.Linear(8, 4))
    small = copy.deepcopy(plain)
    quantise_network(small, Scheme(8), inputs="dynamic")
    report = quantisation_histograms(plain, small, lambda network: network(torch.randn(9, 16)))
    assert set(report.weights) == set(report.inputs) == {"0", "2"}
    assert 0 < report.weights["0"].error < 0.01 and 0 < report.inputs["2"].error < 0.02
    assert len(report.charts()) == 4
    assert QuantisationHistograms.from_dict(report.to_dict()) == report
    assert "relative error of weights" in report_page(report)
    assert not quantisation_histograms(plain, small).inputs
    with pytest.raises(ConfigError, match="no layer of the second network is quantised"):
        quantisation_histograms(small, plain)
