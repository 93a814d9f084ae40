"""Sensitivity to quantisation: each layer alone in levels, and how far the outputs of the network move.

    for each layer:  quantise it, run the calibration rows, compare, put the plain layer back

A layer that moves the outputs far can stay wide (`keep`). What all layers together do is more than the largest of them
and less than their sum.
Source: the sweep of Wu et al. 2020, "Integer Quantization for Deep Learning Inference", section 6.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from glassformer.compression.quantise import Scheme, round_to_nearest
from glassformer.compression.quantised_network import stored_levels_of
from glassformer.core.quantised import QuantisedLinear
from glassformer.reports.report import Report
from glassformer.reports.table import Table, number


@dataclass(frozen=True, repr=False)
class Sensitivity(Report, kind="sensitivity"):
    """How far each layer, quantised alone, moves the outputs.

    errors: layer → mean squared change of the outputs, over their mean square
    weights: layer → its number of weights
    """

    errors: dict[str, float]
    weights: dict[str, int]

    caption = "Sensitivity of layers to quantisation, each quantised alone"

    def most_sensitive(self, count: int) -> list[str]:
        """The layers that move the outputs most, the first of all first."""
        return sorted(self.errors, key=self.errors.__getitem__, reverse=True)[:count]

    def tables(self) -> list[Table]:
        rows = [
            [layer, number(self.errors[layer]), f"{self.weights[layer]:,}"]
            for layer in self.most_sensitive(len(self.errors))
        ]
        return [Table(["layer", "relative error of the outputs", "weights"], rows)]


def sensitivity_sweep(
    network: nn.Module,
    layers: Mapping[str, nn.Linear],
    scheme: Scheme,
    outputs: Callable[[], list[Tensor]],
    *,
    inputs: str = "wide",
    progress: Callable[[int], None] = lambda done: None,
) -> Sensitivity:
    """Quantise each layer alone and measure how far the outputs move; the network is as it was afterwards.

    Args:
        layers: by path
        outputs: runs the network on calibration rows
        inputs: of the layers: "wide" or "dynamic"
        progress: called with 1 after each layer
    """
    exact = outputs()
    size = sum(float(x.float().square().sum()) for x in exact)
    errors = {}
    for path, layer in layers.items():
        made = round_to_nearest(layer.weight, scheme, path)
        parent, _, name = path.rpartition(".")
        holder = network.get_submodule(parent)
        setattr(holder, name, QuantisedLinear(stored_levels_of(made, scheme, layer.weight), layer.bias, inputs))
        try:
            moved = sum(float((a.float() - b.float()).square().sum()) for a, b in zip(outputs(), exact, strict=True))
        finally:
            setattr(holder, name, layer)
        errors[path] = moved / max(size, torch.finfo(torch.float32).tiny)
        progress(1)
    return Sensitivity(errors, {path: layer.weight.numel() for path, layer in layers.items()})
