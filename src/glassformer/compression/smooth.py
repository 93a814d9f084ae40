"""SmoothQuant: outliers of activations migrate to the weights, where they cost less.

    y = W x = (W diag(s)) (x / s)        s_j = max |x_j|^α / max |W_j|^(1 - α)

A few channels of a transformer's activations are many times as large as the others, and the scale of a token has to
reach them: what is left of the others are few levels. Divided by s, channels are of one size; weights take the rest.
α says how much of it migrates, and is chosen for each layer, by the error of its outputs on calibration tokens.

Source: Xiao et al. 2023, "SmoothQuant", section 4. Differs: α is chosen for each layer, or for all that read one norm;
a layer that reads no norm alone is scaled at its own inputs (`folding.py` says which).
"""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.compression.layer_inputs import LayerInputs
from glassformer.compression.quantise import Scheme, grid_of, round_to_nearest
from glassformer.core.levels import dequantise

ALPHAS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
GAIN = 0.9
"""Of the error without factors, to which they must reduce it: below that a multiplication a layer is not worth it."""


def smoothing_scales(largest: Tensor, weight: Tensor, alpha: float) -> Tensor:
    """s of each channel.

    Args:
        largest: the largest magnitude of each input. [in]
        weight: [out, in]
        alpha: α, how much of the outliers migrates to the weights, 0 to 1
    """
    columns = weight.abs().amax(0).clamp_min(1e-5)
    return (largest.clamp_min(1e-5).pow(alpha) / columns.pow(1 - alpha)).clamp(1e-4, 1e4)


def best_factors(weight: Tensor, inputs: LayerInputs, scheme: Scheme) -> Tensor | None:
    """1 / s of the α whose layer has the least squared error; None where factors gain too little. [in]"""
    x, weight = inputs.samples, weight.detach().float()
    exact = x @ weight.T

    def error(scales: Tensor) -> float:
        made = round_to_nearest(weight * scales, scheme)
        scaled = x / scales
        rounded = grid_of(scaled, 8).round(scaled)
        return float((rounded @ dequantise(made.levels, made.scale, made.zero).T - exact).square().mean())

    plain = error(torch.ones(weight.shape[1]))
    choices = [smoothing_scales(inputs.largest, weight, alpha) for alpha in ALPHAS]
    errors = [error(scales) for scales in choices]
    best = min(range(len(errors)), key=errors.__getitem__)
    return 1 / choices[best] if errors[best] < GAIN * plain else None
