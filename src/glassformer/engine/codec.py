"""Encode and decode sound with a codec, in chunks: recordings of any length in bounded memory.

    file ─ blocks of samples ─ codec.encode_blocks ─ frames ─ codec.quantizer ─ codes ─ codec.decode_blocks ─ samples

Encoding reads a file as it is decoded. Both sides give what they would give for the whole at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor

from glassformer.audio.listening import Sound
from glassformer.audio.read import AudioInput, audio_blocks
from glassformer.core.flow import Flow
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.files import is_number, safe_repr
from glassformer.models import Network, eval_mode
from glassformer.models._codec import AudioCodec
from glassformer.models._quantizer import Codebook


@dataclass(frozen=True, slots=True)
class EncodedAudio:
    """A recording as a codec's codes.

    codes: [K, T] int64
    latents: what the codes were chosen by, of each codebook [K · code width, T], or z [D, T]
    frame_rate_hz: frames a second
    sample_rate_hz, samples: of the sound that was encoded
    scales: what the sound of each frame was divided by, of a codec that normalises loudness; else None. [T]
    """

    codes: Tensor
    latents: Tensor
    frame_rate_hz: float
    sample_rate_hz: int
    samples: int
    scales: Tensor | None = None

    @property
    def seconds(self) -> float:
        """The length of the sound."""
        return self.samples / self.sample_rate_hz

    def first(self, frames: int) -> EncodedAudio:
        """The first this many frames."""
        return replace(
            self,
            codes=self.codes[:, :frames],
            latents=self.latents[:, :frames],
            samples=min(int(frames / self.frame_rate_hz * self.sample_rate_hz), self.samples),
            scales=None if self.scales is None else self.scales[:frames],
        )

    def __repr__(self) -> str:
        books, frames = self.codes.shape
        size = f"{books} codebook{'' if books == 1 else 's'} × {frames} frame{'' if frames == 1 else 's'}"
        return f"EncodedAudio({size}, {self.frame_rate_hz:g} Hz, {self.seconds:.2f} s)"


def encode_audio(
    network: Network,
    sound: AudioInput,
    own_rate_hz: int | None = None,
    codebooks: int | None = None,
    bandwidth: float | None = None,
) -> EncodedAudio:
    """The codes of one recording, resampled to the codec's sample rate; its end is padded to a whole frame.

    A codec of one channel reads the mean of all; one of stereo reads a mono recording twice.

    Args:
        own_rate_hz: of samples; files state their own
        codebooks: use the first this many; None = all
        bandwidth: of a codec that was trained for some, in kbit/s, in the place of codebooks
    Raises: UnsupportedError: the network is no codec. ConfigError: another number of codebooks. DataError: no sound.
    """
    codec = require_codec(network)
    if bandwidth is not None:
        codebooks = _books_of(codec, bandwidth, codebooks)
    if codebooks is not None and (type(codebooks) is not int or codebooks not in codec.spec.book_counts):
        raise ConfigError(
            f"codebooks is {safe_repr(codebooks)}; this codec has {codec.spec.quantizer.books}: "
            f"{_allowed_counts(codec)}"
        )
    weight = next(codec.parameters())
    codes, latents, scales, samples = [], [], [], 0

    def counted() -> Iterator[Tensor]:
        nonlocal samples
        for block in audio_blocks(sound, codec.spec.sample_rate_hz, own_rate_hz, codec.spec.channels):
            samples += len(block)
            wave = torch.from_numpy(block).to(weight.device)
            yield wave.reshape(len(block), -1).T[None]  # [1, C, n]

    with torch.no_grad(), eval_mode(codec):  # a caller may train on the result
        for frames, scale in codec.encode_blocks(counted()):
            quantized = codec.quantizer(frames, Flow(), codebooks)
            codes.append(quantized.codes[0])
            latents.append(quantized.latents[0])
            scales += [] if scale is None else [scale[0]]
    return EncodedAudio(
        codes=torch.cat(codes, 1),
        latents=torch.cat(latents, 1),
        frame_rate_hz=codec.spec.frame_rate_hz,
        sample_rate_hz=codec.spec.sample_rate_hz,
        samples=samples,
        scales=torch.cat(scales) if scales else None,
    )


def decode_audio(network: Network, codes: Tensor | EncodedAudio, scales: Tensor | float | None = None) -> Tensor:
    """The sound that codes stand for, at the codec's sample rate; of `EncodedAudio`, no longer than it was.

    Args:
        scales: of codes alone, if the codec normalises loudness: `EncodedAudio.scales` [T], or one number
    Returns: [samples], of stereo [2, samples]
    Raises: UnsupportedError: the network is no codec. DataError: codes of another shape or codec, or out of range; no
        scales, or some for a codec that takes none.
    """
    codec = require_codec(network)
    encoded = codes if isinstance(codes, EncodedAudio) else None
    checked = check_codes(codec, codes if encoded is None else encoded.codes)
    if encoded is not None and not math.isclose(encoded.frame_rate_hz, codec.spec.frame_rate_hz):
        raise DataError(
            f"codes are of another codec: {encoded.frame_rate_hz:g} frames a second, and this one has "
            f"{codec.spec.frame_rate_hz:g}; decode them by the codec that made them"
        )
    given = scales if encoded is None or scales is not None else encoded.scales
    loudness = _check_scales(codec, given, checked.shape[1])
    with torch.no_grad(), eval_mode(codec):  # a caller may train on the result
        wave = torch.cat(list(codec.decode_blocks(checked[None], loudness)), 2)[0].float().cpu()
    return (wave[0] if len(wave) == 1 else wave)[..., : None if encoded is None else encoded.samples]


def require_codec(network: Network) -> AudioCodec:
    """Raises: UnsupportedError: the network is no codec."""
    if not isinstance(network, AudioCodec):
        raise UnsupportedError(
            f"a {type(network).__name__} makes no codes of sound; load an audio codec: a 'dac' or 'encodec' model"
        )
    return network


def check_codes(codec: AudioCodec, codes: object) -> Tensor:
    """The codes, on the codec's device. [K, T]

    Raises: DataError: no codes of this codec: another shape or dtype, codebooks, or numbers out of range.
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
    if codes.shape[0] not in codec.spec.book_counts:
        raise DataError(
            f"codes have {codes.shape[0]} codebooks, which this codec does not write: {_allowed_counts(codec)}"
        )
    wrong = (codes < 0) | (codes >= spec.entries)
    if bool(wrong.any()):
        book, frame = wrong.nonzero()[0].tolist()
        raise DataError(
            f"codes hold {int(codes[book, frame])} in codebook {book}, frame {frame}; allowed: 0 to {spec.entries - 1}"
        )
    return codes.to(next(codec.parameters()).device, torch.int64)


