"""`glassformer lens MODEL TEXT` and `glassformer attribute MODEL TEXT`: logit lens, and what made an output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from glassformer.cli.inputs import check_texts, whole_texts
from glassformer.cli.options import (
    HeadTask,
    Html,
    Json,
    Loading,
    ModelName,
    Options,
    Texts,
    Truncate,
    command,
    option,
)
from glassformer.cli.screen import notes, plain_table, print_json, progress_of, say, terminal, visible
from glassformer.progress import spinner
from glassformer.reports.amounts import byte_amount
from glassformer.reports.page import check_html_path, command_line
from glassformer.reports.table import bar

if TYPE_CHECKING:
    from glassformer.explorer.readings import Reading
    from glassformer.inspect import Session
    from glassformer.inspect.attribution.attribution import Attribution
    from glassformer.inspect.lens import Lens
    from glassformer.model import Model

BELOW, ABOVE, SHADE = (18, 90, 166), (196, 84, 0), (38, 132, 214)
"""Colours of against, of for, and of likely, as on the page."""
CELL, LABEL = 11, 16
"""Characters of a cell of the lens, and of the name of a token."""


@dataclass(frozen=True, kw_only=True)
class TargetOptions(Options):
    """Which output is explained."""

    target: str | None = option(
        None, "Output to explain: a token, a label, or its number; start or end of a span. Default: the model's own."
    )
    at: str | None = option(None, "Token where it stands: its number, or a word. Default: the last, the gap, …")
    against: str | None = option(None, "Explain the target rather than this output: the difference of their logits.")
    baseline: str | None = option(None, "Where integrated gradients begin: zero. Default: mask or padding tokens.")
    steps: int | None = option(None, "Gradients from baseline to input. Default: until they add up to 1 %.", min=1)


@command
def lens(
    model: ModelName,
    texts: Texts,
    target: Annotated[
        str | None, typer.Option(help="Output to follow through the layers: a token, a label, or its number.")
    ] = None,
    top: Annotated[int, typer.Option(help="How many outputs of each cell, in --json.", min=1)] = 5,
    html: Html = None,
    task: HeadTask = None,
    *,
    loading: Loading,
    truncate: Truncate = False,
    json: Json = False,
) -> None:
    """Logit lens: what the model would say if it ended after each layer; the last row is its own output.

    Of each layer and token it prints the most likely output, shaded by its probability; with --target the rank of that
    output. Language models, fillers of gaps, encoder-decoders, and classifiers of texts, tokens and spans.

    Examples:
      glassformer lens ./gpt2 'The capital of France is'
      glassformer lens ./gpt2 'The capital of France is' --target ' Paris' --html page.html
      glassformer lens ./bert 'The capital of France is [MASK].'
    """
    loaded, session = _opened(model, texts, html, task, loading, truncate)
    with progress_of("layers") as update:
        result = session.lens(top=top, target=_number(target), progress=update)
    if html is not None:
        _save(loaded, session, html, "lens", {"target": _number(target)}, {"r.follow": target})
    if json:
        print_json({"texts": list(session.texts), **result.to_dict(), "out": html and str(html)}, indent=None)
        return
    _show_lens(terminal(), result, follows=target is not None)
    _say_saved(html)


@command
def attribute(
    model: ModelName,
    texts: Texts,
    *,
    options: TargetOptions,
    html: Html = None,
    task: HeadTask = None,
    loading: Loading,
    truncate: Truncate = False,
    json: Json = False,
) -> None:
    """Attribution: which words, heads and layers made an output: a class, a tag, a span, the next token.

    Words by integrated gradients, which add up to the change of the logit from a text without them; heads and
    feed-forward layers by direct logit attribution, which adds up to the logit.

    Examples:
      glassformer attribute runs/emotion/model 'i feel so furious about it' --target anger
      glassformer attribute ./gpt2 'The capital of France is' --target ' Paris' --against ' London'
      glassformer attribute ./ner 'Ada met Grace' --at Ada --html page.html
    """
    loaded, session = _opened(model, texts, html, task, loading, truncate)
    given = options.given()
    request: dict[str, Any] = {
        "target": given.get("target"),
        "at": _number(given.get("at")),
        "against": given.get("against"),
    }
    with progress_of("gradients") as update:
        result = session.attribute(progress=update, **_gradients(given), **request)
    if html is not None:
        state = {f"r.{name}": value for name, value in request.items()}
        _save(loaded, session, html, "attribution", request, state)
    if json:
        print_json({"texts": list(session.texts), **result.to_dict(), "out": html and str(html)}, indent=None)
        return
    _show_attribution(terminal(), result)
    _say_saved(html)


def _opened(
    name: str, texts: Sequence[str], html: Path | None, task: str | None, loading: Loading, truncate: bool
) -> tuple[Model, Session]:
    check_texts(texts)
    if html is not None:
        check_html_path(html)
    with notes(repeats=False):
        with spinner("loading the model"):
            from glassformer.model import load

            model = load(name, task=task, **loading.given())
        return model, model.inspect(*whole_texts(texts, model), truncation=truncate)


def _gradients(given: dict[str, Any]) -> dict[str, Any]:
    return {name: given[name] for name in ("baseline", "steps") if name in given}


def _number(text: str | None) -> str | int | None:
    """A number of a token or an output, where the text is one."""
    digits = (text or "").removeprefix("-")
    return int(text or 0) if digits.isascii() and digits.isdigit() and len(digits) < 10 else text


def _save(
    model: Model, session: Session, path: Path, kind: str, request: dict[str, Any], state: dict[str, Any]
) -> None:
    """Write the explorer's page with this reading, and the other of the model's own output, as an HTML file."""
    from glassformer.explorer.describe import model_facts
    from glassformer.explorer.readings import quick_readings, read
    from glassformer.explorer.standalone_page import StandalonePage

    own: Reading = read(session, kind, request)
    others = [each for each in quick_readings(session) if each.key != own.key]
    start = urlencode({"v": 1, "view": kind, **{name: value for name, value in state.items() if value is not None}})
    page = StandalonePage(
        session, model_facts(model), session.texts, start=start, readings=[own, *others], command=command_line()
    )
    with progress_of("page") as update:
        page.save(path, update)


def _say_saved(html: Path | None) -> None:
    if html is not None:
        say(f"\nsaved in {html}: {byte_amount(html.stat().st_size)}; open it in any browser, no network needed")


# ── the lens ─────────────────────────────────────────────────────────────────────────────────────────────


def _show_lens(console: Console, lens: Lens, *, follows: bool) -> None:
    """A column a layer, a row a token; of one output for the whole text, a row a label."""
    rows = lens.rows
    shown = _layers(len(rows), max(2, (console.width - LABEL) // (CELL + 1)))
    first = {"tokens": "after" if lens.about.causal else "at", "text": "label", "span": ""}[lens.about.columns]
    table = plain_table(padding=(0, 1, 0, 0))
    table.add_column(first, no_wrap=True)
    for row in shown:
        table.add_column(rows[row].removeprefix("layer "), justify="left", no_wrap=True, width=CELL)
    for name, cells in _lens_rows(lens, shown, follows):
        table.add_row(Text(visible(name)[: LABEL - 1] or "␣"), *cells)
    console.print(table)
    if len(shown) < len(rows):
        console.print(Text(f"{len(shown)} of {len(rows)} layers: the terminal is narrow; --json has all", "dim"))
    followed = f"rank of {lens.about.name(int(lens.targets[0]))}"
    about = followed if follows else "the most likely output, shaded by its probability"
    console.print(Text(f"columns are layers, the last is the model's output; {visible(about)}", "dim"))


def _lens_rows(lens: Lens, shown: Sequence[int], follows: bool) -> Iterator[tuple[str, list[Text]]]:
    if lens.about.columns == "text":
        for choice in range(min(lens.choices, lens.ids.shape[-1])):
            at = [
                dict(zip(lens.ids[row, 0].tolist(), lens.logprobs[row, 0].exp().tolist(), strict=True)) for row in shown
            ]
            shares = [row[choice] for row in at]
            yield lens.about.name(choice), [_shaded(f"{share:.1%}", share) for share in shares]
        return
    for column, name in enumerate(lens.about.column_names):
        cells = []
        for row in shown:
            ((text, share),) = lens.top(row, column)[:1]
            if follows:
                rank, share = int(lens.ranks[row, column]), float(lens.target_logprobs[row, column].exp())
                text = f"{rank:,}"
            cells.append(_shaded(visible(text) or "␣", share))
        yield name, cells


def _layers(count: int, room: int) -> list[int]:
    """Rows that fit, evenly spaced, the last among them."""
    if count <= room:
        return list(range(count))
    return sorted({round(i * (count - 1) / (room - 1)) for i in range(room)})


def _shaded(text: str, share: float) -> Text:
    return Text(f"{text[:CELL]:<{CELL}}", _colours(SHADE, share))


def _colours(colour: tuple[int, int, int], share: float) -> str:
    strength = min(1.0, max(0.0, share)) ** 0.8
    ground = ",".join(str(round(255 + (channel - 255) * strength)) for channel in colour)
    return f"{'white' if strength > 0.6 else 'black'} on rgb({ground})"


# ── attribution ──────────────────────────────────────────────────────────────────────────────────────────


def _show_attribution(console: Console, result: Attribution) -> None:
    """The words in colour, with their numbers; the strongest parts, and sums by layer."""
    target = result.target
    console.print(
        Text.assemble((visible(target.title), "bold cyan"), f": logit {target.score:z.3f}, {target.probability:.1%}")
    )
    for stream, words in result.words().items():
        most = max((abs(value) for _, value in words), default=0.0) or 1.0
        line = Text()
        for word, value in words:
            line.append(f" {visible(word)} ", _colours(BELOW if value < 0 else ABOVE, abs(value) / most))
            line.append(" ")
        console.print(Text.assemble("\n", (f"{stream}, by integrated gradients", "dim")) if stream else "")
        console.print(line)
        strongest = sorted(words, key=lambda word: -abs(word[1]))[:6]
        console.print(Text("  ".join(f"{visible(word)} {value:+z.3f}" for word, value in strongest)))
    console.print()
    console.print(_strongest(result))
    console.print()
    console.print(_by_layer(result))
    for note in result.notes:
        console.print(Text(note, "dim"))


def _strongest(result: Attribution) -> Table:
    table = plain_table("strongest parts")
    table.add_column("logit", justify="right")
    table.add_column("")
    parts = result.strongest(8)
    most = max(abs(part.value) for part in parts) or 1.0
    for part in parts:
        table.add_row(part.name, f"{part.value:+z.3f}", Text(bar(abs(part.value) / most, 24), _sign(part.value)))
    return table


def _by_layer(result: Attribution) -> Table:
    sums = result.by_layer()
    table = plain_table("layer")
    kinds = [kind for kind in ("head", "cross head", "feed-forward", "convolution") if kind in sums]
    for kind in kinds:
        table.add_column({"head": "attention", "cross head": "cross-attention"}.get(kind, kind), justify="right")
    layers = sorted({layer for kind in kinds for layer in sums[kind]})
    for layer, value in sums.get("attention bias", {}).items():
        sums["head"][layer] += value
    for layer in layers:
        values = [sums[kind].get(layer, 0.0) for kind in kinds]
        table.add_row(str(layer), *(Text(f"{value:+z.3f}", _sign(value)) for value in values))
    whole = {part.kind: part.value for part in result.parts if part.layer is None}
    for name, value in whole.items():
        table.add_row(name, Text(f"{value:+z.3f}", _sign(value)), *[""] * (len(kinds) - 1))
    return table


def _sign(value: float) -> str:
    return "rgb(18,90,166)" if value < 0 else "rgb(196,84,0)"
