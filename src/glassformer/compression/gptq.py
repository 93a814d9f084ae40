"""GPTQ: weights are rounded one column after the other, and the others make up for each column's error.

    for each column i, the one whose inputs are largest first:
        q_i = round(w_i)                       the error e = (w_i - q_i) / U_ii
        w_j ← w_j - e · U_ij  for j after i    so that the outputs change least, on average over the calibration inputs

U is the upper Cholesky factor of the inverse of H = mean x xᵀ, with a hundredth of its mean diagonal added: some inputs
are always 0, and H would have no inverse.

Source: Frantar et al. 2023, "GPTQ", section 3 and algorithm 1; the order of columns: its released code (`act_order`),
with the scales of groups of neighbouring columns computed before, so that no index of groups is stored.
Differs: the inputs of all layers are those of the network before any layer is rounded.
"""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.compression.quantise import Levels, Scheme
from glassformer.core.levels import level_range

DAMPING = 0.01
BLOCK = 128
"""Columns whose errors are handed on to the rest together: one large product is faster than many small ones."""


def gptq(weight: Tensor, hessian: Tensor, scheme: Scheme, name: str = "the weight") -> Levels:
    """A weight in levels, rounded with the inputs' second moments in mind.

    Args:
        weight: [rows, columns]
        hessian: mean of x xᵀ. [columns, columns]
    Raises: ConfigError: groups do not divide the columns.
    """
    weight = weight.detach().float()
    grid = scheme.searched_grid(weight, name)
    columns = weight.shape[1]
    group = scheme.group_size or columns
    order = hessian.diagonal().argsort(descending=True, stable=True)
    left = weight[:, order].clone()
    factor = _inverse_factor(hessian[order][:, order])
    levels = torch.empty_like(weight)
    for start in range(0, columns, BLOCK):
        end = min(start + BLOCK, columns)
        errors = torch.zeros(len(weight), end - start)
        for i in range(start, end):
            number = int(order[i])
            scale, zero = grid.scale[:, number // group, 0], grid.zero[:, number // group, 0]
            rounded = (left[:, i] / scale).round().add(zero).clamp(*level_range(scheme.bits))
            levels[:, number] = rounded
            error = (left[:, i] - (rounded - zero) * scale) / factor[i, i]
            left[:, i:end] -= error[:, None] * factor[i, i:end]
            errors[:, i - start] = error
        left[:, end:] -= errors @ factor[start:end, end:]
    zero_points = None if scheme.symmetric else grid.zero.squeeze(-1).to(torch.int8)
    return Levels(levels.to(torch.int8), grid.scale.squeeze(-1), zero_points)


def _inverse_factor(hessian: Tensor) -> Tensor:
    """U with UᵀU = H⁻¹, of a damped H."""
    hessian = hessian.double()
    diagonal = hessian.diagonal()
    damped = hessian + torch.eye(len(hessian), dtype=torch.float64) * (DAMPING * diagonal.mean().clamp_min(1e-8))
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(damped))
    factor: Tensor = torch.linalg.cholesky(inverse, upper=True).float()
    return factor


def output_error(weight: Tensor, rounded: Tensor, hessian: Tensor) -> float:
    """The mean squared change of an output over the calibration inputs, tr(D H Dᵀ) / rows with D = W - Ŵ."""
    difference = weight.detach().float() - rounded.float()
    return float(((difference @ hessian) * difference).sum() / len(weight))