def _books_of(codec: AudioCodec, bandwidth: object, codebooks: object) -> int:
    """Raises: ConfigError: no bandwidth of the codec, or codebooks as well."""
    known = codec.spec.bandwidths
    if codebooks is not None:
        raise ConfigError(f"bandwidth={safe_repr(bandwidth)} and codebooks={safe_repr(codebooks)}; give one of them")
    if not is_number(bandwidth) or bandwidth not in known:
        allowed = f"one of {', '.join(f'{kbps:g}' for kbps in known)} kbit/s" if known else "none: give codebooks=…"
        raise ConfigError(f"bandwidth is {safe_repr(bandwidth)}; of this codec it must be {allowed}")
    return known[bandwidth]


def _allowed_counts(codec: AudioCodec) -> str:
    counts = codec.spec.book_counts
    if counts == tuple(range(1, len(counts) + 1)):
        return f"a whole number from 1 to {len(counts)}"
    return f"it was trained with {' or '.join(map(str, counts))}"


def _check_scales(codec: AudioCodec, scales: object, frames: int) -> Tensor | None:
    """The scale of each frame [1, T]; None where the codec has none. Raises: DataError: not those that it needs."""
    if not codec.spec.normalises:
        if scales is not None:
            raise DataError("scales are given, and this codec does not normalise loudness: leave them out")
        return None
    weight = next(codec.parameters())
    given = torch.as_tensor(scales) if isinstance(scales, (int, float, Tensor)) else None
    if given is None or given.is_complex() or given.dim() > 1 or (given.dim() == 1 and len(given) != frames):
        got = f"of the shape {list(given.shape)}" if given is not None else safe_repr(scales)
        raise DataError(
            f"scales are {got}; this codec normalises loudness, which its codes do not hold: give what encode_audio "
            f"returned, its scales [{frames}], or one loudness (root mean square): decode_audio(codes, scales=0.1)"
        )
    return given.to(weight.device, torch.promote_types(weight.dtype, torch.float32)).expand(1, frames)


def decoded_sound(codec: AudioCodec, name: str, codes: Tensor | EncodedAudio, **more: Any) -> Sound:
    """The sound of codes, to be listened to in mono, with its codes.

    Args:
        more: marks, about, attention of `Sound`
    """
    spec, wave = codec.spec, decode_audio(codec, codes)
    return Sound(
        name,
        wave if wave.dim() == 1 else wave.mean(0),
        spec.sample_rate_hz,
        codes=codes.codes if isinstance(codes, EncodedAudio) else codes,
        shades=code_shades(codec),
        frame_rate_hz=spec.frame_rate_hz,
        **more,
    )


@torch.no_grad()
def code_shades(codec: AudioCodec) -> Tensor:
    """A number from 0 to 1 for each code, so that like codes have like numbers: [K, entries]

    rank of (c_j - mean) · v / (entries - 1)        v: the first principal component of a codebook's codes
    """
    shades = []
    for book in codec.quantizer.books:
        positions = cast(Codebook, book).positions().double().cpu()
        centred = positions - positions.mean(0)
        axis = torch.linalg.svd(centred, full_matrices=False).Vh[0]
        axis = axis * axis[axis.abs().argmax()].sign()  # one of the two directions, always the same
        ranks = (centred @ axis).argsort().argsort()
        shades.append(ranks.float() / max(len(ranks) - 1, 1))
    return torch.stack(shades)
