"""SEANet, the encoder and decoder of waveforms: convolutions with strides, ELU, residual units and an LSTM.

    SeanetEncoder   samples ─ conv ─ [ residual units ─ ELU ─ conv with stride ] × n ─ LSTM ─ ELU ─ conv ─ frames
    SeanetDecoder   frames ─ conv ─ LSTM ─ [ ELU ─ transposed conv ─ residual units ] × n ─ ELU ─ conv ─ samples

Every layer takes a `StreamingState`, in which it keeps what the next piece of a sound needs: then pieces give what the
whole gives. The whole is a piece that is the last.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.core.checks import Count, NonNegative, Spec
from glassformer.core.flow import Node
from glassformer.errors import ConfigError
from glassformer.models._codec import strided

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True, kw_only=True, slots=True)
class SeanetSpec(Spec):
    """Both sides: `filters` channels next to the samples, twice as many behind each of the strides, the `ratios`.

    ratios: in the order of the decoder
    causal: frames depend on earlier samples alone
    trim_right: share of the surplus of a transposed convolution that is cut at its end, the rest at its beginning
    padding: of the edges
    group_norm: each convolution is normalised over channels and time
    shortcut: residual units have a convolution on their way past
    compress: how many times fewer channels a residual unit has inside
    """

    channels: Count
    filters: Count
    width: Count
    ratios: tuple[int, ...]
    residual_layers: Count
    kernel: Count
    last_kernel: Count
    residual_kernel: Count
    dilation_growth: Count
    compress: Count
    lstm_layers: Count
    causal: bool
    trim_right: NonNegative
    padding: Literal["reflect", "constant", "replicate"]
    group_norm: bool
    shortcut: bool

    def validate(self) -> None:
        if self.compress > self.filters:
            raise ConfigError(
                f"SeanetSpec.compress {self.compress} leaves none of the {self.filters} filters of the first residual "
                "unit (config.json: compress, num_filters)"
            )
        if self.trim_right > 1 or (self.trim_right != 1 and not self.causal):
            allowed = "from 0 to 1" if self.causal else "1.0 where use_causal_conv is false"
            raise ConfigError(f"SeanetSpec.trim_right is {self.trim_right}; trim_right_ratio must be {allowed}")


@dataclass(slots=True)
class StreamingState:
    """What layers keep between the pieces of a sound.

    last: whether the piece is the last one
    """

    last: bool = True
    state: dict[nn.Module, Any] = field(default_factory=dict)


class Conv(nn.Module):
    """A convolution that gives ⌈samples / stride⌉ outputs, with its edges padded.

    causal    [ all of kernel - stride | samples | as many as the last stride lacks ]
    else      half of that on either side
    """

    def __init__(
        self, spec: SeanetSpec, inputs: int, outputs: int, kernel: int, stride: int = 1, dilation: int = 1
    ) -> None:
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, kernel, stride, dilation=dilation)
        self.norm = nn.GroupNorm(1, outputs) if spec.group_norm else None
        self.reach, self.stride, self.padding = (kernel - 1) * dilation + 1, stride, spec.padding
        self.right = 0 if spec.causal else (self.reach - stride) // 2
        self.left = self.reach - stride - self.right

    def forward(self, x: Float[Tensor, "B C n"], stream: StreamingState) -> Float[Tensor, "B c m"]:
        before, begun = stream.state.pop(self, (None, False))
        x = x if before is None else torch.cat([before, x], -1)
        most_right = self.right + self.stride - 1
        if not stream.last and not begun and x.shape[-1] <= max(self.left, most_right):
            stream.state[self] = x, False  # the left edge cannot be reflected yet
            return x.new_zeros(x.shape[0], self.conv.out_channels, 0)
        samples = x.shape[-1] - (self.left if begun else 0)
        x = self._pad(x, 0 if begun else self.left, self.right + -samples % self.stride if stream.last else 0)
        if not stream.last:
            # As many outputs as there can be, and leave samples for the right edge to reflect.
            left_over = most_right + 1 if most_right else 0
            count = min((x.shape[-1] - self.reach) // self.stride + 1, (x.shape[-1] - left_over) // self.stride)
            stream.state[self] = x[..., max(count, 0) * self.stride :].clone(), True
            if count < 1:
                return x.new_zeros(x.shape[0], self.conv.out_channels, 0)
            x = x[..., : (count - 1) * self.stride + self.reach]
        x = strided(self.conv, x)
        return x if self.norm is None else self.norm(x)

    def _pad(self, x: Tensor, left: int, right: int) -> Tensor:
        if left == right == 0:
            return x
        if self.padding != "reflect":
            return F.pad(x, (left, right), self.padding)
        # What is too short to be reflected is followed by silence.
        silence = max(max(left, right) - x.shape[-1] + 1, 0)
        padded = F.pad(F.pad(x, (0, silence)) if silence else x, (left, right), "reflect")
        return padded[..., : padded.shape[-1] - silence]


class ConvTranspose(nn.Module):
    """A transposed convolution that gives `stride` outputs for each input: what is more at its edges is cut.

    Two neighbours overlap in `surplus` outputs, which add up: of pieces, the last ones wait for the next piece.
    """

    def __init__(self, spec: SeanetSpec, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv = nn.ConvTranspose1d(inputs, outputs, 2 * stride, stride)
        self.norm = nn.GroupNorm(1, outputs) if spec.group_norm else None
        self.surplus = stride  # kernel - stride
        self.right = math.ceil(self.surplus * spec.trim_right) if spec.causal else self.surplus // 2

    def forward(self, x: Float[Tensor, "B C n"], stream: StreamingState) -> Float[Tensor, "B c m"]:
        out = strided(self.conv, x)
        out = out if self.norm is None else self.norm(out)
        tail: Tensor | None = stream.state.pop(self, None)
        if tail is not None:
            out = torch.cat([out[..., : self.surplus] + tail, out[..., self.surplus :]], -1)
        left = 0 if tail is not None else self.surplus - self.right
        if stream.last:
            return out[..., left : out.shape[-1] - self.right]
        assert self.conv.bias is not None
        stream.state[self] = out[..., -self.surplus :] - self.conv.bias[:, None]  # which the next piece adds again
        return out[..., left : -self.surplus]


class Elu(nn.Module):
    """ELU: x where x > 0, else exp(x) - 1."""

    def forward(self, x: Tensor, stream: StreamingState) -> Tensor:
        return F.elu(x)


class Recurrence(nn.LSTM):
    """Layers of an LSTM."""

    @property
    def kernel(self) -> Tensor:
        """All its matrices, which each step is multiplied by: see `glassformer.inspect.summary`. [8 · layers · D, D]"""
        return torch.cat([parameter for name, parameter in self.named_parameters() if name.startswith("weight")])


class SkipLstm(nn.Module):
    """An LSTM over time, added to its input. Source: Défossez et al. 2022, section 3.1."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.lstm = Recurrence(width, width, layers)

    def forward(self, x: Float[Tensor, "B D n"], stream: StreamingState) -> Float[Tensor, "B D n"]:
        steps = x.permute(2, 0, 1)
        out, stream.state[self] = self.lstm(steps, stream.state.get(self))
        passed: Tensor = out + steps
        return passed.permute(1, 2, 0)


