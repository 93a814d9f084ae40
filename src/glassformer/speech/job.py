"""Transcription of one file to files: saved after each window, so that a stopped one goes on where it was.

lecture.mp3 ─> lecture.partial.json ─ … ─> lecture.srt, lecture.json        the partial file is removed at the end
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from glassformer.errors import DataError
from glassformer.files import read_json_object
from glassformer.files.atomic import atomic_file, write_json
from glassformer.pretrained import PretrainedModel
from glassformer.speech.options import TranscriptionOptions
from glassformer.speech.results import Attempt, Segment, TimedWord, Transcription, Window
from glassformer.speech.sequential import Step
from glassformer.speech.subtitles import LineLimits, write
from glassformer.speech.transcribe import Recording, open_recording

PARTIAL_SUFFIX = ".partial.json"
VERSION = 1


class TranscriptionJob:
    """One file that is transcribed to files beside one another in a folder.

    Args: name: of the files, without suffix · formats: of `subtitles.WRITERS` · model_name: to know a partial file's ·
        limits: of the lines of subtitles
    """

    def __init__(
        self,
        sound: Path,
        folder: Path,
        name: str,
        formats: Sequence[str],
        model_name: str,
        limits: LineLimits | None = None,
    ) -> None:
        self.limits = limits
        self.sound = sound
        self.outputs = {kind: folder / f"{name}.{kind}" for kind in formats}
        self._partial = folder / (name + PARTIAL_SUFFIX)
        self._model_name = model_name

    @property
    def is_done(self) -> bool:
        """Whether all files are there, and no partial one."""
        return not self.is_partial and all(path.exists() for path in self.outputs.values())

    @property
    def is_partial(self) -> bool:
        """Whether it was stopped, and goes on where it was."""
        return self._partial.exists()

    def run(
        self, model: PretrainedModel, options: TranscriptionOptions, on_step: Callable[[Any, Step], None]
    ) -> Transcription:
        """Transcribe, and write the files. Args: on_step: called with the recording and each step, old ones too."""
        recording = open_recording(model, self.sound, options)
        key = self._key(options)
        if isinstance(recording, Recording):
            self._resume(recording, key, on_step)
        for step in recording:
            on_step(recording, step)
            if isinstance(recording, Recording):
                self._save(recording, key)
        transcription = recording.transcription
        for kind, path in self.outputs.items():
            with atomic_file(path) as file:
                file.write(write(kind, transcription, self.limits).encode("utf-8"))
        self._partial.unlink(missing_ok=True)
        return transcription

    def _key(self, options: TranscriptionOptions) -> dict[str, Any]:
        """What a partial file must agree in."""
        status = self.sound.stat()
        given = {each.name: repr(getattr(options, each.name)) for each in fields(options)}
        return {
            "version": VERSION,
            "model": self._model_name,
            "bytes": status.st_size,
            "modified": status.st_mtime_ns,
            "options": given,
        }

    def _save(self, recording: Recording, key: dict[str, Any]) -> None:
        done = recording.transcription
        document = {
            "key": key,
            "state": recording.state(),
            "segments": [asdict(segment) for segment in done.segments],
            "windows": [asdict(window) for window in done.windows],
        }
        write_json(self._partial, document, DataError)

    def _resume(self, recording: Recording, key: dict[str, Any], on_step: Callable[[Any, Step], None]) -> None:
        """Take over what a partial file of the same recording, model and options has; another one is left alone."""
        if not self._partial.is_file():
            return
        document = read_json_object(self._partial, DataError)
        if document.get("key") != key:
            raise DataError(
                f"{self._partial} is of another model, other options or a changed recording; transcribe as before, or "
                "remove it to begin anew"
            )
        try:
            segments = [_segment(each) for each in document["segments"]]
            windows = [_window(each) for each in document["windows"]]
            recording.resume(document["state"], segments, windows)
        except (KeyError, TypeError, AttributeError) as damage:
            raise DataError(f"{self._partial} is damaged: {damage!r}; remove it to begin anew") from None
        if windows:
            on_step(recording, Step(windows[-1], tuple(segments)))


def _segment(document: dict[str, Any]) -> Segment:
    words = document.pop("words", None)
    tokens = tuple(document.pop("tokens"))
    return Segment(
        **document, tokens=tokens, words=None if words is None else tuple(TimedWord(**word) for word in words)
    )


def _window(document: dict[str, Any]) -> Window:
    attempts = tuple(Attempt(**attempt) for attempt in document.pop("attempts"))
    return Window(**document, attempts=attempts)
