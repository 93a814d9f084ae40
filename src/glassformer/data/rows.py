"""Rows from whatever data lie in: files by the end of their name, folders, lists, frames.

    read_rows("train.csv")                                    read_rows(["de.train.conll", "fr.train.conll"])
    read_rows("train.jsonl.gz", columns=("text", "label"))    read_rows("news/*.parquet")
    read_rows("train.{en,de}")   columns source, target       read_rows("calls/")   a folder of sound

Everything is looked at once, and what is wrong is said with its file and line. Of a file only the places of its rows
stay in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glassformer.data.lines import LIMIT
from glassformer.data.parts import Source, parts_of
from glassformer.data.schema import Schema
from glassformer.data.sequence import Joined, Row, Rows
from glassformer.errors import ConfigError

__all__ = ["Row", "Rows", "Source", "read_rows"]


def read_rows(
    source: Source,
    *,
    columns: Sequence[str] | None = None,
    kind: str | None = None,
    limit: int = LIMIT,
    **options: Any,
) -> Rows:
    """Rows by number from files, folders, lists and frames.

        read_rows("train.txt.gz", kind="csv", delimiter=";", quotes=False, header=False, names=("text", "label"))

    Args:
        source: see `Source`; several are put one behind the other
        columns: those that are needed, each with a value in every row; the others are left out. None = all
        kind: csv, tsv, jsonl, json, parquet, conll, text or audio, where the end of the name does not say it
        limit: bytes that a row may have
        options: of the kind: see `Table` (csv, tsv), `Sentences` (conll), `PlainText` (text)
    Returns: `Rows`: a sequence of dicts that knows where each stands.
    Raises:
        DataError: a file that cannot be read, is empty or broken; what is wrong with a row, with file and line
        ConfigError: an option that the kind does not have
        MissingExtraError: Parquet without pyarrow
    """
    if limit < 1:
        raise ConfigError(f"limit is {limit} bytes; take at least 1")
    Schema(columns)  # says what is wrong with the list itself, before anything is read
    parts = [part.by_number(columns, limit) for part in parts_of(source, kind, options)]
    return parts[0] if len(parts) == 1 else Joined(parts)
