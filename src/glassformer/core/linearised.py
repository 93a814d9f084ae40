"""A network made linear along its residual stream, for direct logit attribution.

    logit = Σ over what was added to the stream: ⟨gradient along the stream, what was added⟩ + biases

A norm divides by a scale that depends on its input, and a head may bend what it reads (tanh, GELU, a soft cap). With
these factors fixed at the values that they have in this pass, the logit is a sum of parts: of the embedding, of each
attention head, of each feed-forward layer, and of biases.

    norm         (x - mean(x)) · scale · weight + bias          scale fixed
    activation   x · gate,    gate = activation(x) / x          gate fixed
    soft cap     z · factor,  factor = cap tanh(z / cap) / z    factor fixed

Source: Elhage et al. 2021, "A mathematical framework for transformer circuits", on layer normalisation; fixed
gates: Bach et al. 2015, "On pixel-wise explanations for non-linear classifier decisions by layer-wise relevance".
"""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from glassformer.core.dot_product import soft_cap
from glassformer.core.feed_forward import QuickGELU
from glassformer.core.flow import Output
from glassformer.core.language_heads import TokenPrediction
from glassformer.core.norms import LayerNorm, RMSNorm

Linear = TypeVar("Linear", bound=nn.Module)

ACTIVATIONS = (nn.GELU, nn.Tanh, nn.ReLU, nn.SiLU, QuickGELU)


class FixedScaleLayerNorm(LayerNorm):
    """Layer normalisation whose scale has no gradient."""

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        scale = (centred.detach().square().mean(-1, keepdim=True) + self.eps).rsqrt()
        y = centred * scale * self.weight
        return y if self.bias is None else y + self.bias


class FixedScaleRMSNorm(RMSNorm):
    """RMS normalisation whose scale has no gradient."""

    def forward(self, x: Tensor) -> Tensor:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        scale = (wide.detach().square().mean(-1, keepdim=True) + self.eps).rsqrt()
        return (wide * scale).to(x.dtype) * (self.offset + self.weight)


class FixedGate(nn.Module):
    """An activation function as x · gate, whose gate has no gradient; all of these functions are 0 at 0."""

    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        return x * _ratio(self.activation(x), x)


def linearised(network: Linear, head: str = "head") -> Linear:
    """A copy of a network, of the same weights, that is linear in what is added to its residual stream.

    Its outputs are the network's own, up to rounding. Biases of norms and of the head have gradients of their own.

    Args:
        head: the path of the module whose activation functions and soft cap are fixed too.
    """
    twin = with_fixed_scales(network)
    top = twin.get_submodule(head)
    for parent in list(top.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, ACTIVATIONS):
                setattr(parent, name, FixedGate(child))
        if isinstance(parent, nn.Linear) and parent.bias is not None:
            parent.bias = _own(parent.bias)
        if isinstance(parent, TokenPrediction) and parent.logit_cap is not None:
            _fix_cap(parent, parent.logit_cap)
    return twin


def with_fixed_scales(network: Linear) -> Linear:
    """A copy of a network, of the same weights, whose norms have no gradient by their scales; their biases have one."""
    shared = {id(x): x for x in (*network.parameters(), *network.buffers())}
    twin = copy.deepcopy(network, shared)
    for module in list(twin.modules()):
        if type(module) in FIXED:
            module.__class__ = FIXED[type(module)]
            if isinstance(module, LayerNorm) and module.bias is not None:
                module.bias = _own(module.bias)
    return twin


FIXED: dict[type[nn.Module], type[nn.Module]] = {LayerNorm: FixedScaleLayerNorm, RMSNorm: FixedScaleRMSNorm}


def biases(twin: nn.Module, head: str = "head") -> list[Tensor]:
    """The biases of norms and of the head of a linearised network."""
    layers = [module.bias for module in twin.get_submodule(head).modules() if isinstance(module, nn.Linear)]
    return [*norm_biases(twin), *(bias for bias in layers if isinstance(bias, Tensor))]


def norm_biases(twin: nn.Module) -> list[Tensor]:
    """The biases of the norms of a network with fixed scales, or of a part of it."""
    norms = [module.bias for module in twin.modules() if isinstance(module, FixedScaleLayerNorm)]
    return [bias for bias in norms if isinstance(bias, Tensor)]


def _own(bias: Tensor) -> nn.Parameter:
    """A bias of the same numbers that has gradients, whatever is frozen in the network itself."""
    return nn.Parameter(bias.detach())


def _fix_cap(head: TokenPrediction, cap: float) -> None:
    head.logit_cap = None

    def capped(_: nn.Module, __: Any, output: Output) -> Output:
        assert output.logits is not None
        return Output(logits=output.logits * _ratio(soft_cap(output.logits, cap), output.logits))

    head.register_forward_hook(capped)


def _ratio(y: Tensor, x: Tensor) -> Tensor:
    """y / x without a gradient; 1 where x is 0."""
    return torch.where(x == 0, 1.0, y / x).detach()
