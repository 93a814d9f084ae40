"""`glassformer data clean`: leave out rows of speech data that teach nothing, or the wrong thing."""

from __future__ import annotations

import json as json_library
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from glassformer.cli.options import Json, Options, columns_of, command, option
from glassformer.cli.screen import notes, say, show
from glassformer.errors import DataError
from glassformer.files.atomic import disk_errors, write_text
from glassformer.progress import progress_bar, spinner

Table = Annotated[str, typer.Argument(metavar="TABLE", help="Table of recordings and transcripts, or an audio folder.")]


@dataclass(frozen=True, kw_only=True)
class CleanOptions(Options):
    """What is left out."""

    output: Path | None = option(None, "Write the rows that are kept to this table.", "--output", "-o")
    dropped: Path | None = option(None, "Write the rows that are dropped to this JSON Lines file, with the reasons.")
    column: list[str] | None = option(
        None, "Column mapping, role=column: audio=path, text=transcript, start, end; repeatable.", "--column", "-c"
    )
    folder: str | None = option(None, "Folder of the recordings. Default: that of the table.")
    language: str | None = option(None, "Language of the transcripts, such as uk; others are dropped.")
    language_model: str | None = option(None, "Multilingual Whisper: also drop recordings that it hears as another.")
    min_seconds: float = option(0.1, "Minimum duration.", min=0)
    max_seconds: float = option(30.0, "Maximum duration.", min=0)
    max_rate: float = option(40.0, "Maximum characters of the transcript a second.", "--max-rate", min=0)
    one_case: bool = option(False, "Keep transcripts in capitals or small letters alone.", "--one-case")
    speechless: float = option(0.1, "Share of the recordings without a transcript to keep.", min=0, max=1)
    outliers: float = option(6.0, "Robust standard deviations from the median that are too far.", min=0.1)


@command
def clean(table: Table, *, options: CleanOptions, json: Json = False) -> None:
    """Clean speech data: machine-made transcripts, other languages, silence, outliers; a report of what is dropped.

    The filters are those of a training (glassformer train --task transcribe). Nothing is changed: the rows that are
    kept go to a table of their own, next to the recordings.

    Examples:

    [cyan]glassformer data clean recordings/metadata.csv --language uk -o recordings/clean.csv[/]

    [cyan]glassformer data clean rows.csv -c audio=path -c text=sentence --dropped dropped.jsonl --json[/]
    """
    with spinner("reading the table"):
        from glassformer.data.rows import read_rows
        from glassformer.tasks.transcribe.clean import CleanedTable, SpeechCleaner
        from glassformer.tasks.transcribe.quality import QualityFilters

        filters = QualityFilters(
            min_seconds=options.min_seconds,
            max_seconds=options.max_seconds,
            max_characters_per_second=options.max_rate,
            mixed_case=not options.one_case,
            speechless=options.speechless,
            min_text_language_probability=None if options.language is None else 0.1,
            min_language_probability=None if options.language_model is None else 0.5,
            language_model=options.language_model,
            skip_unreadable=True,
        )
        roles = columns_of(options.column, ["audio", "text", "start", "end"])
        limits: dict[str, Any] = {"filters": filters, "language": options.language, "outliers": options.outliers}
        cleaner = SpeechCleaner(columns=roles, folder=options.folder, **limits)
        rows = read_rows(table)
        output = None
        if options.output is not None:
            output = CleanedTable(options.output, rows, column=cleaner.columns["audio"], folder=options.folder)
    with notes(), progress_bar("reading recordings", len(rows)) as advance:
        result = cleaner.clean(rows, advance)
    if output is not None:
        output.write(result.selected)
    if options.dropped is not None:
        lines = (json_library.dumps(asdict(row), ensure_ascii=False) + "\n" for row in result.dropped)
        with disk_errors(options.dropped, DataError):
            write_text(options.dropped, "".join(lines))
    show(result, json)
    if options.output is not None and not json:
        say(f"saved in {options.output}")
