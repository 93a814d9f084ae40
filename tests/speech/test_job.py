"""The record of a transcription that is stopped: windows are appended; none is lost, or taken twice."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

import glassformer
from glassformer.errors import DataError
from glassformer.model import Model
from glassformer.speech.job import TranscriptionJob
from glassformer.speech.options import TranscriptionOptions
from glassformer.speech.results import Attempt, Segment, TimedWord, Window
from glassformer.speech.sequential import Step
from glassformer.speech.transcribe import Recording
from tests.full_disk import full_disk
from tests.speech.test_hours import talk, windows_folder
from tests.tasks.transcribe.tones import RATE_HZ, whisper_folder

FRAMES = 100
GREEDY = TranscriptionOptions(num_beams=1, temperature=0.0, timestamps=False)


def scripted(number: int) -> Step:
    """A window as a real one is: three segments of some words."""
    start = number * FRAMES / 100
    segments = tuple(
        Segment(
            start,
            start + 1,
            f" window {number}",
            tuple(range(20)),
            words=(TimedWord(" window", start, start + 1, 0.9),),
        )
        for _ in range(3)
    )
    return Step(Window(start, start + 1, 0.1, (Attempt(0.0, -0.2, 1.3),)), segments)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Recordings have so many windows, of which none is decoded."""

    def windows(recording: Recording, language: str, count: int) -> Iterator[Step]:
        while recording.progress.frame < count * FRAMES:
            step = scripted(recording.progress.frame // FRAMES)
            recording.progress.frame += FRAMES
            recording.progress.tokens += [token for segment in step.segments for token in segment.tokens]
            yield step

    def use(count: int) -> None:
        monkeypatch.setattr(Recording, "_windows", lambda recording, language: windows(recording, language, count))

    return use


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return glassformer.load(whisper_folder(tmp_path_factory.mktemp("whisper")), offline=True)


@pytest.fixture
def job(model: Model, tmp_path: Path) -> Callable[[], TranscriptionJob]:
    sound = tmp_path / "talk.wav"
    soundfile.write(sound, np.zeros(RATE_HZ), RATE_HZ)
    return lambda: TranscriptionJob(model, sound, tmp_path / "out", ["json"], GREEDY)


class Stop(Exception):
    """Ends a transcription."""


def stop_at(number: int) -> Callable[[Any, Step], None]:
    """A listener that stops at a window, before it is recorded."""

    def on_step(recording: Any, step: Step) -> None:
        if step.window.start == number:
            raise Stop

    return on_step


def written_bytes() -> int:
    return int(Path("/proc/self/io").read_text().split("wchar:")[1].split()[0])


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="the system does not count the bytes of a process")
def test_what_is_written_grows_with_the_recording(
    job: Callable[[], TranscriptionJob], script: Callable[[int], None], tmp_path: Path
) -> None:
    sizes = []
    for count in (50, 200):
        script(count)
        before = written_bytes()
        job().run(lambda *step: None)
        sizes.append(written_bytes() - before)
        (tmp_path / "out" / "talk.json").unlink()
    assert sizes[1] < 4.5 * sizes[0]


def test_a_cut_line_is_dropped_and_nothing_else(
    job: Callable[[], TranscriptionJob], script: Callable[[int], None], tmp_path: Path
) -> None:
    script(6)
    with pytest.raises(Stop):
        job().run(stop_at(4))
    record = tmp_path / "out" / ".transcripts" / "talk.jsonl"
    lines = record.read_bytes().splitlines(keepends=True)
    assert len(lines) == 4
    record.write_bytes(b"".join(lines) + lines[0][:70])
    seen = list[float]()
    done = job().run(lambda recording, step: seen.append(step.window.start))
    assert seen == [0, 1, 2, 3, 4, 5]
    assert done.segments == tuple(segment for number in range(6) for segment in scripted(number).segments)
    assert done.windows == tuple(scripted(number).window for number in range(6))
    assert not record.exists() and job().is_done


