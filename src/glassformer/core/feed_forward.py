"""Feed-forward layers (MLP): the same small network at every position, with most of a block's weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from glassformer.core.checks import Count, Probability, Spec
from glassformer.core.flow import Flow, Node
from glassformer.errors import UnknownNameError, nearest

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedForwardSpec(Spec):
    """Feed-forward layer: down(activation(up(x))), D → F → D, the same at every position."""

    width: Count
    hidden: Count
    activation: str = "gelu"
    bias: bool = True
    dropout: Probability = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class GatedFeedForwardSpec(Spec):
    """Gated feed-forward layer (GLU): down(activation(gate(x)) · up(x))."""

    width: Count
    hidden: Count
    activation: str = "silu"
    bias: bool = False
    dropout: Probability = 0.0


class QuickGELU(nn.Module):
    """x · sigmoid(1.702 x), an early approximation of GELU. Source: Hendrycks and Gimpel 2016, section 2."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(1.702 * x)


# Checkpoints of several ages name one function differently: all these names must stay readable.
ACTIVATIONS: dict[str, type[nn.Module] | tuple[type[nn.Module], dict[str, str]]] = {
    "gelu": nn.GELU,
    "gelu_new": (nn.GELU, {"approximate": "tanh"}),
    "gelu_pytorch_tanh": (nn.GELU, {"approximate": "tanh"}),
    "gelu_fast": (nn.GELU, {"approximate": "tanh"}),
    "quick_gelu": QuickGELU,
    "relu": nn.ReLU,
    "silu": nn.SiLU,
    "swish": nn.SiLU,
    "tanh": nn.Tanh,
}


def make_activation(name: str) -> nn.Module:
    """Activation function by its name in `config.json` files.

    Raises: UnknownNameError: there is none of this name.
    """
    if name not in ACTIVATIONS:
        raise UnknownNameError(
            f"activation {name!r} is not supported; supported: {', '.join(ACTIVATIONS)}{nearest(name, ACTIVATIONS)}"
        )
    entry = ACTIVATIONS[name]
    return entry[0](**entry[1]) if isinstance(entry, tuple) else entry()


def saved_by_activation(activation: nn.Module) -> int:
    """Numbers per neuron that an activation function saves for the backward pass: none where its output suffices."""
    match activation:
        case nn.ReLU() | nn.Tanh():
            return 0
        case QuickGELU():
            return 2
        case _:
            return 1


class FeedForward(Node):
    """Position-wise feed-forward layer: D → F → D.

        out = down(activation(up(x)))

    Taps: neurons [B T F], after the activation · out [B T D]
    Source: Vaswani et al. 2017, section 3.3 (ReLU); GELU since Radford et al. 2018 and Devlin et al. 2019.
    """

    TAPS = ("neurons", "out")

    def __init__(self, spec: FeedForwardSpec) -> None:
        super().__init__()
        self.up = nn.Linear(spec.width, spec.hidden, bias=spec.bias)
        self.activation = make_activation(spec.activation)
        self.dropout = nn.Dropout(spec.dropout)
        self.down = nn.Linear(spec.hidden, spec.width, bias=spec.bias)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Float[Tensor, "B T D"]:
        neurons = self.tap(flow, "neurons", self.activation(self.up(x)))  # [B, T, F]
        # Dropout of neurons; that of the output is the residual connection's.
        return self.tap(flow, "out", self.down(self.dropout(neurons)))


class GatedFeedForward(Node):
    """Gated feed-forward layer (GLU): a second projection gates the neurons.

        out = down(activation(gate(x)) · up(x))

    Taps: neurons [B T F], after the gate · out [B T D]
    Source: Shazeer 2020, "GLU variants", section 2 (SwiGLU with the activation silu).
    """

    TAPS = ("neurons", "out")

    def __init__(self, spec: GatedFeedForwardSpec) -> None:
        super().__init__()
        self.gate = nn.Linear(spec.width, spec.hidden, bias=spec.bias)
        self.up = nn.Linear(spec.width, spec.hidden, bias=spec.bias)
        self.activation = make_activation(spec.activation)
        self.dropout = nn.Dropout(spec.dropout)
        self.down = nn.Linear(spec.hidden, spec.width, bias=spec.bias)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Float[Tensor, "B T D"]:
        neurons = self.tap(flow, "neurons", self.activation(self.gate(x)) * self.up(x))  # [B, T, F]
        return self.tap(flow, "out", self.down(self.dropout(neurons)))


def make_feed_forward(spec: FeedForwardSpec | GatedFeedForwardSpec) -> Node:
    """The feed-forward layer that a spec describes."""
    return FeedForward(spec) if isinstance(spec, FeedForwardSpec) else GatedFeedForward(spec)
