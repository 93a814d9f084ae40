"""EnCodec's network: the whole of a sound at once, its pieces one after the other, or chunks that overlap.

no chunk_length_s    samples ─ encoder, LSTM state carried ─ z ─ … ─ decoder, LSTM state carried ─ samples
chunk_length_s       [ chunk 0  ]                             each divided by its loudness and encoded by itself;
                            [ chunk 1  ]                      decoded, they fade into each other
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
from glassformer.models import _codec
from glassformer.models._codec import AudioCodec, AudioCodecSpec
from glassformer.models._quantizer import Codebook, ResidualQuantizer
from glassformer.models.encodec.seanet import SeanetDecoder, SeanetEncoder, SeanetSpec, StreamingState

if TYPE_CHECKING:
    from jaxtyping import Float, Int

QUIET = 1e-8
"""What is added to a loudness before it divides."""


class EuclideanCodebook(Codebook):
    """A codebook that chooses the code of the smallest distance to the frame itself.

    Source: Défossez et al. 2022, section 3.2.
    Differs: codes are learnt by gradients of the codebook loss; in the original by moving averages of their frames.
    """

    def similarities(self, latents: Float[Tensor, "B E T"]) -> Float[Tensor, "B T N"]:
        """The negative squared distance of each latent to each code."""
        x, codes = latents.transpose(1, 2), self.codebook.weight
        return -(x.square().sum(-1, keepdim=True) - 2 * x @ codes.T + codes.square().sum(-1))


@dataclass(frozen=True, kw_only=True, slots=True)
class EncodecSpec(AudioCodecSpec):
    """EnCodec: its two sides, and how a sound is cut.

    chunk_samples, chunk_stride: length of a chunk, and from one to the next; None = a sound is one
    """

    seanet: SeanetSpec
    chunk_samples: Count | None = None
    chunk_stride: Count | None = None

    @property
    def hop(self) -> int:
        return math.prod(self.seanet.ratios)

    @property
    def chunk_frames(self) -> int | None:
        """Frames that `chunk_seconds` of sound are coded as."""
        return None if self.chunk_samples is None else math.ceil(self.chunk_samples / self.hop)

    @property
    def frame_rate_hz(self) -> float:
        if self.chunk_frames is None or self.chunk_stride is None:
            return self.sample_rate_hz / self.hop
        return self.chunk_frames * self.sample_rate_hz / self.chunk_stride  # those of overlaps count twice

    @property
    def streams(self) -> bool:
        """Whether pieces of a sound give what the whole gives, or it has to be normalised as a whole."""
        return self.chunk_samples is None and not self.normalises and not self.seanet.group_norm


class Encodec(AudioCodec):
    """EnCodec.

    A chunk that another one follows is padded with silence to its whole length.
    Taps: encoder.out and final, the frames z [B T D] · quantizer.out, codes, latents · audio_values, as input_values
    Source: Défossez et al. 2022, "High Fidelity Neural Audio Compression".
    Differs: all codebooks are used where nothing else is asked for, in the reference library those of the lowest
    bandwidth. Codes of chunks are one behind the other. It pads no chunk: there, the last but one must be whole, or
    there are just two.
    """

    spec: EncodecSpec

    def __init__(self, spec: EncodecSpec, task: str) -> None:
        super().__init__(spec)
        self.spec = spec
        self.encoder = SeanetEncoder(spec.seanet)
        self.quantizer = ResidualQuantizer(spec.quantizer, EuclideanCodebook)
        self.decoder = SeanetDecoder(spec.seanet)
        self.name_nodes()

    def encode(self, wave: Float[Tensor, "B C samples"], flow: Flow) -> tuple[Tensor, Tensor | None]:
        frames, scales = zip(*self._encode([wave], None), strict=True)
        z = self.encoder.tap(flow, "out", torch.cat(frames, 2).transpose(1, 2)).transpose(1, 2)
        return z, torch.cat(scales, 1) if self.spec.normalises else None

    def decode(self, frames: Float[Tensor, "B D T"], scales: Float[Tensor, "B T"] | None) -> Tensor:
        size = self.spec.chunk_frames
        return torch.cat(list(self._decode(windows([frames], size, size), scales)), 2)

    def encode_blocks(self, blocks: Iterable[Float[Tensor, "B C n"]]) -> Iterator[tuple[Tensor, Tensor | None]]:
        frames = max(self.CHUNK_SAMPLES // self.spec.hop, 1)
        return self._encode(blocks, frames * self.spec.hop if self.spec.streams else None)

    def decode_blocks(self, codes: Int[Tensor, "B K T"], scales: Float[Tensor, "B T"] | None) -> Iterator[Tensor]:
        size = max(self.CHUNK_SAMPLES // self.spec.hop, 1) if self.spec.streams else self.spec.chunk_frames
        pieces = ((self.quantizer.frames(piece), last) for piece, last in windows([codes], size, size))
        return self._decode(pieces, scales)

    def _encode(self, blocks: Iterable[Tensor], size: int | None) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Frames and scales of pieces of this many samples (None: of the whole), or of chunks."""
        length, stream = self.spec.chunk_samples, StreamingState()
        dtype, scale = next(self.parameters()).dtype, None
        wide = torch.promote_types(dtype, torch.float32)  # in which loudness of silence is not 0
        for piece, last in windows(blocks, length or size, self.spec.chunk_stride or size):
            wave = piece.to(wide)
            if length is None:
                stream.last = last
            elif not last:
                wave = F.pad(wave, (0, length - wave.shape[2]))
            if self.spec.normalises:
                scale = wave.mean(1).square().mean(1, keepdim=True).sqrt() + QUIET  # [B, 1]
                wave = wave / scale[:, None]
            z = self.encoder(wave.to(dtype), stream if length is None else StreamingState())
            if z.shape[2]:
                yield z, None if scale is None else scale.expand(-1, z.shape[2])

    def _decode(self, pieces: Iterable[tuple[Tensor, bool]], scales: Tensor | None) -> Iterator[Tensor]:
        """Samples of frames that come in pieces, or in chunks."""

        def waves() -> Iterator[Tensor]:
            at, stream = 0, StreamingState()
            for frames, last in pieces:
                stream.last = last
                wave = self.decoder(frames, stream if self.spec.chunk_stride is None else StreamingState())
                yield wave if scales is None else (wave * scales[:, at, None, None]).to(wave.dtype)
                at += frames.shape[2]

        return waves() if self.spec.chunk_stride is None else overlap_add(waves(), self.spec.chunk_stride)


