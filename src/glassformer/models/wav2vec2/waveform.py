"""Waveform feature encoder: a convolutional front end that turns audio samples into frames.

    WaveformEncoder     samples ─ [ convolution ─ norm ─ activation ] × n ─ norm ─ features
    FrameEmbedding      features ─ projection ─ SpecAugment ─ + positions ─ norm ─ stream

At 16 kHz the published models take 400 samples (25 ms) a frame, one frame every 320 (20 ms).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor, nn

from glassformer.core.checks import Count, NonNegative, Probability, Spec, any_true, check_widths
from glassformer.core.feed_forward import make_activation, saved_by_activation
from glassformer.core.flow import Flow, Node
from glassformer.core.norms import LayerNormSpec, NormSpec, make_norm
from glassformer.errors import ConfigError, DataError
from glassformer.models._config import Values
from glassformer.models._speech import SpecAugment, SpecAugmentSpec
from glassformer.models.wav2vec2.positions import ConvolvedPositions, ConvolvedPositionsSpec

if TYPE_CHECKING:
    from jaxtyping import Bool, Float


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeNormSpec(Spec):
    """Instance normalisation over time, of each of `width` channels by itself."""

    width: Count
    eps: NonNegative = 1e-5


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeConvolutionSpec(Spec):
    """Convolution over time: `kernel` steps of `channels` → one of `width`, every `stride` steps; norm; activation."""

    channels: Count
    width: Count
    kernel: Count
    stride: Count
    activation: str = "gelu"
    bias: bool = False
    norm: LayerNormSpec | TimeNormSpec | None = None

    def validate(self) -> None:
        check_widths(self, "its convolution", self.width, "norm")


@dataclass(frozen=True, kw_only=True, slots=True)
class WaveformSpec(Spec):
    """Waveform feature encoder: convolutions from samples to frames, then a `norm`.

    samples: the receptive field of a frame
    hop: how many samples later the next frame begins
    """

    layers: tuple[TimeConvolutionSpec, ...]
    norm: LayerNormSpec | None = None

    def validate(self) -> None:
        read = (1, *(layer.width for layer in self.layers))[: len(self.layers)]
        if not self.layers or read != tuple(layer.channels for layer in self.layers):
            raise ConfigError(
                f"WaveformSpec.layers read {[layer.channels for layer in self.layers]} channels; the first reads "
                f"1, the waveform, and each other the width of the one before it: {list(read)}"
            )
        check_widths(self, "the frames", self.width, "norm")

    @property
    def width(self) -> int:
        return self.layers[-1].width

    @property
    def samples(self) -> int:
        count = 1
        for layer in reversed(self.layers):
            count = (count - 1) * layer.stride + layer.kernel
        return count

    @property
    def hop(self) -> int:
        return math.prod(layer.stride for layer in self.layers)


def waveform_spec(c: Values) -> WaveformSpec:
    """The feature encoder of a config; with group norm, the first convolution alone is normed.

    Raises: ConfigError: widths, strides and kernels differ in number.
    """
    if not len(c.widths) == len(c.strides) == len(c.kernels):
        raise ConfigError(
            f"config.json: conv_dim, conv_stride and conv_kernel have {len(c.widths)}, {len(c.strides)} and "
            f"{len(c.kernels)} numbers; they must have one each for every convolution"
        )
    norms: list[LayerNormSpec | TimeNormSpec | None] = [LayerNormSpec(width=width) for width in c.widths]
    if c.convolution_norm == "group":
        norms = [TimeNormSpec(width=c.widths[0]), *[None] * (len(norms) - 1)]
    layers = tuple(
        TimeConvolutionSpec(
            **{"channels": channels, "width": width, "kernel": kernel, "stride": stride, "norm": norm},
            activation=c.convolution_activation,
            bias=c.convolution_bias,
        )
        for channels, width, kernel, stride, norm in zip(
            (1, *c.widths[:-1]), c.widths, c.kernels, c.strides, norms, strict=True
        )
    )
    return WaveformSpec(layers=layers, norm=LayerNormSpec(width=c.widths[-1], eps=c.eps) if c.features_norm else None)


@dataclass(frozen=True, kw_only=True, slots=True)
class FrameEmbeddingSpec(Spec):
    """Input embedding of audio frames: `features` numbers → the width of `positions`; dropouts, and a norm at the end.

    augment: SpecAugment; None where the model has no mask vector
    """

    features: Count
    positions: ConvolvedPositionsSpec
    augment: SpecAugmentSpec | None = None
    norm: NormSpec | None = None
    feature_dropout: Probability = 0.0
    dropout: Probability = 0.0

    def validate(self) -> None:
        check_widths(self, "its positions", self.positions.width, "augment", "norm")


Samples = TypeVar("Samples", int, Tensor)


class TimeNorm(nn.Module):
    """Instance normalisation over time: centre and scale each channel of a row, then apply a learned scale and shift.

        y = (x - mean(x, over T)) / √(var(x, over T) + eps) · weight + bias

    Padding is part of that time: it changes every frame of the row.
    Source: Wu and He 2018, section 3.1, with as many groups as channels; Ulyanov et al. 2016.
    """

    def __init__(self, spec: TimeNormSpec) -> None:
        super().__init__()
        self.eps = spec.eps
        self.weight = nn.Parameter(torch.ones(spec.width))
        self.bias = nn.Parameter(torch.zeros(spec.width))

    def forward(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        channels = x.transpose(1, 2)  # [B, C, T]
        normed = torch.group_norm(channels, len(self.weight), self.weight, self.bias, self.eps)
        return normed.transpose(1, 2)

    def saves_more(self, tokens: int) -> tuple[int, int]:
        """Its input is saved for the backward pass."""
        return len(self.weight), 0


class TimeConvolution(nn.Module):
    """One-dimensional convolution over time, with norm and activation.

        y = activation(norm(W [x_st … x_st+k-1]))

    Source: Baevski et al. 2020, section 2, after Collobert et al. 2016.
    """

    def __init__(self, spec: TimeConvolutionSpec) -> None:
        super().__init__()
        self.conv = nn.Conv1d(spec.channels, spec.width, kernel_size=spec.kernel, stride=spec.stride, bias=spec.bias)
        self.norm = TimeNorm(spec.norm) if isinstance(spec.norm, TimeNormSpec) else make_norm(spec.norm)
        self.activation = make_activation(spec.activation)

    def forward(self, x: Float[Tensor, "B steps channels"]) -> Float[Tensor, "B T C"]:
        y: Tensor = self.conv(x.transpose(1, 2)).transpose(1, 2)
        y = self.activation(self.norm(y))
        return y

    def saves_more(self, tokens: int) -> tuple[int, int]:
        """What its activation reads is saved for the backward pass."""
        return self.conv.out_channels * saved_by_activation(self.activation), 0


class WaveformEncoder(Node):
    """Convolutional feature encoder of a waveform: a vector for each frame.

    Args:
        wave: samples, cast to the dtype of the weights. [B, samples]
    Returns: [B, T, C]
    Raises: DataError: the waveform is too short for one frame.
    Taps: out [B T C]
    Source: Baevski et al. 2020, section 2.
    """

    TAPS = ("out",)

    def __init__(self, spec: WaveformSpec) -> None:
        super().__init__()
        self.spec = spec
        for i, layer in enumerate(spec.layers):
            self.add_module(str(i), TimeConvolution(layer))  # `features.{i}`, as weight names have it
        self.norm = make_norm(spec.norm)

    def forward(self, wave: Float[Tensor, "B samples"], flow: Flow) -> Float[Tensor, "B T C"]:
        self._check_length("input_values has", wave.shape[1])
        layers = [layer for layer in self.children() if isinstance(layer, TimeConvolution)]
        x = wave.to(layers[0].conv.weight.dtype)[..., None]  # [B, samples, 1]
        for layer in layers:
            x = layer(x)
        return self.tap(flow, "out", self.norm(x))

    def frames(self, samples: Samples) -> Samples:
        """Number of frames for a number of samples."""
        for layer in self.spec.layers:
            samples = (samples - layer.kernel) // layer.stride + 1
        return samples

    def frame_mask(self, keep: Bool[Tensor, "B 1 samples"]) -> Bool[Tensor, "B 1 T"]:
        """Attention mask of the frames, from that of the samples: a frame counts if no padding enters it.

        Raises: DataError: a row is padded on the left, or has too few samples for one frame.
        """
        lengths = keep[:, 0].sum(-1)  # [B]
        positions = torch.arange(keep.shape[-1], device=keep.device)
        invalid = (keep[:, 0] != (positions < lengths[:, None])).any(-1)
        if any_true(invalid):
            raise DataError(
                f"row {int(invalid.int().argmax())} of attention_mask hides samples before the sound ends; a sound "
                "begins where its row begins: pad on the right"
            )
        if any_true(lengths < self.spec.samples):
            shortest = int(lengths.argmin())
            self._check_length(f"row {shortest} of input_values has, without its padding,", int(lengths[shortest]))
        frames = torch.arange(self.frames(keep.shape[-1]), device=keep.device)
        return (frames < self.frames(lengths)[:, None])[:, None]

    def _check_length(self, what: str, samples: int) -> None:
        if samples < self.spec.samples:
            raise DataError(
                f"{what} {samples} samples; the first frame is made of {self.spec.samples} "
                "(config.json: conv_kernel, conv_stride): give a longer sound, or append silence"
            )


class FrameEmbedding(Node):
    """Input embedding of audio frames: projection, SpecAugment, convolutional positions.

        x = projection(features), padding set to 0;   out = dropout(norm(x + positions(x)))

    Args:
        features: from the feature encoder. [B, T, C]
        flow: `keep` [B, 1, T], False where frames are padding.
    Taps: out [B T D]
    Source: Baevski et al. 2020, section 2.
    """

    TAPS = ("out",)

    def __init__(self, spec: FrameEmbeddingSpec) -> None:
        super().__init__()
        self.projection = nn.Linear(spec.features, spec.positions.width)
        self.feature_dropout = nn.Dropout(spec.feature_dropout)
        self.augment = SpecAugment(spec.augment) if spec.augment else None
        self.positions = ConvolvedPositions(spec.positions)
        self.norm = make_norm(spec.norm)
        self.dropout = nn.Dropout(spec.dropout)

    def forward(self, features: Float[Tensor, "B T C"], flow: Flow) -> Float[Tensor, "B T D"]:
        x: Tensor = self.feature_dropout(self.projection(features))
        if self.augment is not None:
            x = self.augment(x, flow.keep)
        if flow.keep is not None:  # else the position convolution would mix padding into the sound
            x = x.masked_fill(~flow.keep.transpose(1, 2), 0.0)
        return self.tap(flow, "out", self.dropout(self.norm(x + self.positions(x))))
