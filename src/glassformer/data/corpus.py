"""Corpus files: the texts of several files, streamed from disk at each iteration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from glassformer.data.lines import data_extension
from glassformer.data.rows import EXTENSIONS
from glassformer.data.streams import stream_rows
from glassformer.errors import DataError
from glassformer.files import refuse_repeated, safe_repr


class Corpus:
    """The texts of several files: lines of plain text, or one column of tables.

    Args:
        column: of files with columns
        encoding: of text files that are not UTF-8
        line_feeds: keep the ends of the lines of plain text
    Raises: DataError: a file is given twice.
    """

    def __init__(
        self, files: Sequence[Path], column: str = "text", *, encoding: str | None = None, line_feeds: bool = False
    ) -> None:
        refuse_repeated(files, DataError)
        # A corpus file may have any extension: an unknown one means plain text.
        self._kinds = {file: EXTENSIONS.get(data_extension(file), "text") for file in files}
        self._column = column
        self._options: dict[str, Any] = {} if encoding is None else {"encoding": encoding}
        self._line_end = "\n" if line_feeds else ""

    def __iter__(self) -> Iterator[str]:
        """The texts, in the order of the files. Raises: DataError: a file that cannot be read, or a row without one."""
        for file, kind in self._kinds.items():
            column = "text" if kind == "text" else self._column
            line_end = self._line_end if kind == "text" else ""
            rows = stream_rows(file, kind=kind, columns=[column], buffer=1, **self._options)
            for row in rows:
                if not isinstance(row[column], str):
                    raise DataError(f"{rows.where}: {column!r} is {safe_repr(row[column])}; it must be a text")
                yield row[column] + line_end
