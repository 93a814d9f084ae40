"""Sounds to be compared by ear and eye: several to an example, with codes and marks on one axis of time.

    SoundExample("Em", sounds=[Sound("before", dry, 16_000), Sound("after", wet, 16_000, marks=[…])])

A page shows them (explorer/listening_page.py), a folder of wav files holds them (`write_sounds`).
"""

from __future__ import annotations

import io
import re
import wave
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from glassformer.errors import DataError
from glassformer.files import error_reason, safe_repr
from glassformer.files.atomic import atomic_file
from glassformer.reports.report import Record

RATES_HZ = (8_000, 96_000)
"""Sample rates that every browser plays."""
FULL_SCALE = 32_767  # the largest sample of 16 bits, that of 1.0
NOTE_NAMES = "C C# D D# E F F# G G# A A# B".split()


def note_name(midi: int) -> str:
    """`E2` for 40."""
    return f"{NOTE_NAMES[midi % 12]}{midi // 12 - 1}"


@dataclass(frozen=True, slots=True)
class SoundMark:
    """A label on the axis of time: a moment, or a span where `end_s` is given; a note where `pitch` is.

    pitch: MIDI number, by which notes are higher or lower
    """

    label: str
    start_s: float
    end_s: float | None = None
    pitch: int | None = None


@dataclass(frozen=True, eq=False)
class AttentionOverTime:
    """Attention of a model's heads over the time of a sound: at each moment, where in time a head looks.

    heads: what each is called
    probs: probabilities [H, rows, columns], evenly in time
    frame_rate_hz: rows and columns a second
    opening: the head that is shown first
    sentence: what it does, in words

    Raises: DataError: another shape, or numbers that are no probabilities.
    """

    heads: Sequence[str]
    probs: NDArray[Any] | Tensor
    frame_rate_hz: float
    opening: int = 0
    sentence: str = ""

    def __post_init__(self) -> None:
        probs = _array(self.probs)
        if probs.ndim != 3 or not probs.size or len(probs) != len(self.heads):
            raise DataError(
                f"attention has the shape {list(probs.shape)} for {len(self.heads)} heads; it must be "
                "[heads, rows, columns]"
            )
        if not (probs.min() >= 0.0 and probs.max() <= 1.0):  # NaN is neither
            raise DataError("attention has numbers that are no probabilities, from 0 to 1")
        object.__setattr__(self, "probs", probs.astype(np.float32, copy=False))


@dataclass(frozen=True, eq=False)
class Sound(Record, keys=("name", "seconds", "sample_rate_hz", "codes", "frame_rate_hz")):
    """A sound, with the notes and codes that are drawn next to it.

    name: short, such as "before"
    samples: floats of full scale 1, more is clipped. [samples]
    codes: of a codec; the same number in a row is the same code. [K, T]
    frame_rate_hz: frames of them a second
    shades: of each code of each codebook, from 0 to 1, identical where codes are [K, entries]; None = by their numbers
    marks: notes, spans, moments
    about: half a line
    attention: of a model that reads or writes the sound

    Raises: DataError: no samples, NaN, a rate that browsers do not play, or codes of another shape or without a rate.
    """

    name: str
    samples: NDArray[Any] | Tensor
    sample_rate_hz: int
    _: KW_ONLY
    codes: NDArray[Any] | Tensor | None = None
    frame_rate_hz: float | None = None
    shades: NDArray[Any] | Tensor | None = None
    marks: Sequence[SoundMark] = ()
    about: str = ""
    attention: AttentionOverTime | None = None

    def __post_init__(self) -> None:
        samples = _array(self.samples)
        if samples.ndim != 1 or not samples.size or samples.dtype.kind != "f":
            shape = f"{samples.dtype} of shape {list(samples.shape)}"
            raise DataError(f"the sound {self.name!r} is {shape}; it must be floats [samples], one at least")
        if not np.isfinite(samples).all():
            raise DataError(f"the sound {self.name!r} has NaN or infinite samples")
        low, high = RATES_HZ
        if type(self.sample_rate_hz) is not int or not low <= self.sample_rate_hz <= high:
            raise DataError(
                f"the sound {self.name!r} has the sample rate {safe_repr(self.sample_rate_hz)} Hz; browsers play "
                f"{low} to {high}: resample it"
            )
        object.__setattr__(self, "samples", samples.astype(np.float32, copy=False))
        if self.codes is not None:
            object.__setattr__(self, "codes", self._checked_codes())

    def _checked_codes(self) -> NDArray[np.int64]:
        codes = _array(self.codes)
        if codes.ndim != 2 or not codes.size or codes.dtype.kind not in "iu" or codes.min() < 0:
            shape = f"{codes.dtype} of shape {list(codes.shape)}"
            raise DataError(f"codes of the sound {self.name!r} are {shape}; they must be numbers from 0 up, [K, T]")
        if self.frame_rate_hz is None or not 0.0 < self.frame_rate_hz <= self.sample_rate_hz:
            raise DataError(f"codes of the sound {self.name!r} need their frame_rate_hz; got {self.frame_rate_hz!r}")
        if self.shades is not None:
            shades = _array(self.shades)
            if shades.ndim != 2 or len(shades) < len(codes) or shades.shape[1] <= codes.max():
                raise DataError(
                    f"shades of the sound {self.name!r} are {list(shades.shape)}; they must be [K, entries]"
                )
        return codes.astype(np.int64)

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.sample_rate_hz

    def wav(self) -> bytes:
        """A wav file of 16 bits."""
        stream = io.BytesIO()
        with wave.open(stream, "wb") as file:
            file.setparams((1, 2, self.sample_rate_hz, 0, "NONE", "not compressed"))
            file.writeframes((np.clip(self.samples, -1.0, 1.0) * FULL_SCALE).round().astype("<i2").tobytes())
        return stream.getvalue()


@dataclass(frozen=True, eq=False)
class SoundExample(Record, keys=("title", "facts", "sounds")):
    """Sounds on one axis of time, to be heard in turn: before and after, original and decoded.

    title: heading of the example
    sounds: what is compared, on the same axis
    about: a sentence or two
    facts: what was measured, or named; name → value as it is shown
    """

    title: str
    sounds: Sequence[Sound]
    about: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.sounds:
            raise DataError(f"the example {self.title!r} has no sounds")


def write_sounds(examples: Iterable[SoundExample], folder: Path) -> Iterator[Path]:
    """Write the sounds as wav files, `01-em-before.wav`; gives the path of each.

    Raises: DataError: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number, example in enumerate(examples, start=1):
            for sound in example.sounds:
                path = folder / f"{number:02}-{_slug(example.title)}-{_slug(sound.name)}.wav"
                with atomic_file(path) as file:
                    file.write(sound.wav())
                yield path
    except OSError as problem:
        raise DataError(f"{folder}: cannot be written: {error_reason(problem)}") from problem


def _slug(text: str) -> str:
    """A text as a part of a file name: letters, digits, hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40] or "sound"


def _array(values: Any) -> NDArray[Any]:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
