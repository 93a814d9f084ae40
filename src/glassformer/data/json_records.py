"""Nested JSON: records below lists within lists, each with the fields of the objects around it.

    {"data": [{"title": "t", "paragraphs": [{"context": "…", "qas": [{"id": "56be", "question": "…"}]}]}]}

    read_rows("dev.json", records="data.paragraphs.qas")
    {"title": "t", "context": "…", "id": "56be", "question": "…"}

Such a file is parsed whole. Files of SQuAD are of this kind (Rajpurkar et al. 2016): the set `squad` of `sets.yaml`.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from glassformer.data.json_rows import cut_off, parse_json
from glassformer.data.lines import NOT_UTF_8, READ_ERRORS, open_decompressed
from glassformer.data.sequence import ColumnNames, InMemoryRows, Row, RowSequence, RowSource
from glassformer.errors import ConfigError, DataError
from glassformer.files import error_reason, safe_repr

_SQUAD = re.compile(rb'\s*\{\s*("version"\s*:\s*"[^"]*"\s*,\s*)?"data"\s*:\s*\[\s*\{\s*"(title|paragraphs)"\s*:')


def is_squad(path: Path, encoding: str | None = None) -> bool:
    """Whether a JSON file begins as SQuAD files do: {"data": [{"title": …, or {"data": [{"paragraphs": …"""
    try:
        with open_decompressed(path, encoding) as stream:
            return _SQUAD.match(stream.read(1000).removeprefix(codecs.BOM_UTF8)) is not None
    except (*READ_ERRORS, DataError):
        return False  # reading it says what is wrong


class RecordFile(RowSource):
    """A file of nested JSON as a source of rows, also compressed (.gz).

    Args:
        records: the names of the lists, from the outermost on: data.paragraphs.qas
        encoding: None = UTF-8
    """

    def __init__(self, path: Path, records: object, encoding: str | None = None) -> None:
        if not isinstance(records, str) or not all(records.split(".")):
            raise ConfigError(f"records is {safe_repr(records)}; give names of lists, such as data.paragraphs.qas")
        self.name, self._path, self._records, self._encoding = str(path), path, records, encoding

    def indexed(self, columns: ColumnNames, limit: int) -> RowSequence:
        rows = list(self._below(self._document(), self._records.split("."), ""))
        if not rows:
            raise DataError(f"{self.name}: holds no row: its lists {self._records} are empty")
        places = [f"record {row['id'] if isinstance(row.get('id'), str) else index}" for index, row in enumerate(rows)]
        return InMemoryRows(rows, columns=columns, name=self.name, places=places)

    def _document(self) -> Any:
        try:
            with open_decompressed(self._path, self._encoding) as stream:
                data = stream.read()
        except READ_ERRORS as problem:
            raise DataError(f"{self.name}: cannot be read: {error_reason(problem)}") from problem
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as problem:
            line = data.count(b"\n", 0, problem.start) + 1
            raise DataError(f"{self.name}: line {line} {NOT_UTF_8}") from problem
        try:
            return parse_json(text)
        except (ValueError, RecursionError) as problem:
            raise DataError(f"{self.name}: is not valid JSON: {problem}{cut_off(problem, text)}") from problem

    def _below(self, holder: Any, names: Sequence[str], place: str) -> Iterator[Row]:
        """The records below an object, with its fields."""
        if not isinstance(holder, dict):
            raise DataError(f"{self.name}: {place or 'the file'} is {safe_repr(holder)}; it must be an object")
        if not names:
            yield holder
            return
        items = holder.get(names[0])
        if not isinstance(items, list):
            raise DataError(
                f"{self.name}: {place or 'the file'} has no list {names[0]!r}; got {safe_repr(items)}; its records are "
                f"{self._records.replace('.', ' > ')}"
            )
        around = {name: value for name, value in holder.items() if name != names[0]}
        for number, item in enumerate(items):
            for row in self._below(item, names[1:], f"{place}{'.' * bool(place)}{names[0]}[{number}]"):
                yield {**around, **row}
