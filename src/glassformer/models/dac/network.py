"""DAC's network: waveform → frames → codes → frames → waveform.

samples ─ WaveEncoder ─ z ─ ResidualQuantizer ─ ẑ ─ WaveDecoder ─ samples
                                  └ codes, latents
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.core.checks import Count
from glassformer.core.flow import Flow
from glassformer.errors import ConfigError
from glassformer.models import _codec
from glassformer.models._codec import AudioCodec, AudioCodecSpec
from glassformer.models._quantizer import Codebook, QuantizerSpec, ResidualQuantizer
from glassformer.models.dac.convolutions import ResidualUnit, WaveDecoder, WaveEncoder, field_of_view

if TYPE_CHECKING:
    from jaxtyping import Float, Int


class CosineCodebook(Codebook):
    """A codebook that chooses the code of the smallest angle to a projection of the frame.

    Factorised: codes are compared in the few dimensions of the projection, and by cosine, so that few of them die.
    Source: Kumar et al. 2023, section 3.2; Yu et al. 2022 (ViT-VQGAN), section 3.2.
    """

    def __init__(self, spec: QuantizerSpec) -> None:
        super().__init__(spec, nn.Conv1d(spec.width, spec.code_width, 1), nn.Conv1d(spec.code_width, spec.width, 1))

    def similarities(self, latents: Float[Tensor, "B E T"]) -> Float[Tensor, "B T N"]:
        """The cosine of each latent with each code."""
        return F.normalize(latents.transpose(1, 2), dim=-1) @ self.positions().T

    def positions(self) -> Float[Tensor, "N E"]:
        return F.normalize(self.codebook.weight)


@dataclass(frozen=True, kw_only=True, slots=True)
class CodecSpec(AudioCodecSpec):
    """A neural audio codec: channels of both sides, their strides, the quantiser between them, the sample rate."""

    encoder_channels: Count
    decoder_channels: Count
    strides: tuple[int, ...]
    up_strides: tuple[int, ...]

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
        return math.prod(self.strides)


class Codec(AudioCodec):
    """The Descript Audio Codec.

    The end of a waveform is padded with silence to a whole frame, and the reconstruction cut to its length.
    In chunks, samples have as many around them as a frame depends on, so that frames are those of the whole:

        samples    [ context | chunk | context ]      context: the field of view
        frames               [ chunk ]

    Taps: encoder.out and final, the frames z [B T D] · quantizer.out, codes, latents · audio_values [B samples]
    Source: Kumar et al. 2023, "High-Fidelity Audio Compression with Improved RVQGAN".
    """

    spec: CodecSpec

    def __init__(self, spec: CodecSpec, task: str) -> None:
        super().__init__(spec)
        self.spec = spec
        self.encoder = WaveEncoder(spec.encoder_channels, spec.strides, self.width)
        self.quantizer = ResidualQuantizer(spec.quantizer, CosineCodebook)
        self.decoder = WaveDecoder(spec.decoder_channels, spec.up_strides, self.width)
        self.name_nodes()

    def encode(self, wave: Float[Tensor, "B 1 samples"], flow: Flow) -> tuple[Tensor, None]:
        missing = -wave.shape[2] % self.spec.hop
        whole = torch.nn.functional.pad(wave, (0, missing)) if missing else wave
        return self.encoder(whole.to(self.encoder.first.weight.dtype), flow), None

    def decode(self, frames: Float[Tensor, "B D T"], scales: Tensor | None = None) -> Float[Tensor, "B 1 samples"]:
        wave: Tensor = self.decoder(frames)
        return wave

    def encode_blocks(self, blocks: Iterable[Float[Tensor, "B 1 n"]]) -> Iterator[tuple[Tensor, None]]:
        hop = self.spec.hop
        first, last = field_of_view(self.encoder, 1)  # in samples
        before, after = -(first // hop), max(last // hop, 0)
        chunk = max(self.CHUNK_SAMPLES // hop, before + after, 1)
        buffer, left = None, 0  # left: frames of context at the beginning of the buffer

        def frames(wave: Tensor, count: int) -> tuple[Tensor, None]:
            return self.encode(wave, Flow())[0][:, :, left : left + count], None

        for block in blocks:
            buffer = block if buffer is None else torch.cat([buffer, block], 2)
            while buffer.shape[2] >= (left + chunk + after) * hop:
                yield frames(buffer[:, :, : (left + chunk + after) * hop], chunk)
                drop = max(left + chunk - before, 0)
                buffer, left = buffer[:, :, drop * hop :], left + chunk - drop
        if buffer is not None and buffer.shape[2] > left * hop:
            yield frames(buffer, -(-buffer.shape[2] // hop) - left)

    def decode_blocks(self, codes: Int[Tensor, "B K T"], scales: Tensor | None = None) -> Iterator[Tensor]:
        hop, count = self.spec.hop, codes.shape[2]
        first, last = field_of_view(self.decoder, hop)  # in frames, of the samples of frame 0
        before, after = -first, last
        chunk = max(self.CHUNK_SAMPLES // hop, before + after, 1)
        for start in range(0, count, chunk):
            begin, end = max(start - before, 0), min(start + chunk + after, count)
            wave = self.decode(self.quantizer.frames(codes[:, :, begin:end]))
            stop = (start + chunk - begin) * hop if start + chunk < count else None
            yield wave[:, :, (start - begin) * hop : stop]


@torch.no_grad()
def initialise(network: nn.Module, spec: CodecSpec) -> None:
    """Initialise as `_codec.initialise` says; residual units add a tenth of that at first, as the waveform is made.

    No tanh may saturate.

    Differs: the reference library draws from N(0, 0.02²), with which a small codec takes long to use a second code.
    """
    _codec.initialise(network)
    for module in network.modules():
        if isinstance(module, (ResidualUnit, WaveDecoder)):
            (module.conv2 if isinstance(module, ResidualUnit) else module.last).weight.mul_(0.1)
