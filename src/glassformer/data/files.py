"""Data files as a whole: inspect them, split one into several, write its card and its versions."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from glassformer.data.options import (
    CardFacts,
    CardOptions,
    InspectionOptions,
    ReadingOptions,
    SplitOptions,
    VersionOptions,
)
from glassformer.data.report import DataReport, data_card, inspect_rows, texts_of, usual_columns, usual_pair
from glassformer.data.rows import OUTPUT_FORMATS, detect_format, output_format, read_rows, write_rows
from glassformer.data.sequence import RowSequence
from glassformer.data.sets import data_sets
from glassformer.data.splits import column_values, deduplicate, split
from glassformer.data.versions import write_version
from glassformer.errors import DataError
from glassformer.files import refuse_repeated
from glassformer.files.atomic import disk_errors, write_text


class LengthTokenizer(Protocol):
    """A tokenizer, as far as lengths need it."""

    model_max_length: int | None

    def batch_ids(self, texts: Sequence[str], limit: int | None, /) -> tuple[Sequence[Sequence[int]], Any]: ...


def inspect_files(
    files: Sequence[Path],
    options: InspectionOptions | None = None,
    reading: ReadingOptions | None = None,
    tokenizer: LengthTokenizer | None = None,
) -> DataReport:
    """Inspect data files, the training set first: see `inspect_rows`.

    Args:
        tokenizer: that of `options`, which lengths in tokens are of
    Warns: of a file with another number of rows than its published data set; of a column of texts that was guessed.
    Raises: DataError: a file that cannot be read, is given twice, or has no such column.
    """
    options, reading = options or InspectionOptions(), reading or ReadingOptions()
    refuse_repeated(files, DataError)
    # File names alone identify the files in a report, unless two have the same name.
    short = len({file.name for file in files} - {""}) == len(files)
    rows = {file.name if short else str(file): read_rows(file, **reading.keywords()) for file in files}
    _warn_of_sets(rows, reading)
    columns = {**usual_columns(list(rows.values())), **options.columns}
    text = columns["text"]
    if text not in ("text", "tokens") and "text" not in options.columns:
        warnings.warn(f"no column 'text': inspecting {text!r}; for another one: columns={{'text': NAME}}", stacklevel=2)
    roles: dict[str, Any] = {role: columns.get(role) for role in ("text", "text_pair", "label")}
    if tokenizer is None:
        return inspect_rows(rows, **roles)

    def token_counts(texts: Sequence[str]) -> list[int]:
        return [len(ids) for ids in tokenizer.batch_ids(texts, None)[0]]

    return inspect_rows(rows, **roles, tokens=token_counts, limit=options.limit or tokenizer.model_max_length)


def _warn_of_sets(rows: Mapping[str, RowSequence], reading: ReadingOptions) -> None:
    """Warn of files that lack rows or labels of the published data set that they are read as."""
    if reading.kind in data_sets():
        entry = data_sets()[reading.kind]
        for name, read in rows.items():
            file = read.file(0)
            labels = entry.label_note(name, read.columns, file)
            for text in filter(None, (labels, entry.size_note(name, len(read), reading.part or "", file))):
                warnings.warn(text, stacklevel=3)


@dataclass(frozen=True)
class SplitFiles:
    """What `split_file` wrote.

    files: path → rows
    rows: of all of them
    dropped: that repeat an earlier text
    """

    files: dict[Path, int]
    rows: int
    dropped: int | None


def split_file(file: Path, options: SplitOptions, reading: ReadingOptions | None = None) -> SplitFiles:
    """Split a data file into train, validation and test, each a file of the output folder.

    Raises: ConfigError: fractions that do not sum up to 1. DataError: no such column, or a file that exists.
    """
    reading, columns = reading or ReadingOptions(), options.columns
    rows: RowSequence = read_rows(file, **reading.keywords())
    dropped = None
    if "text" in columns:
        read = [columns["text"], columns.get("text_pair") or usual_pair(columns["text"], [rows])]
        unique_rows = deduplicate(*(texts_of(rows, column) for column in read if column is not None))
        dropped, rows = len(rows) - len(unique_rows), rows.select(unique_rows)
    parts = split(
        len(rows),
        options.fractions,
        seed=options.seed,
        labels=column_values(rows, columns["label"], "label") if "label" in columns else None,
        groups=column_values(rows, columns["group"], "group") if "group" in columns else None,
    )
    input_format = None if file.is_dir() else detect_format(file, reading.kind)
    ending = options.format or (input_format if input_format in OUTPUT_FORMATS else "jsonl")
    paths = [options.output / f"{title}.{ending}" for title in _titles(len(parts))]
    output_format(paths[0])
    check_free(*paths)
    options.output.mkdir(parents=True, exist_ok=True)
    for path, part in zip(paths, parts, strict=True):
        write_rows(path, rows.select(part), rows.columns)
    return SplitFiles(dict(zip(paths, map(len, parts), strict=True)), len(rows), dropped)


def write_card(report: DataReport, options: CardOptions) -> None:
    """Write a data card. Raises: DataError: the file exists, or the disk refuses."""
    check_free(options.output)
    with disk_errors(options.output, DataError, "the card"):
        write_text(options.output, _card(report, options))


def write_version_of(files: Sequence[Path], report: DataReport, options: VersionOptions) -> Path:
    """Write a version of a data set, of files that were inspected; its folder. Raises: see `write_version`."""
    rows = dict(zip(files, (file.rows for file in report.files), strict=True))
    return write_version(options.output, options.version, rows, _card(report, options))


def _card(report: DataReport, facts: CardFacts) -> str:
    return data_card(report, title=facts.title, source=facts.source, licence=facts.licence, biases=facts.biases)


def _titles(count: int) -> list[str]:
    usual = ["train", "validation", "test"]
    return usual[:count] if count <= len(usual) else [f"part-{number}" for number in range(1, count + 1)]


def check_free(*paths: Path) -> None:
    """Raises: DataError: an output file exists already, so that nothing is overwritten or half written."""
    for path in paths:
        if path.exists():
            raise DataError(f"{path}: already exists; move it away, or choose another path with output=")
