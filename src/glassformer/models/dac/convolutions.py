"""Encoder and decoder of waveforms: dilated convolutions in residual units, with Snake activations.

    WaveEncoder   samples ─ conv ─ [ 3 residual units ─ Snake ─ conv with stride ] × n ─ Snake ─ conv ─ frames
    WaveDecoder   frames ─ conv ─ [ Snake ─ transposed conv with stride ─ 3 residual units ] × n ─ Snake ─ conv ─ tanh

The encoder doubles its channels where it lowers the rate, the decoder halves them where it raises it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from glassformer.core.flow import Flow, Node
from glassformer.models._codec import strided

if TYPE_CHECKING:
    from jaxtyping import Float

DILATIONS = (1, 3, 9)  # of the three residual units of a block; Kumar et al. 2023
KERNEL = 7
"""Of residual units, and of the first and last convolution of samples."""
TINY = 1e-9
"""What is added to Snake's frequencies before they divide."""


class Snake(nn.Module):
    """Snake activation: periodic, with a learned frequency for each channel.

        snake(x) = x + sin²(α x) / α

    Source: Ziyin et al. 2020, equation 2.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1, channels, 1))

    def forward(self, x: Float[Tensor, "B C T"]) -> Float[Tensor, "B C T"]:
        if torch.is_grad_enabled() and (x.requires_grad or self.alpha.requires_grad):
            out: Tensor = SnakeFunction.apply(x, self.alpha)  # type: ignore[no-untyped-call]
            return out
        return torch.addcmul(x, torch.sin(self.alpha * x).square_(), (self.alpha + TINY).reciprocal())


class SnakeFunction(torch.autograd.Function):
    """Snake with its gradients written out, a row of the batch at a time, so that a row stays in the cache.

        ∂y/∂x = 1 + 2 sin(α x) cos(α x)     ∂y/∂α = (2 x sin(α x) cos(α x) - sin²(α x) / α) / α

    Only x is saved. Under autocast the arithmetic is that of α's precision, input and output that of x.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, alpha: Tensor) -> Tensor:
        ctx.save_for_backward(x, alpha)
        alpha, out = alpha[0], torch.empty_like(x)
        inverse = (alpha + TINY).reciprocal()
        for given, result in zip(x, out, strict=True):
            row = given.to(alpha.dtype)
            result.copy_((alpha * row).sin_().square_().mul_(inverse).add_(row))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, alpha = ctx.saved_tensors
        alpha, of_x, of_alpha = alpha[0], torch.empty_like(x), torch.zeros_like(alpha)
        inverse = (alpha + TINY).reciprocal()
        for saved, above, result in zip(x, grad, of_x, strict=True):
            row, above = saved.to(alpha.dtype), above.to(alpha.dtype)
            waves = alpha * row
            slopes = waves.cos()
            slopes.mul_(waves.sin_()).mul_(above).mul_(2)
            result.copy_(torch.addcmul(above, slopes, alpha * inverse))
            slopes.mul_(row).addcmul_(waves.square_().mul_(inverse), above, value=-1)
            of_alpha[0] += inverse * slopes.sum(1, keepdim=True)
        return of_x, of_alpha


class ResidualUnit(nn.Module):
    """Residual unit: a dilated convolution and one over channels alone, each behind a Snake; it keeps the length.

        x + conv2(snake2(conv1(snake1(x))))

    Source: Kumar et al. 2023, section 3.1 and appendix A.
    """

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        reach = (KERNEL - 1) // 2 * dilation
        self.snake1 = Snake(channels)
        self.conv1 = nn.Conv1d(channels, channels, KERNEL, dilation=dilation, padding=reach)
        self.snake2 = Snake(channels)
        self.conv2 = nn.Conv1d(channels, channels, 1)

    def forward(self, x: Float[Tensor, "B C T"]) -> Float[Tensor, "B C T"]:
        out: Tensor = x + self.conv2(self.snake2(self.conv1(self.snake1(x))))
        return out


