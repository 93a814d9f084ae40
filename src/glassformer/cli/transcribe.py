"""`glassformer transcribe MODEL FILE…`: speech to text and subtitles."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.inputs import check_files
from glassformer.cli.options import ModelName, command
from glassformer.cli.screen import note, notes, say, visible
from glassformer.cli.transcribe_screen import follow as follow_microphone
from glassformer.cli.transcribe_screen import print_transcript, tell_language, write_page
from glassformer.errors import ConfigError, DataError, GlassformerError
from glassformer.files.schema import given
from glassformer.loading import InferenceLoading
from glassformer.progress import progress_bar, spinner
from glassformer.speech.options import OUTPUT, TranscriptionOptions, TranscriptOptions

if TYPE_CHECKING:
    from glassformer.model import Model
    from glassformer.speech.job import TranscriptionJob

Sounds = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE", help="Audio or video files, or folders of them; - reads 16 kHz PCM from standard input."
    ),
]
Follow = Annotated[
    bool,
    typer.Option(
        "--follow", help="Live transcription of standard input: raw 16-bit mono PCM at 16 kHz.", rich_help_panel=OUTPUT
    ),
]


@command
def transcribe(
    model: ModelName,
    files: Sounds,
    *,
    options: TranscriptionOptions,
    output: TranscriptOptions,
    follow: Follow = False,
    loading: InferenceLoading,
) -> None:
    """Transcribe speech: audio or video of any length to text, subtitles or JSON.

    Without an output folder, each line is printed as soon as it is certain. With one, a stopped transcription goes on
    where it was, and finished recordings are left alone.

    Examples:
      glassformer transcribe openai/whisper-base lecture.mp3
      glassformer transcribe openai/whisper-base lectures/ --format srt --format txt --output subtitles
      glassformer transcribe openai/whisper-base talk.mp4 --language de --words --json
      arecord -f S16_LE -r 16000 | glassformer transcribe openai/whisper-base - --follow
    """
    if follow != (files == ["-"]):
        raise ConfigError("--follow transcribes standard input: glassformer transcribe MODEL - --follow")
    if "-" in files and not follow:
        raise ConfigError("- is standard input; give it without other files, with --follow")
    from glassformer.data.audio_folder import sound_files

    sounds = [] if follow else sound_files(files)
    output.check_recordings(len(sounds))
    check_files(sounds)
    with spinner("loading the model"):
        from glassformer.model import load

        keywords = given(loading)
        if loading.dtype is None and loading.device == "cpu":  # which computes in half precision slowly
            keywords["dtype"] = "float32"
        loaded = load(model, **keywords)
    if follow:
        follow_microphone(loaded, options)
        return

    with notes():
        failed = [sound for sound in sounds if not _transcribed(loaded, model, sound, sounds, options, output)]
    if failed:
        raise DataError(f"{len(failed)} of {len(sounds)} recordings could not be transcribed; see above")


def _transcribed(
    model: Model,
    model_name: str,
    sound: Path,
    sounds: Sequence[Path],
    options: TranscriptionOptions,
    output: TranscriptOptions,
) -> bool:
    """Whether a recording could be transcribed; else its error was printed. Of one, errors are raised."""
    from glassformer.speech.job import TranscriptionJob

    try:
        if output.html is not None:
            write_page(model, sound, options, output.html)
        elif output.output is None:
            print_transcript(model, sound, options, output, title=len(sounds) > 1)
        else:
            _run(TranscriptionJob.of(model, sound, options, output, model_name=model_name, sounds=sounds))
    except GlassformerError as problem:
        if len(sounds) == 1:
            raise
        note(problem)
        return False
    return True


def _run(job: TranscriptionJob) -> None:
    """Transcribe to files, with a progress bar."""
    if job.is_done and not job.overwrite:
        paths = ", ".join(str(path) for path in job.outputs.values())
        note(f"{job.sound}: finished before, as {paths}; --overwrite transcribes it again")
        return
    seconds, advance = 0, None
    try:
        with ExitStack() as stack:

            def on_step(recording: Any, step: Any) -> None:
                nonlocal seconds, advance
                if advance is None:
                    tell_language(job.sound, recording)
                    name = f"{visible(job.sound.name)}, seconds"
                    advance = stack.enter_context(progress_bar(name, round(recording.duration)))
                advance(max(0, round(step.window.end) - seconds))
                seconds = max(seconds, round(step.window.end))

            job.run(on_step)
    except KeyboardInterrupt:
        if job.is_partial:
            note(f"{job.sound}: stopped at {seconds} s; the same command continues there")
        raise
    for path in job.outputs.values():
        say(f"{job.sound}: saved in {path}")
