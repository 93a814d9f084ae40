"""Real recordings of a guitar as rows: file, notes and pedals, by the layout of their folder.

    metadata.jsonl, metadata.csv    a table with `file_name`, and `pedals`, `notes` where they are known
    any other folder of audio       dry recordings, of which clips are made: see recording_clips.py
    …/audio/X.wav, …/annotation/X.xml         IDMT-SMT-Guitar: notes of each recording
    …/Samples/Chorus/G61-45105-….wav          IDMT-SMT-Audio-Effects: the pedal, and the note in the name

Source: Kehling et al. 2014 (IDMT-SMT-Guitar); Stein et al. 2010 (IDMT-SMT-Audio-Effects).
"""

from __future__ import annotations

import math
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from glassformer.data.audio_folder import METADATA_FORMATS, AudioFolderRows, audio_files, no_audio, path_within
from glassformer.data.sequence import ColumnNames, InMemoryRows, Row, RowSchema, RowSequence, RowSource, RowView
from glassformer.errors import ConfigError, DataError
from glassformer.files import error_reason, open_regular_file, safe_repr
from glassformer.files.schema import parse
from glassformer_guitar.clips import GuitarOptions
from glassformer_guitar.pedals import check_pedal
from glassformer_guitar.playing import Note
from glassformer_guitar.recording_clips import RecordingClips

EFFECTS: dict[str, list[str] | None] = {
    "nofx": [],
    "chorus": ["chorus"],
    "distortion": ["fuzz"],
    "eq": ["equaliser"],
    "feedbackdelay": ["delay"],
    "flanger": ["flanger"],
    "overdrive": ["overdrive"],
    "phaser": None,
    "reverb": ["reverb"],
    "slapbackdelay": ["delay"],
    "tremolo": ["tremolo"],
    "vibrato": None,
}
"""Folder of IDMT-SMT-Audio-Effects, in lower case → pedals; None: there is no such pedal."""
NAMED_NOTE = re.compile(r"[A-Z]\d\d-(\d\d)(\d)(\d\d)-")
"""G61-45105-…: MIDI number 45, string 1, fret 5."""
MAX_XML_BYTES = 16 << 20  # an annotation has some kilobytes, and is parsed as a whole


class GuitarFolder(RowSource):
    """A folder of recordings of a guitar; with options of clips, clips of them.

    Raises: ConfigError: an unknown option, or `contents`, which only a synthetic guitar has.
    """

    def __init__(self, folder: Path, options: Mapping[str, Any]) -> None:
        self.name, self._folder = str(folder), folder
        if "contents" in options:
            raise ConfigError(
                f"guitar: contents is {safe_repr(options['contents'])}, and {folder} is a folder of recordings, which "
                "hold what was played; leave it out"
            )
        self._options = parse(GuitarOptions, options, "guitar") if options else None

    def indexed(self, columns: ColumnNames, limit: int) -> RowSequence:
        if self._options is not None:
            return RecordingClips(self._recordings(None, limit), self._options, self.name, columns)
        return self._recordings(columns, limit)

    def stamp(self) -> list[Any]:
        return [*super().stamp(), *([] if self._options is None else [self._options.fingerprint()])]

    def _recordings(self, columns: ColumnNames, limit: int) -> RowSequence:
        names = [f"{stem}{end}" for stem in ("metadata", "manifest") for end in METADATA_FORMATS]
        if any((self._folder / name).is_file() for name in names):
            return TabledRecordings(self._folder, columns, limit)
        rows = list(_recordings(self._folder))
        if not rows and self._options is not None:
            rows = [{"file": str(path), "notes": [], "pedals": []} for path in audio_files(self._folder)]
            if not rows:
                raise no_audio(self._folder)
        if not rows:
            raise DataError(
                f"{self._folder}: holds no recordings of a guitar; needed: a metadata.csv with the columns file_name "
                "and pedals, folders audio/ and annotation/ (IDMT-SMT-Guitar), or Samples/EFFECT/ "
                "(IDMT-SMT-Audio-Effects); of dry recordings without any of these, clips can be made: "
                "format: {kind: guitar, clips: 2000, seconds: 2}"
            )
        return InMemoryRows(rows, columns=columns, name=self.name)


