"""Clean speech data outside a training: which rows of a table of recordings are kept, and why others are not.

    table ─ recordings, transcripts ─ quality filters, languages ─ outliers ─> rows that are kept, and a report

The filters are those of a training (quality.py, language.py). An outlier is a recording whose duration, or characters a
second, is far from the median of all: z = |ln x - median| / (1.4826 · MAD), with the median absolute deviation of ln x.

Source: Radford et al. 2022, section 2.1; robust z: Iglewicz and Hoaglin 1993, "How to detect and handle outliers".
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.data.options import ReadingOptions
from glassformer.data.rows import RowSequence, output_format, read_rows, write_rows
from glassformer.errors import ConfigError, DataError
from glassformer.files.atomic import disk_errors, write_text
from glassformer.model import load
from glassformer.progress import Bar, no_bar
from glassformer.reports.report import Report
from glassformer.reports.table import Table
from glassformer.tasks.columns import check_columns, columns_of
from glassformer.tasks.transcribe.clean_options import CleanOptions
from glassformer.tasks.transcribe.language import LanguageFilter, TextLanguageFilter
from glassformer.tasks.transcribe.passages import AudioPassage, late_segment, passages
from glassformer.tasks.transcribe.quality import DroppedRow, QualityFilters
from glassformer.tasks.transcribe.sounds import RowSounds
from glassformer.tasks.transcribe.task import Transcribe

RATE_HZ = 16_000  # the rate at which recordings are measured: that of speech models
LEAST_ROWS = 30
"""Among fewer rows none is an outlier."""

CLEANING = QualityFilters(mixed_case=True, speechless=0.1, skip_unreadable=True)
"""The filters of a cleaning, where a caller names no others: stricter than those of a training."""


@dataclass(frozen=True, kw_only=True, repr=False)
class SpeechCleaning(
    Report,
    kind="speech-cleaning",
    keys=("rows", "seconds", "selected", "selected_seconds", "reasons", "dropped", "notes"),
):
    """Which rows are kept, and which are not, with their file and line.

    rows, seconds: of the table, as far as its recordings can be read
    selected, selected_seconds: the numbers of the rows that are kept, from 0, and their seconds
    """

    rows: int
    seconds: float
    selected: tuple[int, ...]
    selected_seconds: float
    dropped: tuple[DroppedRow, ...]
    notes: tuple[str, ...] = ()

    @property
    def reasons(self) -> dict[str, int]:
        """How many rows are dropped for each reason, the most frequent first."""
        return dict(Counter(row.reason for row in self.dropped).most_common())

    @property
    def caption(self) -> str:
        hours = f"{self.selected_seconds / 3600:.2f} of {self.seconds / 3600:.2f} hours"
        return f"{len(self.selected):,} of {self.rows:,} rows are kept, {hours}"

    def tables(self) -> list[Table]:
        first = {row.reason: row for row in reversed(self.dropped)}
        rows = [
            [reason, f"{count:,}", f"{first[reason].where}{': ' * bool(first[reason].figure)}{first[reason].figure}"]
            for reason, count in self.reasons.items()
        ]
        return [Table(["dropped because", "rows", "the first"], rows, longest=200)] if rows else []


class SpeechCleaner:
    """Cleans tables of recordings.

    Args:
        columns: role → column, as of the task `transcribe`
        folder: of the audio files; None = that of the table
        filters: limits of a row by itself
        language: of the recordings and their transcripts; None = any
        outliers: how many robust standard deviations from the median are too far; None = no row is an outlier
    Raises: ConfigError: a limit that cannot be, or a language that is not known. MissingExtraError: see
        `TextLanguageFilter`.
    """

    def __init__(
        self,
        *,
        columns: Mapping[str, str] | None = None,
        folder: str | None = None,
        filters: QualityFilters = CLEANING,
        language: str | None = None,
        outliers: float | None = 6.0,
    ) -> None:
        roles = {role: name for role, name in Transcribe.COLUMNS.items() if role != "segments"}
        self.columns, self.folder, self.filters = columns_of(roles, columns), folder, filters
        if outliers is not None and not outliers > 0:
            raise ConfigError(f"outliers is {outliers}; it must be a number above 0, or null")
        self.language, self.outliers = language, outliers
        needed = filters.min_language_probability is not None or filters.min_text_language_probability is not None
        if needed and language is None:
            raise ConfigError("a probability of the language needs the language: language='uk'")
        self._text = self._sound = None
        if language is not None and (least := filters.min_text_language_probability) is not None:
            self._text = TextLanguageFilter(language, least)
        if language is not None and (least := filters.min_language_probability) is not None:
            if filters.language_model is None:
                raise ConfigError("min_language_probability needs a multilingual Whisper: language_model=")
            model = load(filters.language_model, task=Transcribe.HEAD)
            self._sound = LanguageFilter(model, language, least)

    def clean(self, rows: RowSequence, progress: Callable[[int], None] | None = None) -> SpeechCleaning:
        """Which rows are kept.

        Args:
            progress: called with how many more rows are read

        Raises: DataError: no such column, or a row without a text, with its file and line; an unreadable recording,
            where the filters do not skip it.
        """
        check_columns(rows, {role: self.columns[role] for role in ("audio", "text")})
        sounds, dropped = RowSounds(rows, self.columns["audio"], self.folder, RATE_HZ), dict[int, tuple[str, str]]()
        measured: dict[int, tuple[float, float]] = {}  # seconds, and characters a second, of rows that can be read
        for passage in passages(rows, self.columns):
            try:
                samples = sounds.stretch(passage.index, passage.begin, passage.end)
            except DataError as error:
                if not self.filters.skip_unreadable:
                    raise DataError(f"{rows.where(passage.index)}: {error}") from error
                dropped[passage.index] = "unreadable", str(error)
            else:
                seconds = len(samples) / RATE_HZ
                measured[passage.index] = seconds, len(passage.text.strip()) / max(seconds, 1e-9)
                if (problem := self._problem(samples, passage)) is not None:
                    dropped[passage.index] = problem
            if progress is not None:
                progress(1)
        left = {index: numbers for index, numbers in measured.items() if index not in dropped}
        dropped |= dict(self._outliers(left))
        selected = tuple(index for index in left if index not in dropped)
        return SpeechCleaning(
            rows=len(rows),
            seconds=sum(seconds for seconds, _ in measured.values()),
            selected=selected,
            selected_seconds=sum(measured[index][0] for index in selected),
            dropped=tuple(DroppedRow(rows.where(index), *dropped[index]) for index in sorted(dropped)),
            notes=tuple(self._notes(len(rows), dropped)),
        )

    def _problem(self, samples: np.ndarray, passage: AudioPassage) -> tuple[str, str] | None:
        """Why a row is dropped by itself; None = it is not."""
        problem = late_segment(passage, len(samples) / RATE_HZ)
        problem = problem or self.filters.problem(samples, RATE_HZ, passage.text, passage.index)
        if problem is None and self._text is not None:
            problem = self._text.problem(passage.text)
        if problem is None and self._sound is not None and passage.text.strip():
            problem = self._sound.problem(samples, RATE_HZ)
        return problem

    def _outliers(self, measured: Mapping[int, tuple[float, float]]) -> Iterator[tuple[int, tuple[str, str]]]:
        """The rows that are far from the median, by duration or by characters a second."""
        for column, what, unit in ((0, "duration", "s"), (1, "characters a second", "")):
            values = {index: numbers[column] for index, numbers in measured.items() if numbers[column] > 0}
            for index in outlying(values, self.outliers):
                typical = float(np.median(list(values.values())))
                yield index, (f"{what} far from the median", f"{values[index]:.1f} {unit}, median {typical:.1f}")

    def _notes(self, rows: int, dropped: Mapping[int, tuple[str, str]]) -> Iterator[str]:
        one_case = sum(reason in ("capitals alone", "no capitals") for reason, _ in dropped.values())
        if 2 * one_case > rows:
            yield (
                f"{one_case:,} of {rows:,} transcripts are in capitals or small letters alone: where people wrote them "
                "so, keep them (mixed_case=False, --one-case)"
            )
        if self.language is None:
            yield "languages were not compared: name that of the recordings (language=, --language)"


def outlying(values: Mapping[int, float], limit: float | None) -> list[int]:
    """The keys of numbers above 0 that are more than `limit` robust standard deviations of their logarithms away."""
    if limit is None or len(values) < LEAST_ROWS:
        return []
    logs = np.log(np.array(list(values.values())))
    distance = np.abs(logs - np.median(logs))
    deviation = 1.4826 * float(np.median(distance))
    if not deviation:
        return []  # most are the same: nothing says how far others may be
    return [key for key, far in zip(values, distance / deviation > limit, strict=True) if far]


class CleanedTable:
    """The table that the rows which are kept are written to; its paths of recordings are from its own folder on.

    Raises: DataError: the file exists, or the first recording is not below its folder. ConfigError: an unknown
        extension. All before anything is cleaned.
    """

    def __init__(self, path: Path, rows: RowSequence, *, column: str, folder: str | None = None) -> None:
        self.path, self.rows, self.column = path, rows, column
        self._sounds = RowSounds(rows, column, folder, RATE_HZ)
        output_format(path)
        if path.exists():
            raise DataError(f"{path}: already exists; move it away, or name another file")
        if len(rows):
            self._row(0)

    def write(self, selected: Sequence[int]) -> None:
        """Write these rows. Raises: DataError: as above, and a file that cannot be written."""
        write_rows(self.path, map(self._row, selected), self.rows.columns)

    def _row(self, index: int) -> dict[str, Any]:
        sound, _ = self._sounds.source(index)
        row = dict(self.rows[index])
        if isinstance(sound, Path):
            name = Path(os.path.relpath(sound.resolve(), self.path.parent.resolve()))
            if ".." in name.parts:
                raise DataError(f"{self.path}: {sound} is not below its folder; write the table next to the recordings")
            row[self.column] = name.as_posix()
        return row


def clean_table(
    table: str, options: CleanOptions, bar: Bar = no_bar, *, reading: ReadingOptions | None = None
) -> SpeechCleaning:
    """Clean a table of recordings, or an audio folder; write the rows that are kept, and the others, to files.

    Args:
        bar: shows progress, such as `glassformer.progress.progress_bar`
    Raises: as `SpeechCleaner`, its `clean`, and `CleanedTable`.
    """
    filters = QualityFilters(
        min_seconds=options.min_seconds,
        max_seconds=options.max_seconds,
        max_characters_per_second=options.max_rate,
        mixed_case=not options.one_case,
        speechless=options.speechless,
        min_text_language_probability=None if options.language is None else 0.1,
        min_language_probability=None if options.language_model is None else 0.5,
        language_model=options.language_model,
        skip_unreadable=True,
    )
    cleaner = SpeechCleaner(
        columns=options.columns,
        folder=options.folder,
        filters=filters,
        language=options.language,
        outliers=options.outliers,
    )
    rows, output = read_rows(table, **(reading or ReadingOptions()).keywords()), None
    if options.output is not None:
        output = CleanedTable(options.output, rows, column=cleaner.columns["audio"], folder=options.folder)
    with bar("reading recordings", len(rows)) as advance:
        result = cleaner.clean(rows, advance)
    if output is not None:
        output.write(result.selected)
    if options.dropped is not None:
        lines = (json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in result.dropped)
        with disk_errors(options.dropped, DataError):
            write_text(options.dropped, "".join(lines))
    return result
