"""Sound of any common format as one row of numbers, at the rate that a model was trained with.

    file ─ soundfile, or av for what it does not know ─ blocks [samples, channels] ─ mean ─ resampled ─> [samples]

A file is read in blocks until it ends, whatever its header claims, so that memory grows with what it holds alone.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from glassformer.errors import DataError, MissingExtraError
from glassformer.files import open_regular, reason, shown

Samples = NDArray[np.float32]
Sound = str | Path | NDArray[Any] | Tensor
"""A file, or samples [samples]."""

MOST_SECONDS = 4 * 3600
"""The longest sound that is read: 0.9 GB at 16 kHz."""
RATES_HZ = (1_000, 384_000)
"""Slower is no sound, faster is no recording; a filter between rates grows with both."""
BLOCK_NUMBERS = 1 << 18
"""How many numbers are read and resampled at a time."""
FULL_SCALE = {"int16": 1 << 15, "int32": 1 << 31}
"""What whole numbers call full loudness, 1.0."""
CONTAINERS = "mov,matroska,aac,mp3,asf,avi,flv,mpegts,mpeg,ogg,wav,aiff,caf,amr,flac"
"""What av may open. Its playlists are left out: they name further files and addresses."""


@dataclass(frozen=True, slots=True)
class _Opened:
    """A sound under way: its blocks [samples] or [samples, channels], and how long its header says that it lasts."""

    name: str
    rate_hz: int
    blocks: Iterator[NDArray[Any]]
    claimed_s: float | None = None


def read_sound(sound: Sound, sample_rate_hz: int, own_rate_hz: int | None = None) -> Samples:
    """One sound, all its channels mixed into one.

    Args:
        sound: a file of any common format, or samples [samples]: floats of which 1.0 is full loudness, int16 or int32.
        sample_rate_hz: the rate that is wanted.
        own_rate_hz: the rate of samples; a file knows its own.
    Returns: float32 [samples] at the wanted rate.
    Raises: DataError: no sound, a damaged one, one that never ends, NaN or infinite numbers, an impossible rate.
        MissingExtraError: a package that the file needs is not installed.
    """
    with _file(Path(sound)) if isinstance(sound, (str, Path)) else _array(sound, own_rate_hz) as opened:
        _check_rate(opened.rate_hz, opened.name)
        parts = list(resampled(_checked(opened), sample_rate_hz, opened.rate_hz))
    seconds = sum(map(len, parts)) / sample_rate_hz
    if not seconds:
        raise DataError(f"{opened.name} holds no sound: not a single sample")
    if opened.claimed_s is not None and opened.claimed_s > 1.01 * seconds + 1:
        warnings.warn(
            f"{opened.name} claims to last {opened.claimed_s:.1f} s and holds {seconds:.1f} s; it may be cut off",
            stacklevel=2,
        )
    return np.concatenate(parts)


def _check_rate(rate_hz: object, what: str) -> None:
    """Samples a second, within reason.

    Raises: DataError: they are not.
    """
    if isinstance(rate_hz, bool) or not isinstance(rate_hz, int) or not RATES_HZ[0] <= rate_hz <= RATES_HZ[1]:
        raise DataError(
            f"{what} has {shown(rate_hz)} samples a second; allowed: a whole number from {RATES_HZ[0]} to {RATES_HZ[1]}"
        )


def _checked(opened: _Opened) -> Iterator[Samples]:
    """The blocks as float32 [samples], until one is no sound or they last too long."""
    read = 0
    for block in opened.blocks:
        samples = np.asarray(block if block.ndim == 1 else block.mean(axis=1), dtype=np.float32)
        if not np.isfinite(samples).all():
            at = (read + int(np.isfinite(samples).argmin())) / opened.rate_hz
            raise DataError(f"{opened.name} is not a number, or infinite, at {at:.3f} s; it is damaged")
        read += len(samples)
        if read > MOST_SECONDS * opened.rate_hz:
            raise DataError(
                f"{opened.name} lasts more than {MOST_SECONDS // 3600} hours, the most that is read at once; "
                "cut it into parts"
            )
        yield samples


# ----------------------------------------------------------------------------------------------------------- arrays


@contextmanager
def _array(sound: Any, rate_hz: int | None) -> Iterator[_Opened]:
    samples = _samples_of(sound)
    if rate_hz is None:
        raise DataError(
            "samples alone do not say how fast they follow each other; give sample_rate_hz=…, or the sound's file"
        )
    blocks = (samples[at : at + BLOCK_NUMBERS] for at in range(0, len(samples), BLOCK_NUMBERS))
    yield _Opened("the sound", rate_hz, blocks)


def _samples_of(sound: Any) -> NDArray[Any]:
    """Samples as an array [samples] of floats or of one of the whole numbers whose full scale is known."""
    if isinstance(sound, Tensor):
        sound = (sound.float() if sound.is_floating_point() else sound).detach().cpu().numpy()
    samples = sound
    if not isinstance(samples, np.ndarray):
        raise DataError(
            f"a sound is {shown(sound)}; it must be a file, an array or a tensor of samples, or a list of these"
        )
    if samples.ndim != 1:
        raise DataError(
            f"a sound has shape {list(samples.shape)}; it must be [samples]: mix channels by x.mean(axis=…), and give "
            "several sounds as a list"
        )
    if samples.dtype.name in FULL_SCALE:
        return samples.astype(np.float64) / FULL_SCALE[samples.dtype.name]
    if samples.dtype.kind != "f":
        raise DataError(
            f"a sound is {samples.dtype}; it must be floats of which 1.0 is full loudness, or {' or '.join(FULL_SCALE)}"
        )
    return samples


# ------------------------------------------------------------------------------------------------------------ files


@contextmanager
def _file(path: Path) -> Iterator[_Opened]:
    """A file, by the first of the two packages that knows its format; closed at the end."""
    try:
        import soundfile
    except ImportError:
        raise MissingExtraError("soundfile", "audio", f"reading {path.name}") from None
    stream, _ = open_regular(path, DataError)
    with stream:
        try:
            file = soundfile.SoundFile(stream.fileno(), closefd=False)  # by number: no callbacks to Python
        except soundfile.LibsndfileError as refused:
            why = refused.error_string
        else:
            with file:
                known = 0 < file.frames < 1 << 62  # a stream says that it never ends
                claimed_s = file.frames / file.samplerate if known else None
                yield _Opened(str(path), file.samplerate, _soundfile_blocks(path, file), claimed_s)
                return
        stream.seek(0)
        with _file_by_av(path, stream, why) as opened:
            yield opened


def _soundfile_blocks(path: Path, file: Any) -> Iterator[NDArray[Any]]:
    import soundfile

    while True:
        try:
            block = file.read(max(1, BLOCK_NUMBERS // file.channels), dtype="float32", always_2d=True)
        except soundfile.LibsndfileError as damage:
            raise DataError(f"{path} is damaged: {damage.error_string}") from damage
        if not len(block):
            return
        yield block


@contextmanager
def _file_by_av(path: Path, stream: BinaryIO, refused: str) -> Iterator[_Opened]:
    try:
        import av
    except ImportError:
        raise MissingExtraError(
            "av", "audio", f"reading {path.name}, which soundfile does not know,"
        ) from None
    try:
        container = av.open(stream, options={"format_whitelist": CONTAINERS})
    except (av.FFmpegError, OSError, ValueError) as unknown:
        raise DataError(
            f"{path} is no sound that can be read, or damaged (soundfile: {refused} av: {reason(unknown)}); "
            "wav, flac, ogg, mp3, m4a and webm are read, among others"
        ) from unknown
    with container:
        if not container.streams.audio:
            kinds = ", ".join(stream.type for stream in container.streams) or "nothing"
            raise DataError(f"{path} holds no sound, only {kinds}")
        frames = _av_frames(path, container)
        first = next(frames, None)  # it knows its rate, of which the container may be wrong
        if first is None:
            raise DataError(f"{path} holds no sound: not a single sample")
        blocks = (frame.to_ndarray().T for frame in chain([first], frames))
        yield _Opened(str(path), first.sample_rate, blocks)


def _av_frames(path: Path, container: Any) -> Iterator[Any]:
    import av

    planes = av.AudioResampler(format="fltp")  # floats, a row a channel; the rate stays
    try:
        for frame in container.decode(audio=0):
            yield from planes.resample(frame)
    except (av.FFmpegError, OSError, ValueError) as damage:
        raise DataError(f"{path} is damaged: {reason(damage)}") from damage


# ------------------------------------------------------------------------------------------------------- resampling


def resampled(blocks: Iterable[Samples], wanted_hz: int, own_hz: int) -> Iterator[Samples]:
    """Blocks of a sound at another rate, as if the whole had been resampled at once.

        held   [ margin | piece | margin ]      the filter reaches less than a margin to either side;
        out             [ piece · up/down ]     margin and piece are whole numbers of `down`, so outputs stay in step

    Source: scipy.signal.resample_poly: a low-pass filter between `up` samples for each and every `down`-th of these.
    """
    if wanted_hz == own_hz:
        yield from blocks
        return
    try:
        from scipy.signal import resample_poly
    except ImportError:
        raise MissingExtraError(
            "scipy", "audio", f"sound at {own_hz} instead of {wanted_hz} samples a second"
        ) from None
    shared = math.gcd(wanted_hz, own_hz)
    up, down = wanted_hz // shared, own_hz // shared
    reach = 10 * max(up, down) // up + 1  # half of the filter, which has `up` steps a sample
    margin = _rounded_up(reach, down)
    piece = _rounded_up(max(BLOCK_NUMBERS, margin), down)
    held, before = np.zeros(0, np.float32), 0  # `before` of it is margin
    for block in blocks:
        held = np.concatenate([held, block])
        while len(held) >= before + piece + margin:
            out = resample_poly(held[: before + piece + margin], up, down)
            yield out[before * up // down : (before + piece) * up // down].astype(np.float32, copy=False)
            held, before = held[before + piece - margin :], margin
    if len(held):
        yield resample_poly(held, up, down)[before * up // down :].astype(np.float32, copy=False)


def _rounded_up(count: int, step: int) -> int:
    return -(-count // step) * step
