"""`glassformer listen RUN`: a page of sounds: recordings next to what a model of sound makes of them."""

from __future__ import annotations

import tempfile
import webbrowser
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.inputs import check_files
from glassformer.cli.options import Json, command
from glassformer.cli.screen import notes, print_json, say, visible
from glassformer.data.options import ReadingOptions
from glassformer.evaluation.options import ListeningOptions
from glassformer.progress import progress_bar, spinner
from glassformer.reports.page import check_html_path, command_line
from glassformer.reports.table import byte_amount

if TYPE_CHECKING:
    from glassformer.audio.listening import SoundExample
    from glassformer.explorer.listening_page import ListeningPage


@command
def listen(
    run: Annotated[
        str, typer.Argument(help="Run folder; with --task any model folder or Hub name.", show_default=False)
    ],
    options: ListeningOptions,
    reading: ReadingOptions,
    json: Json = False,
) -> None:
    """Listen to an audio model: play recordings and what the model makes of them, on a page.

    Waveform, spectrogram, notes and the codec's codes share one time axis; keys switch between sounds.

    Examples:
      # original and decoded, of its validation split
      glassformer listen runs/guitar-codec
      # a recording of your own
      glassformer listen runs/guitar-codec --data my-riff.wav --html page.html
      # wav files instead of a page
      glassformer listen runs/guitar-pedals --rows 8 --output sounds/
    """
    if options.html is not None:
        check_html_path(options.html)
    if given := reading.keywords():
        options = replace(options, format={**(options.format or {}), **given})
    check_files(options.data)
    with spinner("loading the model"):
        from glassformer.audio.listening import write_sounds
        from glassformer.evaluation.runs import heard_rows

        task, rows = heard_rows(run, options)
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
            saved |= {"out": str(options.html), "bytes": _page(run, examples).save(options.html)}
        print_json({"examples": [example.to_dict() for example in examples], **saved}, indent=None)
        return
    for example in examples:
        print_example(example)
    if options.output is not None:
        say(f"{len(saved['files'])} wav files in {options.output}")
    if options.html is not None or options.output is None:
        show_page(_page(run, examples), options.html, options.browser)


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


def _page(run: str, examples: Sequence[SoundExample]) -> ListeningPage:
    from glassformer.explorer.listening_page import ListeningPage

    return ListeningPage(examples, f"Listening to {Path(run).name}", command=command_line())
