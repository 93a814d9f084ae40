"""`glassformer look MODEL TEXT [TEXT]`: the attention explorer, a web page for one forward pass or one generation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.inputs import standard_input
from glassformer.cli.options import (
    BEAMS,
    MAX_NEW_TOKENS,
    AllowPickle,
    Browser,
    Device,
    Dtype,
    HtmlPage,
    Json,
    ModelName,
    Offline,
    Port,
    Revision,
    Sample,
    SamplingSeed,
    Temperature,
    TopK,
    TopP,
)
from glassformer.cli.screen import ProgressBar, byte_amount, print_json

if TYPE_CHECKING:
    from glassformer.explorer import Look
    from glassformer.explorer.session_runs import SessionRun
    from glassformer.explorer.standalone_page import Progress, StandalonePage

Layers = Annotated[
    str | None,
    typer.Option(
        help="Layers whose exact numbers go into the HTML file: 0,3 or 0-5. Default: all, up to --cap-mb.",
        show_default=False,
    ),
]
CapMegabytes = Annotated[
    float, typer.Option("--cap-mb", min=0, help="Size limit in MB of exact layers in the HTML file.")
]
View = Annotated[
    str | None,
    typer.Option(
        help="Initial view: model, head, matrix, neuron, or generate (watch a text being generated).",
        show_default=False,
    ),
]
Layer = Annotated[int | None, typer.Option(min=0, help="Initial layer, from 0.", show_default=False)]
Heads = Annotated[
    list[int] | None,
    typer.Option("--head", min=0, help="Initial attention head, from 0; repeatable.", show_default=False),
]
Theme = Annotated[
    str | None,
    typer.Option(help="Colour theme: light or dark. Default: the system's.", show_default=False),
]


def look(
    model: ModelName,
    texts: Annotated[
        list[str],
        typer.Argument(help="One text, or two as a text pair, in quotes; - reads standard input."),
    ],
    port: Port = None,
    browser: Browser = None,
    html: HtmlPage = None,
    layers: Layers = None,
    cap_mb: CapMegabytes = 25,
    view: View = None,
    layer: Layer = None,
    head: Heads = None,
    theme: Theme = None,
    max_new_tokens: Annotated[int | None, MAX_NEW_TOKENS] = None,
    beams: Annotated[int | None, BEAMS] = None,
    sample: Sample = False,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    seed: SamplingSeed = None,
    dtype: Dtype = None,
    device: Device = "cpu",
    revision: Revision = None,
    allow_pickle: AllowPickle = False,
    offline: Offline = False,
    json: Json = False,
) -> None:
    """Visualise attention: every head of every layer, as lines, maps, and the arithmetic of each number.

    Serves a web page on this machine until Ctrl-C, or writes it as one HTML file. With --view generate it shows text
    generation (40 tokens by default): the token distribution of each step, and what comes if you choose another token.
    The options for generation, sampling and beam search belong to that view.
    """
    from glassformer.errors import ConfigError, DataError
    from glassformer.explorer.look import InitialView

    if len(texts) > 2:
        raise DataError(f"look takes one text or two, got {len(texts)}; put each in quotes")
    exact_layers = _parse_layers(layers)
    if html is None and exact_layers is not None:
        raise ConfigError("--layers says what the file of --html holds; a served page has all layers")
    if html is not None:
        from glassformer.explorer.standalone_page import check_html_path

        check_html_path(html)
    shape = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    do_sample = sample or any(value is not None for value in shape.values())
    options = {"max_new_tokens": max_new_tokens, "num_beams": beams, "do_sample": do_sample or None, **shape}
    options = {name: value for name, value in options.items() if value is not None}
    start = InitialView(view=view, layer=layer, heads=head, theme=theme, options=options or None)
    inputs = _read_texts(texts)

    from glassformer.explorer import Look
    from glassformer.explorer.session_runs import SessionRuns
    from glassformer.model import load

    loaded = load(
        model, dtype=dtype, device=device, revision=revision, allow_pickle=allow_pickle, offline=offline
    )
    with Look(SessionRuns(loaded), inputs, start) as page:
        if html is not None:
            write(page, html, layers=exact_layers, cap_bytes=round(cap_mb * 1e6), json=json)
        else:
            serve(page, port=port, browser=browser, json=json)


def write(look: Look, html: Path, *, layers: list[int] | None, cap_bytes: int, json: bool) -> None:
    """Write the page as an HTML file, and print what it holds and what was left out."""
    with ProgressBar("forward pass") as bar:
        follow(look.run, bar)
    with ProgressBar("page") as bar:
        page = look.save(html, layers=layers, cap_bytes=cap_bytes, progress=bar)
    report = {**_facts(look), "out": str(html), "bytes": html.stat().st_size, "held": page.exact_layers}
    if json:
        print_json(report, indent=None)
        return
    typer.echo(_summary(look))
    typer.echo(f"saved in {html}: {byte_amount(report['bytes'])}; open it in any browser, no network needed")
    absent = _absent(page)
    if absent:
        layers_option = ",".join(map(str, absent))
        typer.echo(
            f"the file holds the image of every head; the exact numbers of layers {layers_option} would exceed "
            f"{byte_amount(cap_bytes)}: name the layers you need with --layers, or raise --cap-mb"
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
    with ProgressBar("forward pass") as bar:
        try:
            follow(look.run, bar)
            typer.echo(_summary(look))
        except KeyboardInterrupt:
            typer.echo("\nstopped")
            return
        except Exception as error:  # the server goes on: the page shows the error, and takes another text
            typer.echo(f"the forward pass failed: {error}", err=True)
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
    from glassformer.errors import ConfigError

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


def _read_texts(texts: list[str]) -> list[str]:
    """The texts, with `-` replaced by standard input, whose last line break is dropped."""
    from glassformer.errors import DataError

    if texts.count("-") > 1:
        raise DataError("standard input can be one of the two texts, not both")
    return [standard_input() if text == "-" else text for text in texts]
