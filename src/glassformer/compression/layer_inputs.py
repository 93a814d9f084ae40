"""What linear layers read on calibration examples: statistics that GPTQ, AWQ and SmoothQuant are computed from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from glassformer.compression.calibrate import Histogram, observed
from glassformer.errors import DataError

SAMPLES = 512
"""Tokens of each layer that are held for comparisons."""


class LayerInputs:
    """The inputs of a layer over a calibration set.

    hessian: the mean of x xᵀ: half of the second derivative of the squared error of a row's output. [in, in]
    histogram: of all numbers, with the largest magnitude of each channel
    samples: tokens, spread over the batches. [at most SAMPLES, in]
    """

    def __init__(self, width: int, *, hessian: bool) -> None:
        self.histogram, self.tokens = Histogram(), 0
        self._sum = torch.zeros(width, width) if hessian else None
        self._magnitudes = torch.zeros(width, dtype=torch.float64)
        self._samples: list[Tensor] = []

    def add(self, x: Tensor) -> None:
        """Count the inputs of a batch. [..., in]"""
        tokens = x.detach().float().reshape(-1, x.shape[-1])
        self.histogram.add(tokens)
        self.tokens += len(tokens)
        self._magnitudes += tokens.abs().sum(0).double()
        if self._sum is not None:
            self._sum.addmm_(tokens.T, tokens)
        self._samples.append(tokens[:: max(1, len(tokens) // 32)].clone())

    @property
    def hessian(self) -> Tensor:
        assert self._sum is not None
        return self._sum / max(self.tokens, 1)

    @property
    def largest(self) -> Tensor:
        """The largest magnitude of each channel. [in]"""
        assert self.histogram.largest is not None
        return self.histogram.largest

    @property
    def magnitudes(self) -> Tensor:
        """The mean magnitude of each channel. [in]"""
        return (self._magnitudes / max(self.tokens, 1)).float()

    @property
    def samples(self) -> Tensor:
        every = torch.cat(self._samples)
        return every[:: -(-len(every) // SAMPLES)]


@contextmanager
def recorded_inputs(
    layers: Mapping[str, nn.Linear], *, hessian: bool = False, factors: Mapping[str, Tensor] | None = None
) -> Iterator[dict[str, LayerInputs]]:
    """Record what these layers read while the network runs within the block.

    Args:
        layers: by path
        hessian: record second moments too, which take memory for the square of a layer's width
        factors: what inputs are multiplied by before they are counted, by path
    Raises: DataError: at its end, a layer that was never run: the calibration set is empty, or of another task.
    """
    inputs = {name: LayerInputs(layer.in_features, hessian=hessian) for name, layer in layers.items()}
    known = factors or {}
    with observed(layers, lambda name, x: inputs[name].add(x * known[name] if name in known else x)):
        yield inputs
    idle = [name for name, recorded in inputs.items() if not recorded.tokens]
    if idle:
        raise DataError(
            f"the calibration set never runs {', '.join(idle[:5])}; give rows of the model's task"
            if len(idle) < len(inputs)
            else "the calibration set is empty; give rows of the model's task"
        )
