"""Neural audio codecs: waveform → frames → codes → frames → waveform, at once or in chunks of bounded memory.

    samples ─ encoder ─ z ─ ResidualQuantizer ─ ẑ ─ decoder ─ samples
                                  └ codes, latents

A family says how frames are made of samples and samples of frames; all else that reads or writes codes is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call

from glassformer.core.checks import Count, Spec
from glassformer.core.flow import Batch, Flow, Output
from glassformer.errors import DataError
from glassformer.models._codec_losses import CodecLoss
from glassformer.models._network import Network, Sizes, require
from glassformer.models._quantizer import QuantizerSpec, ResidualQuantizer

if TYPE_CHECKING:
    from jaxtyping import Float, Int


@dataclass(frozen=True, kw_only=True, slots=True)
class AudioCodecSpec(Spec):
    """What all codecs have: a quantiser, the sample rate, and how many channels their sound has."""

    quantizer: QuantizerSpec
    sample_rate_hz: Count
    channels: Count = 1
    bandwidths: dict[float, int] = field(default_factory=dict)  # kbit/s that it was trained for → codebooks
    normalises: bool = False  # frames are those of a sound divided by its loudness, so that codes do not hold it

    @property
    def hop(self) -> int:
        """Number of samples of a frame."""
        raise NotImplementedError

    @property
    def frame_rate_hz(self) -> float:
        """Frames a second."""
        return self.sample_rate_hz / self.hop

    @property
    def book_counts(self) -> tuple[int, ...]:
        """With how many codebooks, the first ones, it was trained to write a sound."""
        return tuple(sorted(set(self.bandwidths.values()))) or tuple(range(1, self.quantizer.books + 1))


class AudioCodec(Network):
    """A neural audio codec; a family makes its parts, and implements the four methods that raise here.

    Taps: final, the frames z [B T D] · quantizer.out, codes, latents · audio_values, as input_values
    """

    READS = ("input_values",)
    CHUNK_SAMPLES: ClassVar[int] = 1 << 17
    """Of a chunk, about: its activations take some hundred megabytes at most."""

    spec: AudioCodecSpec
    quantizer: ResidualQuantizer

    def __init__(self, spec: AudioCodecSpec) -> None:
        super().__init__(Sizes(width=spec.quantizer.width, channels=spec.channels))
        self.head = CodecLoss()

    def encode(self, wave: Float[Tensor, "B C samples"], flow: Flow) -> tuple[Tensor, Tensor | None]:
        """The frames z of waveforms [B, D, T], and what each was divided by for loudness [B, T], if it was."""
        raise NotImplementedError

    def decode(self, frames: Float[Tensor, "B D T"], scales: Float[Tensor, "B T"] | None) -> Tensor:
        """The waveforms of quantised frames. [B, C, samples]"""
        raise NotImplementedError

    def encode_blocks(self, blocks: Iterable[Float[Tensor, "B C n"]]) -> Iterator[tuple[Tensor, Tensor | None]]:
        """`encode` in bounded memory: a sound that comes block by block, its frames chunk by chunk."""
        raise NotImplementedError

    def decode_blocks(self, codes: Int[Tensor, "B K T"], scales: Float[Tensor, "B T"] | None) -> Iterator[Tensor]:
        """`decode` in bounded memory: codes, their samples chunk by chunk. [B, C, n] each"""
        raise NotImplementedError

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        """The frames of the encoder, before they are quantised: inputs for a model without an embedding table."""
        return self.encode(self._waves(batch), flow)[0].transpose(1, 2)

    def forward(self, batch: Batch, flow: Flow) -> Output:
        wave = self._waves(batch)
        z, scales = self.encode(wave, flow)
        self.tap(flow, "final", z.transpose(1, 2))
        quantized = self.quantizer(z, flow)
        decoded = self.decode(quantized.frames, scales)[..., : wave.shape[2]]
        decoded = decoded[:, 0] if self.sizes.channels == 1 else decoded
        return Output(
            loss=quantized.loss.mean(),
            audio_values=self.tap(flow, "audio_values", decoded),
            quantized_representation=quantized.frames,
            audio_codes=quantized.codes,
            projected_latents=quantized.latents,
        )

    loss_sums = Network.loss_sums_from_output

    def _waves(self, batch: Batch) -> Float[Tensor, "B C samples"]:
        channels = self.sizes.channels
        wave = require(batch.input_values, f"input_values [B, {'' if channels == 1 else f'{channels}, '}samples]")
        if channels == 1:
            return wave[:, None]
        if wave.shape[1] != channels:
            raise DataError(
                f"input_values have the shape {list(wave.shape)}; this codec reads [B, {channels}, "
                "samples]; give a mono sound twice, as the processor of its folder does"
            )
        return wave


def strided(conv: nn.Conv1d | nn.ConvTranspose1d, x: Float[Tensor, "B C T"]) -> Float[Tensor, "B c t"]:
    """A convolution with a stride; in bf16 on a CPU, one of few channels is computed in fp32.

    oneDNN's bf16 kernels for AMX give wrong sums for less than 16 channels, strides of 4 to 16 and kernels of 8 and
    more: of a convolution its output, of a transposed one its gradient (torch 2.13).
    """
    narrow = torch.is_autocast_enabled("cpu") or conv.weight.dtype == torch.bfloat16
    if x.device.type == "cpu" and narrow and min(conv.in_channels, conv.out_channels) < 16:
        parameters = {name: parameter.float() for name, parameter in conv.named_parameters()}
        with torch.autocast("cpu", enabled=False):
            wide: Tensor = functional_call(conv, parameters, x.float())
        return wide.to(conv.weight.dtype)
    out: Tensor = conv(x)
    return out


@torch.no_grad()
def initialise(network: nn.Module) -> None:
    """Initialise: convolutions from N(0, 1 / inputs), which keeps the variance; codes from N(0, 0.2²); biases 0."""
    for module in network.modules():
        if isinstance(module, (nn.Conv1d, nn.ConvTranspose1d)):
            # Of a transposed convolution, each output has inputs from two steps.
            inputs = module.weight[0].numel() if isinstance(module, nn.Conv1d) else 2 * module.weight.shape[0]
            nn.init.normal_(module.weight, std=inputs**-0.5)
            nn.init.zeros_(module.bias)  # type: ignore[arg-type]
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.2)
