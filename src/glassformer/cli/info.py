"""`glassformer info MODEL`: what a model is made of, what it weighs and costs, and what its tensors are called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from glassformer.cli.options import AllowPickle, Dtype, HeadTask, Json, Offline, Revision

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from glassformer.inspect import Memory, Part, Summary, TensorRow, Weight
    from glassformer.model import Model
    from glassformer.text import Tokenizer
    from glassformer.weights.report import LoadReport

WEIGHT_FILES = (".safetensors", ".safetensors.index.json", ".bin", ".bin.index.json", ".pt", ".pth", ".ckpt")
ROOMY = 100  # from this many columns on, numbers are exact and parts show their class


def info(
    model: Annotated[
        str,
        typer.Argument(
            help="A model folder, a config.json, a published size (`glassformer sizes` lists them), "
            "or a name on the Hugging Face Hub; the first of these that there is."
        ),
    ],
    task: HeadTask = None,
    tokens: Annotated[int, typer.Option(min=1, help="The length of a text, for FLOPs and memory.")] = 128,
    dtype: Dtype = None,
    memory: Annotated[
        bool, typer.Option("--memory", help="Also show the memory that training and inference take.")
    ] = False,
    batch: Annotated[int, typer.Option(min=1, help="How many texts at a time, for memory.")] = 1,
    names: Annotated[
        bool, typer.Option("--names", help="Also list the tensors, by our names and theirs.")
    ] = False,
    taps: Annotated[bool, typer.Option("--taps", help="List every tap, without folding repeats.")] = False,
    revision: Revision = None,
    allow_pickle: AllowPickle = False,
    offline: Offline = False,
    json: Json = False,
) -> None:
    """Show the parts of a model: shapes, parameters, bytes, FLOPs a token, memory, tensor names and taps.

    No weight is read, so a model larger than the machine is fine. A config.json alone is enough for sizes,
    and so is the name of a published model.
    """
    from glassformer.inspect import memory as memory_of
    from glassformer.inspect import summary

    found, origin = _found(
        model,
        task=task, dtype=dtype, revision=revision, allow_pickle=allow_pickle, offline=offline,
    )  # fmt: skip
    theirs = _their_names(found, origin is None, allow_pickle) if names or json else None
    result = summary(found.network, tokens=tokens, theirs=theirs)
    needed = memory_of(found.network, batch=batch, tokens=tokens)
    if json:
        import json as json_format

        data = {**_as_data(found, result, origin), "memory": needed.to_dict()}
        typer.echo(json_format.dumps(data, ensure_ascii=False, indent=2))
        return
    from rich.console import Console

    console = Console(highlight=False)
    _show_head(console, found, result, origin)
    _show_report(console, found.report)
    _show_tree(console, result)
    if memory:
        _show_memory(console, needed)
    if names:
        _show_names(console, result)
    _show_taps(console, result, folded=not taps)


# --------------------------------------------------------------------------------------------------- loading


def _found(
    name: str,
    *,
    task: str | None,
    dtype: str | None,
    revision: str | None,
    allow_pickle: bool,
    offline: bool,
) -> tuple[Model, str | None]:
    """The model on the meta device; where its sizes come from if not from weights, else None."""
    from glassformer.errors import ConfigError, DataError, nearest
    from glassformer.files.strict_json import read_object
    from glassformer.model import load
    from glassformer.models.presets import PRESETS

    path = Path(name).expanduser()
    config = _config_alone(path)
    if config is not None:
        found = _without_weights(read_object(config, ConfigError), config.parent, task, dtype)
        return found, "config.json alone"
    here = path.exists()
    if not here and revision is None and name in PRESETS:  # a revision is the Hub's
        return _without_weights(PRESETS[name].config, None, task, dtype), PRESETS[name].source
    try:
        found = load(
            name,
            task=task, dtype=dtype, device="meta", revision=revision, allow_pickle=allow_pickle, offline=offline,
        )  # fmt: skip
    except DataError as error:
        hint = "" if here else nearest(name, PRESETS).replace("nearest", "sizes are known of")
        raise DataError(f"{error}{hint}") from error
    return found, None


def _config_alone(path: Path) -> Path | None:
    """The config.json of a folder that holds no weights, or the file itself."""
    if path.is_file() and path.suffix == ".json":
        return path
    if not (path / "config.json").is_file() or any(
        file.name.endswith(WEIGHT_FILES) for file in path.iterdir()
    ):
        return None
    return path / "config.json"


def _without_weights(
    config: Mapping[str, Any], folder: Path | None, task: str | None, dtype: str | None
) -> Model:
    """The model that a config describes, on the meta device: shapes without numbers."""
    from glassformer.edge import dtype_of
    from glassformer.model import Model
    from glassformer.text import Tokenizer

    tokenizer = None if folder is None else Tokenizer.find(folder)
    model = Model.from_config(config, task=task, tokenizer=tokenizer, device="meta")
    model.folder = folder
    return model.to(dtype_of(dtype or config.get("dtype") or config.get("torch_dtype") or "float32"))


def _their_names(model: Model, weights: bool, allow_pickle: bool) -> Callable[[str], list[str]]:
    """Our parameter's name → its names in the checkpoint; as the reference library writes them without one."""
    from glassformer.weights.fit import as_spelled
    from glassformer.weights.read import open_checkpoint

    table = model.family.names(model.spec, model.task)
    new, stored = set(model.report.new), frozenset[str]()
    prefixed = model.task != "feature-extraction" and table.prefixed
    if weights and model.folder is not None:
        with open_checkpoint(model.folder, allow_pickle=allow_pickle) as checkpoint:
            stored = frozenset(checkpoint.tensors)
        prefixed = table.are_prefixed(stored)

    return lambda ours: (
        [] if ours in new else [as_spelled(name, stored) for name in table.find(ours, prefixed=prefixed)[1]]
    )


