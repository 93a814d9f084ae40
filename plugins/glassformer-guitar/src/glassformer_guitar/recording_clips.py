"""Clips of recordings: windows of them, each behind pedals drawn by their probabilities, as of a synthetic guitar.

    recordings  [ c.wav | a.wav          | d.wav | b.wav ]   one after the other, by a hash of their names
    part        [ train                      80% | test ]
    clips       [ 0 | 1 | 2 | 3 | …              ]           each is a window that begins in its share of the time

So every second of a recording is as probable as any other, and none is in both parts. Clips that follow one another are
of one recording, which stays in memory.
"""

from __future__ import annotations

import warnings
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from glassformer.audio.read import Samples, audio_seconds, read_audio
from glassformer.data.sequence import ColumnNames, Row, sha256_of
from glassformer.errors import DataError
from glassformer.files import error_reason
from glassformer_guitar.clips import LEVELS, ClipRows, GuitarOptions
from glassformer_guitar.pedals import apply_pedals, draw_chain, full_scale

TEST_SHARE = 0.2
"""Of the time of all recordings, in the part "test"."""
SILENCE = 0.01
"""A window with a lower peak, as a share of its recording's, is drawn again."""
DRAWS = 8
"""How often at most in its share of the time, and then anywhere."""
SHORTEST_S = 0.1
"""Of the recordings of a part, together."""


class Stretch(NamedTuple):
    """A stretch of a recording, in seconds: all of it, or what of it is in one part.

    row: of the recording
    """

    row: Row
    begin: float
    end: float


class DecodedRecording(NamedTuple):
    """A recording that was read: its samples at the sample rate of the clips, and the largest of them."""

    file: str
    samples: Samples
    peak: float


class RecordingClips(ClipRows):
    """Clips of recordings as rows.

    A window has a peak of 1 before its pedals; one that is longer than its recording ends in silence.
    Args:
        recordings: rows with `file`, and `pedals` and `notes` where they are known
    Raises: DataError: a recording that is no audio, none that is dry, or none in the part; silence alone.
    """

    def __init__(
        self, recordings: Sequence[Row], options: GuitarOptions, name: str, columns: ColumnNames = None
    ) -> None:
        adds_pedals = any((options.pedals or {}).values())
        usable = [row for row in recordings if not (adds_pedals and row.get("pedals"))]
        if len(usable) < len(recordings):
            warnings.warn(
                f"{name}: {len(recordings) - len(usable):,} of {len(recordings):,} recordings went through pedals "
                "already; clips are made of the dry ones",
                stacklevel=4,
            )
        if not usable:
            raise DataError(f"{name}: all recordings went through pedals already; clips with pedals need dry ones")
        self._stretches = list(part_of(sorted(usable, key=_name_hash), options.part))
        self._ends = list(accumulate(stretch.end - stretch.begin for stretch in self._stretches))
        self._check_length(name, options)
        self._last: DecodedRecording | None = None
        super().__init__(options, name, columns)
        self.fingerprint = sha256_of(options.fingerprint().encode(), *(_identity(row) for row in usable))

    def _check_length(self, name: str, options: GuitarOptions) -> None:
        """Refuse a part that holds nothing to hear, and warn of one that is shorter than a clip."""
        held = self._ends[-1] if self._ends else 0.0
        what = f"{name}: its recordings" + (
            "" if options.part == "all" else f", of which this is the part {options.part}"
        )
        if held < SHORTEST_S:
            raise DataError(f"{what}, last {held:.3g} s; needed are {SHORTEST_S} s and more")
        if held < options.seconds:
            warnings.warn(
                f"{what}, last {held:.3g} s, and a clip {options.seconds:g} s: the rest of each is silence",
                stacklevel=5,
            )

    def recipe(self, index: int) -> dict[str, Any]:
        """What a clip is made of: which window of which recording, its notes, the pedals with their settings."""
        options = self.options
        draw = np.random.default_rng([options.seed, index])
        chain = draw_chain(options.pedals or {}, draw)
        level = float(draw.uniform(*LEVELS))
        for number in range(2 * DRAWS):
            # In its share of the time; if all of that is silent, anywhere.
            share = (index + draw.random()) / options.clips if number < DRAWS else draw.random()
            stretch, start = self._place(share * self._ends[-1])
            recipe = {
                "title": f"{Path(stretch.row['file']).name}, {start:.1f} s",
                "recording": stretch.row["file"],
                "start_s": start,
                "end_s": min(start + options.seconds, stretch.end),
                "seconds": options.seconds,
                "sample_rate_hz": options.sample_rate_hz,
                "level": level,
                "notes": list(_notes_between(stretch.row.get("notes") or (), start, options.seconds)),
                "pedals": chain,
            }
            if _peak(self._window(recipe)) > SILENCE * self._recording(stretch.row["file"]).peak:
                break
        else:
            if self._recording(recipe["recording"]).peak == 0.0:
                raise DataError(f"{recipe['recording']}: is silent throughout; clips need something to hear")
        return {**recipe, "through": list(stretch.row.get("pedals") or ())}

    def sound(self, recipe: Mapping[str, Any]) -> Samples:
        wet = apply_pedals(full_scale(self._window(recipe)), self.options.sample_rate_hz, recipe["pedals"])
        samples: Samples = (recipe["level"] * full_scale(wet)).astype(np.float32)
        return samples

    def _place(self, at: float) -> tuple[Stretch, float]:
        """The stretch at a time of all, and where in its recording a window begins, in seconds."""
        number = min(bisect_right(self._ends, at), len(self._ends) - 1)
        stretch = self._stretches[number]
        start = stretch.end - (self._ends[number] - at)
        return stretch, float(max(min(start, stretch.end - self.options.seconds), stretch.begin))

    def _window(self, recipe: Mapping[str, Any]) -> np.ndarray:
        """The samples of a window, with silence behind the end of the recording. [samples] float64"""
        rate, samples = self.options.sample_rate_hz, self._recording(recipe["recording"]).samples
        window = np.zeros(round(self.options.seconds * rate))
        held = samples[round(recipe["start_s"] * rate) : round(recipe["end_s"] * rate)][: len(window)]
        window[: len(held)] = held
        return window

    def _recording(self, file: str) -> DecodedRecording:
        if self._last is None or self._last.file != file:
            samples = read_audio(file, self.options.sample_rate_hz)
            self._last = DecodedRecording(file, samples, _peak(samples))
        return self._last


