"""The explorer's page for `look`, `demo` and `similar`: served until Ctrl-C, or a file, with what it holds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from glassformer.cli.screen import print_json, progress_of, say
from glassformer.reports.table import byte_amount

if TYPE_CHECKING:
    from glassformer.explorer import Look
    from glassformer.explorer.server import LocalPage


def write(
    look: Look,
    html: Path,
    *,
    layers: list[int] | None = None,
    cap_bytes: int | None = None,
    views: Sequence[str] = (),
    json: bool = False,
) -> None:
    """Write the page as an HTML file, and print what it holds and what was left out."""
    with progress_of("forward pass") as bar:
        look.run.follow(bar)
    with progress_of("page") as bar:
        page = look.save(html, layers=layers, cap_bytes=cap_bytes, views=views, progress=bar)
    size = html.stat().st_size
    if json:
        print_json({**look.facts, "out": str(html), "bytes": size, "held": page.exact_layers}, indent=None)
        return
    typer.echo(look.summary)
    say(f"saved in {html}: {byte_amount(size)}; open it in any browser, no network needed")
    if page.left_out:
        from glassformer.explorer.standalone_page import CAP_BYTES

        layers_option, cap = (
            ",".join(map(str, page.left_out)),
            byte_amount(cap_bytes if cap_bytes is not None else CAP_BYTES),
        )
        typer.echo(
            f"the file holds the image of every head; the exact numbers of layers {layers_option} would exceed {cap}: "
            "name the layers you need with --layers, or raise --cap-mb"
        )


def serve(look: Look, *, port: int | None, browser: bool | None, json: bool = False) -> None:
    """Serve the page until Ctrl-C."""
    look.serve(port)
    if json:
        print_json({"url": look.url, "port": look.port, **look.facts}, indent=None)
        look.wait()
        return
    look.show(browser)
    typer.echo("Ctrl-C stops the server")
    with progress_of("forward pass") as bar:
        try:
            look.run.follow(bar)
            typer.echo(look.summary)
        except KeyboardInterrupt:
            typer.echo("\nstopped")
            return
        except Exception as error:  # the server goes on: the page shows the error, and takes another text
            say(f"the forward pass failed: {error}", err=True)
    look.wait()


def wait_until_stopped(page: LocalPage, browser: bool | None, *, json: bool = False) -> None:
    """Say where a page is served, open it in a browser, and serve it until Ctrl-C."""
    if json:
        print_json({"url": page.url, "port": page.port}, indent=None)
    else:
        page.show(browser)
        typer.echo("Ctrl-C stops the server")
    page.wait()
