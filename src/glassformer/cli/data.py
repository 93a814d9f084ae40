"""`glassformer data`: rows before training: looked at, parted, with a card that says where they come from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.options import Json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from glassformer.data.report import Report
    from glassformer.data.sequence import Rows

data = typer.Typer(
    name="data",
    no_args_is_help=True,
    add_completion=False,
    help="Look at rows, part them for training and judging, write their card.",
)

READING = "Reading"

Files = Annotated[
    list[Path],
    typer.Argument(help="The one to train on first: .csv, .jsonl, .parquet, .conll, .txt; perhaps .gz."),
]
Text = Annotated[str, typer.Option(help="The column of the texts.")]
Label = Annotated[str | None, typer.Option(help="The column of the labels.", show_default=False)]
Kind = Annotated[
    str | None,
    typer.Option(
        help="csv, tsv, jsonl, … Default: as the name ends.", rich_help_panel=READING, show_default=False
    ),
]
Delimiter = Annotated[
    str | None, typer.Option(help="What stands between fields.", rich_help_panel=READING, show_default=False)
]
Names = Annotated[
    str | None,
    typer.Option(
        help="Of the columns, where no line says them: text,label",
        rich_help_panel=READING,
        show_default=False,
    ),
]
NoQuotes = Annotated[
    bool, typer.Option("--no-quotes", help="A quote is a letter like any other.", rich_help_panel=READING)
]
TokenizerOf = Annotated[
    str | None,
    typer.Option("--tokenizer", help="A model; lengths are told in its tokens too.", show_default=False),
]
Limit = Annotated[
    int | None,
    typer.Option(min=1, help="Tokens that are read. Default: the tokenizer's.", show_default=False),
]


@data.command()
def inspect(
    files: Files,
    text: Text = "text",
    label: Label = None,
    tokenizer: TokenizerOf = None,
    limit: Limit = None,
    json: Json = False,
    html: Annotated[
        Path | None, typer.Option(help="Write plots there as a page, one file.", show_default=False)
    ] = None,
    kind: Kind = None,
    delimiter: Delimiter = None,
    names: Names = None,
    no_quotes: NoQuotes = False,
) -> None:
    """Show rows, columns, classes and lengths, and what is odd: repeats, conflicts of labels, leaks between files.

    Examples:

    [cyan]glassformer data inspect train.csv test.csv --label label[/]

    [cyan]glassformer data inspect train.jsonl --text body --label kind --tokenizer MODEL --html page.html[/]

    [cyan]glassformer data inspect train.txt --kind csv --delimiter ';' --names text,label --no-quotes --label label[/]
    """
    from glassformer.cli.data_screen import show

    report = _report(files, text, label, tokenizer, limit, _options(kind, delimiter, names, no_quotes))
    if html is not None:
        from glassformer.data.report_page import page

        html.write_text(page(report), encoding="utf-8")
    if json:
        import json as json_format

        typer.echo(json_format.dumps(report.to_dict(), ensure_ascii=False, indent=2))
        return
    show(report)
    if html is not None:
        typer.echo(f"saved in {html}")


@data.command()
def split(
    file: Annotated[Path, typer.Argument(help="The rows.", show_default=False)],
    out: Annotated[Path, typer.Option(help="A folder for the parts.", show_default=False)],
    by: Annotated[
        str | None,
        typer.Option(help="A column of labels: each part has each in its share.", show_default=False),
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="A column such as speaker: nobody is in two parts.", show_default=False)
    ] = None,
    unique: Annotated[
        str | None,
        typer.Option(help="A column of texts: one that stood there before is left out.", show_default=False),
    ] = None,
    fractions: Annotated[str, typer.Option(help="Of the rows, for each part.")] = "0.8,0.1,0.1",
    seed: Annotated[int, typer.Option(min=0, help="Another makes other parts.")] = 0,
    format: Annotated[
        str | None,
        typer.Option(help="csv, tsv or jsonl. Default: that of FILE, else jsonl.", show_default=False),
    ] = None,
    kind: Kind = None,
    delimiter: Delimiter = None,
    names: Names = None,
    no_quotes: NoQuotes = False,
) -> None:
    """Part rows into train, validation and test; the same seed makes the same parts.

    Examples:

    [cyan]glassformer data split all.csv --by label --unique text --out parts[/]

    [cyan]glassformer data split calls.jsonl --group speaker --fractions 0.9,0.1 --seed 1 --out parts[/]
    """
    from glassformer.data.kinds import kind_of_file
    from glassformer.data.rows import read_rows
    from glassformer.data.splits import column, distinct
    from glassformer.data.splits import split as parted
    from glassformer.data.write import KINDS, write_rows, written_kind

    rows: Rows = read_rows(file, **_options(kind, delimiter, names, no_quotes))
    if unique is not None:
        kept = distinct(column(rows, unique))
        typer.echo(f"{len(rows) - len(kept):,} of {len(rows):,} rows repeat an earlier text and are left out")
        rows = rows.select(kept)
    parts = parted(
        len(rows),
        _numbers(fractions),
        seed=seed,
        labels=None if by is None else column(rows, by),
        groups=None if group is None else column(rows, group),
    )
    found = kind_of_file(file, kind)
    ending = format or (found if found in KINDS else "jsonl")
    paths = [out / f"{title}.{ending}" for title in _titles(len(parts))]
    written_kind(paths[0])
    _check_free(paths)
    out.mkdir(parents=True, exist_ok=True)
    for path, part in zip(paths, parts, strict=True):
        write_rows(path, rows.select(part), rows.columns)
        typer.echo(f"{path}  {len(part):,} rows, {len(part) / len(rows):.1%}")


@data.command()
def card(
    files: Files,
    out: Annotated[Path, typer.Option(help="The file, such as README.md.", show_default=False)],
    title: Annotated[str, typer.Option(help="What the data are called.", show_default=False)],
    source: Annotated[str, typer.Option(help="Who made them, of what, when.")] = "",
    licence: Annotated[str, typer.Option(help="Under which they may be used.")] = "",
    bias: Annotated[
        list[str] | None, typer.Option(help="What is one-sided in them; may be given several times.")
    ] = None,
    text: Text = "text",
    label: Label = None,
    tokenizer: TokenizerOf = None,
    kind: Kind = None,
    delimiter: Delimiter = None,
    names: Names = None,
    no_quotes: NoQuotes = False,
) -> None:
    """Write a data card in Markdown: source, licence and known biases as you state them, and what is measured.

    Example:

    [cyan]glassformer data card train.csv --title Reviews --licence CC0-1.0 --bias 'Short ones only.' --out CARD.md[/]
    """
    from glassformer.data.card import card as written

    _check_free([out])
    report = _report(files, text, label, tokenizer, None, _options(kind, delimiter, names, no_quotes))
    out.write_text(
        written(report, title=title, source=source, licence=licence, biases=bias or []), encoding="utf-8"
    )
    typer.echo(f"saved in {out}")


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────


def _options(kind: str | None, delimiter: str | None, names: str | None, no_quotes: bool) -> dict[str, Any]:
    """What `read_rows` is told of the files."""
    found: dict[str, Any] = {"kind": kind}
    if delimiter is not None:
        found["delimiter"] = delimiter
    if names is not None:
        found |= {"header": False, "names": tuple(names.split(","))}
    if no_quotes:
        found["quotes"] = False
    return found


def _report(
    files: Sequence[Path],
    text: str,
    label: str | None,
    model: str | None,
    limit: int | None,
    options: dict[str, Any],
) -> Report:
    from glassformer.data.report import inspect as looked_at
    from glassformer.data.rows import read_rows
    from glassformer.errors import ConfigError

    # Their folders are told with each line; beside each other, names do where they differ.
    short = len({file.name for file in files}) == len(files)
    rows = {file.name if short else str(file): read_rows(file, **options) for file in files}
    if model is None:
        if limit is not None:
            raise ConfigError("--limit counts tokens; name whose with --tokenizer MODEL")
        return looked_at(rows, text=text, label=label)
    from glassformer.hub import resolve
    from glassformer.text import Tokenizer

    tokenizer = Tokenizer.from_folder(resolve(model))

    def counted(texts: Sequence[str]) -> list[int]:
        return [len(ids) for ids in tokenizer.batch_ids(texts, None)[0]]

    return looked_at(rows, text=text, label=label, tokens=counted, limit=limit or tokenizer.model_max_length)


def _numbers(said: str) -> list[float]:
    from glassformer.errors import ConfigError

    try:
        return [float(part) for part in said.split(",")]
    except ValueError:
        raise ConfigError(
            f"fractions are numbers with commas between, such as 0.8,0.1,0.1; got {said!r}"
        ) from None


def _titles(count: int) -> list[str]:
    usual = ["train", "validation", "test"]
    return usual[:count] if count <= len(usual) else [f"part-{number}" for number in range(1, count + 1)]


def _check_free(paths: Sequence[Path]) -> None:
    """Nothing that is there is written over, and nothing is written where one file is in the way."""
    from glassformer.errors import DataError

    for path in paths:
        if path.exists():
            raise DataError(f"{path}: is there already; move it away, or name another place with --out")
