"""`glassformer listen RUN`: a page of sounds: recordings next to what a model of sound makes of them."""

from __future__ import annotations

import tempfile
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.inputs import check_files
from glassformer.cli.options import DATA, Json, Options, command, option, pairs_of
from glassformer.cli.screen import notes, print_json, say, visible
from glassformer.errors import ConfigError
from glassformer.progress import progress_bar, spinner
from glassformer.reports.amounts import byte_amount
from glassformer.reports.page import check_html_path, command_line

if TYPE_CHECKING:
    from glassformer.audio.listening import SoundExample
    from glassformer.data.rows import RowSequence
    from glassformer.explorer.listening_page import ListeningPage
    from glassformer.tasks.base import Task

AUDIO = (".wav", ".flac", ".mp3", ".m4a", ".ogg", ".oga", ".opus", ".aiff", ".aif", ".webm")


@dataclass(frozen=True, kw_only=True)
class ListeningOptions(Options):
    """Which sounds, and where they go."""

    rows: int = option(4, "Number of rows, drawn at random.", min=1, panel=DATA)
    data: list[str] | None = option(
        None,
        "Audio files, or data files and folders; repeatable. Default: the run's validation split; without a run, a "
        "synthetic guitar.",
        "--data",
        "-d",
        panel=DATA,
    )
    format: list[str] | None = option(
        None, "File format of --data, name=value: kind=guitar. Default: the run's.", panel=DATA
    )
    seed: int = option(0, "Random seed of the rows.", min=0, panel=DATA)
    task: str | None = option(None, "Task of a model that is not a run: reconstruct, pedals, …", "--task", "-t")
    device: str | None = option(None, "Device: cpu, cuda, mps or auto. Default: that of training.")
    html: Path | None = option(None, "Write the page to this HTML file (self-contained) instead of opening it.")
    output: Path | None = option(None, "Write the sounds as wav files to this folder.", "--output", "-o")
    browser: bool | None = option(
        None, "Open a web browser. Default: when there is a display.", "--browser/--no-browser"
    )


@command
def listen(
    run: Annotated[
        str, typer.Argument(help="Run folder; with --task any model folder or Hub name.", show_default=False)
    ],
    options: ListeningOptions,
    json: Json = False,
) -> None:
    """Listen to an audio model: play recordings and what the model makes of them, on a page.

    Waveform, spectrogram, notes and the codec's codes share one time axis; keys switch between sounds.

    Examples:

    [cyan]glassformer listen runs/guitar-codec[/]  original and decoded, of its validation split

    [cyan]glassformer listen runs/guitar-codec --data my-riff.wav --html page.html[/]  a recording of your own

    [cyan]glassformer listen runs/guitar-pedals --rows 8 --output sounds/[/]  wav files instead of a page
    """
    if options.html is not None:
        check_html_path(options.html)
    check_files(options.data or ())
    with spinner("loading the model"):
        from glassformer.audio.listening import write_sounds
        from glassformer.runs.data import sample_rows

        task, rows = _task_and_rows(run, options)
    rows = sample_rows(rows, count=options.rows, seed=options.seed)
    examples: list[SoundExample] = []
    with notes(), progress_bar("listening", len(rows)) as advance:
        for example in task.listen(rows):
            examples.append(example)
            advance(1)
    saved: dict[str, Any] = {}
    if options.output is not None:
        saved["files"] = [str(path) for path in write_sounds(examples, options.output)]
    if json:
        if options.html is not None:
            saved |= {"out": str(options.html), "bytes": _page(run, examples, options).save(options.html)}
        print_json({"examples": [example.to_dict() for example in examples], **saved}, indent=None)
        return
    for example in examples:
        print_example(example)
    if options.output is not None:
        say(f"{len(saved['files'])} wav files in {options.output}")
    if options.html is not None or options.output is None:
        show_page(_page(run, examples, options), options.html, options.browser)


def print_example(example: SoundExample) -> None:
    """Print what an example is, and its facts."""
    lengths = " · ".join(f"{sound.name} {sound.seconds:.2f} s" for sound in example.sounds)
    typer.echo(f"{visible(example.title)}: {lengths}")
    for name, value in example.facts.items():
        typer.echo(f"  {name}: {visible(value)}")


def show_page(page: ListeningPage, html: Path | None, browser: bool | None = None) -> None:
    """Write a page to a file, or to a temporary one that is opened in a browser; print where it is."""
    from glassformer.explorer.server import has_display

    path = html or Path(tempfile.mkdtemp(prefix="glassformer-")) / "listen.html"
    size = page.save(path)
    if page.left_out:
        typer.echo(f"not in the page, for its size: {visible(', '.join(page.left_out))}")
    opened = html is None and (has_display() if browser is None else browser) and webbrowser.open(path.as_uri())
    hint = "opened in your browser" if opened else "open it in any browser, no network needed"
    say(f"saved in {path}: {byte_amount(size)}; {hint}")


def _page(run: str, examples: Sequence[SoundExample], options: ListeningOptions) -> ListeningPage:
    from glassformer.explorer.listening_page import ListeningPage

    return ListeningPage(examples, f"Listening to {Path(run).name}", command=command_line())


def _task_and_rows(run: str, options: ListeningOptions) -> tuple[Task, RowSequence]:
    """The task with its model, and the rows that it listens to."""
    from glassformer.evaluation.runs import load_trained_model, open_run
    from glassformer.runs.folder import CONFIG, no_run
    from glassformer.tasks.base import task_class

    reading = None if options.format is None else _reading(options.format)
    if options.task is None:
        if not Path(run, CONFIG).is_file():
            problem = no_run(run, "is no run") if Path(run).exists() else f"{run}: is no run"
            raise ConfigError(f"{problem}; give the task of the model: --task reconstruct, or pedals")
        opened = open_run(run, device=options.device)
        task = opened.task
        return task, _audio_rows(task, options) or opened.read_rows(options.data, format=reading)
    from glassformer.data.rows import read_rows

    kind = task_class(options.task)
    task = kind(load_trained_model(run, options.task, options.device or "cpu"))
    if options.data:
        return task, _audio_rows(task, options) or read_rows(options.data, **(reading or {}))
    guitar: dict[str, Any] = {"clips": options.rows, "seconds": 4.0, "part": "test", "seed": options.seed}
    return task, read_rows("a synthetic guitar", kind="guitar", **guitar)


def _audio_rows(task: Task, options: ListeningOptions) -> RowSequence | None:
    """The rows of --data, where it names audio files."""
    from glassformer.data.rows import read_rows

    files = options.data or []
    if not files or not all(name.lower().endswith(AUDIO) for name in files):
        return None
    column = task.columns.get("file") or task.columns["source"]  # of pairs, what is converted
    return read_rows([{column: name} for name in files])


def _reading(texts: Sequence[str]) -> dict[str, Any]:
    from glassformer.cli.options import value_of

    return {key: value_of(text) for key, text in pairs_of(texts, "--format").items()}
