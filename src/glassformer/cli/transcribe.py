"""`glassformer transcribe MODEL FILE…`: speech to text and subtitles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.inputs import check_files
from glassformer.cli.options import ModelName, Options, command, option
from glassformer.cli.screen import note, notes, say, visible
from glassformer.cli.transcribe_screen import follow, print_transcript, tell_language, write_page
from glassformer.errors import ConfigError, DataError, GlassformerError
from glassformer.files.atomic import disk_errors
from glassformer.files.schema import given
from glassformer.loading import InferenceLoading
from glassformer.progress import progress_bar, spinner
from glassformer.reports.page import check_html_path
from glassformer.speech.options import TranscriptionOptions

if TYPE_CHECKING:
    from glassformer.model import Model
    from glassformer.speech.subtitles import LineLimits

SOUNDS = frozenset(
    """.wav .flac .ogg .oga .opus .mp3 .m4a .aac .aif .aiff .amr .au .caf .wma .webm .mp4 .m4v .mov .mkv .avi .mpg .mpeg
    .ts .3gp""".split()
)
"""What is transcribed of a folder."""
FORMATS = ("txt", "srt", "vtt", "tsv", "json")
OUT = "Output"

Sounds = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE", help="Audio or video files, or folders of them; - reads 16 kHz PCM from standard input."
    ),
]


@dataclass(frozen=True, kw_only=True)
class OutputOptions(Options):
    """Where transcripts go."""

    output: Path | None = option(None, "Output folder: one file per recording and format.", "--output", "-o", panel=OUT)
    format: list[str] | None = option(
        None, f"Format: {', '.join(FORMATS)}; repeatable. Default: lines with their times.", "--format", "-f", panel=OUT
    )
    json: bool = option(False, "Print one JSON object per recording.", panel=OUT)
    line_width: int | None = option(
        None, "Characters in a line of SRT and VTT. Default: a segment a line.", "--max-line-width", min=4, panel=OUT
    )
    line_count: int | None = option(
        None, "Lines of a subtitle. Default: 2 with --max-line-width.", "--max-line-count", min=1, panel=OUT
    )
    html: Path | None = option(
        None, "HTML page of one recording: its words over the spectrogram, with sound and attention.", panel=OUT
    )
    overwrite: bool = option(False, "Transcribe again what is finished in the output folder.", panel=OUT)
    follow: bool = option(False, "Live transcription of standard input: raw 16-bit mono PCM at 16 kHz.", panel=OUT)

    def limits(self) -> LineLimits | None:
        """Of the lines of subtitles. Raises: ConfigError: a number of lines without their width."""
        from glassformer.speech.subtitles import LineLimits

        if self.line_width is None:
            if self.line_count is not None:
                raise ConfigError("--max-line-count limits lines of a width; add --max-line-width 42")
            return None
        return LineLimits(self.line_width, self.line_count or 2)


@command
def transcribe(
    model: ModelName,
    files: Sounds,
    *,
    options: TranscriptionOptions,
    output: OutputOptions,
    loading: InferenceLoading,
) -> None:
    """Transcribe speech: audio or video of any length to text, subtitles or JSON.

    Without an output folder, each line is printed as soon as it is certain. With one, a stopped transcription continues
    where it was, and finished recordings are left alone.

    Examples:

    [cyan]glassformer transcribe openai/whisper-base lecture.mp3[/]

    [cyan]glassformer transcribe openai/whisper-base lectures/ --format srt --format txt --output subtitles[/]

    [cyan]glassformer transcribe openai/whisper-base talk.mp4 --language de --words --json[/]

    [cyan]arecord -f S16_LE -r 16000 | glassformer transcribe openai/whisper-base - --follow[/]
    """
    formats = _formats(output)
    output.limits()  # an early error
    if output.follow != (list(files) == ["-"]):
        raise ConfigError("--follow transcribes standard input: glassformer transcribe MODEL - --follow")
    sounds = [] if output.follow else list(_sounds(files))
    _check_output(output, formats, sounds)
    check_files(sounds)
    with spinner("loading the model"):
        from glassformer.model import load

        keywords = given(loading)
        if loading.dtype is None and loading.device == "cpu":  # which computes in half precision slowly
            keywords["dtype"] = "float32"
        loaded = load(model, **keywords)
    if output.follow:
        follow(loaded, options)
        return
    with notes():
        failed = [sound for sound in sounds if not _transcribe(loaded, model, sound, options, output, formats, sounds)]
    if failed:
        raise DataError(f"{len(failed)} of {len(sounds)} recordings could not be transcribed; see above")


def _formats(output: OutputOptions) -> list[str]:
    """The formats of files. Raises: ConfigError: unknown, or several on the screen."""
    formats = list(dict.fromkeys(output.format or (["json"] if output.json else [])))
    if unknown := [kind for kind in formats if kind not in FORMATS]:
        raise ConfigError(f"--format is {unknown[0]!r}; allowed: {', '.join(FORMATS)}")
    if output.json and formats != ["json"]:
        raise ConfigError("--json is --format json; leave one of them out")
    if output.output is None and len(formats) > 1:
        raise ConfigError(f"{len(formats)} formats go to files; add --output FOLDER")
    return formats or (["txt"] if output.output is not None else [])


def _check_output(output: OutputOptions, formats: Sequence[str], sounds: Sequence[Path]) -> None:
    """Raises: ConfigError: several files on one screen, or not one for a page. DataError: no place for a page."""
    if output.output is None and len(sounds) > 1 and formats and formats[0] in ("srt", "vtt", "tsv"):
        raise ConfigError(f"{formats[0]} of {len(sounds)} recordings is a file for each; add --output FOLDER")
    if output.html is None:
        return
    if len(sounds) != 1:
        raise ConfigError(f"--html is the page of one recording, and there are {len(sounds)}; give one file")
    if output.output is not None or output.format or output.json:
        raise ConfigError("--html writes one page; leave out --output, --format and --json")
    check_html_path(output.html)


def _sounds(files: Sequence[str]) -> Iterator[Path]:
    """The files, and those of folders by name. Raises: DataError: none, or standard input with others."""
    if "-" in files:
        raise ConfigError("- is standard input; give it without other files, with --follow")
    for file in files:
        path = Path(file)
        if not path.is_dir():
            yield path
            continue
        inside = sorted(each for each in path.rglob("*") if each.suffix.lower() in SOUNDS and each.is_file())
        if not inside:
            raise DataError(f"{path} holds no audio or video file; known suffixes: {' '.join(sorted(SOUNDS))}")
        yield from inside


def _transcribe(
    model: Model,
    model_name: str,
    sound: Path,
    options: TranscriptionOptions,
    output: OutputOptions,
    formats: Sequence[str],
    sounds: Sequence[Path],
) -> bool:
    """Transcribe one recording. Returns: whether it could be; else its error was printed. Of one, errors are raised."""
    try:
        if output.html is not None:
            write_page(model, sound, options, output.html)
        elif output.output is None:
            print_transcript(model, sound, options, formats, output.limits(), title=len(sounds) > 1)
        else:
            _write(model, model_name, sound, options, output, formats, sounds)
    except GlassformerError as problem:
        if len(sounds) == 1:
            raise
        note(problem)
        return False
    return True


def _write(
    model: Model,
    model_name: str,
    sound: Path,
    options: TranscriptionOptions,
    output: OutputOptions,
    formats: Sequence[str],
    sounds: Sequence[Path],
) -> None:
    """Transcribe to files of the output folder."""
    from glassformer.speech.job import TranscriptionJob

    assert output.output is not None
    with disk_errors(output.output, DataError):
        output.output.mkdir(parents=True, exist_ok=True)
    job = TranscriptionJob(
        model,
        sound,
        output.output,
        formats,
        options,
        model_name=model_name,
        limits=output.limits(),
        reserved={each.stem for each in sounds},
        overwrite=output.overwrite,
    )
    if job.is_done and not output.overwrite:
        paths = ", ".join(str(path) for path in job.outputs.values())
        note(f"{sound}: finished before, as {paths}; --overwrite transcribes it again")
        return
    seconds = 0
    try:
        with ExitStack() as stack:
            advance: Any = None

            def on_step(recording: Any, step: Any) -> None:
                nonlocal seconds, advance
                if advance is None:
                    tell_language(sound, recording)
                    advance = stack.enter_context(
                        progress_bar(f"{visible(sound.name)}, seconds", round(recording.duration))
                    )
                advance(max(0, round(step.window.end) - seconds))
                seconds = max(seconds, round(step.window.end))

            job.run(on_step)
    except KeyboardInterrupt:
        if job.is_partial:
            note(f"{sound}: stopped at {seconds} s; the same command continues there")
        raise
    for path in job.outputs.values():
        say(f"{sound}: saved in {path}")