class TabledRecordings(RowView):
    """Recordings that a table names, with their pedals as a list.

    Raises: DataError: an unknown pedal, or notes without pitch or times, and their row.
    """

    def __init__(self, folder: Path, columns: ColumnNames, limit: int) -> None:
        self._rows = AudioFolderRows(folder, None, limit)
        schema = RowSchema(columns)
        self._project = schema.project
        for index in range(len(self._rows)):
            schema.validate(self._complete(self._rows.row(index), index), self._rows.where(index))
        self.columns, self.kinds, self.fingerprint = schema.columns, schema.kinds, self._rows.fingerprint

    def row(self, index: int) -> Row:
        return self._project(self._complete(self._rows.row(index), index))

    def _complete(self, row: Row, index: int) -> Row:
        pedals = row.get("pedals") or []
        names = re.split(r"[\s,;>]+", pedals.strip()) if isinstance(pedals, str) else pedals
        try:
            if not isinstance(names, list):
                raise DataError(f"pedals is {safe_repr(pedals)}; it must be names of pedals: overdrive delay")
            notes = {"notes": _checked_notes(row["notes"])} if "notes" in row else {}
            return {**row, **notes, "pedals": [check_pedal(name) for name in names]}
        except DataError as problem:
            raise DataError(f"{self._rows.where(index)}: {problem}") from problem


def _checked_notes(notes: Any) -> list[Any]:
    """The notes of a row of a table; an empty cell is none. Raises: DataError: one without pitch or times."""
    known = notes or []
    if isinstance(known, list) and all(isinstance(note, Mapping) and _is_note(note) for note in known):
        return known
    raise DataError(
        f"notes is {safe_repr(notes)}; it must be a list of notes, each with the numbers midi, start_s and seconds; "
        "give a column of remarks another name"
    )


def _is_note(note: Mapping[str, Any]) -> bool:
    numbers: list[Any] = [note.get(name) for name in ("midi", "start_s", "seconds")]
    return all(type(number) in (int, float) and math.isfinite(number) for number in numbers)


def _recordings(folder: Path) -> Iterator[dict[str, Any]]:
    """The recordings below a folder, in the order of their paths."""
    left_out: Counter[str] = Counter()
    for path in audio_files(folder):
        annotation = path.parent.parent / "annotation" / f"{path.stem}.xml"
        effect = path.parent.name.lower() if path.parent.parent.name.lower() == "samples" else None
        if path.parent.name == "audio" and annotation.is_file():
            path_within(folder, annotation)
            yield {"file": str(path), "notes": read_annotation(annotation), "pedals": []}
        elif effect is not None:
            pedals = EFFECTS.get(effect)
            if pedals is None:
                left_out[path.parent.name] += 1
                continue
            yield {"file": str(path), "notes": _note_of_name(path.name), "pedals": list(pedals)}
    if left_out:
        named = ", ".join(f"{count} of {name}" for name, count in left_out.items())
        warnings.warn(f"{folder}: recordings are left out, since there are no such pedals: {named}", stacklevel=4)


def _note_of_name(name: str) -> list[dict[str, Any]]:
    match = NAMED_NOTE.match(name)
    if match is None:
        return []
    midi, string, fret = map(int, match.groups())
    return [asdict(Note(max(string - 1, 0), fret, midi, 0.0, 2.0))]


def read_annotation(path: Path) -> list[dict[str, Any]]:
    """The notes of an annotation of IDMT-SMT-Guitar.

    Raises: DataError: it cannot be read, is no such file, or has a note without pitch or times.
    """
    stream, size = open_regular_file(path, DataError)
    with stream:
        if size > MAX_XML_BYTES:
            raise DataError(f"{path}: has {size} bytes; an annotation has at most {MAX_XML_BYTES}")
        content = stream.read()
    if b"<!DOCTYPE" in content or b"<!ENTITY" in content:
        raise DataError(f"{path}: declares a document type; an annotation has none, and such files are not read")
    try:
        root = ElementTree.fromstring(content)  # without a document type there are no entities
    except (ElementTree.ParseError, ValueError) as problem:
        raise DataError(f"{path}: invalid XML: {error_reason(problem)}") from problem
    return [_event(path, number, event) for number, event in enumerate(root.iter("event"))]


def _event(path: Path, number: int, event: ElementTree.Element) -> dict[str, Any]:
    def value(tag: str, default: float | None = None) -> float:
        text = event.findtext(tag)
        try:
            if text is None and default is not None:
                return default
            return float(text or "")
        except ValueError:
            raise DataError(f"{path}: event {number}: {tag} is {safe_repr(text)}; it must be a number") from None

    start, end = value("onsetSec"), value("offsetSec")
    string, fret = int(value("stringNumber", 1)), int(value("fretNumber", 0))
    return asdict(Note(max(string - 1, 0), fret, round(value("pitch")), start, max(end - start, 0.0)))
