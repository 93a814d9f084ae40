"""The fields of a program's instructions that modules decide: weights, norms and activations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from glassformer.core.experts import RouterScores
from glassformer.core.feed_forward import QuickGELU
from glassformer.core.norms import HeadNorms, LayerNorm, RMSNorm
from glassformer.core.quantised import QuantisedLinear
from glassformer.engine.packed_linear import PackedLinear
from glassformer.engine.products import Matrix
from glassformer.engine.program import Activation, Norm
from glassformer.engine.stored_levels import StoredLevelsProduct


class NotUnderstood(Exception):
    """A stack has a part that programs have no instruction for."""


def matrix_of(linear: nn.Module) -> Matrix:
    """The weights of a layer. Raises: NotUnderstood: it is none of the core's, or not prepared."""
    if type(linear) is RouterScores:  # never packed: a rounded score misroutes a token
        return Matrix.of(linear.weight.detach(), None, "fp32", inside=False)
    if (
        type(linear) is QuantisedLinear
        and isinstance(linear.product, StoredLevelsProduct)
        and linear.product.has_matrix
        and linear.input_factors is None
    ):
        return linear.product.matrix()
    if type(linear) is not PackedLinear:
        raise NotUnderstood(type(linear).__name__)
    return linear.matrix()


def norm_fields(norm: nn.Module | None, keep: Callable[[Tensor | None], int]) -> dict[str, Any]:
    """The fields of a norm; keep: tensor → its address, for as long as the program lives; None → 0.

    Raises: NotUnderstood: it is none of the core's.
    """
    if norm is None or type(norm) is nn.Identity:
        return {"norm": Norm.NONE}
    if type(norm) is LayerNorm:
        shift = None if norm.bias is None else norm.bias.detach().float()
        return {"norm": Norm.LAYER, "gain": keep(norm.weight.detach().float()), "shift": keep(shift), "eps": norm.eps}
    if type(norm) is HeadNorms:
        return {"norm": Norm.LAYER, "gain": keep(norm.weight.detach().float()), "shift": 0, "eps": norm.eps}
    if type(norm) is RMSNorm:
        gain = norm.weight.detach().float()
        return {
            "norm": Norm.RMS,
            "gain": keep(gain + norm.offset if norm.offset else gain),
            "shift": 0,
            "eps": norm.eps,
        }
    raise NotUnderstood(type(norm).__name__)


def activation_of(module: nn.Module) -> Activation:
    """The activation function that a module computes. Raises: NotUnderstood: it is none of the core's."""
    match module:
        case nn.GELU():
            return Activation.GELU if module.approximate == "none" else Activation.GELU_TANH
        case QuickGELU():
            return Activation.QUICK_GELU
        case nn.ReLU():
            return Activation.RELU
        case nn.SiLU():
            return Activation.SILU
        case nn.Tanh():
            return Activation.TANH
    raise NotUnderstood(type(module).__name__)
