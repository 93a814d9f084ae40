"""AWQ: the few weights that meet large inputs are scaled up before rounding, so that their steps are relatively finer.

    y = W x ≈ Q(W diag(s)) (x / s)       s_j = (mean |x_j|)^α, α from 0 to 1 by the least error of the outputs

A weight that is multiplied by s has the same absolute error, which is divided by s again. Which weights are salient is
a matter of their inputs, not of their own size.

Source: Lin et al. 2024, "AWQ", sections 3.2 and 3.3. Differs: s is folded into a norm (`folding.py`) or applied to
the layer's inputs, not folded into other layers; the error is that of the second moments of the inputs, not of samples.
"""

from __future__ import annotations

from torch import Tensor

from glassformer.compression.gptq import output_error
from glassformer.compression.layer_inputs import LayerInputs
from glassformer.compression.quantise import Levels, Scheme
from glassformer.core.levels import dequantise

STEPS = 20
"""α is one of 0, 1/20, …, 1."""


def searched_round(weight: Tensor, scheme: Scheme, name: str = "the weight") -> Levels:
    """Each weight as its nearest level, of grids whose ends are searched for the least squared error."""
    weight = weight.detach().float()
    return Levels.on(scheme.searched_grid(weight, name), scheme.grouped(weight, name), scheme)


def activation_aware_factors(weight: Tensor, inputs: LayerInputs, scheme: Scheme) -> Tensor | None:
    """1 / s of the α with the least error; None where no scaling is best. [in]"""
    weight, hessian = weight.detach().float(), inputs.hessian
    magnitudes = inputs.magnitudes.clamp_min(1e-4)

    def scales(step: int) -> Tensor:
        raw = magnitudes.pow(step / STEPS).clamp_min(1e-4)
        return raw / (raw.max() * raw.min()).sqrt()

    def error(step: int) -> float:
        s = scales(step)
        made = Levels.on(scheme.grid(weight * s), scheme.grouped(weight * s), scheme)
        return output_error(weight, dequantise(made.levels, made.scale, made.zero) / s, hessian)

    best = min(range(STEPS + 1), key=error)
    return 1 / scales(best) if best else None
