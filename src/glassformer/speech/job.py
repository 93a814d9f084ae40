"""Transcription of a recording to files of a folder, with a record of what made them; a stopped one is resumed.

    talks/a.flac ─> out/a.srt, out/a.json, out/.transcripts/a.json     the record
                                           out/.transcripts/a.jsonl    the windows so far, while it runs: a line each
    more/a.flac  ─> out/a-2.srt, …                             the name "a" is recorded as that of talks/a.flac

A record names its recording; for each file, the model and options that made it; and those of a transcription that is
not finished. So a file is never taken for that of another recording, model or option. Windows are appended: the bytes
written grow with the length of the recording, not with its square.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, fields
from itertools import count
from pathlib import Path
from typing import Any, Self

from glassformer.engine.prepare import prepared_precision
from glassformer.errors import ConfigError, DataError
from glassformer.files import (
    append_handle,
    drop_cut_line,
    open_regular_file,
    parse_json_object,
    read_json_object,
    readable_path,
    safe_repr,
)
from glassformer.files.atomic import disk_errors, new_file, write_json, write_text
from glassformer.loaded_model import LoadedModel
from glassformer.ngram.model import NgramModel
from glassformer.speech.options import TranscriptionOptions, TranscriptOptions
from glassformer.speech.results import Attempt, Segment, TimedWord, Transcription, Window
from glassformer.speech.sequential import Step
from glassformer.speech.subtitles import LineLimits, write
from glassformer.speech.transcribe import Recording, open_recording

RECORDS = ".transcripts"
"""Folder of the records, in the output folder."""
VERSION = 3
MAX_LINE_BYTES = 4 << 20
"""Of a window: 224 tokens with their word times are 40 kB at most."""


class TranscriptionJob:
    """One recording that is transcribed to files of a folder.

    Args:
        formats: of `subtitles.WRITERS`
        model_name: for messages; the weights themselves are compared
        limits: of the lines of subtitles
        reserved: names that other recordings of the same call are to get
        overwrite: replace files that another model, other options or something unknown made
    Raises: DataError: no such recording, or the folder cannot be written to.
    """

    def __init__(
        self,
        model: LoadedModel,
        sound: Path,
        folder: Path,
        formats: Sequence[str],
        options: TranscriptionOptions,
        *,
        model_name: str = "",
        limits: LineLimits | None = None,
        reserved: Collection[str] = (),
        overwrite: bool = False,
    ) -> None:
        self.model, self.sound, self.options = model, sound, options
        self.limits, self.overwrite = limits, overwrite
        self._key = _key(model, sound, options, model_name)
        recording = readable_path(sound.resolve())
        self._record = _claim(folder / RECORDS, recording, sound.stem, reserved)
        self._windows = WindowLog(self._record.with_suffix(".jsonl"))
        document = _read(self._record)
        self._made: dict[str, Any] = document["outputs"]
        self._unfinished: dict[str, Any] | None = document["unfinished"]
        self.outputs = {kind: folder / f"{self._record.stem}.{kind}" for kind in formats}

    @classmethod
    def of(
        cls,
        model: LoadedModel,
        sound: Path,
        options: TranscriptionOptions,
        output: TranscriptOptions,
        *,
        model_name: str = "",
        sounds: Iterable[Path] = (),
    ) -> Self:
        """A recording to the files that `output` says, whose folder is made.

        Args:
            sounds: all recordings of the same call
        Raises: ConfigError: `output` names no folder. DataError: as the class.
        """
        if output.output is None:
            raise ConfigError("there is no folder for the transcripts; add output= FOLDER")
        with disk_errors(output.output, DataError):
            output.output.mkdir(parents=True, exist_ok=True)
        more: Any = {"model_name": model_name, "limits": output.limits, "overwrite": output.overwrite}
        return cls(model, sound, output.output, output.kinds, options, reserved={x.stem for x in sounds}, **more)

    @property
    def is_done(self) -> bool:
        """Whether all files are there, as this model and these options make them."""
        return self._unfinished is None and all(
            path.exists() and _same(self._made.get(kind), self._key_of(kind)) for kind, path in self.outputs.items()
        )

    @property
    def is_partial(self) -> bool:
        """Whether it was stopped, and can be resumed."""
        return self._unfinished is not None and next(self._windows.entries(), None) is not None

    def run(self, on_step: Callable[[Any, Step], None]) -> Transcription:
        """Transcribe, and write the files.

        Args:
            on_step: called with the recording and each step, those of a stopped transcription too
        Raises: DataError: unreadable sound, files that something else made, a disk that refuses.
        """
        self._check()
        recording = open_recording(self.model, self.sound, self.options)
        if not self.is_partial:
            self._windows.remove()  # of a transcription that was finished or given up, before the record says otherwise
        elif isinstance(recording, Recording):
            self._resume(recording, on_step)
        frame = recording.progress.frame if isinstance(recording, Recording) else 0
        for step in recording:
            on_step(recording, step)
            if isinstance(recording, Recording):
                if self._unfinished is None:
                    self._begin()
                self._windows.append({"from": frame, **recording.state(), **asdict(step)})
                frame = recording.progress.frame
        transcription = recording.transcription
        self._begin()  # until all files are written the record says that they are not finished
        for kind, path in self.outputs.items():
            with disk_errors(path, DataError):
                write_text(path, write(kind, transcription, self.limits))
            self._made[kind] = self._key_of(kind)
        self._unfinished = None
        self._write_record()
        self._windows.remove()
        return transcription

    def _key_of(self, kind: str) -> dict[str, Any]:
        """What a file was made by."""
        limits = self.limits if kind in ("srt", "vtt") else None
        return {**self._key, "lines": None if limits is None else asdict(limits)}

    def _check(self) -> None:
        """Raises: DataError: files or a stopped transcription that something else made, and that may be precious."""
        again = "--overwrite transcribes again and replaces it; another --output folder keeps both"
        if self.overwrite:
            if self._unfinished is not None and not _same(self._unfinished.get("key"), self._key):
                self._unfinished = None
            return
        stopped = self._unfinished or {}
        if stopped and not _same(stopped.get("key"), self._key):
            differing = _difference(stopped["key"], self._key)
            raise DataError(
                f"{self._record} is a stopped transcription with other options ({differing}); transcribe as before, or "
                "start again with --overwrite"
            )
        for kind, path in self.outputs.items():
            if not path.exists() or kind in stopped.get("formats", ()):
                continue
            made = self._made.get(kind)
            if made is None:
                raise DataError(f"{path} exists, and not as a transcript of {self.sound}; {again}")
            if not _same(made, self._key_of(kind)):
                raise DataError(f"{path} was made otherwise ({_difference(made, self._key_of(kind))}); {again}")

    def _begin(self) -> None:
        """Record that these files are being made."""
        self._unfinished = {"key": self._key, "formats": list(self.outputs)}
        self._write_record()

    def _write_record(self) -> None:
        _write(self._record, readable_path(self.sound.resolve()), self._made, self._unfinished)

    def _resume(self, recording: Recording, on_step: Callable[[Any, Step], None]) -> None:
        """Take over what a stopped transcription has done."""
        try:
            entries = [_step(entry) for entry in self._windows.entries()]
            recording.resume([step for step, _ in entries], entries[-1][1])
        except (KeyError, TypeError, AttributeError, ValueError) as damage:
            raise DataError(f"{self._windows.path} is damaged: {damage!r}; remove it to start again") from None
        for step, _ in entries:
            on_step(recording, step)


# ------------------------------------------------------------------------------------------------------------ records


def _claim(folder: Path, recording: str, stem: str, reserved: Collection[str]) -> Path:
    """The record of a recording: of its own name, or the next number where that is another recording's.

    It is created here, so that two processes cannot choose one name.
    """
    for number in count(1):
        name = stem if number == 1 else f"{stem}-{number}"
        if number > 1 and name in reserved:
            continue
        path = folder / f"{name}.json"
        with disk_errors(path, DataError):
            folder.mkdir(parents=True, exist_ok=True)
            if _created(path, json.dumps(_document(recording, {}, None))):
                return path
        if _read(path)["recording"] == recording:
            return path
    raise AssertionError("unreachable")


def _created(path: Path, text: str) -> bool:
    """Create a file; whether it did not exist. Raises: OSError: as the system refuses; no file is left then."""
    try:
        with new_file(path) as stream:
            stream.write(text)
    except FileExistsError:
        return False
    return True


def _document(recording: str, outputs: dict[str, Any], unfinished: dict[str, Any] | None) -> dict[str, Any]:
    return {"version": VERSION, "recording": recording, "outputs": outputs, "unfinished": unfinished}


def _write(path: Path, recording: str, outputs: dict[str, Any], unfinished: dict[str, Any] | None) -> None:
    write_json(path, _document(recording, outputs, unfinished), DataError)


def _read(path: Path) -> dict[str, Any]:
    """A record. Raises: DataError: it is damaged."""
    document = read_json_object(path, DataError)
    outputs, unfinished = document.get("outputs"), document.get("unfinished")
    if (
        document.get("version") != VERSION
        or not isinstance(document.get("recording"), str)
        or not isinstance(outputs, dict)
        or not (unfinished is None or (isinstance(unfinished, dict) and isinstance(unfinished.get("key"), dict)))
    ):
        raise DataError(f"{path} is no record of a transcription, or damaged; remove it to start again")
    return document


def _key(model: LoadedModel, sound: Path, options: TranscriptionOptions, model_name: str) -> dict[str, Any]:
    """What a transcript depends on."""
    stream, size = open_regular_file(sound, DataError)
    with stream:
        modified = os.fstat(stream.fileno()).st_mtime_ns
    return {
        "model": model_name,
        "weights": model.network.fingerprint(),
        "precision": prepared_precision(model.network) or "fp32",  # the default of what is not prepared
        "bytes": size,
        "modified": modified,
        **{each.name: _described(getattr(options, each.name)) for each in fields(options)},
    }


def _described(value: object) -> str:
    return f"{value!r} {value.fingerprint()}" if isinstance(value, NgramModel) else repr(value)


def _same(one: object, other: dict[str, Any]) -> bool:
    """Whether two keys are equal; a model may have moved."""
    return isinstance(one, dict) and {**one, "model": ""} == {**other, "model": ""}


def _difference(before: dict[str, Any], now: dict[str, Any]) -> str:
    """The first entry that differs, for a message."""
    named = {"bytes": "the recording's bytes", "modified": "the recording's time of change"}
    for name, value in now.items():
        if before.get(name) != value:
            then = before.get(name)
            return f"{named.get(name, name)}: then {safe_repr(then)}, now {safe_repr(value)}"
    return "other entries in its record"


class WindowLog:
    """The windows of a transcription that is not finished: a file of JSON lines, which is appended to.

        {"from": 0, "frame": 2964, "seen_from": 0, "language": "en", …, "window": {…}, "segments": […]}
        {"from": 2964, "frame": 5801, …                                 cut by a kill: dropped

    from, frame: where the window begins, and the next one. A window that does not begin where the last one led is left
    out: two processes that transcribe one recording at a time append to one file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def entries(self) -> Iterator[dict[str, Any]]:
        """The windows, in order. Raises: DataError: the file is damaged."""
        if not self.path.exists():
            return
        stream, _ = open_regular_file(self.path, DataError)
        frame = 0
        with stream:
            for number, line in enumerate(iter(lambda: stream.readline(MAX_LINE_BYTES), b""), 1):
                where = f"{self.path}: line {number}"
                if not line.endswith(b"\n"):
                    if len(line) == MAX_LINE_BYTES:
                        raise DataError(
                            f"{where} is longer than a window; the file is damaged: remove it to start again"
                        )
                    return
                entry = parse_json_object(line, where, DataError)
                if entry.get("from") == frame and isinstance(entry.get("frame"), int):
                    frame = entry["frame"]
                    yield entry

    def append(self, entry: dict[str, Any]) -> None:
        """Add a window, behind the last whole line. Raises: DataError: the disk refuses; the file is as it was."""
        data = json.dumps(entry, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
        with (
            disk_errors(self.path, DataError, "the window", "the windows before it are kept, and it is decoded again"),
            open(append_handle(self.path), "a+b", buffering=0) as stream,
        ):
            size = drop_cut_line(stream)
            try:
                while data:
                    data = data[stream.write(data) :]  # a disk that fills up writes a part, and fails the next time
                os.fsync(stream.fileno())
            except OSError:
                stream.truncate(size)
                raise

    def remove(self) -> None:
        """Remove the file, where there is one. Raises: DataError: the system refuses."""
        with disk_errors(self.path, DataError):
            self.path.unlink(missing_ok=True)


def _step(entry: dict[str, Any]) -> tuple[Step, dict[str, Any]]:
    """A window and its segments, and the state after it."""
    step = Step(_window(entry.pop("window")), tuple(_segment(each) for each in entry.pop("segments")))
    return step, entry


def _segment(document: dict[str, Any]) -> Segment:
    words = document.pop("words", None)
    tokens = tuple(document.pop("tokens"))
    return Segment(
        **document, tokens=tokens, words=None if words is None else tuple(TimedWord(**word) for word in words)
    )


def _window(document: dict[str, Any]) -> Window:
    attempts = tuple(Attempt(**attempt) for attempt in document.pop("attempts"))
    return Window(**document, attempts=attempts)