def _as_data(model: Model, result: Summary, origin: str | None) -> dict[str, Any]:
    report = model.report
    return {
        "model_type": model.family.model_type,
        "architecture": model.family.architecture(model.task),
        "task": model.task,
        "folder": None if model.folder is None else str(model.folder),
        "dtypes": list(result.dtypes),
        "weights": origin is None,
        "sizes_from": origin,
        "report": {
            "loaded": report.loaded,
            "new": report.new,
            "unused": report.unused,
            "warnings": report.warnings,
        },
        "tokenizer": _tokenizer_data(_tokenizer_of(model)),
        **result.to_dict(),
    }


def _tokenizer_of(model: Model) -> Tokenizer | None:
    from glassformer.errors import DataError

    try:
        return model.tokenizer
    except DataError:
        return None


def _tokenizer_data(tokenizer: Tokenizer | None) -> dict[str, Any] | None:
    if tokenizer is None:
        return None
    return {
        "kind": type(tokenizer.engine.model).__name__,
        "tokens": len(tokenizer),
        "model_max_length": tokenizer.model_max_length,
        "padding_side": tokenizer.padding_side,
        "special_tokens": dict(tokenizer.special_tokens),
        "inputs": tokenizer.model_input_names,
    }


# -------------------------------------------------------------------------------------------------- the head


def _show_head(console: Console, model: Model, result: Summary, origin: str | None) -> None:
    """What it is, in a few lines."""
    from rich.table import Table
    from rich.text import Text

    from glassformer.cli.screen import amount, byte_amount, visible

    exact = console.width >= ROOMY
    count = f"{result.parameters:,}" if exact else amount(result.parameters)
    a_token, a_text = amount(result.flops / result.tokens), amount(result.flops)
    active = (
        "" if result.active == result.parameters else f", {amount(result.active)} of them run for a token"
    )
    bits = " · ".join(
        f"{byte_amount(width * result.parameters)} {name}"
        for name, width in (("as float32", 4), ("in 16 bits", 2), ("as int8", 1))
    )
    rows = [
        ("model", f"{model.family.architecture(model.task)}, for {model.task}"),
        ("folder", "" if model.folder is None else str(model.folder)),
        ("size", f"{count} parameters{active} · {byte_amount(result.bytes)} as {', '.join(result.dtypes)}"),
        ("weights", bits),
        ("work", f"{a_token} FLOPs a token, {a_text} a text of {result.tokens} tokens"),
        ("text", "" if model.folder is None else _tokenizer_words(_tokenizer_of(model))),
        ("loads", _report_words(model) if origin is None else f"no weights here: sizes from {origin}"),
    ]
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, words in rows:
        if words:
            table.add_row(name, Text(visible(words)))
    for warning in _first(model.report.warnings, 10):
        table.add_row("warning", Text(visible(warning), style="yellow"))
    console.print(table)


