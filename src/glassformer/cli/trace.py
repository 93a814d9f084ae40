"""`glassformer trace MODEL TEXT [TEXT]`: the shapes and figures of every tensor of one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.options import AllowPickle, Device, Dtype, HeadTask, ModelName, Offline, Revision

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from glassformer.inspect import Layer, Session, TapRow
    from glassformer.model import Model

ROOMY = 100  # from this many columns on, columns stand further apart


def trace(
    model: ModelName,
    texts: Annotated[list[str], typer.Argument(help="One text, or two as a pair; put each in quotes.")],
    taps: Annotated[
        list[str] | None,
        typer.Option(
            help="Only these, such as attn.probs or 'blocks.*.out'; may be given again. "
            "Default: all but scores and probs.",
            show_default=False,
        ),
    ] = None,
    all_layers: Annotated[
        bool, typer.Option("--all", help="Show every layer, without folding those of one form.")
    ] = False,
    task: HeadTask = None,
    dtype: Dtype = None,
    device: Device = "cpu",
    revision: Revision = None,
    allow_pickle: AllowPickle = False,
    offline: Offline = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs; every layer.")] = False,
) -> None:
    """Run one text through a model and show what flows: shapes, axes, mean, deviation, smallest and largest.

    Nothing is kept, so a long text costs no more memory than its pass. An encoder-decoder takes source and target.

    Examples:
      glassformer trace ./all-MiniLM-L6-v2 'time flies like an arrow'
      glassformer trace ./all-MiniLM-L6-v2 'time flies' 'fruit flies' --taps attn.probs --all
    """
    from glassformer.model import load

    found = load(
        model,
        task=task, dtype=dtype, device=device, revision=revision, allow_pickle=allow_pickle, offline=offline,
    )  # fmt: skip
    session = found.inspect(*texts)
    rows = session.trace(*(taps or ()))
    if json:
        import json as json_format

        data = _as_data(found, session, rows, asked=bool(taps))
        typer.echo(json_format.dumps(data, ensure_ascii=False, indent=2))
        return
    from rich.console import Console

    from glassformer.inspect import folded

    console = Console(highlight=False)
    _show_head(console, found, session, rows)
    _show_rows(console, folded(rows, each=all_layers))
    _show_notes(console, rows, asked=bool(taps))


def _as_data(model: Model, session: Session, rows: list[TapRow], *, asked: bool) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "architecture": model.family.architecture(model.task),
        "task": model.task,
        "folder": str(model.folder),
        "texts": list(session.texts),
        "tokens": {side: len(tokens) for side, tokens in session.sides.items()},
        "left_out": [] if asked else _left_out(model.taps()),
        "taps": [{**asdict(row), "axes": list(row.axes)} for row in rows],
    }


def _left_out(names: list[str]) -> list[str]:
    from glassformer.inspect.trace import SLOW

    return [name for name in names if name.split(".")[-1] in SLOW]


def _show_head(console: Console, model: Model, session: Session, rows: list[TapRow]) -> None:
    from rich.text import Text

    from glassformer.cli.screen import byte_amount

    tokens = ", ".join(f"{len(tokens):,} {side} tokens" for side, tokens in session.sides.items())
    size = byte_amount(sum(row.bytes for row in rows))
    kinds = ", ".join(dict.fromkeys(row.dtype for row in rows))
    console.print(
        Text.assemble(
            (model.family.architecture(model.task), "bold cyan"),
            f", for {model.task} · {tokens} · {len(rows)} tensors, {size} as {kinds}",
        )
    )
    console.print()


def _show_rows(console: Console, layers: list[Layer]) -> None:
    """One line a tensor, below the name of its layer."""
    from rich.table import Table
    from rich.text import Text

    from glassformer.cli.screen import byte_amount

    rows = [row for layer in layers for row in layer.rows.values()]
    mixed = len({row.dtype for row in rows}) > 1
    odd = any(_odd(row) for row in rows)
    table = Table(
        box=None,
        header_style="bold cyan",
        pad_edge=False,
        padding=(0, 2 if console.width >= ROOMY else 1, 0, 0),
    )
    table.add_column("tensor", overflow="fold")
    table.add_column("shape", overflow="fold")
    for name in ("mean", "std", "min", "max", "size"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ["dtype"] * mixed + ["of these"] * odd:
        table.add_column(name, overflow="fold")
    for layer in layers:
        if layer.path:
            repeats = f"×{layer.repeats}, the first:" if layer.repeats > 1 else ""
            table.add_row(Text(layer.path, "bold"), Text(repeats, "yellow"))
        for name, row in layer.rows.items():
            figures = (row.mean, row.deviation, row.smallest, row.largest)
            table.add_row(
                ("  " if layer.path else "") + name,
                _shape(row),
                *("–" if figure is None else f"{figure:.3g}" for figure in figures),
                byte_amount(row.bytes),
                *[row.dtype] * mixed,
                *[_odd(row)] * odd,
            )
    console.print(table)


def _shape(row: TapRow) -> Text:
    """`B1 H12 T13 E32`: the letter and the size of each axis."""
    from rich.text import Text

    sizes = zip(row.axes, row.shape, strict=True)
    return Text(" ").join(Text.assemble((letter, "dim"), str(size)) for letter, size in sizes)


def _odd(row: TapRow) -> str:
    """The numbers that deserve a word: `31% zero, 46% inf`."""
    shares = {"zero": row.zeros, "NaN": row.nans, "inf": row.infinities}
    return ", ".join(f"{_percent(share)} {name}" for name, share in shares.items() if share)


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.005 else "<1%"


def _show_notes(console: Console, rows: list[TapRow], *, asked: bool) -> None:
    """What the letters mean, and what is not shown."""
    from rich.text import Text

    from glassformer.inspect.trace import LETTERS

    used = {letter for row in rows for letter in row.axes}
    legend = " · ".join(f"{letter} {meaning}" for letter, meaning in LETTERS.items() if letter in used)
    console.print()
    console.print(Text(legend, style="dim"))
    if not asked:
        console.print(Text("scores and probs are made only where asked for: --taps attn.probs", style="dim"))
