"""Published data sets, as rows of a table: the columns of their files, their labels and sizes; `published.yaml`.

    read_rows("PAN-X.de/train.parquet", kind="panx")      {"tokens": ["Anton", …], "tags": ["B-PER", …]}
    read_rows("CoLA/train.tsv", kind="glue/cola")         {"text": "…", "label": "acceptable"}

A file is read in its own format; each row then gets the columns that the tasks read, and labels their names:

    row of the file ─ role: a column, a path, a template ─ label: its name among the listed ones ─> row

Columns and labels that are not those of the data set are errors. Rows of test parts have no `label`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.data.lines import Format, LineFile, LineReader, ParsedRow
from glassformer.data.sequence import (
    ColumnNames,
    MissingColumnError,
    Row,
    RowSchema,
    RowSequence,
    RowSource,
    RowView,
    ScannedRow,
    missing_column,
    sha256_of,
)
from glassformer.errors import ConfigError, DataError, nearest
from glassformer.files import safe_repr

PUBLISHED = Path(__file__).with_suffix(".yaml")
OPTIONAL_ROLES = ("label",)
NO_LABEL = -1  # in files of the Hugging Face Hub, where a row has none
SPLIT_WORDS = {"dev": "validation", "val": "validation", "valid": "validation"}


@dataclass(frozen=True, kw_only=True)
class PublishedSet:
    """A published data set; the fields are explained in `published.yaml`."""

    name: str
    about: str
    task: str
    licence: str
    published: str
    commercial: bool = True
    rows: dict[str, int] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)
    labels: dict[str, list[str] | dict[str, str]] = field(default_factory=dict)
    other_labels: str = "error"
    numbers: list[str] = field(default_factory=list)
    format: dict[str, Any] = field(default_factory=dict)

    def row(self, columns: Mapping[str, Any]) -> Row:
        """The row of a task, made of a row of the file.

        Raises: DataError: a missing column, an unknown label, or no number; without the place.
        """
        if not self.columns:
            return dict(columns)
        row = {}
        for role, column in self.columns.items():
            if role in OPTIONAL_ROLES and column.partition(".")[0] not in columns:
                continue
            value = _filled(column, columns) if "{" in column else _value(column, columns)
            if role in self.labels:
                value = self._labels(role, value)
            elif role in self.numbers:
                value = _number(column, value)
            row[role] = value
        return row

    def check_header(self, names: Sequence[str]) -> None:
        """Raises: DataError: a table lacks a column; without the name of the file."""
        for role, column in self.columns.items():
            for name in re.findall(r"\{(.+?)\}", column) or [column.partition(".")[0]]:
                if name not in names and role not in OPTIONAL_ROLES:
                    raise DataError(f"{missing_column(name, names)}; is it a file of {self.name}?")

    def size_note(self, path: str, count: int) -> str | None:
        """What to say where the rows of a file are not as many as those of the split that its name tells."""
        words = {SPLIT_WORDS.get(word, word) for word in re.split(r"[^a-z]+", Path(path).name.lower())}
        shards = re.search(r"-of-(\d+)", path)
        splits = [split for split in self.rows if set(split.split("_")) <= words]
        if not splits or (shards is not None and int(shards[1]) > 1):
            return None
        split = max(splits, key=len)
        if self.rows[split] == count:
            return None
        return f"{path}: has {count:,} rows; {self.name} as published has {self.rows[split]:,} in its part {split}"

    def _labels(self, role: str, value: Any) -> Any:
        if isinstance(value, (list, tuple, np.ndarray)):
            names = [self._label(role, each) for each in value]
            return [name for name in names if name is not None] if self.other_labels == "drop" else names
        return self._label(role, value)

    def _label(self, role: str, value: Any) -> str | None:
        known = self.labels[role]
        if isinstance(known, list):
            number = int(value) if re.fullmatch(r"-?\d+", str(value)) else None
            if number == NO_LABEL or value is None:
                return None
            if value in known:
                return str(value)
            if number is not None and 0 <= number < len(known):
                return known[number]
            allowed = f"{', '.join(known)}; or its number, from 0 to {len(known) - 1}"
        else:
            if value in known or self.other_labels == "drop":
                return known.get(value)
            allowed = ", ".join(known)
        raise DataError(f"has {safe_repr(value)} as {self.columns[role]!r}; it must be one of: {allowed}")


def _value(path: str, columns: Mapping[str, Any]) -> Any:
    """The value of a column; of `a.b`, what is called b within a, or within each value of a list."""
    name, _, rest = path.partition(".")
    if path in columns or name not in columns:
        if path not in columns:
            raise MissingColumnError(f"has {missing_column(name, columns)}", name)
        return columns[path]
    value = columns[name]
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_value(rest, each) for each in value]
    if not isinstance(value, Mapping):
        raise DataError(f"has {safe_repr(value)} as {name!r}; it must be an object with {rest!r}")
    return _value(rest, value)


def _filled(template: str, columns: Mapping[str, Any]) -> str:
    """A template with the texts of columns in it; nothing for null values."""

    def text(match: re.Match[str]) -> str:
        value = _value(match[1], columns)
        return "" if value is None else str(value)

    return re.sub(r"\{(.+?)\}", text, template).strip()


def _number(column: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise DataError(f"has {safe_repr(value)} as {column!r}; it must be a number")
    return number


@cache
def published_sets() -> dict[str, PublishedSet]:
    """The published data sets, by name."""
    import yaml

    entries = yaml.safe_load(PUBLISHED.read_text("utf-8"))
    return {name: PublishedSet(name=name, **entry) for name, entry in entries.items()}


def is_published(kind: object) -> bool:
    """Whether a published data set is called so, or several: glue."""
    return isinstance(kind, str) and any(kind in (name, name.partition("/")[0]) for name in published_sets())


def find_published(kind: str, options: Mapping[str, Any]) -> tuple[PublishedSet, dict[str, Any]] | None:
    """The data set that `kind` names, or of several with its option `task`: glue with cola is glue/cola.

    Returns: it, and the other options; None = no published data set is called so.
    Raises: ConfigError: no such task.
    """
    sets = published_sets()
    if kind in sets:
        return sets[kind], dict(options)
    tasks = [name.removeprefix(f"{kind}/") for name in sets if name.startswith(f"{kind}/")]
    if not tasks:
        return None
    task = options.get("task", "")
    if not isinstance(task, str):
        raise ConfigError(f"task is {safe_repr(task)}; it must be a text, such as {tasks[0]}")
    if task not in tasks:
        raise ConfigError(f"task is {safe_repr(task)}{nearest(task, tasks)}; it is one of: {', '.join(tasks)}")
    return sets[f"{kind}/{task}"], {name: value for name, value in options.items() if name != "task"}


@dataclass(frozen=True)
class PublishedFormat(Format):
    """A text file of a published data set, in a format of its own."""

    published: PublishedSet
    format: Format

    def read_header(self, lines: LineReader) -> Any:
        header = self.format.read_header(lines)
        if header and isinstance(header, tuple):
            try:
                self.published.check_header(header)
            except DataError as problem:
                raise DataError(f"{lines.name}: {problem}") from None
        return header

    def rows(self, lines: LineReader, header: Any) -> Iterator[ParsedRow]:
        on_bad_rows = getattr(self.format, "on_bad_rows", "error")
        for parsed in self.format.rows(lines, header):
            row = lines.row_or_skip(on_bad_rows, self._row, parsed, lines)
            if row is not None:
                yield parsed._replace(row=row)

    def _row(self, parsed: ParsedRow, lines: LineReader) -> Row:
        try:
            return self.published.row(parsed.row)
        except DataError as problem:
            raise DataError(f"{lines.name}: line {parsed.line} {problem}") from None


class PublishedRows(RowView):
    """Rows of a file of a published data set that are found by number. Raises: DataError: an invalid row."""

    def __init__(self, rows: RowSequence, published: PublishedSet, columns: ColumnNames) -> None:
        self._rows, self._published, schema = rows, published, RowSchema(columns)
        for index in range(len(rows)):
            schema.validate(_placed(published, rows.row(index), rows.where(index)), rows.where(index))
        self._project = schema.project
        self.name, self.columns, self.kinds = rows.name, schema.columns, schema.kinds
        self.fingerprint = sha256_of(rows.fingerprint.encode(), repr((published, columns)).encode())

    def _change(self, row: Row) -> Row:
        return self._project(self._published.row(row))


class PublishedSource(RowSource):
    """A file of a published data set, as a source of rows with the columns of its task."""

    def __init__(self, published: PublishedSet, source: RowSource) -> None:
        self.name, self._published, self._source = source.name, published, source
        if isinstance(source, LineFile):
            self._source = LineFile(source.path, PublishedFormat(published, source.format))

    def indexed(self, columns: ColumnNames, limit: int) -> RowSequence:
        if isinstance(self._source, LineFile):
            return self._source.indexed(columns, limit)
        return PublishedRows(self._source.indexed(None, limit), self._published, columns)

    def scan(self, position: Any, columns: ColumnNames, limit: int) -> Iterator[ScannedRow]:
        for item in self._source.scan(position, None, limit):
            lines = isinstance(self._source, LineFile)
            yield item if lines else item._replace(row=_placed(self._published, item.row, item.where))

    def stamp(self) -> list[Any]:
        return self._source.stamp()


def _placed(published: PublishedSet, row: Row, where: str) -> Row:
    """A row of the task. Raises: DataError: what is wrong with it, with its place."""
    try:
        return published.row(row)
    except DataError as problem:
        raise DataError(f"{where} {problem}") from None