class DownBlock(nn.Module):
    """A step of the encoder: three residual units, then `stride` times fewer frames of twice the channels."""

    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        self.unit1, self.unit2, self.unit3 = (ResidualUnit(channels, dilation) for dilation in DILATIONS)
        self.snake = Snake(channels)
        self.conv = nn.Conv1d(channels, 2 * channels, 2 * stride, stride=stride, padding=math.ceil(stride / 2))

    def forward(self, x: Float[Tensor, "B C T"]) -> Float[Tensor, "B 2C t"]:
        return strided(self.conv, self.snake(self.unit3(self.unit2(self.unit1(x)))))


class UpBlock(nn.Module):
    """A step of the decoder: `stride` times more frames of half the channels, then three residual units."""

    def __init__(self, channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.snake = Snake(channels)
        self.conv = nn.ConvTranspose1d(channels, out_channels, 2 * stride, stride=stride, padding=math.ceil(stride / 2))
        self.unit1, self.unit2, self.unit3 = (ResidualUnit(out_channels, dilation) for dilation in DILATIONS)

    def forward(self, x: Float[Tensor, "B C t"]) -> Float[Tensor, "B C/2 T"]:
        x = self.unit3(self.unit2(self.unit1(strided(self.conv, self.snake(x)))))
        return x


class WaveEncoder(Node):
    """Encoder of a waveform: a vector for each frame of as many samples as the product of the strides.

    Args:
        channels: of the first convolution, doubled at each stride
        width: D of the frames
    Taps: out [B T D]
    """

    TAPS = ("out",)

    def __init__(self, channels: int, strides: Sequence[int], width: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, channels, KERNEL, padding=KERNEL // 2)
        self.blocks = nn.ModuleList(DownBlock(channels * 2**i, stride) for i, stride in enumerate(strides))
        channels *= 2 ** len(strides)
        self.snake = Snake(channels)
        self.last = nn.Conv1d(channels, width, 3, padding=1)

    def forward(self, wave: Float[Tensor, "B 1 samples"], flow: Flow) -> Float[Tensor, "B D T"]:
        x = self.first(wave)
        for block in self.blocks:
            x = block(x)
        return self.tap(flow, "out", self.last(self.snake(x)).transpose(1, 2)).transpose(1, 2)


class WaveDecoder(nn.Module):
    """Decoder of frames: a waveform between -1 and 1.

    Args:
        channels: of the first convolution, halved at each stride
        width: D of the frames
    """

    def __init__(self, channels: int, strides: Sequence[int], width: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(width, channels, KERNEL, padding=KERNEL // 2)
        self.blocks = nn.ModuleList(
            UpBlock(channels // 2**i, channels // 2 ** (i + 1), stride) for i, stride in enumerate(strides)
        )
        channels //= 2 ** len(strides)
        self.snake = Snake(channels)
        self.last = nn.Conv1d(channels, 1, KERNEL, padding=KERNEL // 2)

    def forward(self, frames: Float[Tensor, "B D T"]) -> Float[Tensor, "B 1 samples"]:
        x = self.first(frames)
        for block in self.blocks:
            x = block(x)
        return torch.tanh(self.last(self.snake(x)))


def field_of_view(side: nn.Module, steps: int) -> tuple[int, int]:
    """How far the outputs of an encoder or decoder look: the first and last input that outputs 0 … steps-1 depend on.

    conv             output o reads inputs  o · stride - padding  …  + (kernel - 1) · dilation
    transposed conv  output o reads inputs  ⌈(o + padding - kernel + 1) / stride⌉  …  ⌊(o + padding) / stride⌋
    """
    first, last = 0, steps - 1
    layers = [layer for layer in side.modules() if isinstance(layer, (nn.Conv1d, nn.ConvTranspose1d))]
    for layer in reversed(layers):  # in which they are in the order of the computation
        kernel, stride, dilation, padding = (
            int(x[0]) for x in (layer.kernel_size, layer.stride, layer.dilation, layer.padding)
        )
        if isinstance(layer, nn.ConvTranspose1d):
            first, last = -((kernel - 1 - padding - first) // stride), (last + padding) // stride
        else:
            first, last = first * stride - padding, last * stride - padding + (kernel - 1) * dilation
    return first, last