class SeanetUnit(nn.Module):
    """Residual unit: a dilated convolution to fewer channels and one back, each behind an ELU; it keeps the length."""

    def __init__(self, spec: SeanetSpec, channels: int, dilation: int) -> None:
        super().__init__()
        inner = channels // spec.compress
        first = Conv(spec, channels, inner, spec.residual_kernel, dilation=dilation)
        self.block = nn.ModuleList([Elu(), first, Elu(), Conv(spec, inner, channels, 1)])
        self.shortcut = Conv(spec, channels, channels, 1) if spec.shortcut else None

    def forward(self, x: Float[Tensor, "B C n"], stream: StreamingState) -> Float[Tensor, "B C m"]:
        past = x if self.shortcut is None else self.shortcut(x, stream)
        if (before := stream.state.pop(self, None)) is not None:
            past = torch.cat([before, past], -1)  # which waits for the block
        for layer in self.block:
            x = layer(x, stream)
        if not stream.last:
            stream.state[self] = past[..., x.shape[-1] :].clone()
        return past[..., : x.shape[-1]] + x


class Seanet(Node):
    """Layers in their order, numbered as in files."""

    def __init__(self, layers: Iterable[nn.Module], width: int) -> None:
        super().__init__()
        self.layers, self.width = nn.ModuleList(layers), width

    def forward(self, x: Float[Tensor, "B C n"], stream: StreamingState) -> Float[Tensor, "B c m"]:
        for layer in self.layers:
            if not x.shape[-1]:  # a layer waits for more; the last piece is never empty
                return x.new_zeros(x.shape[0], self.width, 0)
            x = layer(x, stream)
        return x


class SeanetEncoder(Seanet):
    """Encoder of a waveform: frames of as many samples as the product of the ratios. Taps: out [B T D]"""

    TAPS = ("out",)

    def __init__(self, spec: SeanetSpec) -> None:
        channels = spec.filters
        layers: list[nn.Module] = [Conv(spec, spec.channels, channels, spec.kernel)]
        for ratio in reversed(spec.ratios):
            layers += [SeanetUnit(spec, channels, spec.dilation_growth**j) for j in range(spec.residual_layers)]
            layers += [Elu(), Conv(spec, channels, 2 * channels, 2 * ratio, ratio)]
            channels *= 2
        layers += [SkipLstm(channels, spec.lstm_layers), Elu(), Conv(spec, channels, spec.width, spec.last_kernel)]
        super().__init__(layers, spec.width)


class SeanetDecoder(Seanet):
    """Decoder of frames: a waveform."""

    def __init__(self, spec: SeanetSpec) -> None:
        channels = spec.filters * 2 ** len(spec.ratios)
        layers = [Conv(spec, spec.width, channels, spec.kernel), SkipLstm(channels, spec.lstm_layers)]
        for ratio in spec.ratios:
            layers += [Elu(), ConvTranspose(spec, channels, channels // 2, ratio)]
            channels //= 2
            layers += [SeanetUnit(spec, channels, spec.dilation_growth**j) for j in range(spec.residual_layers)]
        layers += [Elu(), Conv(spec, channels, spec.channels, spec.last_kernel)]
        super().__init__(layers, spec.channels)
