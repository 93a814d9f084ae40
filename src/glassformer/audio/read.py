"""Read audio files and arrays: decode, mix to mono, resample to the model's sample rate.

    file ─ soundfile, or av for other formats ─ blocks [samples, channels] ─ mean ─ resample ─> [samples]

A file is decoded in blocks until it ends, whatever its header claims, so that RAM grows with the real content alone.
"""

from __future__ import annotations

import io
import math
import re
import struct
import warnings
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import DataError, import_optional
from glassformer.files import error_reason, is_int, open_regular_file, safe_repr

if TYPE_CHECKING:
    from torch import Tensor

Samples = NDArray[np.float32]
AudioInput: TypeAlias = "str | Path | bytes | NDArray[Any] | Tensor"
"""An audio file, its bytes, or samples [samples]."""

MAX_SECONDS = 4 * 3600
"""The longest audio that is read: 0.9 GB at 16 kHz."""
RATES_HZ = (1_000, 384_000)
"""Accepted sample rates; the resampling filter grows with the ratio of two rates."""
BLOCK_SAMPLES = 1 << 18
"""How many samples are read and resampled at a time."""
STREAM_BYTES = (1 << 31) - 4096
"""Writers that cannot know the size of a wav claim so much, or more."""
STREAM_FRAMES = 1 << 62
"""libsndfile counts more frames, where a header states no number."""
HEADER_BYTES, UNKNOWN_LENGTH = 1 << 16, b"\xff" * 4
"""Of a wav: how much is searched for its lengths, and what a stream has there."""
LARGEST_SAMPLE = float(1 << 31)
"""Larger samples are no sound, even of a writer that left integers as they were; their power overflows."""
FULL_SCALE = {"int16": 1 << 15, "int32": 1 << 31}
"""Integer sample formats, and the value that becomes 1.0, full scale."""
CONTAINERS = "mov,matroska,aac,mp3,asf,avi,flv,mpegts,mpeg,ogg,wav,aiff,caf,amr,flac"
"""Containers that av may open. Playlists are left out: they name further files and URLs."""

_KEEPS = "To save what can still be decoded: ffmpeg -i FILE repaired.wav"


@dataclass(frozen=True, slots=True)
class _AudioStream:
    """Opened audio: its blocks [samples] or [samples, channels], and the duration that its header claims.

    header_seconds: 0 = a header that was never finished; None = it does not state one
    """

    name: str
    rate_hz: int
    blocks: Iterator[NDArray[Any]]
    header_seconds: float | None = None


def read_audio(audio: AudioInput, sample_rate_hz: int, own_rate_hz: int | None = None, channels: int = 1) -> Samples:
    """Read one recording as mono samples, or as stereo.

    Args:
        audio: a file of any common format, its bytes, or samples [samples]: floats with full scale 1.0, int16, int32.
        sample_rate_hz: the target sample rate.
        own_rate_hz: the sample rate of an array; a file states its own.
        channels: 1 = the mean of all; 2 = stereo, of a mono recording the same twice. An array of stereo is [2,
            samples].
    Returns: float32 [samples] at the target rate, of stereo [samples, 2].
    Raises: DataError: not audio, damaged or endless audio, NaN or infinite samples, an impossible sample rate.
        MissingExtraError: a package that the file needs is not installed.
    """
    return np.concatenate(list(audio_blocks(audio, sample_rate_hz, own_rate_hz, channels)))


def audio_blocks(
    audio: AudioInput, sample_rate_hz: int, own_rate_hz: int | None = None, channels: int = 1
) -> Iterator[Samples]:
    """Read one recording block by block, in bounded memory; arguments and errors as in `read_audio`."""
    count = 0
    with _open(audio, own_rate_hz, channels) as source:
        _check_rate(source.rate_hz, source.name)
        for block in resample(_mixed_blocks(source, channels), sample_rate_hz, source.rate_hz):
            count += len(block)
            yield block
    seconds = count / sample_rate_hz
    if not seconds:
        raise DataError(f"{source.name} holds no audio: not a single sample")
    if source.header_seconds == 0:
        warnings.warn(
            f"{source.name}: its header claims no length, as that of a recording that was never finished; all "
            f"{seconds:.1f} s after it are read",
            stacklevel=2,
        )
    if source.header_seconds is not None and source.header_seconds > 1.01 * seconds + 1:
        warnings.warn(
            f"{source.name}: its header claims {source.header_seconds:.1f} s, and it holds {seconds:.1f} s; it may be "
            "truncated",
            stacklevel=2,
        )