def test_two_processes_at_a_time_give_each_window_once(
    job: Callable[[], TranscriptionJob], script: Callable[[int], None], tmp_path: Path
) -> None:
    script(5)
    with pytest.raises(Stop):
        job().run(stop_at(3))
    record = tmp_path / "out" / ".transcripts" / "talk.jsonl"
    first, second, third = record.read_bytes().splitlines(keepends=True)
    record.write_bytes(first + first + second + third + second + third)
    assert [window.start for window in job().run(lambda *step: None).windows] == [0, 1, 2, 3, 4]


def test_another_recording_or_a_damaged_record_is_refused(
    job: Callable[[], TranscriptionJob], script: Callable[[int], None], tmp_path: Path
) -> None:
    script(4)
    with pytest.raises(Stop):
        job().run(stop_at(3))
    record, sound = tmp_path / "out" / ".transcripts" / "talk.jsonl", tmp_path / "talk.wav"
    whole, heard = record.read_bytes(), sound.read_bytes()
    for damaged, message in (
        (whole.replace(b'"segments":[{', b'"segments":[', 1), r"talk\.jsonl: line 1 is not valid JSON"),
        (whole.replace(b'"no_speech_prob"', b'"something"'), r"talk\.jsonl is damaged: .*remove it to start again"),
        (whole.replace(b'"seen_from"', b'"something"'), r"talk\.jsonl is damaged: .*remove it to start again"),
    ):
        record.write_bytes(damaged)
        with pytest.raises(DataError, match=message):
            job().run(lambda *step: None)
    record.write_bytes(whole)
    soundfile.write(sound, np.zeros(2 * RATE_HZ), RATE_HZ)
    with pytest.raises(DataError, match=r"other options \(the recording's bytes"):
        job().run(lambda *step: None)
    assert record.read_bytes() == whole and sound.read_bytes() != heard


@pytest.mark.skipif(sys.platform == "win32", reason="the limit of a file's size is POSIX")
def test_a_full_disk_loses_no_window(
    job: Callable[[], TranscriptionJob], script: Callable[[int], None], tmp_path: Path
) -> None:
    script(12)
    with full_disk(5_000), pytest.raises(DataError, match=r"talk\.jsonl: the window cannot be written: .*are kept"):
        job().run(lambda *step: None)
    kept = (tmp_path / "out" / ".transcripts" / "talk.jsonl").read_bytes()
    assert kept.endswith(b"\n") and 3 <= kept.count(b"\n") < 12
    fresh = list[float]()
    script(12)
    done = job().run(lambda recording, step: fresh.append(step.window.start))
    assert fresh == list(range(12)) and [window.start for window in done.windows] == fresh


KILLED = """
import os, signal, sys
from pathlib import Path
import glassformer
from glassformer.speech.job import TranscriptionJob
from glassformer.speech.options import TranscriptionOptions
model, sound, folder = sys.argv[1:]
options = TranscriptionOptions(num_beams=1, temperature=0.0, timestamps=False)

def on_step(recording, step):
    if step.window.start > 50:
        os.kill(os.getpid(), signal.SIGKILL)

TranscriptionJob(glassformer.load(model), Path(sound), Path(folder), ["json"], options).run(on_step)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX")
def test_a_killed_process_is_resumed_at_its_last_window(tmp_path: Path) -> None:
    sound, out, folder = tmp_path / "talk.wav", tmp_path / "out", windows_folder(tmp_path / "model")
    talk(sound, 100)
    done = subprocess.run([sys.executable, "-c", KILLED, folder, sound, out], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len((out / ".transcripts" / "talk.jsonl").read_bytes().splitlines()) == 2
    model = glassformer.load(folder, offline=True)
    whole = model.transcribe(sound, num_beams=1, temperature=0.0, timestamps=False)
    again = TranscriptionJob(model, sound, out, ["json"], GREEDY).run(lambda *step: None)
    assert again == whole and len(whole.windows) == 4 and whole.text
    assert json.loads((out / "talk.json").read_text("utf-8"))["text"] == whole.text
