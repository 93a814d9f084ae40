"""Quality filters of speech data: recordings that teach nothing, or the wrong thing, are left out, with a report.

shorter or longer than …     a file cut short; more than the model hears at once
too fast                     a transcript that is longer than anybody speaks: it belongs to another recording
silent                       no speech
no transcript                an empty text; of recordings without speech a share may be kept (`speechless`)
capitals alone, or none      a transcript that a machine has written, where people write both
does not fit                 more tokens than are written, or more letters than there are frames
another language             as a multilingual Whisper hears it, or as the transcript is written (language.py)
times that are wrong         a segment that ends after the recording
"""

from __future__ import annotations

import json
import math
import warnings
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from glassformer.audio.read import Samples
from glassformer.data.order import example_generator
from glassformer.errors import ConfigError, DataError
from glassformer.files.atomic import atomic_file

LEVEL_SECONDS = 0.1
"""The level of a recording is that of its loudest stretch of so long."""


@dataclass(frozen=True, kw_only=True)
class QualityFilters:
    """Limits of recordings that are learnt from; None = none.

    min_seconds, max_seconds: duration; a model that hears windows has its window as the largest one
    max_characters_per_second: of the transcript
    mixed_case: leave out transcripts in capitals or small letters alone: machines write so, people
        write both
    speechless: share of the recordings without a transcript that are kept, drawn by the number of the row: a few
        teach what silence and noise are, many teach to write nothing
    min_level_db: of the loudest 0.1 s, in dB below full scale: less is silence
    min_language_probability: of the run's language, as a multilingual Whisper hears it; 0.5 leaves others out
    min_text_language_probability: of the run's language, by the transcript's letters; 0.1 leaves others out
    language_model: name or folder of this Whisper; None = the model that learns
    skip_unreadable: leave out files that cannot be read, in the place of an error
    """

    min_seconds: float = 0.1
    max_seconds: float | None = 30.0
    max_characters_per_second: float | None = 40.0
    mixed_case: bool = False
    speechless: float = 0.0
    min_level_db: float | None = -60.0
    min_language_probability: float | None = None
    min_text_language_probability: float | None = None
    language_model: str | None = None
    skip_unreadable: bool = False

    def __post_init__(self) -> None:
        for name in ("min_seconds", "max_seconds", "max_characters_per_second"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise ConfigError(f"filters.{name} is {value}; it must be a number from 0 up, or null for no limit")

        for name in ("min_language_probability", "min_text_language_probability", "speechless"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                nothing = "" if name == "speechless" else ", or null"
                raise ConfigError(f"filters.{name} is {value}; it must be a number from 0 to 1{nothing}")
        if self.language_model is not None and self.min_language_probability is None:
            raise ConfigError("filters.language_model says which language it hears; give min_language_probability too")

    def problem(self, samples: Samples, rate_hz: int, text: str, index: int = 0) -> tuple[str, str] | None:
        """Why a recording is left out: a reason, and its figure; None = it is kept.

        Args:
            index: of its row
        """
        seconds, speechless = len(samples) / rate_hz, not text.strip()
        if speechless and example_generator(0, 0, index).random() >= self.speechless:
            return ("without speech, more than are kept" if self.speechless else "no transcript"), ""
        if self.mixed_case and (text.isupper() or text.islower()):
            return "capitals alone" if text.isupper() else "no capitals", ""
        if not len(samples) or seconds < self.min_seconds:
            return f"shorter than {self.min_seconds:g} s", f"{seconds:.2f} s"
        if self.max_seconds is not None and seconds > self.max_seconds:
            return f"longer than {self.max_seconds:g} s", f"{seconds:.1f} s"
        rate = len(text.strip()) / seconds
        if self.max_characters_per_second is not None and rate > self.max_characters_per_second:
            return f"more than {self.max_characters_per_second:g} characters a second", f"{rate:.0f}"
        if (
            self.min_level_db is not None
            and not speechless
            and (level := level_db(samples, rate_hz)) < self.min_level_db
        ):
            return f"silence, below {self.min_level_db:g} dB", f"{level:.0f} dB"
        return None


def level_db(samples: Samples, rate_hz: int) -> float:
    """The level of the loudest 0.1 s, in dB relative to full scale; -inf for digital silence."""
    size = max(1, min(len(samples), round(LEVEL_SECONDS * rate_hz)))
    stretches = samples[: len(samples) // size * size].reshape(-1, size)
    power = float(np.square(stretches, dtype=np.float64).mean(1).max())
    return 10 * math.log10(power) if power else -math.inf


@dataclass(frozen=True)
class DroppedRow:
    """A row that was left out: its file and line, the reason, and the figure that decided."""

    where: str
    reason: str
    figure: str = ""


@dataclass
class QualityReport:
    """How many rows are used, and which were left out and why."""

    used: int
    dropped: list[DroppedRow]

    def __str__(self) -> str:
        """One line: how many for each reason, the first of each by its place."""
        counts = Counter(row.reason for row in self.dropped)
        first = {row.reason: row for row in reversed(self.dropped)}
        parts = (
            f"{count:,} {reason} ({first[reason].where}{': ' * bool(first[reason].figure)}{first[reason].figure})"
            for reason, count in counts.most_common()
        )
        total = self.used + len(self.dropped)
        return f"{len(self.dropped):,} of {total:,} recordings were left out: {'; '.join(parts)}"

    def tell(self) -> None:
        """Warn of what was left out. Raises: DataError: nothing is left."""
        if self.dropped and not self.used:
            raise DataError(f"no recording is left to learn from: {self}")
        if self.dropped:
            warnings.warn(str(self), stacklevel=3)

    def save(self, path: Path) -> None:
        """Write every row that was left out, as JSON Lines."""
        with atomic_file(path) as stream:
            for row in self.dropped:
                stream.write(json.dumps(asdict(row), ensure_ascii=False).encode("utf-8", "replace") + b"\n")
