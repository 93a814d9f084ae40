"""The head of `glassformer info` in the terminal: what the model is, and how its checkpoint was loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from glassformer.cli.screen import plain_table, table_of, visible
from glassformer.reports.table import amount, byte_amount, flops_amount

if TYPE_CHECKING:
    from glassformer.inspect import ModelSummary
    from glassformer.inspect.outline import Outline
    from glassformer.pretrained import ModelParts
    from glassformer.text import Tokenizer
    from glassformer.weights.report import LoadReport

# From this terminal width on, numbers are exact and modules show their class.
WIDE = 100


def show_head(console: Console, outlined: Outline, result: ModelSummary) -> None:
    """Architecture, size, cost, tokenizer and load report, in a few lines."""
    from glassformer.models import FAMILIES

    model, origin = outlined.model, outlined.source
    exact = console.width >= WIDE
    count = f"{result.parameters:,}" if exact else amount(result.parameters)
    per_token, per_text = flops_amount(result.flops / result.tokens), flops_amount(result.flops)
    active = "" if result.active == result.parameters else f", {amount(result.active)} active per token"
    bits = " · ".join(
        f"{byte_amount(width * result.parameters)} {name}"
        for name, width in (("as float32", 4), ("in 16 bits", 2), ("as int8", 1))
    )
    plug_in = FAMILIES.plug_ins().get(model.family.model_type)
    rows = [
        ("model", f"{model.family.architecture(model.task)}, for {model.task}"),
        ("plug-in", "" if plug_in is None else plug_in.package),
        ("folder", "" if model.folder is None else str(model.folder)),
        ("size", f"{count} parameters{active} · {byte_amount(result.bytes)} as {', '.join(result.dtypes)}"),
        ("weights", bits),
        ("compute", f"{per_token} FLOPs per token, {per_text} for a text of {result.tokens} tokens"),
        ("tokenizer", "" if model.folder is None else _tokenizer_words(outlined.tokenizer)),
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


def _report_words(model: ModelParts) -> str:
    report = model.report
    words = [f"{len(report.loaded)} tensors from the checkpoint"]
    if report.new:
        words.append(f"{len(report.new)} new (randomly initialised; train before use)")
    words.append(f"{len(report.unused)} unused" if report.unused else "none unused")
    return " · ".join(words)


def _first(values: list[str], count: int) -> list[str]:
    more = len(values) - count
    return values if more <= 0 else [*values[:count], f"… and {more} more (--json lists all)"]
