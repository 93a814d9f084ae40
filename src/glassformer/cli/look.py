"""`glassformer look MODEL TEXT [TEXT]`: the attention explorer, a web page for one forward pass or one generation.

`glassformer look RUN` is the page of a training run: curves, report, errors, and the explorer on its best model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.inputs import check_texts, whole_texts
from glassformer.cli.options import (
    Json,
    ModelName,
    Only,
    PageServing,
    Truncate,
    command,
    generation_keywords,
    option,
)
from glassformer.cli.screen import notes, print_json, progress_of, say
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.files.schema import given
from glassformer.generation.options import GenerationOptions
from glassformer.generation.served_options import served
from glassformer.loading import Loading
from glassformer.progress import spinner
from glassformer.reports.amounts import byte_amount
from glassformer.reports.page import check_html_path, page_path
from glassformer.runs.folder import CONFIG

if TYPE_CHECKING:
    from glassformer.explorer import Look
    from glassformer.explorer.look import InitialView
    from glassformer.explorer.session_runs import SessionRun
    from glassformer.explorer.standalone_page import Progress, StandalonePage
    from glassformer.model import Model


@dataclass(frozen=True, kw_only=True)
class PageOptions(PageServing):
    """What the page holds, and how it opens."""

    layers: str | None = option(
        None, "Layers whose exact numbers go into the HTML file: 0,3 or 0-5. Default: by --cap-mb."
    )
    cap_mb: float | None = option(
        None,
        "Size limit in MB of exact layers in the HTML file. Default: all layers up to 25, else what the view needs.",
        "--cap-mb",
        min=0,
    )
    view: str | None = option(
        None,
        "Initial view: model, head, matrix, neuron, generate (watch a text being generated), sound (a transcript; "
        "of a model over codes, attention over musical time), "
        "patch (activation patching), similarity (of two texts), contexts (of --corpus), embedding (the tokens as "
        "points, layer by layer), lens (logit lens), attribution.",
    )
    layer: int | None = option(None, "Initial layer, from 0.", min=0)
    head: list[int] | None = option(None, "Initial attention head, from 0; repeatable.", min=0)
    theme: str | None = option(None, "Colour theme: light or dark. Default: the system's.")
    codec: str | None = option(
        None, "Audio codec of a model over codes: a folder or Hub name. Default: the one that this package carries."
    )
    corpus: Path | None = option(None, "Corpus to search in: the folder of an index, as written by corpus index.")

    def cap_bytes(self) -> int | None:
        return None if self.cap_mb is None else round(self.cap_mb * 1e6)

    def exact_layers(self) -> list[int] | None:
        """The layers whose exact numbers the file holds. Raises: ConfigError: no layers, no file, or no view of one."""

        layers = _parse_layers(self.layers)
        if self.html is None and layers is not None:
            raise ConfigError("--layers says what the file of --html holds; a served page has all layers")
        if self.html is not None:
            from glassformer.explorer.look import InitialView

            check_html_path(self.html)
            if self.view != "sound":  # which is a file of its own for models over codes, as `look` finds out
                InitialView(view=self.view).check_saved()
        return layers


@command
def look(
    model: ModelName,
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            help="One text, or two as a pair: in quotes, a text file, or - for standard input. None: the page of a run."
        ),
    ] = None,
    *,
    page: PageOptions,
    generation: Annotated[GenerationOptions, Only(served())],
    loading: Loading,
    truncate: Truncate = False,
    json: Json = False,
) -> None:
    """Visualise attention: every head of every layer, as lines, maps, and the arithmetic of each number.

    Serves a web page on this machine until Ctrl-C, or writes it as one HTML file. With --view generate it shows text
    generation (40 tokens by default): the token distribution of each step, and what comes if you choose another token.
    The options for generation, sampling and beam search belong to that view.

    Of an audio codec, with the file of a recording, it shows what its codes say of it, to hear and see.

    Of a run folder, without a text, it shows the run: training curves, report, errors, and the attention of its best
    model in the rows with the highest loss; it is evaluated first where it was not.
    """
    if not texts and (Path(model) / CONFIG).is_file():
        look_at_run(Path(model), page, json)
        return
    if not texts:
        raise DataError(
            f"{model} is no folder of a run, and no text was given; name a model and a text or two, in quotes: "
            "glassformer look MODEL 'time flies'"
        )
    check_texts(texts)
    if page.html is not None:
        check_html_path(page.html)
    exact_layers = page.exact_layers()
    from glassformer.explorer.look import InitialView

    options = generation_keywords(generation)
    start = InitialView(view=page.view, layer=page.layer, heads=page.head, theme=page.theme, options=options or None)
    with spinner("loading the model"):
        from glassformer.cli.look_codes import look_at_codes, shows_sound
        from glassformer.model import load

        loaded = load(model, **given(loading))
    if shows_sound(loaded, page.view):
        look_at_codes(loaded, texts, codec=page.codec, html=page.html, browser=page.browser, json=json)
    elif page.view == "sound" and page.html is not None:
        _write_transcript(loaded, texts, page.html, json)
    else:
        _look_at_attention(
            loaded, whole_texts(texts, loaded), start, page, exact_layers, truncation=truncate, json=json
        )


def _write_transcript(model: Model, sounds: list[str], html: Path, json: bool) -> None:
    """The view of a sound as a file: the page of its transcription. Raises: UnsupportedError: no model of speech."""
    from glassformer.cli.transcribe_screen import write_page
    from glassformer.speech.options import TranscriptionOptions

    if len(sounds) != 1:
        raise DataError(f"the view of a sound is of one recording, got {len(sounds)}; name one file")
    write_page(model, Path(sounds[0]), TranscriptionOptions(), html, json=json)


def _look_at_attention(
    model: Model,
    inputs: list[str],
    start: InitialView,
    page: PageOptions,
    exact_layers: list[int] | None,
    *,
    truncation: bool,
    json: bool,
) -> None:
    """Serve the explorer until Ctrl-C, or write it as an HTML file."""
    from glassformer.explorer import Look
    from glassformer.explorer.session_runs import SessionRuns
    from glassformer.tasks.pedals.chains import writes_pedals

    if writes_pedals(model):
        raise UnsupportedError(
            "look shows models that write text, and this one names pedals; hear and see it by: glassformer listen "
            "MODEL --task pedals --data FILE"
        )
    if page.html is not None:
        start.check_saved()
    factory = model.session_factory(truncation=truncation, corpus=page.corpus, codec=page.codec)
    with notes(repeats=False), Look(SessionRuns(factory), inputs, start) as explorer:
        if page.html is not None:
            write(explorer, page.html, layers=exact_layers, cap_bytes=page.cap_bytes(), json=json)
        else:
            serve(explorer, port=page.port, browser=page.browser, json=json)


def look_at_run(run: Path, options: PageOptions, json: bool) -> None:
    """Serve the page of a run until Ctrl-C, or write it as an HTML file.

    Raises: ConfigError: an option of the explorer's page, which goes with a text.
    """
    from glassformer.cli.errors import evaluated
    from glassformer.evaluation.error_analysis.served import ServedErrors, write_explorer_pages
    from glassformer.evaluation.options import RowOptions
    from glassformer.evaluation.run_page import MAX_LINKED_ROWS, RunPage
    from glassformer.tasks.predictions import sort_by_loss

    for name in ("layers", "view", "layer", "head", "theme", "corpus", "codec"):
        if getattr(options, name) is not None:
            raise ConfigError(
                f"--{name} says how the explorer opens on a text; give a text, or leave it out for the run"
            )
    path = None if options.html is None else page_path(options.html, "run.html")
    split = evaluated(run, RowOptions())
    if path is None:
        with ServedErrors(RunPage(split), split.run.model, options.port, name="run") as served:
            if json:
                print_json({"url": served.url, "port": served.port}, indent=None)
            else:
                served.show(options.browser)
                typer.echo("Ctrl-C stops the server")
            served.wait()
        return
    with progress_of("explorer pages") as bar:
        rows = sort_by_loss(split.records)[:MAX_LINKED_ROWS]
        pages = write_explorer_pages(split.run.model, rows, path.parent / f"{path.stem}-look", bar)
    RunPage(split, pages=pages).save(path)
    if json:
        print_json({"out": str(path), "pages": sorted(pages.values())}, indent=None)
    else:
        say(f"saved in {path}; its links open {len(pages)} pages in {path.stem}-look: keep that folder next to it")


def write(look: Look, html: Path, *, layers: list[int] | None, cap_bytes: int | None = None, json: bool) -> None:
    """Write the page as an HTML file, and print what it holds and what was left out."""
    with progress_of("forward pass") as bar:
        follow(look.run, bar)
    with progress_of("page") as bar:
        page = look.save(html, layers=layers, cap_bytes=cap_bytes, progress=bar)
    report = {**_facts(look), "out": str(html), "bytes": html.stat().st_size, "held": page.exact_layers}
    if json:
        print_json(report, indent=None)
        return
    typer.echo(_summary(look))
    say(f"saved in {html}: {byte_amount(report['bytes'])}; open it in any browser, no network needed")
    if absent := _absent(page):
        from glassformer.explorer.standalone_page import CAP_BYTES

        layers_option, cap = ",".join(map(str, absent)), byte_amount(CAP_BYTES if cap_bytes is None else cap_bytes)
        typer.echo(
            f"the file holds the image of every head; the exact numbers of layers {layers_option} would exceed {cap}: "
            "name the layers you need with --layers, or raise --cap-mb"
        )


def serve(look: Look, *, port: int | None, browser: bool | None, json: bool) -> None:
    """Serve the page until Ctrl-C."""
    look.serve(port)
    if json:
        print_json({"url": look.url, "port": look.port, **_facts(look)}, indent=None)
        look.wait()
        return
    look.show(browser)
    typer.echo("Ctrl-C stops the server")
    with progress_of("forward pass") as bar:
        try:
            follow(look.run, bar)
            typer.echo(_summary(look))
        except KeyboardInterrupt:
            typer.echo("\nstopped")
            return
        except Exception as error:  # the server continues: the page shows the error, and takes another text
            say(f"the forward pass failed: {error}", err=True)
    look.wait()


def follow(run: SessionRun, progress: Progress) -> None:
    """Show the progress of a forward pass, to its end. Raises: what the pass raised."""
    while not run.wait(0.05):
        progress(*run.blocks_done)
    run.result()


def _summary(look: Look) -> str:
    """`13 text tokens · self 6 × 12 heads · forward pass 0.02 s · 0.1 MB stored`"""
    session = look.session
    parts = [f"{len(tokens):,} {side} tokens" for side, tokens in session.streams.items()]
    parts += [f"{name} {maps.layers} × {maps.heads} heads" for name, maps in session.maps.items()]
    parts += [f"forward pass {session.seconds:.2f} s", f"{byte_amount(session.nbytes)} stored"]
    return " · ".join(parts)


def _facts(look: Look) -> dict[str, Any]:
    session = look.session
    return {
        "texts": list(session.texts),
        "tokens": {side: len(tokens) for side, tokens in session.streams.items()},
        "maps": {name: {"layers": maps.layers, "heads": maps.heads} for name, maps in session.maps.items()},
        "seconds": session.seconds,
        "memory_bytes": session.nbytes,
    }


def _absent(page: StandalonePage) -> list[int]:
    """Layers whose exact numbers were left out because of the size limit."""
    if page.layers is not None:
        return []
    maps = page.session.maps
    return sorted({layer for name in maps for layer in range(maps[name].layers)} - _complete_layers(page))


def _complete_layers(page: StandalonePage) -> set[int]:
    """Layers whose exact numbers are in the file, for every attention map that has them."""
    maps = page.session.maps
    deepest = max(attention.layers for attention in maps.values())
    return {
        layer
        for layer in range(deepest)
        if all(layer in page.exact_layers[name] or layer >= maps[name].layers for name in maps)
    }


def _parse_layers(option: str | None) -> list[int] | None:
    """Parse a list of layers and ranges: `0,3` or `0-5`, or both."""

    if option is None:
        return None
    numbers: set[int] = set()
    for part in option.split(","):
        match = re.fullmatch(r"\s*(\d{1,4})\s*(?:-\s*(\d{1,4})\s*)?", part, re.ASCII)
        if match is None or (match[2] and int(match[2]) < int(match[1])):
            raise ConfigError(
                f"--layers is {option!r}; give layers counted from 0, such as 0,3 or 0-5 (both ends included)"
            )
        numbers.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return sorted(numbers)