def part_of(recordings: Sequence[Row], part: str) -> Iterator[Stretch]:
    """The stretches of recordings that are in a part: of the time of all, the first 80% or the rest."""
    lengths = [audio_seconds(Path(row["file"])) for row in recordings]
    border = (1.0 - TEST_SHARE) * sum(lengths)
    low, high = {"all": (0.0, sum(lengths)), "train": (0.0, border), "test": (border, sum(lengths))}[part]
    now = 0.0
    for row, length in zip(recordings, lengths, strict=True):
        begin, end = max(low - now, 0.0), min(high - now, length)
        if end > begin:
            yield Stretch(row, begin, end)
        now += length


def _notes_between(notes: Sequence[Mapping[str, Any]], start: float, seconds: float) -> Iterator[dict[str, Any]]:
    """The notes that sound in a window, on its axis of time."""
    for note in notes:
        begin, end = max(note["start_s"] - start, 0.0), min(note["start_s"] + note["seconds"] - start, seconds)
        if end > begin:
            yield {**note, "start_s": begin, "seconds": end - begin}


def _peak(samples: np.ndarray) -> float:
    return float(np.abs(samples).max(initial=0.0))


def _name_hash(row: Row) -> tuple[int, str]:
    return zlib.crc32(Path(row["file"]).name.encode("utf-8", "surrogateescape")), row["file"]


def _identity(row: Row) -> bytes:
    """What tells one version of a recording from another: its name, size and time."""
    try:
        status = Path(row["file"]).stat()
    except OSError as problem:
        raise DataError(f"{row['file']}: {error_reason(problem)}") from problem
    return f"{Path(row['file']).name} {status.st_size} {status.st_mtime_ns} {row.get('pedals')}".encode()