def _show_report(console: Console, report: LoadReport) -> None:
    """The tensors that are new or unused, those of one beginning in a line."""
    from rich.table import Table
    from rich.text import Text

    from glassformer.weights.report import MEANING, MOST_LINES, clear, left_out

    for kind, style in (("new", "yellow"), ("unused", "dim")):
        groups = report.groups(kind)
        if not groups:
            continue
        table = Table(box=None, header_style=style, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column(kind, overflow="fold")
        table.add_column("tensors", justify="right")
        table.add_column("shapes", overflow="fold")
        for group in groups[:MOST_LINES]:
            table.add_row(Text(clear(group.name)), f"{group.tensors:,}", group.shape)
        console.print()
        console.print(table)
        for line in (*left_out(groups), f"{kind}: {MEANING[kind]}"):
            console.print(Text(line, style="dim"))


def _show_memory(console: Console, needed: Memory) -> None:
    """What it takes to train it and to use it."""
    from rich.table import Table
    from rich.text import Text

    from glassformer.cli.screen import byte_amount

    columns = {
        "training, fp32": needed.training,
        "training, mixed": needed.mixed,
        "inference": needed.inference,
    }
    table = Table(box=None, header_style="bold cyan", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(f"memory, {needed.batch:,} × {needed.tokens:,} tokens", overflow="fold")
    for name in columns:
        table.add_column(name, justify="right")
    for row in ("weights", "gradients", "optimiser", "activations", "cache"):
        table.add_row(row, *(byte_amount(getattr(use, row)) for use in columns.values()))
    table.add_row("at one time", *(byte_amount(use.peak) for use in columns.values()), style="bold")
    console.print()
    console.print(table)
    console.print()
    console.print(
        Text(
            f"Training in fp32 with less: {byte_amount(needed.recomputed.peak)} at one time where the backward pass "
            f"computes blocks once more, {byte_amount(needed.offloaded.peak)} where the host holds what they keep."
        )
    )
    console.print(
        Text(
            "Optimiser: AdamW's two moments in fp32, and where weights have 16 bits, an fp32 copy of them. "
            "Activations: what autograd keeps of the pass forward, without dropout; in inference those of one block. "
            "Cache: keys and values of every token. At one time: gradients come as activations go, so the larger of "
            "the two counts."
        )
    )


def _tokenizer_words(tokenizer: Tokenizer | None) -> str:
    if tokenizer is None:
        return "no tokenizer in the folder"
    kind = {"BPE": "byte-pair", "WordPiece": "WordPiece", "Unigram": "Unigram"}
    engine = type(tokenizer.engine.model).__name__
    words = [f"{kind.get(engine, engine)} tokenizer of {len(tokenizer):,} pieces"]
    if tokenizer.model_max_length is not None:
        words.append(f"at most {tokenizer.model_max_length:,} a text")
    words.append(" ".join(dict.fromkeys(tokenizer.special_tokens.values())))
    return " · ".join(word for word in words if word)


def _report_words(model: Model) -> str:
    report = model.report
    words = [f"{len(report.loaded)} tensors from the checkpoint"]
    if report.new:
        words.append(f"{len(report.new)} new, to be trained before use")
    words.append(f"{len(report.unused)} unused" if report.unused else "none unused")
    return " · ".join(words)


def _first(values: list[str], count: int) -> list[str]:
    more = len(values) - count
    return values if more <= 0 else [*values[:count], f"… and {more} more (--json lists all)"]


# -------------------------------------------------------------------------------------------------- the tree


class Line(NamedTuple):
    """One line of the tree; numbers are of one of the repeats."""

    guide: str
    label: str
    kind: str
    repeats: int
    shape: str
    parameters: int
    bytes: int
    flops: int
    style: str = ""


def _show_tree(console: Console, result: Summary) -> None:
    from rich.table import Table
    from rich.text import Text

    from glassformer.cli.screen import amount, byte_amount

    exact = console.width >= ROOMY
    number: Callable[[float], str] = (lambda n: f"{n:,.0f}") if exact else amount
    table = Table(box=None, header_style="bold cyan", pad_edge=False, padding=(0, 2 if exact else 1, 0, 0))
    table.add_column("part", overflow="fold")
    table.add_column("shape", overflow="fold")
    for name in ("parameters", "bytes", "FLOPs a token") if exact else ("params", "bytes", "FLOPs\n/token"):
        table.add_column(name, justify="right", no_wrap=True)
    for line in _lines(result.root):
        label = Text.assemble((line.guide, "dim"), (line.label, line.style))
        if line.repeats > 1:
            label.append(f"  ×{line.repeats}, each", "yellow")
        elif exact and line.kind not in ("", line.label):
            label.append(f"  {line.kind}", "dim")
        table.add_row(
            label,
            line.shape,
            number(line.parameters) if line.parameters else "",
            byte_amount(line.bytes) if line.bytes else "",
            number(line.flops / result.tokens),
            style="dim" if line.style == "italic" else line.style,
        )
    console.print()
    console.print(table)
    console.print()
    console.print(_convention(result))


def _lines(root: Part) -> Iterator[Line]:
    """The tree from the root down."""
    yield _line("", root.kind, root)
    yield from _lines_below(root, "", "")


def _lines_below(part: Part, path: str, guide: str) -> Iterator[Line]:
    own = part.own_flops if part.parts else 0  # attention's own work, beside that of its linear layers
    for i, child in enumerate(part.parts):
        last = i == len(part.parts) - 1 and not own
        full = f"{path}.{child.name}" if path else child.name
        label = full if child.repeats > 1 else child.name
        while _is_wrapper(child):
            child = child.parts[0]
            label, full = f"{label}.{child.name}", f"{full}.{child.name}"
        yield _line(guide + ("└─ " if last else "├─ "), label, child)
        yield from _lines_below(child, full, guide + ("   " if last else "│  "))
    if own:
        label = f"scores, z ({part.mask})" if part.mask else "scores, z"
        yield Line(f"{guide}└─ ", label, "", 1, part.formula, 0, 0, own, "italic")


def _line(guide: str, label: str, part: Part) -> Line:
    shape = " + ".join(filter(None, (part.note, *map(_weight_words, part.weights))))
    kind = part.kind if part.parts else ""
    style = "bold" if not guide or part.repeats > 1 else ""
    return Line(guide, label, kind, part.repeats, shape, part.parameters, part.bytes, part.flops, style)


def _is_wrapper(part: Part) -> bool:
    """Does it only hold one other part? Then both stand on one line."""
    bare = not part.weights and not part.taps and not part.own_flops and part.repeats == 1
    return bare and len(part.parts) == 1 and part.parts[0].repeats == 1


def _weight_words(weight: Weight) -> str:
    if weight.tied_to:
        return f"= {weight.tied_to}"
    shape = "×".join(map(str, weight.shape)) or "1"
    return shape if weight.leaf in ("weight", "bias") else f"{weight.leaf} {shape}"


def _convention(result: Summary) -> Text:
    from rich.text import Text

    words = (
        f"FLOPs: 2 a multiply-add, of one pass forward over {result.tokens} tokens (--tokens), shared out over them. "
        "Counted: linear layers (2 · rows · columns) and attention (4 · heads · head width · keys that a query sees, "
        "on average). Look-ups, norms, softmax, activations and sums count 0; a head that reads one token counts once "
        "a text. Shapes are outputs×inputs + bias."
    )
    if result.uncounted:
        words += f" Not counted, since they are of an unknown kind: {', '.join(result.uncounted)}."
    return Text(words)


# ---------------------------------------------------------------------------------------------- names and taps


def _show_names(console: Console, result: Summary) -> None:
    from rich.table import Table
    from rich.text import Text

    from glassformer.cli.screen import visible

    table = Table(box=None, header_style="bold cyan", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("tensor", overflow="fold")
    table.add_column("in the checkpoint", overflow="fold")
    for ours, theirs in _folded_names(result):
        table.add_row(ours, Text(visible(_joined(theirs)) if theirs else "(new)"))
    console.print()
    console.print(table)


def _folded_names(result: Summary) -> Iterator[tuple[str, list[str]]]:
    """Each tensor with its names in the checkpoint; those that differ in a repeated number alone stand once."""
    rows: dict[str, TensorRow] = {row.name: row for row in result.tensors}
    for path, _ in result.root.walk():
        for row in [row for name, row in rows.items() if name.rpartition(".")[0] == _one_of(path, 0)]:
            other = rows.get(f"{_one_of(path, -1)}.{row.name.rpartition('.')[2]}", row)
            ours = ".".join(filter(None, (path, row.name.rpartition(".")[2])))
            ranges = [part for part in path.split(".") if part[:1].isdigit()]
            yield ours, [_merged(a, b, ranges) for a, b in zip(row.theirs, other.theirs, strict=True)]


def _one_of(path: str, which: int) -> str:
    """`blocks.0-5.attn` → `blocks.0.attn` (which = 0) or `blocks.5.attn` (which = -1)."""
    parts = path.split(".")
    return ".".join(
        part.replace(",", "-").split("-")[which] if part[:1].isdigit() else part for part in parts
    )


def _merged(first: str, last: str, ranges: list[str]) -> str:
    """Two names of theirs, with our ranges where their numbers differ."""
    left = iter(ranges)
    pairs = zip(first.split("."), last.split("."), strict=True)
    return ".".join(a if a == b else next(left, f"{a}…{b}") for a, b in pairs)


def _joined(names: list[str]) -> str:
    """["self.query.weight", "self.key.weight"] → "self.{query,key}.weight"."""
    columns = [list(dict.fromkeys(parts)) for parts in zip(*(name.split(".") for name in names), strict=True)]
    return ".".join(column[0] if len(column) == 1 else "{" + ",".join(column) + "}" for column in columns)


def _show_taps(console: Console, result: Summary, folded: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    console.print()
    heading = f"{len(result.taps)} taps: tensors that a Tape can listen to or replace"
    console.print(
        Text.assemble((heading, "bold cyan"), ("" if not folded else "  (--taps lists each)", "dim"))
    )
    if not folded:
        _print_lines(console, result.taps)
        return
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for path, taps in result.folded_taps():
        table.add_row(path and f"{path}.", Text("  ".join(taps)))
    console.print(table)


def _print_lines(console: Console, lines: Iterable[str]) -> None:
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)
