"""`glassformer data`: inspect data sets, split them, write cards and versions; list and fetch those of the examples."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.data_clean import clean
from glassformer.cli.data_sets import fetch, list_data_sets
from glassformer.cli.options import Html, Json, Options, Without, columns_of, command, option, pairs_of
from glassformer.cli.screen import note, notes, print_json, say, show
from glassformer.errors import ConfigError, DataError
from glassformer.files.atomic import disk_errors, write_text
from glassformer.progress import spinner

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from glassformer.data.report import DataReport
    from glassformer.data.sequence import RowSequence

data = typer.Typer(
    name="data",
    no_args_is_help=True,
    add_completion=False,
    help="Inspect a data set, split it into train, validation and test; data cards, versions; fetch data sets.",
)
data.command("list")(list_data_sets)
data.command()(fetch)
data.command()(clean)

FILE_FORMAT = "File format"

Folder = Annotated[Path, typer.Argument(help="Folder of a version: DATASET/1.0.0.")]
Files = Annotated[
    list[Path],
    typer.Argument(help="Data files, the training set first: .csv, .jsonl, .parquet, .conll, .txt, also with .gz."),
]


@dataclass(frozen=True, kw_only=True)
class FormatOptions(Options):
    """How rows are read."""

    kind: str | None = option(
        None,
        "File format: csv, tsv, jsonl, …; or a published data set: panx, glue/cola, … Default: by the file extension.",
        panel=FILE_FORMAT,
    )
    delimiter: str | None = option(None, "Field delimiter of a CSV file.", panel=FILE_FORMAT)
    names: str | None = option(None, "Column names where the file has none: text,label", panel=FILE_FORMAT)
    part: str | None = option(None, "Key of the list to read in a JSON object of lists.", panel=FILE_FORMAT)
    skip_bad_rows: bool = option(
        False, "Leave out rows of a table that cannot be read, with a warning that counts them.", panel=FILE_FORMAT
    )
    no_quotes: bool = option(False, "No quoting: a quote is an ordinary character.", panel=FILE_FORMAT)

    def reading(self) -> dict[str, Any]:
        """The options of `read_rows`."""
        options: dict[str, Any] = {"kind": self.kind}
        if self.delimiter is not None:
            options["delimiter"] = self.delimiter
        if self.names is not None:
            options["names"] = tuple(self.names.split(","))
            options |= {"header": False} if self.part is None else {}  # of a table; rows of JSON are lists
        if self.part is not None:
            options["part"] = self.part
        if self.skip_bad_rows:
            options["on_bad_rows"] = "skip"
        if self.no_quotes:
            options["quotes"] = False
        return options


@dataclass(frozen=True, kw_only=True)
class ReportOptions(Options):
    """What a report reads."""

    column: list[str] | None = option(
        None, "Column mapping, role=column: text=body, text_pair=title, label=kind; repeatable.", "--column", "-c"
    )
    tokenizer: str | None = option(None, "Tokenizer of this model: also report lengths in tokens.")
    limit: int | None = option(None, "Maximum length in tokens. Default: the tokenizer's.", min=1)

    def columns(self) -> dict[str, str]:
        """The column of each role."""
        return columns_of(self.column, ["text", "label", "text_pair"])


@data.command("inspect")
@command
def inspect_files(
    files: Files, *, report: ReportOptions, json: Json = False, html: Html = None, format: FormatOptions
) -> None:
    """Inspect a data set: columns, class balance, text lengths, duplicates, conflicting labels, leaks between splits.

    Examples:

    [cyan]glassformer data inspect train.csv test.csv --column label=label[/]

    [cyan]glassformer data inspect train.jsonl -c text=body -c label=kind --tokenizer MODEL --html page.html[/]

    [cyan]glassformer data inspect train.txt --kind csv --delimiter ';' --names text,label --no-quotes -c label=label[/]
    """
    result = _report(files, report, format)
    if html is not None:
        from glassformer.data.report_page import report_html
        from glassformer.reports.page import write_page

        write_page(html, report_html(result))
    show(result, json)
    if html is not None and not json:
        say(f"saved in {html}")


@dataclass(frozen=True, kw_only=True)
class SplitOptions(Options):
    """How rows are divided."""

    output: Path = option(..., "Output folder of the splits.", "--output", "-o")
    column: list[str] | None = option(
        None,
        "What a column does, role=column; repeatable. label=mood: stratified split, each label in its share. "
        "group=speaker: no group in two splits; with label, both. text=body: deduplicate, drop rows that repeat an "
        "earlier text, of pairs (text_pair=) both.",
        "--column",
        "-c",
    )
    fractions: str = option("0.8,0.1,0.1", "Fraction of the rows in each split.")
    seed: int = option(0, "Random seed of the split.", min=0)
    format: str | None = option(
        None, "Output format: csv, tsv or jsonl. Default: that of FILE, else jsonl.", "--format"
    )

    def columns(self) -> dict[str, str]:
        """The column of each role. Raises: ConfigError: no role, or an unknown one."""
        roles = ["label", "group", "text", "text_pair"]
        return columns_of([f"{role}={name}" for role, name in pairs_of(self.column, "--column").items()], roles)


@data.command()
@command
def split(
    file: Annotated[Path, typer.Argument(help="Data file.", show_default=False)],
    *,
    options: SplitOptions,
    reading: FormatOptions,
) -> None:
    """Split a data set into train, validation and test; the same seed makes the same split.

    Examples:

    [cyan]glassformer data split all.csv --column label=label --column text=text --output parts[/]

    [cyan]glassformer data split calls.jsonl -c group=speaker --fractions 0.9,0.1 --seed 1 --output parts[/]
    """
    from glassformer.data.report import texts_of, usual_pair
    from glassformer.data.rows import OUTPUT_FORMATS, detect_format, output_format, read_rows, write_rows
    from glassformer.data.splits import column_values, deduplicate
    from glassformer.data.splits import split as split_rows

    columns = options.columns()
    with notes():
        rows: RowSequence = read_rows(file, **reading.reading())
    if "text" in columns:
        read = [columns["text"], columns.get("text_pair") or usual_pair(columns["text"], [rows])]
        unique_rows = deduplicate(*(texts_of(rows, column) for column in read if column is not None))
        say(f"{len(rows) - len(unique_rows):,} of {len(rows):,} rows repeat an earlier text and were dropped")
        rows = rows.select(unique_rows)
    with spinner("splitting"):
        parts = split_rows(
            len(rows),
            _parse_fractions(options.fractions),
            seed=options.seed,
            labels=column_values(rows, columns["label"], "label") if "label" in columns else None,
            groups=column_values(rows, columns["group"], "group") if "group" in columns else None,
        )
    input_format = None if file.is_dir() else detect_format(file, reading.kind)
    ending = options.format or (input_format if input_format in OUTPUT_FORMATS else "jsonl")
    paths = [options.output / f"{title}.{ending}" for title in _titles(len(parts))]
    output_format(paths[0])
    _check_free(paths)
    options.output.mkdir(parents=True, exist_ok=True)
    for path, part in zip(paths, parts, strict=True):
        write_rows(path, rows.select(part), rows.columns)
        say(f"{path}  {len(part):,} rows, {len(part) / len(rows):.1%}")


@dataclass(frozen=True, kw_only=True)
class CardFacts(Options):
    """Parts of a data card that cannot be measured."""

    title: str = option(..., "Title of the data set.")
    source: str = option("", "Source: who collected the data, from what, when.")
    licence: str = option("", "Licence of the data.")
    bias: list[str] | None = option(None, "Known bias of the data; repeatable.")


@dataclass(frozen=True, kw_only=True)
class CardOptions(CardFacts):
    """Where a data card is written, and what it says."""

    output: Path = option(..., "Output file, such as README.md.", "--output", "-o")


@dataclass(frozen=True, kw_only=True)
class VersionOptions(CardFacts):
    """Which version of a data set is written where, and what its card says."""

    output: Path = option(..., "Folder of the data set, with a folder for each version.", "--output", "-o")
    version: str = option(..., "Number of the version, such as 1.0.0.")


@data.command()
@command
def card(
    files: Files,
    *,
    options: CardOptions,
    report: Annotated[ReportOptions, Without(["limit"])],
    format: FormatOptions,
) -> None:
    """Write a data card in Markdown: source, licence and biases as stated, and statistics as measured.

    Example:

    [cyan]glassformer data card train.csv --title Reviews --licence CC0-1.0 --bias 'Short ones.' --output CARD.md[/]
    """
    _check_free([options.output])
    with disk_errors(options.output, DataError, "the card"):
        write_text(options.output, _card(_report(files, report, format), options))
    say(f"saved in {options.output}")


@data.command()
@command
def version(
    files: Files,
    *,
    options: VersionOptions,
    report: Annotated[ReportOptions, Without(["limit"])],
    format: FormatOptions,
) -> None:
    """Write a version of a data set: its files, a data card, and checksums; it never changes.

    Example:

    [cyan]glassformer data version train.csv test.csv --version 1.0.0 --title Reviews --licence CC0-1.0 -o reviews[/]
    """
    from glassformer.data.versions import write_version

    inspected = _report(files, report, format)
    rows = dict(zip(files, (file.rows for file in inspected.files), strict=True))
    folder = write_version(options.output, options.version, rows, _card(inspected, options))
    say(f"saved in {folder}; to upload it: glassformer data push {folder} ORG/NAME")


@data.command()
def verify(folder: Folder, json: Json = False) -> None:
    """Verify a version of a data set: its files are those that it was made of, by their SHA-256.

    Example:

    [cyan]glassformer data verify reviews/1.0.0[/]
    """
    from glassformer.data.versions import verify_version

    facts = verify_version(folder)
    if json:
        print_json(facts)
    else:
        rows = sum(file["rows"] for file in facts["files"].values())
        say(f"{folder}: version {facts['version']}, {len(facts['files'])} files, {rows:,} rows, all as they were")


@data.command()
def push(
    folder: Folder,
    name: Annotated[str, typer.Argument(help="Repository on the Hugging Face Hub: org/name.")],
    private: Annotated[bool, typer.Option("--private", help="Make a new repository private.")] = False,
) -> None:
    """Upload a version of a data set to the Hugging Face Hub, after verifying it; the repository is tagged with it.

    Example:

    [cyan]glassformer data push reviews/1.0.0 me/reviews --private[/]
    """
    from glassformer.data.versions import verify_version
    from glassformer.hub.push import push_data_set

    version = str(verify_version(folder)["version"])
    say(f"uploaded: {push_data_set(folder, name, version=version, private=private or None)}")


def _card(report: DataReport, facts: CardFacts) -> str:
    from glassformer.data.report import data_card

    stated = {"title": facts.title, "source": facts.source, "licence": facts.licence}
    return data_card(report, **stated, biases=facts.bias or [])


def _report(files: Sequence[Path], options: ReportOptions, format: FormatOptions) -> DataReport:
    from glassformer.data.report import inspect_rows, usual_columns
    from glassformer.data.rows import read_rows

    # File names alone identify the files in a report, unless two have the same name.
    short = len({file.name for file in files}) == len(files)
    with notes():
        rows = {file.name if short else str(file): read_rows(file, **format.reading()) for file in files}
    _note_sizes(rows, format.kind)
    columns = {**usual_columns(list(rows.values())), **options.columns()}
    text = columns["text"]
    read: dict[str, Any] = {role: columns.get(role) for role in ("text", "text_pair", "label")}
    if text not in ("text", "tokens") and "text" not in options.columns():
        note(f"no column 'text': inspecting {text!r}; for another one: --column text=NAME")
    if options.tokenizer is None:
        if options.limit is not None:
            raise ConfigError("--limit counts tokens; give the tokenizer too: --tokenizer MODEL")
        return inspect_rows(rows, **read)
    from glassformer.hub import resolve
    from glassformer.text import Tokenizer

    tokenizer = Tokenizer.from_folder(resolve(options.tokenizer))

    def token_counts(texts: Sequence[str]) -> list[int]:
        return [len(ids) for ids in tokenizer.batch_ids(texts, None)[0]]

    return inspect_rows(rows, **read, tokens=token_counts, limit=options.limit or tokenizer.model_max_length)


def _note_sizes(rows: Mapping[str, RowSequence], kind: str | None) -> None:
    """Note files that do not have as many rows as the published data set that they are read as."""
    from glassformer.data.published import published_sets

    if kind in published_sets():
        for name, read in rows.items():
            if (text := published_sets()[kind].size_note(name, len(read))) is not None:
                note(text)


def _parse_fractions(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"--fractions takes numbers separated by commas, such as 0.8,0.1,0.1; got {text!r}") from None


def _titles(count: int) -> list[str]:
    usual = ["train", "validation", "test"]
    return usual[:count] if count <= len(usual) else [f"part-{number}" for number in range(1, count + 1)]


def _check_free(paths: Sequence[Path]) -> None:
    """Raises: DataError: an output file exists already, so that nothing is overwritten or half written."""

    for path in paths:
        if path.exists():
            raise DataError(f"{path}: already exists; move it away, or choose another path with --output")