def audio_seconds(file: Path) -> float:
    """How long a recording lasts, by its header; one without is decoded. Raises: as `read_audio`"""
    with _open_file(file) as source:
        if source.header_seconds:
            return source.header_seconds
        return sum(map(len, _mixed_blocks(source, 1))) / source.rate_hz


def _open(audio: AudioInput, own_rate_hz: int | None, channels: int) -> AbstractContextManager[_AudioStream]:
    if isinstance(audio, bytes):
        return _decode("the audio", io.BytesIO(audio))
    return _open_file(Path(audio)) if isinstance(audio, (str, Path)) else _open_array(audio, own_rate_hz, channels)


def _check_rate(rate_hz: object, what: str) -> None:
    """Check a sample rate.

    Raises: DataError: it is not an integer, or out of range.
    """
    if not is_int(rate_hz, RATES_HZ[0], RATES_HZ[1] + 1):
        raise DataError(
            f"{what} has the sample rate {safe_repr(rate_hz)} Hz; allowed: a whole number from {RATES_HZ[0]} to "
            f"{RATES_HZ[1]}"
        )


def _mixed_blocks(source: _AudioStream, channels: int) -> Iterator[Samples]:
    """The blocks as float32, mono [samples] or stereo [samples, 2].

    Raises: DataError: samples that are no sound, too long a recording, or more channels than stereo.
    """
    samples_read = 0
    for block in source.blocks:
        samples = np.asarray(_mixed(block, channels, source.name), dtype=np.float32)
        valid = np.abs(samples) <= LARGEST_SAMPLE  # False for NaN, too
        if not valid.all():
            first = int(valid.argmin())
            value = samples.flat[first]
            what = f"a sample of {value:g}" if np.isfinite(value) else "a NaN or infinite sample"
            at = (samples_read + first // channels) / source.rate_hz
            raise DataError(f"{source.name} has {what} at {at:.3f} s, where full scale is 1.0; it is damaged")
        samples_read += len(samples)
        if samples_read > MAX_SECONDS * source.rate_hz:
            raise DataError(f"{source.name} is longer than {MAX_SECONDS // 3600} hours, the limit; cut it into parts")
        yield samples


def _mixed(block: NDArray[Any], channels: int, name: str) -> NDArray[Any]:
    """A block [samples] or [samples, channels] with this many channels."""
    if channels == 1:
        return block if block.ndim == 1 else block.mean(axis=1)
    own = 1 if block.ndim == 1 else block.shape[1]
    if own not in (1, channels):
        raise DataError(f"{name} has {own} channels; this model reads stereo: mix it to {channels} channels, or to one")
    return block if own == channels else np.repeat(block.reshape(-1, 1), channels, axis=1)


# ----------------------------------------------------------------------------------------------------------- arrays


@contextmanager
def _open_array(audio: Any, rate_hz: int | None, channels: int) -> Iterator[_AudioStream]:
    samples = _samples_of(audio, channels)
    if rate_hz is None:
        raise DataError("an array does not state its sample rate; give sample_rate_hz=…, or the audio file")
    blocks = (samples[at : at + BLOCK_SAMPLES] for at in range(0, len(samples), BLOCK_SAMPLES))
    yield _AudioStream("the audio", rate_hz, blocks)


def _samples_of(audio: Any, channels: int) -> NDArray[Any]:
    """Samples as an array of floats [samples], of stereo [samples, 2]; full scale 1.0."""
    if hasattr(audio, "detach"):  # a tensor: data sets, which read audio too, do without torch
        audio = (audio.float() if audio.is_floating_point() else audio).detach().cpu().numpy()
    samples = audio
    if not isinstance(samples, np.ndarray):
        raise DataError(
            f"audio is {safe_repr(audio)}; it must be a file, an array or a tensor of samples, or a list of these"
        )
    if channels > 1 and samples.ndim == 2 and samples.shape[0] in (1, channels):
        samples = samples.T
    elif samples.ndim != 1:
        shape = "[samples]: mix channels by x.mean(axis=…)" if channels == 1 else f"[{channels}, samples], or [samples]"
        raise DataError(
            f"audio has shape {list(samples.shape)}; it must be {shape}, and give several recordings as a list"
        )
    if samples.dtype.name in FULL_SCALE:
        return samples.astype(np.float64) / FULL_SCALE[samples.dtype.name]
    if samples.dtype.kind != "f":
        raise DataError(
            f"audio has dtype {samples.dtype}; it must be floats with full scale 1.0, or {' or '.join(FULL_SCALE)}"
        )
    return samples


# ------------------------------------------------------------------------------------------------------------ files


@contextmanager
def _open_file(path: Path) -> Iterator[_AudioStream]:
    stream, _ = open_regular_file(path, DataError)
    with stream, _decode(str(path), stream) as source:
        yield source


@contextmanager
def _decode(name: str, stream: BinaryIO) -> Iterator[_AudioStream]:
    """Decode a file with the first of the two packages that knows its format."""
    soundfile = import_optional("soundfile", "soundfile", "audio", f"reading {Path(name).name}")
    # By descriptor where there is one: no callbacks into Python.
    given: Any = stream if isinstance(stream, io.BytesIO) else stream.fileno()
    try:
        file = soundfile.SoundFile(given, closefd=False)
        if file.frames == 0 and (lengths := _missing_lengths(stream)):
            file.close()
            with soundfile.SoundFile(_WithBytes(stream, lengths)) as file:
                yield _AudioStream(name, file.samplerate, _soundfile_blocks(name, file), 0.0)
                return
    except soundfile.LibsndfileError as problem:
        first_error = problem.error_string
    else:
        # libsndfile reads no FLAC of unknown length, as encoders write it to a pipe.
        if file.format != "FLAC" or file.frames < STREAM_FRAMES:
            with file:
                yield _AudioStream(name, file.samplerate, _soundfile_blocks(name, file), _claimed_seconds(file))
                return
        first_error = "unknown length"
    stream.seek(0)
    with _open_with_av(name, stream, first_error) as source:
        yield source


class _WithBytes(io.RawIOBase):
    """A file that reads with other bytes in a few places.

    Args:
        changes: offset → bytes
    """

    def __init__(self, stream: BinaryIO, changes: dict[int, bytes]) -> None:
        self._stream, self._changes = stream, changes
        stream.seek(0)

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        begin = self._stream.tell()
        data = bytearray(self._stream.read(len(view)))
        for offset, content in self._changes.items():
            for place, byte in enumerate(content, offset - begin):
                if 0 <= place < len(data):
                    data[place] = byte
        view[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()


def _missing_lengths(stream: BinaryIO) -> dict[int, bytes]:
    """The lengths that a header lacks, of a wav or au that was never finished: offset → bytes; none of other files."""
    stream.seek(0)
    head = stream.read(HEADER_BYTES)
    size = stream.seek(0, io.SEEK_END)
    if head[:4] == b".snd" and size > struct.unpack_from(">I", head, 4)[0]:
        return {8: UNKNOWN_LENGTH}
    if head[:4] not in (b"RIFF", b"RF64") or head[8:12] != b"WAVE":
        return {}
    finished = head[:4] == b"RIFF" and struct.unpack_from("<I", head, 4)[0] in (size - 8, size - 9)
    at, wide = 12, None
    while at + 8 <= len(head):
        kind, length = struct.unpack_from("<4sI", head, at)
        content = at + 8
        if kind == b"ds64":
            wide = content
        if kind == b"data":
            if finished and _are_chunks(stream, content, size):
                return {}  # it is as long as it says, and empty
            to_the_end = {4: UNKNOWN_LENGTH, at + 4: UNKNOWN_LENGTH}
            return to_the_end | ({} if wide is None else {wide: struct.pack("<QQQ", size - 8, size - content, 0)})
        at = content + length + length % 2
    return {}


def _are_chunks(stream: BinaryIO, start: int, end: int) -> bool:
    """Whether whole RIFF chunks fill a file from here to its end; samples do not."""
    while start < end:
        stream.seek(start)
        head = stream.read(8)
        if len(head) < 8 or not head[:4].isascii():
            return False
        length = struct.unpack_from("<I", head, 4)[0]
        start += 8 + length + length % 2
    return start in (end, end + 1)


def _claimed_seconds(file: Any) -> float | None:
    """The duration that a header claims; None where it does not know: a stream's."""
    if not 0 < file.frames < STREAM_FRAMES:
        return None
    # Of a wav that was cut off, libsndfile counts the frames that are there, and notes what its header says.
    cut = re.search(r"^data : (\d+) \(should be (\d+)\)", file.extra_info, re.MULTILINE)
    claimed, held = (int(cut[1]), int(cut[2])) if cut else (1, 1)
    more = claimed / held if 0 < held < claimed < STREAM_BYTES else 1.0
    return float(more * file.frames / file.samplerate)


def _soundfile_blocks(path: str, file: Any) -> Iterator[NDArray[Any]]:
    import soundfile

    while True:
        try:
            block = file.read(max(1, BLOCK_SAMPLES // file.channels), dtype="float32", always_2d=True)
        except soundfile.LibsndfileError as damage:
            raise DataError(f"{path} is damaged: {damage.error_string.removeprefix('Error : ')} {_KEEPS}") from damage
        if not len(block):
            return
        yield block


@contextmanager
def _open_with_av(path: str, stream: BinaryIO, first_error: str) -> Iterator[_AudioStream]:
    av = import_optional("av", "av", "audio", f"reading {Path(path).name}, whose format soundfile does not know,")
    try:
        container = av.open(stream, options={"format_whitelist": CONTAINERS})
    except (av.FFmpegError, OSError, ValueError) as unknown:
        raise DataError(
            f"{path} is not readable audio, or damaged (soundfile: {first_error} av: {error_reason(unknown)}); "
            "supported: wav, flac, ogg, mp3, m4a, webm and others"
        ) from unknown
    with container:
        if not container.streams.audio:
            kinds = ", ".join(stream.type for stream in container.streams) or "nothing"
            raise DataError(f"{path} holds no audio, only {kinds}")
        frames = _av_frames(path, container)
        first = next(frames, None)  # the sample rate of the container may be wrong, that of a frame is not
        if first is None:
            raise DataError(f"{path} holds no audio: not a single sample")
        blocks = (frame.to_ndarray().T for frame in chain([first], frames))
        yield _AudioStream(path, first.sample_rate, blocks)


def _av_frames(path: str, container: Any) -> Iterator[Any]:
    import av

    resampler = av.AudioResampler(format="fltp")  # planar floats, a row per channel; the sample rate stays
    try:
        for frame in container.decode(audio=0):
            yield from resampler.resample(frame)
    except (av.FFmpegError, OSError, ValueError) as damage:
        raise DataError(f"{path} is damaged: {error_reason(damage)}. {_KEEPS}") from damage


# ------------------------------------------------------------------------------------------------------- resampling


def resample(blocks: Iterable[Samples], target_hz: int, own_hz: int) -> Iterator[Samples]:
    """Resample blocks of audio to another sample rate, with the result of resampling all of it at once.

        buffer      [ margin | chunk | margin ]      the filter reaches less than a margin to either side;
        resampled            [ chunk · up/down ]     margin and chunk are multiples of `down`, so outputs stay aligned

    Source: scipy.signal.resample_poly: polyphase low-pass filtering, upsampling by `up` and downsampling by `down`.
    """
    if target_hz == own_hz:
        yield from blocks
        return
    purpose = f"resampling audio from {own_hz} to {target_hz} Hz"
    resample_poly = import_optional("scipy.signal", "scipy", "audio", purpose).resample_poly
    divisor = math.gcd(target_hz, own_hz)
    up, down = target_hz // divisor, own_hz // divisor
    reach = 10 * max(up, down) // up + 1  # half of the filter's length, in input samples
    margin = _round_up(reach, down)
    chunk = _round_up(max(BLOCK_SAMPLES, margin), down)
    buffer, margin_before = np.zeros(0, np.float32), 0  # how much of the buffer is the left margin
    for block in blocks:
        buffer = np.concatenate([buffer, block]) if len(buffer) else block
        while len(buffer) >= margin_before + chunk + margin:
            resampled = resample_poly(buffer[: margin_before + chunk + margin], up, down)
            first, last = margin_before * up // down, (margin_before + chunk) * up // down
            yield resampled[first:last].astype(np.float32, copy=False)
            buffer, margin_before = buffer[margin_before + chunk - margin :], margin
    if len(buffer):
        yield resample_poly(buffer, up, down)[margin_before * up // down :].astype(np.float32, copy=False)


def _round_up(count: int, step: int) -> int:
    return -(-count // step) * step
