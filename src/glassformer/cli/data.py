"""`glassformer data`: inspect a data set, split it, and write its data card."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.options import Html, Json
from glassformer.cli.screen import print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from glassformer.data.report import DataReport
    from glassformer.data.sequence import RowSequence

data = typer.Typer(
    name="data",
    no_args_is_help=True,
    add_completion=False,
    help="Inspect a data set, split it into train, validation and test, write a data card.",
)

FILE_FORMAT = "File format"

Files = Annotated[
    list[Path],
    typer.Argument(
        help="Data files, the training set first: .csv, .jsonl, .parquet, .conll, .txt, also with .gz."
    ),
]
Text = Annotated[str, typer.Option(help="Column of the texts.")]
Label = Annotated[str | None, typer.Option(help="Column of the labels.", show_default=False)]
Kind = Annotated[
    str | None,
    typer.Option(
        help="File format: csv, tsv, jsonl, … Default: by the file extension.",
        rich_help_panel=FILE_FORMAT,
        show_default=False,
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(help="Field delimiter of a CSV file.", rich_help_panel=FILE_FORMAT, show_default=False),
]
Names = Annotated[
    str | None,
    typer.Option(
        help="Column names of a CSV file without a header line: text,label",
        rich_help_panel=FILE_FORMAT,
        show_default=False,
    ),
]
NoQuotes = Annotated[
    bool,
    typer.Option(
        "--no-quotes", help="No quoting: a quote is an ordinary character.", rich_help_panel=FILE_FORMAT
    ),
]
TokenizerOf = Annotated[
    str | None,
    typer.Option(
        "--tokenizer", help="Tokenizer of this model: also report lengths in tokens.", show_default=False
    ),
]
MaxTokens = Annotated[
    int | None,
    typer.Option(min=1, help="Maximum length in tokens. Default: the tokenizer's.", show_default=False),
]


@data.command("inspect")
def inspect_files(
    files: Files,
    text: Text = "text",
    label: Label = None,
    tokenizer: TokenizerOf = None,
    limit: MaxTokens = None,
    json: Json = False,
    html: Html = None,
    kind: Kind = None,
    delimiter: Delimiter = None,
    names: Names = None,
    no_quotes: NoQuotes = False,
) -> None:
    """Inspect a data set: columns, class balance, text lengths, duplicates, conflicting labels, leaks between splits.

    Examples:

    [cyan]glassformer data inspect train.csv test.csv --label label[/]

    [cyan]glassformer data inspect train.jsonl --text body --label kind --tokenizer MODEL --html page.html[/]

    [cyan]glassformer data inspect train.txt --kind csv --delimiter ';' --names text,label --no-quotes --label label[/]
    """
    from glassformer.cli.data_screen import show

    report = _report(files, text, label, tokenizer, limit, _read_options(kind, delimiter, names, no_quotes))
    if html is not None:
        from glassformer.data.report_page import report_html

        html.write_text(report_html(report), encoding="utf-8")
    if json:
        print_json(report.to_dict())
        return
    show(report)
    if html is not None:
        typer.echo(f"saved in {html}")


Splits = Annotated[Path, typer.Option("--out", help="Output folder of the splits.", show_default=False)]
StratifyBy = Annotated[
    str | None,
    typer.Option("--by", help="Stratified split by this column of labels.", show_default=False),
]
GroupBy = Annotated[
    str | None,
    typer.Option(
        "--group",
        help="Grouped split by this column, such as speaker: no group is in two splits.",
        show_default=False,
    ),
]
Unique = Annotated[
    str | None,
    typer.Option(
        help="Deduplicate by this column: drop rows that repeat an earlier text.", show_default=False
    ),
]
Fractions = Annotated[str, typer.Option(help="Fraction of the rows in each split.")]
Seed = Annotated[int, typer.Option(min=0, help="Random seed of the split.")]
OutputFormat = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="Output format: csv, tsv or jsonl. Default: that of FILE, else jsonl.",
        show_default=False,
    ),
]


@data.command()
def split(
    file: Annotated[Path, typer.Argument(help="Data file.", show_default=False)],
    out: Splits,
    by: StratifyBy = None,
    group: GroupBy = None,
    unique: Unique = None,
    fractions: Fractions = "0.8,0.1,0.1",
    seed: Seed = 0,
    format: OutputFormat = None,
    kind: Kind = None,
    delimiter: Delimiter = None,
    names: Names = None,
    no_quotes: NoQuotes = False,
) -> None:
    """Split a data set into train, validation and test; the same seed makes the same split.

    Examples:

    [cyan]glassformer data split all.csv --by label --unique text --out parts[/]

    [cyan]glassformer data split calls.jsonl --group speaker --fractions 0.9,0.1 --seed 1 --out parts[/]
    """
    from glassformer.data.format_detection import detect_format
    from glassformer.data.rows import read_rows
    from glassformer.data.splits import column_values, deduplicate
    from glassformer.data.splits import split as split_rows
    from glassformer.data.write import OUTPUT_FORMATS, output_format, write_rows

    rows: RowSequence = read_rows(file, **_read_options(kind, delimiter, names, no_quotes))
    if unique is not None:
        unique_rows = deduplicate(column_values(rows, unique))
        typer.echo(
            f"{len(rows) - len(unique_rows):,} of {len(rows):,} rows repeat an earlier text and were dropped"
        )
        rows = rows.select(unique_rows)
    parts = split_rows(
        len(rows),
        _parse_fractions(fractions),
        seed=seed,
        labels=None if by is None else column_values(rows, by),
        groups=None if group is None else column_values(rows, group),
    )
    input_format = detect_format(file, kind)
    ending = format or (input_format if input_format in OUTPUT_FORMATS else "jsonl")
    paths = [out / f"{title}.{ending}" for title in _titles(len(parts))]
    output_format(paths[0])
    _check_free(paths)
    out.mkdir(parents=True, exist_ok=True)
    for path, part in zip(paths, parts, strict=True):
        write_rows(path, rows.select(part), rows.columns)
        typer.echo(f"{path}  {len(part):,} rows, {len(part) / len(rows):.1%}")


@data.command()
def card(
    files: Files,
    out: Annotated[Path, typer.Option(help="Output file, such as README.md.", show_default=False)],
    title: Annotated[str, typer.Option(help="Title of the data set.", show_default=False)],
    source: Annotated[str, typer.Option(help="Source: who collected the data, from what, when.")] = "",
    licence: Annotated[str, typer.Option(help="Licence of the data.")] = "",
    bias: Annotated[list[str] | None, typer.Option(help="Known bias of the data; repeatable.")] = None,
    text: Text = "text",
    label: Label = None,
    tokenizer: TokenizerOf = None,
    kind: Kind = None,
    delimiter: Delimiter = None,
    names: Names = None,
    no_quotes: NoQuotes = False,
) -> None:
    """Write a data card in Markdown: source, licence and biases as stated, and statistics as measured.

    Example:

    [cyan]glassformer data card train.csv --title Reviews --licence CC0-1.0 --bias 'Short ones only.' --out CARD.md[/]
    """
    from glassformer.data.card import data_card

    _check_free([out])
    report = _report(files, text, label, tokenizer, None, _read_options(kind, delimiter, names, no_quotes))
    out.write_text(
        data_card(report, title=title, source=source, licence=licence, biases=bias or []), encoding="utf-8"
    )
    typer.echo(f"saved in {out}")


def _read_options(
    kind: str | None, delimiter: str | None, names: str | None, no_quotes: bool
) -> dict[str, Any]:
    """The options of `read_rows` for the file format."""
    options: dict[str, Any] = {"kind": kind}
    if delimiter is not None:
        options["delimiter"] = delimiter
    if names is not None:
        options |= {"header": False, "names": tuple(names.split(","))}
    if no_quotes:
        options["quotes"] = False
    return options


def _report(
    files: Sequence[Path],
    text: str,
    label: str | None,
    model: str | None,
    limit: int | None,
    options: dict[str, Any],
) -> DataReport:
    from glassformer.data.report import inspect_rows
    from glassformer.data.rows import read_rows
    from glassformer.errors import ConfigError

    # File names alone identify the files in a report, unless two have the same name.
    short = len({file.name for file in files}) == len(files)
    rows = {file.name if short else str(file): read_rows(file, **options) for file in files}
    if model is None:
        if limit is not None:
            raise ConfigError("--limit counts tokens; give the tokenizer too: --tokenizer MODEL")
        return inspect_rows(rows, text=text, label=label)
    from glassformer.hub import resolve
    from glassformer.text import Tokenizer

    tokenizer = Tokenizer.from_folder(resolve(model))

    def token_counts(texts: Sequence[str]) -> list[int]:
        return [len(ids) for ids in tokenizer.batch_ids(texts, None)[0]]

    return inspect_rows(
        rows, text=text, label=label, tokens=token_counts, limit=limit or tokenizer.model_max_length
    )


def _parse_fractions(text: str) -> list[float]:
    from glassformer.errors import ConfigError

    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(
            f"--fractions takes numbers separated by commas, such as 0.8,0.1,0.1; got {text!r}"
        ) from None


def _titles(count: int) -> list[str]:
    usual = ["train", "validation", "test"]
    return usual[:count] if count <= len(usual) else [f"part-{number}" for number in range(1, count + 1)]


def _check_free(paths: Sequence[Path]) -> None:
    """Raises: DataError: an output file exists already, so that nothing is overwritten or half written."""
    from glassformer.errors import DataError

    for path in paths:
        if path.exists():
            raise DataError(f"{path}: already exists; move it away, or choose another path with --out")
