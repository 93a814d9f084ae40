"""`glassformer look MODEL TEXT [TEXT]`: every attention head of a pass, or a text as it is written, on a page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.options import (
    AllowPickle,
    Browser,
    Device,
    Dtype,
    Json,
    ModelName,
    Offline,
    Port,
    Revision,
)

if TYPE_CHECKING:
    from glassformer.explorer import Look
    from glassformer.explorer.page import Page, Progress
    from glassformer.explorer.runs import Run


PANEL = "With --view generate"
WRITING: dict[str, Any] = {"show_default": False, "rich_help_panel": PANEL}


def look(
    model: ModelName,
    texts: Annotated[
        list[str], typer.Argument(help="One text, or two as a pair, in quotes; - reads standard input.")
    ],
    port: Port = None,
    browser: Browser = None,
    html: Annotated[
        Path | None,
        typer.Option(
            help="Write the page as one HTML file that needs no server, and end.", show_default=False
        ),
    ] = None,
    layers: Annotated[
        str | None,
        typer.Option(
            help="Whose exact numbers the file holds: 0,3 or 0-5. Default: all, while below --cap-mb.",
            show_default=False,
        ),
    ] = None,
    cap_mb: Annotated[
        float, typer.Option(min=0, help="How much exact layers may add to the file, in MB.")
    ] = 25,
    view: Annotated[
        str | None,
        typer.Option(help="Open with this view: model, head, matrix, neuron, generate.", show_default=False),
    ] = None,
    layer: Annotated[
        int | None, typer.Option(min=0, help="Open with this layer.", show_default=False)
    ] = None,
    head: Annotated[
        list[int] | None,
        typer.Option(min=0, help="Open with this head; may be given again.", show_default=False),
    ] = None,
    theme: Annotated[
        str | None, typer.Option(help="light or dark. Default: as the system.", show_default=False)
    ] = None,
    max_new_tokens: Annotated[
        int | None,
        typer.Option("--max-new-tokens", "-n", min=1, help="How many at most. Default: 40.", **WRITING),
    ] = None,
    beams: Annotated[int | None, typer.Option(min=1, help="How many beams are searched.", **WRITING)] = None,
    sample: Annotated[
        bool,
        typer.Option("--sample", help="Draw tokens; any option below does so too.", rich_help_panel=PANEL),
    ] = False,
    temperature: Annotated[
        float | None, typer.Option(help="Below 1 the likely becomes likelier, above 1 less so.", **WRITING)
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="From the k likeliest.", **WRITING)] = None,
    top_p: Annotated[
        float | None, typer.Option(help="From the likeliest that reach p together.", **WRITING)
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same draws each time.", **WRITING)] = None,
    dtype: Dtype = None,
    device: Device = "cpu",
    revision: Revision = None,
    allow_pickle: AllowPickle = False,
    offline: Offline = False,
    json: Json = False,
) -> None:
    """Look at every attention head of one pass: lines, maps, and the arithmetic of each number.

    Serves a page on this machine until Ctrl-C, or writes it as one HTML file. With --view generate it shows a text as
    it is written: what else could have come at each step, and what comes if you choose that.
    """
    from glassformer.errors import ConfigError, DataError
    from glassformer.explorer.look import Start

    if len(texts) > 2:
        raise DataError(f"look takes one text or two, got {len(texts)}; put each in quotes")
    chosen = _layers(layers)
    if html is None and chosen is not None:
        raise ConfigError("--layers says what the file of --html holds; a served page has all layers")
    if html is not None:
        from glassformer.explorer.page import check_place

        check_place(html)
    shape = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    drawn = sample or any(value is not None for value in shape.values())
    options = {"max_new_tokens": max_new_tokens, "num_beams": beams, "do_sample": drawn or None, **shape}
    given_options = {name: value for name, value in options.items() if value is not None}
    start = Start(view=view, layer=layer, heads=head, theme=theme, options=given_options or None)
    given = _read_texts(texts)

    from glassformer.explorer import Look
    from glassformer.explorer.runs import Runs
    from glassformer.model import load

    found = load(
        model, dtype=dtype, device=device, revision=revision, allow_pickle=allow_pickle, offline=offline
    )
    with Look(Runs(found), given, start) as made:
        if html is not None:
            write(made, html, layers=chosen, cap_bytes=round(cap_mb * 1e6), json=json)
        else:
            serve(made, port=port, browser=browser, json=json)


def write(look: Look, html: Path, *, layers: list[int] | None, cap_bytes: int, json: bool) -> None:
    """Save the page, and say what is in it and what is not."""
    with Bar("pass") as bar:
        follow(look.run, bar)
    with Bar("page") as bar:
        page = look.save(html, layers=layers, cap_bytes=cap_bytes, progress=bar)
    report = {**_facts(look), "out": str(html), "bytes": html.stat().st_size, "held": page.held}
    if json:
        _print_json(report)
        return
    from glassformer.cli.screen import byte_amount

    typer.echo(_summary(look))
    typer.echo(f"saved in {html}: {byte_amount(report['bytes'])}; open it in any browser, no network needed")
    absent = _absent(page)
    if absent:
        layers_option = ",".join(map(str, absent))
        typer.echo(
            f"it holds every head's picture; the exact numbers of layers {layers_option} would go beyond "
            f"{byte_amount(cap_bytes)}: name the layers you need with --layers, or raise --cap-mb"
        )


def serve(look: Look, *, port: int | None, browser: bool | None, json: bool) -> None:
    """Serve the page until Ctrl-C."""
    look.serve(port)
    if json:
        _print_json({"url": look.url, "port": look.port, **_facts(look)})
        look.wait()
        return
    look.show(browser)
    typer.echo("Ctrl-C stops the server")
    with Bar("pass") as bar:
        try:
            follow(look.run, bar)
            typer.echo(_summary(look))
        except KeyboardInterrupt:
            typer.echo("\nstopped")
            return
        except Exception as error:  # the page shows it too, and takes another text
            typer.echo(f"the pass failed: {error}", err=True)
    look.wait()


def follow(run: Run, progress: Progress) -> None:
    """Show how far a pass comes, to its end. Raises: what the pass raised."""
    while not run.wait(0.05):
        progress(*run.at)
    run.result()


class Bar:
    """A progress bar on a terminal, for work that takes a while; elsewhere nothing."""

    def __init__(self, title: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f} of {task.total:.0f}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task(title, total=1)

    def __call__(self, done: int, of: int) -> None:
        if of:
            self._progress.update(self._task, completed=done, total=of)

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()


def _summary(look: Look) -> str:
    """`13 text tokens · self 6 × 12 heads · pass 0.02 s · 0.1 MB kept`"""
    from glassformer.cli.screen import byte_amount

    session = look.session
    parts = [f"{len(tokens):,} {side} tokens" for side, tokens in session.sides.items()]
    parts += [f"{name} {found.layers} × {found.heads} heads" for name, found in session.maps.items()]
    parts += [f"pass {session.seconds:.2f} s", f"{byte_amount(session.nbytes)} kept"]
    return " · ".join(parts)


def _facts(look: Look) -> dict[str, Any]:
    session = look.session
    return {
        "texts": list(session.texts),
        "tokens": {side: len(tokens) for side, tokens in session.sides.items()},
        "maps": {
            name: {"layers": found.layers, "heads": found.heads} for name, found in session.maps.items()
        },
        "seconds": session.seconds,
        "memory_bytes": session.nbytes,
    }


def _absent(page: Page) -> list[int]:
    """Layers whose exact numbers are missing though nobody left them out."""
    if page.layers is not None:
        return []
    maps = page.session.maps
    return sorted({layer for name in maps for layer in range(maps[name].layers)} - _held_everywhere(page))


def _held_everywhere(page: Page) -> set[int]:
    maps = page.session.maps
    deepest = max(found.layers for found in maps.values())
    return {
        layer
        for layer in range(deepest)
        if all(layer in page.held[name] or layer >= maps[name].layers for name in maps)
    }


def _print_json(report: dict[str, Any]) -> None:
    import json as json_format

    typer.echo(json_format.dumps(report, ensure_ascii=False))
    sys.stdout.flush()  # a program that waits for the address reads a pipe


def _layers(option: str | None) -> list[int] | None:
    """`0,3` or `0-5`, or both."""
    import re

    from glassformer.errors import ConfigError

    if option is None:
        return None
    chosen: set[int] = set()
    for part in option.split(","):
        match = re.fullmatch(r"\s*(\d{1,4})\s*(?:-\s*(\d{1,4})\s*)?", part, re.ASCII)
        if match is None or (match[2] and int(match[2]) < int(match[1])):
            raise ConfigError(
                f"--layers is {option!r}; give layers counted from 0, such as 0,3 or 0-5 (both ends included)"
            )
        chosen.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return sorted(chosen)


def _read_texts(texts: list[str]) -> list[str]:
    """The texts, with `-` read from standard input; of that, one line end at the end is no text."""
    from glassformer.errors import DataError

    if texts.count("-") > 1:
        raise DataError("standard input can be one of the two texts, not both")
    return [_standard_input() if text == "-" else text for text in texts]


def _standard_input() -> str:
    from glassformer.errors import DataError

    try:
        return sys.stdin.buffer.read().decode("utf-8-sig").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise DataError(f"standard input is not UTF-8 text (byte {error.start})") from error
