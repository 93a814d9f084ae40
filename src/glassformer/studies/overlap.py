"""PartOverlap of parts: recordings, speakers and texts that are in two of them, which may make a test too easy.

A recording in two parts is an error. A speaker or a text in two is reported: of spoken digits all texts are, and a
model of one voice has one speaker in each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
        if self.what == "speakers":
            return (
                f"{self.count:,} of {self.of:,} recordings of {self.second} are by speakers who are in {self.first} too"
                if self.count
                else f"no speaker of {self.second} is in {self.first}"
            )
        return (
            f"{self.count:,} of {self.of:,} transcripts of {self.second} are in {self.first} too"
            if self.count
            else f"no transcript of {self.second} is in {self.first}"
        )


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
        _check_recordings(first, known, second, others, columns["audio"])
        if "train" not in (first, second):
            continue
        if speaker is not None:
            overlap.append(_overlap("speakers", first, known, second, others, speaker))
        overlap.append(_overlap("texts", first, known, second, others, columns["text"]))
    return overlap


def _overlap(what: str, first: str, known: RowSequence, second: str, others: RowSequence, column: str) -> PartOverlap:
    values = ([str(row.get(column)) for row in iter(rows)] for rows in (known, others))
    return PartOverlap(what, first, second, len(leaks(*values)), len(others))


def _check_recordings(first: str, known: RowSequence, second: str, others: RowSequence, column: str) -> None:
    twice = set(_files(known, column)) & set(_files(others, column))
    if twice:
        raise DataError(
            f"the recording {safe_repr(min(twice))} is in {first} and in {second}; a test on what was trained on tells "
            "nothing: leave it out of one (glassformer data split)"
        )


def _files(rows: RowSequence, column: str) -> Iterator[str]:
    """The paths of recordings, as seen from the folder of their table."""
    for index in range(len(rows)):
        if isinstance(name := rows[index].get(column), str):
            yield str(Path(rows.file(index)).parent / name)
