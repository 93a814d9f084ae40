"""Read a data set: CSV, TSV, JSON, JSONL, Parquet, CoNLL and text files, audio folders, lists, data frames.

    read_rows("train.csv")                                    read_rows(["de.train.conll", "fr.train.conll"])
    read_rows("train.jsonl.gz", columns=("text", "label"))    read_rows("news/*.parquet")
    read_rows("train.{en,de}")   columns source, target       read_rows("calls/")   a folder of sound

Every row is validated once; errors name its file and line. Of a file only the offsets of its rows stay in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glassformer.data.lines import MAX_ROW_BYTES
from glassformer.data.schema import Schema
from glassformer.data.sequence import Row, RowSequence
from glassformer.data.sources import Source, open_sources
from glassformer.data.views import ConcatenatedRows
from glassformer.deprecation import former_names
from glassformer.errors import ConfigError

__all__ = ["Row", "RowSequence", "Source", "read_rows"]


def read_rows(
    source: Source,
    *,
    columns: Sequence[str] | None = None,
    kind: str | None = None,
    limit: int = MAX_ROW_BYTES,
    **options: Any,
) -> RowSequence:
    """Read rows with random access from files, folders, lists and data frames.

        read_rows("train.txt.gz", kind="csv", delimiter=";", quotes=False, header=False, names=("text", "label"))

    Args:
        source: see `Source`; several are concatenated
        columns: the required ones, without gaps; the others are left out. None = all
        kind: csv, tsv, jsonl, json, parquet, conll, text or audio, where the file extension does not say it
        limit: maximum bytes of a row
        options: of the format: see `Table` (csv, tsv), `Sentences` (conll), `PlainText` (text)
    Returns: `RowSequence`: a sequence of dicts, each with its file and line.
    Raises:
        DataError: a file that cannot be read, is empty or damaged; an invalid row, with file and line
        ConfigError: an unknown option of the format
        MissingExtraError: Parquet without pyarrow
    """
    if limit < 1:
        raise ConfigError(f"limit is {limit} bytes; take at least 1")
    Schema(columns)  # validates the list of columns before anything is read
    rows = [opened.indexed(columns, limit) for opened in open_sources(source, kind, options)]
    return rows[0] if len(rows) == 1 else ConcatenatedRows(rows)


__getattr__ = former_names(__name__)
