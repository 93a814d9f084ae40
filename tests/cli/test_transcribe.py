"""`glassformer transcribe`: lines as they come, files of each format, folders, standard input, and mistakes."""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile
from safetensors.torch import load_file, save_file

from glassformer.audio import read_audio
from glassformer.cli.options import command as options_command
from glassformer.cli.transcribe_screen import follow
from glassformer.ngram.kneser_ney import train_ngram
from glassformer.ngram.store import save_ngram
from glassformer.speech.job import TranscriptionJob
from glassformer.speech.live import Update
from glassformer.speech.options import TranscriptionOptions
from glassformer.speech.results import TimedWord
from tests.cli.conftest import Command
from tests.full_disk import full_disk
from tests.tasks.transcribe.tones import RATE_HZ, spoken, whisper_folder


@pytest.fixture
def tiny(whisper: Callable[[str], Path]) -> Path:
    return whisper("tiny")


def test_lines_with_their_times(command: Command, tiny: Path, kennedy: Path) -> None:
    done = command("transcribe", tiny, kennedy, "--beams", 1)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[00:00.00 → 00:07.74] And so my fellow Americans ask not what your country can do for you",
        "[00:07.74 → 00:10.74] ask what you can do for your country",
    ]


def test_a_folder_to_files_and_again(command: Command, tiny: Path, kennedy: Path, tmp_path: Path) -> None:
    talks, out = tmp_path / "talks", tmp_path / "out"
    talks.mkdir()
    shutil.copy(kennedy, talks / "a.flac")
    (talks / "b.wav").write_text("no sound")
    (talks / "notes.txt").write_text("not even called one")
    arguments = ("transcribe", tiny, talks, "--output", out, "--format", "srt", "--format", "json", "--beams", 1)
    done = command(*arguments)
    assert done.returncode == 2
    assert "b.wav is not readable audio" in done.stderr and "1 of 2 recordings could not be transcribed" in done.stderr
    assert sorted(path.name for path in out.iterdir() if path.is_file()) == ["a.json", "a.srt"]
    assert (out / "a.srt").read_text("utf-8").startswith("1\n00:00:00,000 --> 00:00:07,740\nAnd so my fellow")
    (talks / "b.wav").unlink()
    before = (out / "a.srt").stat().st_mtime_ns
    done = command(*arguments)
    assert done.returncode == 0 and "finished before" in done.stderr
    assert (out / "a.srt").stat().st_mtime_ns == before


@pytest.fixture
def silences(tmp_path: Path) -> Callable[..., list[Path]]:
    """Silent recordings of 1, 2, … seconds in the test's folder, which are transcribed at once."""

    def make(*names: str) -> list[Path]:
        paths = [tmp_path / name for name in names]
        for seconds, path in enumerate(paths, 1):
            path.parent.mkdir(parents=True, exist_ok=True)
            soundfile.write(path, np.zeros(seconds * 16_000), 16_000)
        return paths

    return make


def durations(folder: Path) -> dict[str, float]:
    return {path.name: json.loads(path.read_text("utf-8"))["duration"] for path in sorted(folder.glob("*.json"))}


