"""The report of `glassformer info` in the terminal: sizes, module tree, memory, tensor names and taps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.text import Text

from glassformer.cli.screen import plain_table, table_of, visible
from glassformer.reports.amounts import amount, byte_amount, flops_amount

if TYPE_CHECKING:
    from glassformer.inspect import ModelSummary, ModuleNode, RamEstimate, TensorRow, Weight
    from glassformer.model import Model
    from glassformer.text import Tokenizer
    from glassformer.weights.report import LoadReport

# From this terminal width on, numbers are exact and modules show their class.
WIDE = 100


def show_head(
    console: Console, model: Model, tokenizer: Tokenizer | None, result: ModelSummary, origin: str | None
) -> None:
    """Architecture, size, cost, tokenizer and load report, in a few lines."""
    exact = console.width >= WIDE
    count = f"{result.parameters:,}" if exact else amount(result.parameters)
    per_token, per_text = flops_amount(result.flops / result.tokens), flops_amount(result.flops)
    active = "" if result.active == result.parameters else f", {amount(result.active)} active per token"
    bits = " · ".join(
        f"{byte_amount(width * result.parameters)} {name}"
        for name, width in (("as float32", 4), ("in 16 bits", 2), ("as int8", 1))
    )
    rows = [
        ("model", f"{model.family.architecture(model.task)}, for {model.task}"),
        ("folder", "" if model.folder is None else str(model.folder)),
        ("size", f"{count} parameters{active} · {byte_amount(result.bytes)} as {', '.join(result.dtypes)}"),
        ("weights", bits),
        ("compute", f"{per_token} FLOPs per token, {per_text} for a text of {result.tokens} tokens"),
        ("tokenizer", "" if model.folder is None else _tokenizer_words(tokenizer)),
        ("loads", _report_words(model) if origin is None else f"no weights: sizes from {origin}"),
    ]
    table = plain_table(show_header=False)
    table.add_column(style="bold cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, words in rows:
        if words:
            table.add_row(name, Text(visible(words)))
    for warning in _first(model.report.warnings, 10):
        table.add_row("warning", Text(visible(warning), style="yellow"))
    console.print(table)


def show_report(console: Console, report: LoadReport) -> None:
    """New and unused tensors, grouped by the beginning of their names."""
    for table in report.tables():
        console.print()
        console.print(table_of(table.headings, table.rows, left=table.left, title=table.caption))


def show_memory(console: Console, estimate: RamEstimate) -> None:
    """Estimated memory of training and inference."""
    columns = {
        "training, fp32": estimate.training,
        "training, mixed": estimate.mixed,
        "inference": estimate.inference,
    }
    table = plain_table(padding=(0, 2, 0, 0))
    table.add_column(f"memory, {estimate.batch:,} × {estimate.tokens:,} tokens", overflow="fold")
    for name in columns:
        table.add_column(name, justify="right")
    for row in ("weights", "gradients", "optimiser", "activations", "cache"):
        table.add_row(row, *(byte_amount(getattr(use, row)) for use in columns.values()))
    table.add_row("peak", *(byte_amount(use.peak) for use in columns.values()), style="bold")
    console.print()
    console.print(table)
    console.print()
    console.print(
        Text(
            f"Peak of training in fp32 with gradient checkpointing: {byte_amount(estimate.recomputed.peak)}; "
            f"with activations offloaded to the CPU: {byte_amount(estimate.offloaded.peak)}."
        )
    )
    console.print(
        Text(
            "Optimiser: AdamW's two moments in fp32, and for 16-bit weights an fp32 master copy. "
            "Activations: what autograd saves in the forward pass, without dropout; in inference those of one block. "
            "Cache: keys and values of every token. Peak: activations are freed as gradients are computed, so the "
            "larger of the two counts."
        )
    )


def _tokenizer_words(tokenizer: Tokenizer | None) -> str:
    if tokenizer is None:
        return "no tokenizer in the folder"
    kind = {"BPE": "byte-pair", "WordPiece": "WordPiece", "Unigram": "Unigram"}
    engine = type(tokenizer.engine.model).__name__
    words = [f"{kind.get(engine, engine)} tokenizer of {len(tokenizer):,} tokens"]
    if tokenizer.model_max_length is not None:
        words.append(f"at most {tokenizer.model_max_length:,} per text")
    words.append(" ".join(dict.fromkeys(tokenizer.special_tokens.values())))
    return " · ".join(word for word in words if word)


def _report_words(model: Model) -> str:
    report = model.report
    words = [f"{len(report.loaded)} tensors from the checkpoint"]
    if report.new:
        words.append(f"{len(report.new)} new (randomly initialised; train before use)")
    words.append(f"{len(report.unused)} unused" if report.unused else "none unused")
    return " · ".join(words)


def _first(values: list[str], count: int) -> list[str]:
    more = len(values) - count
    return values if more <= 0 else [*values[:count], f"… and {more} more (--json lists all)"]


class TreeLine(NamedTuple):
    """One line of the module tree; numbers are those of one of the repeated modules."""

    guide: str
    label: str
    kind: str
    repeats: int
    shape: str
    parameters: int
    bytes: int
    flops: int
    style: str = ""


def show_tree(console: Console, result: ModelSummary) -> None:
    exact = console.width >= WIDE
    count, flops = ("{:,.0f}".format,) * 2 if exact else (amount, flops_amount)
    table = plain_table(padding=(0, 2 if exact else 1, 0, 0))
    table.add_column("module", overflow="fold")
    table.add_column("shape", overflow="fold")
    for name in ("parameters", "bytes", "FLOPs/token") if exact else ("params", "bytes", "FLOPs\n/token"):
        table.add_column(name, justify="right", no_wrap=True)
    for line in _tree_lines(result.root):
        label = Text.assemble((line.guide, "dim"), (line.label, line.style))
        if line.repeats > 1:
            label.append(f"  ×{line.repeats}, each", "yellow")
        elif exact and line.kind not in ("", line.label):
            label.append(f"  {line.kind}", "dim")
        table.add_row(
            label,
            line.shape,
            count(line.parameters) if line.parameters else "",
            byte_amount(line.bytes) if line.bytes else "",
            flops(line.flops / result.tokens),
            style="dim" if line.style == "italic" else line.style,
        )
    console.print()
    console.print(table)
    console.print()
    console.print(_convention(result))


def _tree_lines(root: ModuleNode) -> Iterator[TreeLine]:
    """The lines of the module tree, from the root down."""
    yield _line("", root.kind, root)
    yield from _lines_below(root, "", "")


def _lines_below(part: ModuleNode, path: str, guide: str) -> Iterator[TreeLine]:
    own = part.own_flops if part.children else 0  # of attention scores, beside the linear layers
    for i, child in enumerate(part.children):
        last = i == len(part.children) - 1 and not own
        full = f"{path}.{child.name}" if path else child.name
        label = full if child.repeats > 1 else child.name
        while _is_wrapper(child):
            child = child.children[0]
            label, full = f"{label}.{child.name}", f"{full}.{child.name}"
        yield _line(guide + ("└─ " if last else "├─ "), label, child)
        yield from _lines_below(child, full, guide + ("   " if last else "│  "))
    if own:
        label = f"scores, z ({part.mask})" if part.mask else "scores, z"
        yield TreeLine(f"{guide}└─ ", label, "", 1, part.formula, 0, 0, own, "italic")


def _line(guide: str, label: str, part: ModuleNode) -> TreeLine:
    shape = " + ".join(filter(None, (part.note, *map(_weight_words, part.weights))))
    kind = part.kind if part.children else ""
    style = "bold" if not guide or part.repeats > 1 else ""
    return TreeLine(guide, label, kind, part.repeats, shape, part.parameters, part.bytes, part.flops, style)


def _is_wrapper(part: ModuleNode) -> bool:
    """Whether a module only wraps another one, so that one line shows both."""
    bare = not part.weights and not part.taps and not part.own_flops and part.repeats == 1
    return bare and len(part.children) == 1 and part.children[0].repeats == 1


def _weight_words(weight: Weight) -> str:
    if weight.tied_to:
        return f"= {weight.tied_to}"
    shape = "×".join(map(str, weight.shape)) or "1"
    return shape if weight.leaf in ("weight", "bias") else f"{weight.leaf} {shape}"


def _convention(result: ModelSummary) -> Text:
    words = (
        f"FLOPs: 2 per multiply-add, of one forward pass over {result.tokens} tokens (--tokens), averaged over them. "
        "Counted: linear layers (2 · rows · columns) and attention (4 · heads · head width · keys that a query sees, "
        "on average). Embedding look-ups, norms, softmax, activations and sums count 0; a head that reads one token "
        "counts once per text. Shapes are outputs×inputs + bias."
    )
    if result.uncounted:
        words += f" Not counted, being of an unknown kind: {', '.join(result.uncounted)}."
    return Text(words)


def show_names(console: Console, result: ModelSummary) -> None:
    table = plain_table(padding=(0, 2, 0, 0))
    table.add_column("tensor", overflow="fold")
    table.add_column("in the checkpoint", overflow="fold")
    for ours, theirs in _folded_names(result):
        table.add_row(ours, Text(visible(_joined(theirs)) if theirs else "(new)"))
    console.print()
    console.print(table)


def _folded_names(result: ModelSummary) -> Iterator[tuple[str, list[str]]]:
    """Each tensor with its names in the checkpoint; names that differ in the layer number alone are folded."""
    rows: dict[str, TensorRow] = {row.name: row for row in result.tensors}
    for path, _ in result.root.walk():
        for row in [row for name, row in rows.items() if name.rpartition(".")[0] == _nth_of(path, 0)]:
            other = rows.get(f"{_nth_of(path, -1)}.{row.name.rpartition('.')[2]}", row)
            ours = ".".join(filter(None, (path, row.name.rpartition(".")[2])))
            ranges = [part for part in path.split(".") if part[:1].isdigit()]
            yield ours, [_merged(a, b, ranges) for a, b in zip(row.theirs, other.theirs, strict=True)]


def _nth_of(path: str, which: int) -> str:
    """`blocks.0-5.attn` → `blocks.0.attn` (which = 0) or `blocks.5.attn` (which = -1)."""
    parts = path.split(".")
    return ".".join(part.replace(",", "-").split("-")[which] if part[:1].isdigit() else part for part in parts)


def _merged(first: str, last: str, ranges: list[str]) -> str:
    """Two names in the checkpoint as one, with our range of layers where their numbers differ."""
    left = iter(ranges)
    pairs = zip(first.split("."), last.split("."), strict=True)
    return ".".join(a if a == b else next(left, f"{a}…{b}") for a, b in pairs)


def _joined(names: list[str]) -> str:
    """["self.query.weight", "self.key.weight"] → "self.{query,key}.weight"."""
    columns = [list(dict.fromkeys(parts)) for parts in zip(*(name.split(".") for name in names), strict=True)]
    return ".".join(column[0] if len(column) == 1 else "{" + ",".join(column) + "}" for column in columns)


def show_taps(console: Console, result: ModelSummary, folded: bool) -> None:
    console.print()
    heading = f"{len(result.taps):,} taps: tensors that a Tape can listen to or replace"
    console.print(Text.assemble((heading, "bold cyan"), ("" if not folded else "  (--taps lists each)", "dim")))
    if not folded:
        for tap in result.taps:
            console.print(tap, markup=False, soft_wrap=True)
        return
    table = plain_table(show_header=False, padding=(0, 2, 0, 0))
    for path, taps in result.folded_taps():
        table.add_row(path and f"{path}.", Text("  ".join(taps)))
    console.print(table)
