"""Recordings of rows: audio files in a folder, the bytes of such files (Parquet), or samples.

"clips/a.wav"                                    in the folder of the table, or the one that is named
{"bytes": b"RIFF…", "path": "a.wav"}             as Parquet files of the Hub and Hugging Face `datasets` hold it
{"array": [0.1, …], "sampling_rate": 16000}      samples, at any sample rate
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.audio.listening import SoundMark, note_name
from glassformer.audio.read import AudioInput, Samples, read_audio
from glassformer.errors import DataError
from glassformer.files import safe_repr
from glassformer.tasks.columns import listed
from glassformer.tasks.row_files import RowFiles
from glassformer.tasks.types import Dataset

FULL_SCALE = 32_768
"""Of 16-bit samples, as examples hold them."""


class RowSounds:
    """The recordings of rows, as mono samples at one sample rate.

    Args:
        rows: with their column of recordings
        folder: of the audio files; None = that of the table
        rate_hz: the target sample rate
    """

    def __init__(self, rows: Dataset, column: str, folder: str | None, rate_hz: int) -> None:
        self.files, self.rate_hz = RowFiles(rows, column, folder), rate_hz
        self._last: tuple[Path, Samples] | None = None  # rows that follow one another may be of one recording

    def read(self, index: int) -> Samples:
        """The samples of one row.

        Raises: DataError: no recording, a file outside the folder, or audio that cannot be read.
        """
        sound, own_rate_hz = self.source(index)
        if self._last is not None and self._last[0] == sound:
            return self._last[1]
        samples = read_audio(sound, self.rate_hz, own_rate_hz)
        self._last = (sound, samples) if isinstance(sound, Path) else None
        return samples

    def stretch(self, index: int, begin: float, end: float | None) -> Samples:
        """The samples of one row between two times, in seconds; None = all. Raises: as `read`."""
        first, last = round(begin * self.rate_hz), None if end is None else round(end * self.rate_hz)
        return self.read(index)[first:last]

    def source(self, index: int) -> tuple[AudioInput, int | None]:
        """The input, and the sample rate of samples."""
        value = self.files.value(index)
        source = self.files.source(index, value)
        if isinstance(source, (bytes, Path)):
            return source, None
        rate: Any = value.get("sampling_rate") if isinstance(value, Mapping) else None
        try:
            samples = np.asarray(listed(source), dtype=np.float32)
        except (TypeError, ValueError):
            samples = np.zeros((), dtype=np.float32)
        if samples.ndim != 1 or not isinstance(rate, int):
            raise DataError(
                f"{self.files.column!r} is {safe_repr(source)}; it must be the path of an audio file, its bytes, or "
                "samples: {'array': …, 'sampling_rate': …}"
            )
        return samples, rate


def to_int16(samples: Samples) -> np.ndarray:
    """Samples as 16-bit integers, clipped at full scale."""
    return (samples * FULL_SCALE).round().clip(-FULL_SCALE, FULL_SCALE - 1).astype(np.int16)


def to_float(samples: np.ndarray) -> Samples:
    """Samples of an example as floats, full scale 1.0; augmented ones are floats already."""
    floats: Samples = samples.astype(np.float32)
    return floats / np.float32(FULL_SCALE) if samples.dtype == np.int16 else floats


def sound_title(rows: Dataset, index: int, column: str = "file") -> str:
    """What a recording is called where it is listened to: its title, the name of its file, or where its row is."""
    value = rows[index].get(column)
    title, name = (value.get("title"), value.get("path")) if isinstance(value, Mapping) else (None, value)
    return title or (Path(name).name if isinstance(name, str) and name else rows.where(index))


def note_marks(row: Mapping[str, Any]) -> list[SoundMark]:
    """The notes of a row of a guitar, where it has some, on the axis of time."""
    notes = row.get("notes")
    return [
        SoundMark(note_name(note["midi"]), note["start_s"], note["start_s"] + note["seconds"], note["midi"])
        for note in (notes if isinstance(notes, list) else ())
        if isinstance(note, Mapping) and {"midi", "start_s", "seconds"} <= note.keys()
    ]
