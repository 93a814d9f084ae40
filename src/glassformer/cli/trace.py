"""`glassformer trace MODEL TEXT [TEXT]`: shapes and statistics of every tensor of a forward pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from glassformer.cli.inputs import check_texts, whole_texts
from glassformer.cli.options import HeadTask, Loading, ModelName, Texts, Truncate, command
from glassformer.cli.screen import notes, plain_table, print_json, terminal
from glassformer.progress import spinner
from glassformer.reports.amounts import byte_amount

if TYPE_CHECKING:
    from glassformer.inspect import Session, TapRow, TracedLayer
    from glassformer.model import Model

WIDE = 100  # terminal width from which on columns have more space between them


@command
def trace(
    model: ModelName,
    texts: Texts,
    taps: Annotated[
        list[str] | None,
        typer.Option(
            help="Taps to show, such as attn.probs or 'blocks.*.out'; repeatable. Default: all but scores and probs.",
            show_default=False,
        ),
    ] = None,
    all_layers: Annotated[bool, typer.Option("--all", help="Show every layer, without folding equal ones.")] = False,
    task: HeadTask = None,
    *,
    loading: Loading,
    truncate: Truncate = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs, of every layer.")] = False,
) -> None:
    """Trace a forward pass: shape, axes, mean, standard deviation, minimum and maximum of every tensor.

    No tensor is stored, so the trace takes no extra memory. An encoder-decoder takes a source and a target text.

    Examples:
      glassformer trace ./all-MiniLM-L6-v2 'time flies like an arrow'
      glassformer trace ./all-MiniLM-L6-v2 'time flies' 'fruit flies' --taps attn.probs --all
    """
    check_texts(texts)
    with notes():
        with spinner("loading the model"):
            from glassformer.model import load

            loaded = load(model, task=task, **loading.given())
        session = loaded.inspect(*whole_texts(texts, loaded), truncation=truncate)
    rows = session.trace(*(taps or ()))
    if json:
        print_json(_as_data(loaded, session, rows, selected=bool(taps)))
        return
    from glassformer.inspect import fold_layers

    console = terminal()
    _show_head(console, loaded, session, rows)
    _show_rows(console, fold_layers(rows, separate=all_layers))
    _show_notes(console, rows, selected=bool(taps))


def _as_data(model: Model, session: Session, rows: list[TapRow], *, selected: bool) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "architecture": model.family.architecture(model.task),
        "task": model.task,
        "folder": str(model.folder),
        "texts": list(session.texts),
        "tokens": {side: len(tokens) for side, tokens in session.streams.items()},
        "left_out": [] if selected else _left_out(model.taps()),
        "taps": [{**asdict(row), "axes": list(row.axes)} for row in rows],
    }


def _left_out(names: list[str]) -> list[str]:
    from glassformer.inspect.trace import SLOW

    return [name for name in names if name.split(".")[-1] in SLOW]


def _show_head(console: Console, model: Model, session: Session, rows: list[TapRow]) -> None:
    tokens = ", ".join(f"{len(tokens):,} {side} tokens" for side, tokens in session.streams.items())
    size = byte_amount(sum(row.bytes for row in rows))
    kinds = ", ".join(dict.fromkeys(row.dtype for row in rows))
    console.print(
        Text.assemble(
            (model.family.architecture(model.task), "bold cyan"),
            f", for {model.task} · {tokens} · {len(rows)} tensors, {size} as {kinds}",
        )
    )
    console.print()


def _show_rows(console: Console, layers: list[TracedLayer]) -> None:
    """One line per tensor, below the name of its layer."""
    rows = [row for layer in layers for row in layer.rows.values()]
    mixed = len({row.dtype for row in rows}) > 1
    special = any(_special_values(row) for row in rows)
    table = plain_table(padding=(0, 2 if console.width >= WIDE else 1, 0, 0))
    table.add_column("tensor", overflow="fold")
    table.add_column("shape", overflow="fold")
    for name in ("mean", "std", "min", "max", "size"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ["dtype"] * mixed + ["of these"] * special:
        table.add_column(name, overflow="fold")
    for layer in layers:
        if layer.path:
            repeats = f"×{layer.repeats}, the first:" if layer.repeats > 1 else ""
            table.add_row(Text(layer.path, "bold"), Text(repeats, "yellow"))
        for name, row in layer.rows.items():
            statistics = (row.mean, row.deviation, row.smallest, row.largest)
            table.add_row(
                ("  " if layer.path else "") + name,
                _shape(row),
                *("–" if value is None else f"{value:.3g}" for value in statistics),
                byte_amount(row.bytes),
                *[row.dtype] * mixed,
                *[_special_values(row)] * special,
            )
    console.print(table)


def _shape(row: TapRow) -> Text:
    """`B1 H12 T13 E32`: the letter and the size of each axis."""
    sizes = zip(row.axes, row.shape, strict=True)
    return Text(" ").join(Text.assemble((letter, "dim"), str(size)) for letter, size in sizes)


def _special_values(row: TapRow) -> str:
    """Shares of zeros, NaN and infinities: `31% zero, 46% inf`."""
    shares = {"zero": row.zeros, "NaN": row.nans, "inf": row.infinities}
    return ", ".join(f"{_percent(share)} {name}" for name, share in shares.items() if share)


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.005 else "<1%"


def _show_notes(console: Console, rows: list[TapRow], *, selected: bool) -> None:
    """The legend of the axes, and which tensors were left out."""
    from glassformer.inspect.trace import LETTERS

    used = {letter for row in rows for letter in row.axes}
    legend = " · ".join(f"{letter} {meaning}" for letter, meaning in LETTERS.items() if letter in used)
    console.print()
    console.print(Text(legend, style="dim"))
    if not selected:
        console.print(Text("scores and probs are computed only on request: --taps attn.probs", style="dim"))