def windows(blocks: Iterable[Tensor], length: int | None, stride: int | None) -> Iterator[tuple[Tensor, bool]]:
    """Windows of this many steps, one every `stride`, while one begins in what comes block by block; None: all at once.

    Returns: each [..., steps], at the end shorter ones, and whether it is the last.
    """
    buffer: Tensor | None = None
    for block in blocks:
        buffer = block if buffer is None else torch.cat([buffer, block], -1)
        while length and stride and buffer.shape[-1] > max(length, stride):
            yield buffer[..., :length], False
            buffer = buffer[..., stride:]
    while buffer is not None and stride and buffer.shape[-1] > stride:
        yield buffer[..., :length], False
        buffer = buffer[..., stride:]
    if buffer is not None:
        yield buffer, True


def overlap_add(waves: Iterable[Float[Tensor, "B C n"]], stride: int) -> Iterator[Float[Tensor, "B C m"]]:
    """Chunks as one sound: where several overlap, their mean, in which each has the weight of a triangle.

    weights      ╱╲  ╱╲  ╱╲      the first chunk is the longest
               ╱    ╳   ╳   ╲
    """
    triangle: Tensor | None = None
    for wave in waves:
        if triangle is None:
            wide = torch.promote_types(wave.dtype, torch.float32)  # in which no weight at an end is 0
            ramp = torch.linspace(0, 1, wave.shape[2] + 2, device=wave.device, dtype=wide)[1:-1]
            triangle = 0.5 - (ramp - 0.5).abs()
            total, weight = wave.new_zeros(*wave.shape[:2], 0), triangle[:0]
        else:
            yield (total[..., :stride] / weight[:stride]).to(wave.dtype)
            total, weight = total[..., stride:], weight[stride:]
        own = triangle[: wave.shape[2]]
        total, weight = _sum(total, own * wave), _sum(weight, own)
    if triangle is not None:
        yield (total / weight).to(wave.dtype)


def _sum(x: Tensor, y: Tensor) -> Tensor:
    """The sum of two that begin together, the shorter padded with 0."""
    steps = max(x.shape[-1], y.shape[-1])
    return F.pad(x, (0, steps - x.shape[-1])) + F.pad(y, (0, steps - y.shape[-1]))


@torch.no_grad()
def initialise(network: nn.Module, spec: EncodecSpec) -> None:
    """Initialise: convolutions and codes as `_codec.initialise` says, LSTM and norms as torch does."""
    _codec.initialise(network)
    for module in network.modules():
        if isinstance(module, (nn.LSTM, nn.GroupNorm)):
            module.reset_parameters()
