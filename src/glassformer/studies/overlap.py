"""Overlap of parts: recordings, speakers and texts that are in two of them, which may make a test too easy.

A recording in two parts is an error. A speaker or a text in two is reported: of spoken digits all texts are, and a
model of one voice has one speaker in each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from glassformer.data.sequence import RowSequence
from glassformer.data.splits import leaks
from glassformer.errors import DataError, nearest
from glassformer.files import safe_repr


@dataclass(frozen=True)
class PartOverlap:
    """What two parts have in common.

    what: "speakers" or "texts"
    count: rows of the second part
    of: this many
    """

    what: str
    first: str
    second: str
    count: int
    of: int

    def __str__(self) -> str:
        rows, are = ("recordings", "by speakers who are ") if self.what == "speakers" else ("transcripts", "")
        if not self.count:
            return f"no {'speaker' if are else 'transcript'} of {self.second} is in {self.first}"
        return f"{self.count:,} of {self.of:,} {rows} of {self.second} are {are}in {self.first} too"


def check_overlap(
    parts: Mapping[str, RowSequence], columns: Mapping[str, str], speaker: str | None
) -> list[PartOverlap]:
    """What each pair of parts has in common.

    Args:
        parts: name → rows
        columns: of `audio` and `text`
        speaker: the column that says who speaks
    Raises: DataError: a recording is in two parts; there is no column of speakers.
    """
    for name, rows in parts.items():
        if speaker is not None and speaker not in rows.columns:
            raise DataError(
                f"{name} has no column {safe_repr(speaker)}{nearest(speaker, rows.columns)}; study.speaker names one "
                f"of: {', '.join(rows.columns)}"
            )
    overlap = []
    for (first, known), (second, others) in combinations(parts.items(), 2):
        if twice := _files(known, columns["audio"]) & _files(others, columns["audio"]):
            raise DataError(
                f"the recording {safe_repr(min(twice))} is in {first} and in {second}; a test on what was trained on "
                "tells nothing: leave it out of one (glassformer data split)"
            )
        if "train" not in (first, second):
            continue
        if speaker is not None:
            overlap.append(_overlap("speakers", first, known, second, others, speaker))
        overlap.append(_overlap("texts", first, known, second, others, columns["text"]))
    return overlap


def _overlap(what: str, first: str, known: RowSequence, second: str, others: RowSequence, column: str) -> PartOverlap:
    values = ([str(row.get(column)) for row in iter(rows)] for rows in (known, others))
    return PartOverlap(what, first, second, len(leaks(*values)), len(others))


def _files(rows: RowSequence, column: str) -> set[str]:
    """The paths of recordings, as seen from the folder of their table."""
    names = ((rows.file(i), rows[i].get(column)) for i in range(len(rows)))
    return {str(Path(table).parent / name) for table, name in names if isinstance(name, str)}
