"""Encode and decode sound with a codec, in chunks: recordings of any length in bounded memory.

    samples    [ context | chunk | context ]      context: the codec's field of view, so that a chunk's frames
    frames               [ chunk ]                are those of the whole recording

Encoding reads a file as it is decoded. Both sides give what they would give for the whole at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from glassformer.audio.listening import Sound
from glassformer.audio.read import AudioInput, Samples, audio_blocks
from glassformer.core.flow import Flow
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.files import safe_repr
from glassformer.models import Network, eval_mode
from glassformer.models.dac.convolutions import field_of_view
from glassformer.models.dac.network import Codec
from glassformer.models.dac.quantizer import Codebook

CHUNK_SAMPLES = 1 << 17
"""Of a chunk, about: its activations take some hundred megabytes at most."""


@dataclass(frozen=True, slots=True)
class EncodedAudio:
    """A recording as a codec's codes.

    codes: [K, T] int64 · latents: what the codes were chosen by, of each codebook [K · code width, T]
    frame_rate_hz: frames a second · sample_rate_hz, samples: of the sound that was encoded
    """

    codes: Tensor
    latents: Tensor
    frame_rate_hz: float
    sample_rate_hz: int
    samples: int

    @property
    def seconds(self) -> float:
        """The length of the sound."""
        return self.samples / self.sample_rate_hz

    def __repr__(self) -> str:
        books, frames = self.codes.shape
        return f"EncodedAudio({books} codebooks × {frames} frames, {self.frame_rate_hz:g} Hz, {self.seconds:.2f} s)"


def encode_audio(
    network: Network, sound: AudioInput, own_rate_hz: int | None = None, codebooks: int | None = None
) -> EncodedAudio:
    """The codes of one recording, resampled to the codec's sample rate; its end is padded to a whole frame.

    Args: own_rate_hz: of samples; files state their own · codebooks: use the first so many; None = all
    Raises: UnsupportedError: the network is no codec. ConfigError: another number of codebooks. DataError: no sound.
    """
    codec = require_codec(network)
    most = codec.spec.quantizer.books
    if codebooks is not None and (type(codebooks) is not int or not 1 <= codebooks <= most):
        raise ConfigError(
            f"codebooks is {safe_repr(codebooks)}; this codec has {most}: a whole number from 1 to {most}"
        )
    codes, latents, samples = [], [], 0

    def counted() -> Iterator[Samples]:
        nonlocal samples
        for block in audio_blocks(sound, codec.spec.sample_rate_hz, own_rate_hz):
            samples += len(block)
            yield block

    with torch.inference_mode(), eval_mode(codec):
        for frames in _encoder_chunks(codec, counted()):
            quantized = codec.quantizer(frames, Flow(), codebooks)
            codes.append(quantized.codes[0])
            latents.append(quantized.latents[0])
    return EncodedAudio(
        codes=torch.cat(codes, 1),
        latents=torch.cat(latents, 1),
        frame_rate_hz=codec.spec.frame_rate_hz,
        sample_rate_hz=codec.spec.sample_rate_hz,
        samples=samples,
    )


def decode_audio(network: Network, codes: Tensor | EncodedAudio) -> Tensor:
    """The sound that codes stand for, at the codec's sample rate; of `EncodedAudio`, no longer than it was. [samples]

    Raises: UnsupportedError: the network is no codec. DataError: codes of another shape, or out of range.
    """
    codec = require_codec(network)
    samples = codes.samples if isinstance(codes, EncodedAudio) else None
    checked = check_codes(codec, codes.codes if isinstance(codes, EncodedAudio) else codes)
    with torch.inference_mode(), eval_mode(codec):
        return torch.cat(list(_decoder_chunks(codec, checked)))[:samples].float().cpu()


def require_codec(network: Network) -> Codec:
    """Raises: UnsupportedError: the network is no codec."""
    if not isinstance(network, Codec):
        raise UnsupportedError(
            f"a {type(network).__name__} makes no codes of sound; load an audio codec, a model of the type 'dac'"
        )
    return network


def check_codes(codec: Codec, codes: object) -> Tensor:
    """The codes, on the codec's device. [K, T]

    Raises: DataError: no codes of this codec: another shape or dtype, too many codebooks, or numbers out of range.
    """
    spec = codec.spec.quantizer
    wanted = (
        f"a tensor of whole numbers [codebooks, frames], as encode_audio(…).codes is, at most {spec.books} codebooks"
    )
    if not isinstance(codes, Tensor) or codes.dim() != 2 or codes.is_floating_point() or codes.dtype == torch.bool:
        got = f"{codes.dtype} of shape {list(codes.shape)}" if isinstance(codes, Tensor) else safe_repr(codes)
        raise DataError(f"codes are {got}; they must be {wanted}")
    if not 1 <= codes.shape[0] <= spec.books or not codes.shape[1]:
        raise DataError(f"codes have the shape {list(codes.shape)}; they must be {wanted}, and one frame at least")
    wrong = (codes < 0) | (codes >= spec.entries)
    if bool(wrong.any()):
        book, frame = wrong.nonzero()[0].tolist()
        raise DataError(
            f"codes hold {int(codes[book, frame])} in codebook {book}, frame {frame}; allowed: 0 to {spec.entries - 1}"
        )
    return codes.to(next(codec.parameters()).device, torch.int64)


def _encoder_chunks(codec: Codec, blocks: Iterable[Samples]) -> Iterator[Tensor]:
    """The frames of a recording, chunk by chunk. [1, D, frames] each"""
    hop = codec.spec.hop
    first, last = field_of_view(codec.encoder, 1)  # in samples
    before, after = -(first // hop), max(last // hop, 0)
    chunk = max(CHUNK_SAMPLES // hop, before + after, 1)
    buffer, left = np.zeros(0, np.float32), 0  # left: frames of context at the beginning of the buffer

    def frames(samples: Samples, count: int) -> Tensor:
        wave = torch.from_numpy(samples)[None].to(next(codec.parameters()).device)
        return codec.encode(wave, Flow())[:, :, left : left + count]

    for block in blocks:
        buffer = np.concatenate([buffer, block])
        while len(buffer) >= (left + chunk + after) * hop:
            yield frames(buffer[: (left + chunk + after) * hop], chunk)
            drop = max(left + chunk - before, 0)
            buffer, left = buffer[drop * hop :], left + chunk - drop
    if len(buffer) > left * hop:
        yield frames(buffer, -(-len(buffer) // hop) - left)


def _decoder_chunks(codec: Codec, codes: Tensor) -> Iterator[Tensor]:
    """The samples that codes [K, T] stand for, chunk by chunk."""
    hop, count = codec.spec.hop, codes.shape[1]
    first, last = field_of_view(codec.decoder, hop)  # in frames, of the samples of frame 0
    before, after = -first, last
    chunk = max(CHUNK_SAMPLES // hop, before + after, 1)
    for start in range(0, count, chunk):
        begin, end = max(start - before, 0), min(start + chunk + after, count)
        wave = codec.decode(codec.quantizer.frames(codes[None, :, begin:end]))[0]
        stop = (start + chunk - begin) * hop if start + chunk < count else None
        yield wave[(start - begin) * hop : stop]


def decoded_sound(codec: Codec, name: str, codes: Tensor | EncodedAudio, **more: Any) -> Sound:
    """The sound of codes, to be listened to, with its codes. Args: more: marks, about, attention of `Sound`"""
    spec = codec.spec
    return Sound(
        name,
        decode_audio(codec, codes),
        spec.sample_rate_hz,
        codes=codes.codes if isinstance(codes, EncodedAudio) else codes,
        shades=code_shades(codec),
        frame_rate_hz=spec.frame_rate_hz,
        **more,
    )


@torch.no_grad()
def code_shades(codec: Codec) -> Tensor:
    """A number from 0 to 1 for each code, so that like codes have like numbers: [K, entries]

    rank of (c_j - mean) · v / (entries - 1)        v: the first principal component of a codebook's directions
    """
    shades = []
    for book in codec.quantizer.books:
        directions = torch.nn.functional.normalize(cast(Codebook, book).codebook.weight.double().cpu(), dim=-1)
        centred = directions - directions.mean(0)
        axis = torch.linalg.svd(centred, full_matrices=False).Vh[0]
        axis = axis * axis[axis.abs().argmax()].sign()  # one of the two directions, always the same
        ranks = (centred @ axis).argsort().argsort()
        shades.append(ranks.float() / max(len(ranks) - 1, 1))
    return torch.stack(shades)
