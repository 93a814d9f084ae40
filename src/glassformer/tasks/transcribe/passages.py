"""Rows with times: segments of speech, which the decoder learns as timestamps.

    row with a column of segments      one recording, and all of its segments       [{start, end, text}, …]
    rows with start and end            one segment each, of a longer recording: neighbours make one passage

    lecture.mp3   0.0   3.1  Good morning.    ┐
    lecture.mp3   3.4   8.0  Today we …       ┘ one passage of 8 s
    lecture.mp3  61.2  66.9  And that is …      another one: what is between them has no transcript

A passage fits the window of the model. Rows without times are learnt without timestamps; where none are taught, each
row with start and end is a passage by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from glassformer.errors import DataError
from glassformer.files import safe_repr
from glassformer.speech.results import Segment
from glassformer.tasks.columns import listed, placed, text_of
from glassformer.tasks.types import Dataset

SEGMENTS = "segments"
"""The role of a column of segments, which is read where times are taught."""
TIMES = (SEGMENTS, "start", "end")
"""The roles of columns with times."""
GAP_SECONDS = 1.0
"""Segments that are further apart share no passage: what was said between them may be in no row, or in another part."""

TOLERANCE_SECONDS = 0.1
"""Times of tables are rounded."""


@dataclass(frozen=True)
class AudioPassage:
    """What one example is made of: a recording, or a stretch of it.

    index: of its first row
    sound: as the row names it
    text: its transcript
    begin, end: of the stretch, in seconds; None = all of the recording
    segments: their times are from its beginning; none = it has no times
    """

    index: int
    sound: Any
    text: str
    begin: float = 0.0
    end: float | None = None
    segments: tuple[Segment, ...] = ()


def passages(rows: Dataset, columns: Mapping[str, str]) -> Iterator[AudioPassage]:
    """The passage of each row; errors say which row they are about."""
    for index in range(len(rows)):
        with placed(rows, index):
            passage = passage_of(index, rows[index], columns)
        yield passage


def passage_of(index: int, row: Mapping[str, Any], columns: Mapping[str, str]) -> AudioPassage:
    """The passage of one row.

    Args:
        columns: role → column.
    Raises: DataError: no text, or no times in order.
    """
    passage = AudioPassage(index, row.get(columns["audio"]), text_of(row, columns["text"]))
    if (given := row.get(columns.get("segments", ""))) is not None:
        return replace(passage, segments=_segments(given, columns["segments"]))
    bounds = [row.get(columns.get(role, "")) for role in ("start", "end")]
    if all(bound in (None, "") for bound in bounds):
        return passage
    begin, end = (_seconds(bound, columns[role]) for role, bound in zip(("start", "end"), bounds, strict=True))
    if end <= begin:
        raise DataError(f"the segment ends at {end:g} s, and begins at {begin:g} s")
    segments = (Segment(0.0, end - begin, passage.text),) if SEGMENTS in columns else ()
    return replace(passage, begin=begin, end=end, segments=segments)


def joined(single: Iterable[AudioPassage], longest: float) -> Iterator[AudioPassage]:
    """Passages, where neighbours of one recording are one of up to this many seconds."""
    held: AudioPassage | None = None
    for passage in single:
        if held is not None and _together(held, passage, longest):
            shift = passage.begin - held.begin
            moved = [replace(each, start=each.start + shift, end=each.end + shift) for each in passage.segments]
            text = f"{held.text} {passage.text}"
            held = replace(held, text=text, end=passage.end, segments=(*held.segments, *moved))
            continue
        if held is not None:
            yield held
        held = passage
    if held is not None:
        yield held


def late_segment(passage: AudioPassage, seconds: float) -> tuple[str, str] | None:
    """Why a passage is left out, by the seconds of its sound: a segment ends after it. None = it is kept."""
    last = passage.segments[-1].end if passage.segments else (passage.end or passage.begin) - passage.begin
    if last <= seconds + TOLERANCE_SECONDS:
        return None
    return "a segment ends after the recording", f"{last:.1f} s of {seconds:.1f} s"


def _together(before: AudioPassage, after: AudioPassage, longest: float) -> bool:
    if before.end is None or after.end is None:
        return False
    one = isinstance(before.sound, str) and before.sound == after.sound
    return one and 0 <= after.begin - before.end <= GAP_SECONDS and after.end - before.begin <= longest


def _segments(given: object, column: str) -> tuple[Segment, ...]:
    """A column of segments, in the order of their times."""
    parts: Sequence[Any] | None = listed(given)
    if parts is None or not all(isinstance(part, Mapping) for part in parts):
        raise DataError(f"{column!r} is {safe_repr(given)}; it must be a list of segments: {{start, end, text}}")
    segments, before = list[Segment](), 0.0
    for number, part in enumerate(parts):
        start, end = (_seconds(part.get(name), f"{column}[{number}].{name}") for name in ("start", "end"))
        if not before <= start < end:
            raise DataError(
                f"{column}[{number}] is from {start:g} to {end:g} s; it must begin at {before:g} s or later, where the "
                "one before ends, and end after it begins"
            )
        segments.append(Segment(start, end, text_of(part, "text")))
        before = end
    return tuple(segments)


def _seconds(given: object, name: str) -> float:
    try:
        seconds = float(given)  # type: ignore[arg-type] # tables have numbers as texts
    except (TypeError, ValueError):
        seconds = math.nan
    if isinstance(given, bool) or not 0 <= seconds < math.inf:
        raise DataError(f"{name!r} is {safe_repr(given)}; it must be a time in seconds, from 0 up")
    return seconds
