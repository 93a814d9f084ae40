"""`glassformer data`: inspect data sets, split them, write cards and versions; list and fetch those of the examples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.data_rows import clean, negatives, split
from glassformer.cli.data_sets import fetch, list_data_sets
from glassformer.cli.options import Html, Json, Without, command
from glassformer.cli.screen import notes, print_json, save_page, say, show
from glassformer.data.options import CardOptions, InspectionOptions, ReadingOptions, VersionOptions

if TYPE_CHECKING:
    from glassformer.data.report import DataReport

data = typer.Typer(
    name="data",
    no_args_is_help=True,
    add_completion=False,
    help="Inspect a data set, split it into train, validation and test; data cards, versions; fetch data sets.",
)
data.command("list")(list_data_sets)
data.command()(fetch)
data.command()(clean)
data.command()(negatives)

Folder = Annotated[Path, typer.Argument(help="Folder of a version: DATASET/1.0.0.")]
Files = Annotated[
    list[Path],
    typer.Argument(help="Data files, the training set first: .csv, .jsonl, .parquet, .conll, .txt, also with .gz."),
]


@data.command("inspect")
@command
def inspect_files(
    files: Files, *, report: InspectionOptions, json: Json = False, html: Html = None, format: ReadingOptions
) -> None:
    """Inspect a data set: columns, class balance, text lengths, duplicates, conflicting labels, leaks between splits.

    Examples:
      glassformer data inspect train.csv test.csv --column label=label
      glassformer data inspect train.jsonl -c text=body -c label=kind --tokenizer MODEL --html page.html
      glassformer data inspect train.txt --kind csv --delimiter ';' --names text,label --no-quotes -c label=label
    """
    result = _report(files, report, format)
    show(result, json)
    save_page(html, result, json)


data.command()(split)


@data.command()
@command
def card(
    files: Files,
    *,
    options: CardOptions,
    report: Annotated[InspectionOptions, Without(["limit"])],
    format: ReadingOptions,
) -> None:
    """Write a data card in Markdown: source, licence and biases as stated, and statistics as measured.

    Example:
      glassformer data card train.csv --title Reviews --licence CC0-1.0 --bias 'Short ones.' --output CARD.md
    """
    from glassformer.data.files import check_free, write_card

    check_free(options.output)  # before the work
    write_card(_report(files, report, format), options)
    say(f"saved in {options.output}")


@data.command()
@command
def version(
    files: Files,
    *,
    options: VersionOptions,
    report: Annotated[InspectionOptions, Without(["limit"])],
    format: ReadingOptions,
) -> None:
    """Write a version of a data set: its files, a data card, and checksums; it never changes.

    Example:
      glassformer data version train.csv test.csv --version 1.0.0 --title Reviews --licence CC0-1.0 -o reviews
    """
    from glassformer.data.files import write_version_of

    folder = write_version_of(files, _report(files, report, format), options)
    say(f"saved in {folder}; to upload it: glassformer data push {folder} ORG/NAME")


@data.command()
def verify(folder: Folder, json: Json = False) -> None:
    """Verify a version of a data set: its files are those that it was made of, by their SHA-256.

    Example:
      glassformer data verify reviews/1.0.0
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
      glassformer data push reviews/1.0.0 me/reviews --private
    """
    from glassformer.data.versions import verify_version
    from glassformer.hub.push import push_data_set

    version = str(verify_version(folder)["version"])
    say(f"uploaded: {push_data_set(folder, name, version=version, private=private or None)}")


def _report(files: Sequence[Path], options: InspectionOptions, reading: ReadingOptions) -> DataReport:
    """The report on files, in tokens too where there is a tokenizer; warnings are printed as notes."""
    from glassformer.data.files import inspect_files as inspect_data_files
    from glassformer.text import Tokenizer

    tokenizer = None if options.tokenizer is None else Tokenizer.from_folder(Path(options.tokenizer))
    with notes():
        return inspect_data_files(files, options, reading, tokenizer)