def test_recordings_of_one_name_have_files_of_their_own(
    command: Command, tiny: Path, silences: Callable[..., list[Path]], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    silences("col/a.flac", "col/x/a.flac", "col/a-2.flac", "col/a.partial.wav")
    arguments = ("transcribe", tiny, tmp_path / "col", "--output", out, "--format", "json", "--overwrite")
    for given in (arguments, arguments[:-1], arguments):  # again: each keeps its files
        done = command(*given)
        assert done.returncode == 0, done.stderr
        assert durations(out) == {"a.json": 1.0, "a-2.json": 3.0, "a-3.json": 2.0, "a.partial.json": 4.0}
    x, y = silences("x/talk.wav", "y/talk.wav")
    for sound in (x, y, x):
        done = command("transcribe", tiny, sound, "--output", out, "--format", "json")
        assert done.returncode == 0, done.stderr
    assert "finished before" in done.stderr and "talk.json" in done.stderr
    assert durations(out) | {"talk.json": 1.0, "talk-2.json": 2.0} == durations(out)


def test_files_of_another_model_or_option_are_not_taken_for_these(
    command: Command, tiny: Path, silences: Callable[..., list[Path]], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    (sound,) = silences("talk.wav")
    arguments = ("transcribe", tiny, sound, "--output", out, "--format", "srt")
    assert command(*arguments).returncode == 0
    assert "finished before" in command(*arguments).stderr
    changed = tmp_path / "changed"
    shutil.copytree(tiny, changed)
    tensors = load_file(changed / "model.safetensors")
    name = max(tensors, key=lambda each: tensors[each].numel())
    save_file({**tensors, name: tensors[name] * 1.01}, changed / "model.safetensors")
    for other, told in (
        (("--beams", 2), "num_beams: then '5', now '2'"),
        (("--max-line-width", 20), "lines: then None, now"),
        (("--precision", "int8"), "precision: then 'fp32', now 'int8'"),
    ):
        done = command(*arguments, *other)
        assert done.returncode == 2 and told in done.stderr and "--overwrite" in done.stderr, done.stderr
    done = command("transcribe", changed, *arguments[2:])
    assert done.returncode == 2 and "was made otherwise (model: " in done.stderr
    assert command(*arguments, "--beams", 2, "--overwrite").returncode == 0
    assert "finished before" in command(*arguments, "--beams", 2).stderr
    soundfile.write(sound, np.zeros(5 * 16_000), 16_000)
    assert "the recording's bytes" in command(*arguments, "--beams", 2).stderr


def test_files_that_something_else_made_are_left_alone(
    command: Command, tiny: Path, silences: Callable[..., list[Path]], tmp_path: Path
) -> None:
    (sound,) = silences("talk.wav")
    (tmp_path / "talk.txt").write_text("notes of my own")
    arguments = ("transcribe", tiny, sound, "--output", tmp_path)
    for _ in range(2):
        done = command(*arguments)
        assert done.returncode == 2 and "talk.txt exists, and not as a transcript of" in done.stderr
        assert (tmp_path / "talk.txt").read_text() == "notes of my own"
    assert command(*arguments, "--overwrite").returncode == 0
    assert (tmp_path / "talk.txt").read_text() == ""


@pytest.mark.skipif(sys.platform == "win32", reason="the limit of a file's size is POSIX")
def test_a_full_disk_leaves_no_half_written_file_and_the_same_command_finishes(
    command: Command, tiny: Path, silences: Callable[..., list[Path]], tmp_path: Path
) -> None:
    (sound,) = silences("talk.wav")
    out = tmp_path / "out"
    arguments = ("transcribe", tiny, sound, "--output", out, "--format", "vtt", "--format", "json")
    for limit in (4, 150, 400, 1_700):  # while the record is created, and while it and the files are written
        with full_disk(limit):
            done = command(*arguments)
        assert done.returncode == 2 and "cannot be written: File too large" in done.stderr, done.stderr
        assert durations(out) in ({}, {"talk.json": 1.0}) and not list(out.rglob("*.partial"))
        assert not [path for path in out.rglob("talk.*") if not path.read_text("utf-8")]
    assert command(*arguments).returncode == 0
    assert durations(out) == {"talk.json": 1.0} and (out / "talk.vtt").read_text() == "WEBVTT\n\n"


def test_ctrl_c_says_where_it_goes_on(
    command: Command, tiny: Path, kennedy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(job: TranscriptionJob, on_step: Callable[[object, object], None]) -> None:
        on_step(SimpleNamespace(duration=90.0), SimpleNamespace(window=SimpleNamespace(end=29.6)))
        raise KeyboardInterrupt

    monkeypatch.setattr(TranscriptionJob, "run", stopped)
    monkeypatch.setattr(TranscriptionJob, "is_partial", True)
    done = command("transcribe", tiny, kennedy, "--output", tmp_path)
    assert done.returncode == 130 and "jfk.flac: stopped at 30 s; the same command continues there" in done.stderr


def test_the_view_of_a_sound_is_a_file_too(command: Command, tiny: Path, kennedy: Path, tmp_path: Path) -> None:
    page = tmp_path / "sound.html"
    done = command("look", tiny, kennedy, "--view", "sound", "--html", page, "--json")
    assert done.returncode == 0 and json.loads(done.stdout) == {"out": str(page), "bytes": page.stat().st_size}
    text = page.read_text("utf-8")
    assert 'id="transcript"' in text and 'data-key="alignment/0"' in text
    done = command("look", tiny, kennedy, kennedy, "--view", "sound", "--html", page)
    assert done.returncode == 2 and "of one recording, got 2" in done.stderr


def test_json_with_words(command: Command, tiny: Path, kennedy: Path) -> None:
    done = command("transcribe", tiny, kennedy, "--json", "--words", "--beams", 1)
    document = json.loads(done.stdout)
    assert document["duration"] == 11.0
    assert [word["word"] for word in document["segments"][0]["words"]][:3] == [" And", " so", " my"]


def test_standard_input(command: Command, tiny: Path, kennedy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = (read_audio(kennedy, 16_000)[: 5 * 16_000] * 32767).astype("<i2").tobytes()
    stream = io.BufferedReader(io.BytesIO(samples + b"\x00"))  # a microphone that stops in the middle of a sample
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream))
    done = command("transcribe", tiny, "-", "--follow", "--beams", 1)
    assert done.returncode == 0, done.stderr
    assert "fellow Americans" in done.stdout


class Microphone:
    """Two blocks of sound, and then its end: None = the stream's, or an error."""

    def __init__(self, blocks: int, end: type[BaseException] | None) -> None:
        self.blocks, self.end = blocks, end

    def read1(self, size: int) -> bytes:
        self.blocks -= 1
        if self.blocks < 0 and self.end is not None:
            raise self.end
        return b"" if self.blocks < 0 else bytes(3)  # a sample and a half


class Hearing:
    """In the place of a live transcription: a word, once the sound has ended, where there was any."""

    def __init__(self, model: object, options: object) -> None:
        self.samples = 0

    def feed(self, block: np.ndarray) -> list[Update]:
        self.samples += len(block)
        return []

    def finish(self) -> Update:
        return Update(
            tuple(TimedWord(f" heard {self.samples}", 0.0, 1.0, 1.0) for _ in range(min(1, self.samples))), ()
        )


@pytest.mark.parametrize(
    ("blocks", "end", "out", "error"),
    [
        (2, None, " heard 3\n", ""),
        (2, KeyboardInterrupt, " heard 3\n", ""),
        (2, OSError, " heard 3\n", "the sound ended"),
        (0, None, "\n", "no speech was heard"),
        (0, KeyboardInterrupt, "\n", "no speech was heard"),
    ],
)
def test_a_microphone_that_stops(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    blocks: int,
    end: type[BaseException] | None,
    out: str,
    error: str,
) -> None:
    """Whatever ends the sound, what was heard until then is printed."""
    monkeypatch.setattr("glassformer.speech.live.LiveTranscription", Hearing)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=Microphone(blocks, end)))
    follow(None, TranscriptionOptions())  # type: ignore[arg-type] # no model is asked
    shown = capsys.readouterr()
    assert shown.out == out and error in shown.err and bool(shown.err) == bool(error)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-"], "--follow transcribes standard input"),
        (["a.wav", "--follow"], "--follow transcribes standard input"),
        (["a.wav", "--format", "pdf"], "--format is 'pdf'; allowed: txt, srt, vtt, tsv, json"),
        (["a.wav", "--format", "srt", "--format", "vtt"], "add --output FOLDER"),
        (["a.wav", "b.wav", "--format", "vtt"], "vtt of 2 recordings is a file for each; add --output FOLDER"),
        (["a.wav", "--json", "--format", "srt"], "leave one of them out"),
        (["a.wav", "b.wav", "--html", "page.html"], "--html is the page of one recording, and there are 2"),
        (["a.wav", "--json", "--html", "page.html"], "--html writes one page"),
        (["a.wav", "--html", "page.txt"], "page.txt"),
        (["a.wav", "--alpha", "1"], "add --lm"),
        (["a.wav", "--rescore"], "give --lm, and --beams from 2 up"),
        (["a.wav", "--lm", "none.arpa"], "none.arpa"),
        (["nowhere.wav"], "nowhere.wav"),
        (["."], "holds no audio or video file"),
    ],
)
def test_mistakes(
    command: Command, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.zeros(3))
    done = command("transcribe", tiny, *arguments)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_the_language_is_said_where_it_was_detected(command: Command, tmp_path: Path) -> None:
    model = whisper_folder(tmp_path / "several", multilingual=True)
    sound = tmp_path / "a.wav"
    soundfile.write(sound, spoken("ab", np.random.default_rng(0)), RATE_HZ)
    arguments = ("transcribe", model, sound, "--beams", 1, "--temperature", 0)
    assert re.search(r"a\.wav: the language is (en|uk) \(\d+%\); --language", command(*arguments, "--json").stderr)
    assert "the language is" in command(*arguments, "--output", tmp_path / "out").stderr
    assert "the language is" not in command(*arguments, "--language", "uk").stderr


def test_a_language_model_of_a_file(command: Command, tmp_path: Path) -> None:
    words = tmp_path / "words.arpa"
    save_ngram(train_ngram([["my", "fellow"], ["my", "country"]], 2), words)
    seen: list[TranscriptionOptions] = []

    @options_command
    def transcribe(options: TranscriptionOptions) -> None:
        seen.append(options)

    transcribe(language_model=str(words), rescore=True, alpha=0.3, voice_filter=False)
    assert seen[0].rescore and seen[0].alpha == 0.3 and "fellow" in (seen[0].language_model or ())
    assert seen[0].voice_filter is False  # as typed, and not the default of batches
    words.write_bytes(words.read_bytes()[:-20])
    done = command("transcribe", "no-model", "a.wav", "--lm", words)
    assert done.returncode == 2 and "words.arpa" in done.stderr and "no-model" not in done.stderr
