"""The codec's network: waveform → frames → codes → frames → waveform.

samples ─ WaveEncoder ─ z ─ ResidualQuantizer ─ ẑ ─ WaveDecoder ─ samples
                                  └ codes, latents
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from glassformer.core.checks import Count, Spec
from glassformer.core.flow import Batch, Flow, Output
from glassformer.errors import ConfigError
from glassformer.models._network import Network, Sizes, require
from glassformer.models.dac.convolutions import ResidualUnit, WaveDecoder, WaveEncoder
from glassformer.models.dac.losses import CodecLoss
from glassformer.models.dac.quantizer import QuantizerSpec, ResidualQuantizer

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True, kw_only=True, slots=True)
class CodecSpec(Spec):
    """A neural audio codec: channels of both sides, their strides, the quantiser between them, the sample rate."""

    encoder_channels: Count
    decoder_channels: Count
    strides: tuple[int, ...]
    up_strides: tuple[int, ...]
    quantizer: QuantizerSpec
    sample_rate_hz: Count

    def validate(self) -> None:
        if math.prod(self.up_strides) != self.hop:
            raise ConfigError(
                f"CodecSpec.up_strides {list(self.up_strides)} make frames of {math.prod(self.up_strides)} samples, "
                f"strides {list(self.strides)} of {self.hop}; they must agree (config.json: downsampling_ratios)"
            )
        if self.decoder_channels < 2 ** len(self.up_strides):
            raise ConfigError(
                f"CodecSpec.decoder_channels {self.decoder_channels} cannot be halved {len(self.up_strides)} times "
                "(config.json: decoder_hidden_size)"
            )

    @property
    def hop(self) -> int:
        """Samples of a frame."""
        return math.prod(self.strides)

    @property
    def frame_rate_hz(self) -> float:
        """Frames a second."""
        return self.sample_rate_hz / self.hop


class Codec(Network):
    """A neural audio codec.

    The end of a waveform is padded with silence to a whole frame, and the reconstruction cut to its length.
    Taps: encoder.out and final, the frames z [B T D] · quantizer.out, codes, latents · audio_values [B samples]
    Source: Kumar et al. 2023, "High-Fidelity Audio Compression with Improved RVQGAN".
    """

    READS = ("input_values",)

    def __init__(self, spec: CodecSpec, task: str) -> None:
        super().__init__(Sizes(width=spec.quantizer.width))
        self.spec = spec
        self.encoder = WaveEncoder(spec.encoder_channels, spec.strides, self.width)
        self.quantizer = ResidualQuantizer(spec.quantizer)
        self.decoder = WaveDecoder(spec.decoder_channels, spec.up_strides, self.width)
        self.head = CodecLoss()
        self.name_nodes()

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        """The frames of the encoder, before they are quantised: inputs for a model without an embedding table."""
        return self.encode(require(batch.input_values, "input_values [B, samples]"), flow).transpose(1, 2)

    def encode(self, wave: Float[Tensor, "B samples"], flow: Flow) -> Float[Tensor, "B D T"]:
        """The frames z of waveforms."""
        missing = -wave.shape[1] % self.spec.hop
        whole = torch.nn.functional.pad(wave, (0, missing)) if missing else wave
        frames: Tensor = self.encoder(whole[:, None].to(self.encoder.first.weight.dtype), flow)
        return frames

    def decode(self, frames: Float[Tensor, "B D T"]) -> Float[Tensor, "B samples"]:
        """The waveforms of quantised frames."""
        wave: Tensor = self.decoder(frames)[:, 0]
        return wave

    def forward(self, batch: Batch, flow: Flow) -> Output:
        wave = require(batch.input_values, "input_values [B, samples]")
        z = self.encode(wave, flow)
        self.tap(flow, "final", z.transpose(1, 2))
        quantized = self.quantizer(z, flow)
        decoded = self.decode(quantized.frames)[:, : wave.shape[1]]
        return Output(
            loss=quantized.loss.mean(),
            audio_values=self.tap(flow, "audio_values", decoded),
            quantized_representation=quantized.frames,
            audio_codes=quantized.codes,
            projected_latents=quantized.latents,
        )

    loss_sums = Network.loss_sums_from_output


@torch.no_grad()
def initialise(network: nn.Module, spec: CodecSpec) -> None:
    """Initialise: convolutions from N(0, 1 / inputs), which keeps the variance; codes from N(0, 0.2²); biases 0.

    What residual units add is a tenth of that at first, and so is the waveform, which no tanh may saturate.

    Differs: the reference library draws from N(0, 0.02²), with which a small codec takes long to use a second code.
    """
    for module in network.modules():
        if isinstance(module, (nn.Conv1d, nn.ConvTranspose1d)):
            # Of a transposed convolution, each output has inputs from two steps.
            inputs = module.weight[0].numel() if isinstance(module, nn.Conv1d) else 2 * module.weight.shape[0]
            nn.init.normal_(module.weight, std=inputs**-0.5)
            nn.init.zeros_(module.bias)  # type: ignore[arg-type]
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.2)
    for module in network.modules():
        if isinstance(module, (ResidualUnit, WaveDecoder)):
            (module.conv2 if isinstance(module, ResidualUnit) else module.last).weight.mul_(0.1)
