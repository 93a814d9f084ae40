"""What `glassformer transcribe` shows: lines with their times, live text, and where the page of a recording lies."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from glassformer.cli.screen import note, print_json, say, visible
from glassformer.files import error_reason
from glassformer.reports.table import byte_amount, percent

if TYPE_CHECKING:
    from glassformer.model import Model
    from glassformer.speech.ctc import CTCTranscription
    from glassformer.speech.options import TranscriptionOptions, TranscriptOptions
    from glassformer.speech.results import Segment
    from glassformer.speech.sequential import Step
    from glassformer.speech.transcribe import Recording


def write_page(model: Model, sound: Path, options: TranscriptionOptions, path: Path, *, json: bool = False) -> None:
    """Transcribe with word times to the screen and to an HTML page.

    Args:
        json: print its path and size alone
    """
    from glassformer.explorer.standalone_page import page_around
    from glassformer.speech.transcription_trace import TranscriptionTrace

    page_around(views=["sound"])  # an early error where files of the page are missing
    page = TranscriptionTrace(model, sound, replace(options, word_timestamps=True))
    for segment in (segment for step in steps_of(sound, page.recording) for segment in step.segments):
        if not json:
            print_segment(replace(segment, words=None))
    if json:
        print_json({"out": str(path), "bytes": page.save(path)}, indent=None)
        return
    say(f"saved in {path}, {byte_amount(page.save(path))}")


def print_transcript(
    model: Model,
    sound: Path,
    options: TranscriptionOptions,
    output: TranscriptOptions,
    *,
    title: bool,
) -> None:
    """Transcribe to the screen: segments as they come, or a whole file of a format."""
    from glassformer.speech.subtitles import write
    from glassformer.speech.transcribe import open_recording

    recording = open_recording(model, sound, options)
    if output.kinds:
        for _ in steps_of(sound, recording):
            pass
        typer.echo(write(output.kinds[0], recording.transcription, output.limits), nl=False)
        return
    if title:
        typer.echo(f"{visible(str(sound))}")
    for step in steps_of(sound, recording):
        for segment in step.segments:
            print_segment(segment)
    if not recording.transcription.segments:
        note(f"{sound}: no speech was heard")


def steps_of(sound: Path, recording: Recording | CTCTranscription) -> Iterator[Step]:
    """Transcribe; the detected language is printed with the first window."""
    for number, step in enumerate(recording):
        if not number:
            tell_language(sound, recording)
        yield step


def tell_language(sound: Path, recording: Recording | CTCTranscription) -> None:
    """Say on standard error which language was detected, so that a wrong one is seen at the beginning."""
    share = getattr(recording, "language_probability", None)  # None: it was given, or there is no choice
    if share is not None:
        note(f"{sound}: the language is {recording.language} ({percent(share)}); --language names another")


def print_segment(segment: Segment) -> None:
    """One line of a segment, or of each of its words."""
    lines = [(word.start, word.end, f"{word.word}  {percent(word.probability)}") for word in segment.words or ()]
    for start, end, text in lines or [(segment.start, segment.end, segment.text)]:
        typer.echo(f"[{_clock(start)} → {_clock(end)}] {visible(text.strip())}")
    sys.stdout.flush()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(max(0.0, seconds), 60)
    return f"{int(minutes):02}:{rest:05.2f}"


def follow(model: Model, options: TranscriptionOptions) -> None:
    """Live transcription: settled words are printed; on a terminal, tentative ones are shown after them."""
    import numpy as np

    from glassformer.speech.live import LiveTranscription

    live = LiveTranscription(model, options)
    shown = sys.stderr.isatty()
    stream: Any = sys.stdin.buffer
    rest, heard = b"", False

    def show(update: Any) -> None:
        nonlocal heard
        if shown:
            sys.stderr.write("\r\x1b[K")
        text = "".join(word.word for word in update.settled)
        if text:
            heard = True
            sys.stdout.write(visible(text))
            sys.stdout.flush()
        if shown:
            sys.stderr.write("\x1b[2m" + visible("".join(word.word for word in update.tentative))[-70:] + "\x1b[0m")
            sys.stderr.flush()

    try:
        while chunk := stream.read1(1 << 14):
            data = rest + chunk
            whole = len(data) // 2 * 2
            samples, rest = np.frombuffer(data[:whole], "<i2"), data[whole:]
            for update in live.feed(samples.astype(np.float32) / np.float32(32768)):
                show(update)
    except KeyboardInterrupt:
        pass  # Ctrl-C turns the microphone off; what was heard settles
    except OSError as problem:
        note(f"the sound ended: {error_reason(problem)}; what was heard until then follows")
    show(live.finish())
    typer.echo()
    if not heard:
        note("standard input: no speech was heard")
