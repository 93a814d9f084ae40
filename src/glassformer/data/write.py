"""Write rows to CSV, TSV and JSONL files, as `read_rows` reads them back."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, DataError
from glassformer.files import error_reason, safe_repr

OUTPUT_FORMATS = ("csv", "tsv", "jsonl")


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Write rows to a new file in the format of its extension: .csv, .tsv or .jsonl.

    Raises: ConfigError: another extension · DataError: the file exists, cannot be written, or cannot hold a value.
    """
    kind = output_format(path)
    try:
        with path.open("x", encoding="utf-8", newline="") as file:
            if kind == "jsonl":
                file.writelines(json.dumps(dict(row), ensure_ascii=False) + "\n" for row in rows)
            else:
                _write_table(path, file, kind, rows, columns)
    except FileExistsError:
        raise DataError(f"{path}: already exists; move it away, or name another folder") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error_reason(error)}") from error


def output_format(path: Path) -> str:
    """The output format of a file name. Raises: ConfigError: an unknown extension."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in OUTPUT_FORMATS:
        raise ConfigError(
            f"{path}: rows are written as {', '.join(OUTPUT_FORMATS)}; let its name end in one of them"
        )
    return kind


def _write_table(
    path: Path, file: Any, kind: str, rows: Iterable[Mapping[str, Any]], columns: Sequence[str]
) -> None:
    tabs: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE, "quotechar": None}
    table = csv.writer(file, lineterminator="\n", **(tabs if kind == "tsv" else {}))
    table.writerow(columns)
    for number, row in enumerate(rows):
        cells = ["" if row.get(name) is None else row[name] for name in columns]
        for name, cell in zip(columns, cells, strict=True):
            if isinstance(cell, (list, tuple, dict, bytes)) or (kind == "tsv" and {*"\t\r\n"} & {*str(cell)}):
                raise DataError(
                    f"{path}: row {number}: {name!r} is {safe_repr(cell)}, which {kind} cannot hold; take jsonl"
                )
        table.writerow(cells)
