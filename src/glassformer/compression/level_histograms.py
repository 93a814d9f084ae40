"""Histograms of weights and of layer inputs, before and after quantisation: where numbers are, and where levels are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from glassformer.compression.layer_inputs import recorded_inputs
from glassformer.core.quantised import QuantisedLinear, quantised_layers
from glassformer.errors import ConfigError
from glassformer.reports.charts import Series, SeriesLine
from glassformer.reports.report import Record, Report
from glassformer.reports.table import Table, number

BARS = 61
"""Bins of a histogram, an odd number: 0 is in the middle of one where the range is symmetric."""


@dataclass(frozen=True)
class LevelHistogram(Record):
    """Shares of numbers in bins of one width, before and after quantisation.

    centres: of the bins
    before, after: shares, which sum to 1
    error: root mean square of what a number changes, over the root mean square of all
    """

    centres: list[float]
    before: list[float]
    after: list[float]
    error: float

    @staticmethod
    def of(before: Tensor, after: Tensor) -> LevelHistogram:
        """Compare numbers with what quantisation makes of them, one by one."""
        before, after = before.detach().float().flatten(), after.detach().float().flatten()
        end = max(float(before.abs().max()), float(after.abs().max()), 1e-12)
        shares = [torch.histc(x, BARS, -end, end) / x.numel() for x in (before, after)]
        width = 2 * end / BARS
        size = before.square().mean().sqrt().clamp_min(1e-12)
        return LevelHistogram(
            [-end + width * (bar + 0.5) for bar in range(BARS)],
            shares[0].tolist(),
            shares[1].tolist(),
            float((before - after).square().mean().sqrt() / size),
        )

    def chart(self, title: str) -> Series:
        lines = [SeriesLine("before", self.centres, self.before), SeriesLine("after", self.centres, self.after)]
        return Series(title=title, x_label=title, y_label="share of the numbers", lines=lines)


@dataclass(frozen=True, repr=False)
class QuantisationHistograms(Report, kind="quantisation-histograms"):
    """Histograms of each quantised layer.

    weights: layer → of its weights
    inputs: layer → of what it reads on calibration examples; none where these were not run
    """

    weights: dict[str, LevelHistogram]
    inputs: dict[str, LevelHistogram]

    caption = "Weights and inputs before and after quantisation"

    def tables(self) -> list[Table]:
        rows = [
            [path, number(weights.error), number(self.inputs[path].error) if path in self.inputs else "not rounded"]
            for path, weights in self.weights.items()
        ]
        return [Table(["layer", "relative error of weights", "relative error of inputs"], rows)]

    def charts(self) -> Sequence[Series]:
        weights = [histogram.chart(f"weights of {path}") for path, histogram in self.weights.items()]
        return weights + [histogram.chart(f"inputs of {path}") for path, histogram in self.inputs.items()]


def quantisation_histograms(
    plain: nn.Module, quantised: nn.Module, run: Callable[[nn.Module], object] | None = None
) -> QuantisationHistograms:
    """Compare the weights of two networks, and the inputs of layers that round these.

    Args:
        plain: the network before quantisation
        quantised: the same after it
        run: runs a network on calibration examples; None: weights alone
    Raises: ConfigError: no layer is quantised. DataError: a layer is never run.
    """
    layers = {path: x for path, x in quantised_layers(quantised).items() if isinstance(x, QuantisedLinear)}
    if not layers:
        raise ConfigError("no layer of the second network is quantised: give the network before, and the one after")
    weights = {
        path: LevelHistogram.of(plain.get_parameter(f"{path}.weight"), layer.weight) for path, layer in layers.items()
    }
    inputs = {}
    rounding = {path: layer for path, layer in layers.items() if layer.inputs != "wide"}
    if run is not None and rounding:
        with torch.inference_mode(), recorded_inputs(rounding) as recorded:
            run(quantised)
        for path, layer in rounding.items():
            x = recorded[path].samples
            factors = 1.0 if layer.input_factors is None else layer.input_factors.float()
            inputs[path] = LevelHistogram.of(x * factors, layer.rounded_inputs(x * factors))
    return QuantisationHistograms(weights, inputs)
