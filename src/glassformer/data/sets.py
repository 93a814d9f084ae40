"""Published data sets, as entries of a table: their files, columns, labels, splits, sizes and licences; `sets.yaml`.

    read_rows("PAN-X.de/train.parquet", kind="panx")            {"tokens": ["Anton", …], "tags": ["B-PER", …]}
    read_rows("CoLA", kind="glue/cola", part="validation")      {"text": "…", "label": "acceptable"}

A file is read in its own format; each row then gets the columns that the tasks read, and labels their names:

    row of the file ─ role: a column, a path, a template ─ label: its name among the listed ones ─> row

Columns and labels that are not those of the data set are errors. Rows of test parts have no `label`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.data.lines import Format, LineFile, LineReader, ParsedRow, data_extension
from glassformer.data.sequence import (
    ColumnNames,
    MissingColumnError,
    Row,
    RowSchema,
    RowSequence,
    RowSource,
    RowView,
    ScannedRow,
    labels_of,
    missing_column,
    sha256_of,
)
from glassformer.errors import ConfigError, DataError, nearest
from glassformer.files import is_int, safe_repr
from glassformer.files.schema import parse
from glassformer.reports.report import Record
from glassformer.reports.table import byte_amount

SETS = Path(__file__).with_suffix(".yaml")
OPTIONAL_ROLES = ("label",)
NO_LABELS = (-1, "-1", "-", None)
"""What files have where a row has no label: those of the Hugging Face Hub -1, SNLI's a hyphen."""
ROLE_TYPES: dict[str, tuple[tuple[type, ...], str]] = {
    **dict.fromkeys(("question", "context"), ((str,), "a text")),
    "answers": ((list, dict), "a list or an object"),
}
SPLIT_WORDS = {"dev": "validation", "val": "validation", "valid": "validation"}

Labels = dict[str, list[str] | dict[str, str]]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What differs for files of an extension; the fields are explained in `sets.yaml`."""

    columns: dict[str, str] = field(default_factory=dict)
    labels: Labels = field(default_factory=dict)
    patterns: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    names: str = "*"
    keys: bool = False
    rows: dict[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """A file to download, and how it is made of a source; the fields are explained in `sets.yaml`."""

    path: str
    size: int
    sha256: str | None = None
    part: list[int] = field(default_factory=list)
    header: str = ""
    without: list[str] = field(default_factory=list)

    def prepare(self, source: bytes) -> bytes:
        """The content of the file, made of its unpacked source."""
        content = source[slice(*self.part)] if self.part else source
        if self.without:
            dropped = {line.encode() for line in self.without}
            content = b"".join(x for x in content.splitlines(keepends=True) if x.rstrip(b"\r\n") not in dropped)
        return f"{self.header}\n".encode() + content if self.header else content


SET_KEYS = (
    *("name", "about", "task", "metric", "rows", "licence", "commercial", "published", "note", "columns", "sample"),
    *("parts", "prompts", "base", "files", "source", "size"),
)


@dataclass(frozen=True, kw_only=True)
class DataSet(Record, keys=SET_KEYS):
    """A published data set, to download where it has files; the fields are explained in `sets.yaml`."""

    name: str
    about: str
    task: str
    licence: str
    published: str = ""
    commercial: bool = True
    note: str = ""
    metric: list[str] = field(default_factory=list)
    rows: dict[str, int | None] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)
    labels: Labels = field(default_factory=dict)
    other_labels: str = "error"
    numbers: list[str] = field(default_factory=list)
    no_answer: str | None = None
    patterns: dict[str, str] = field(default_factory=dict)
    sample: dict[str, int] = field(default_factory=dict)
    parts: dict[str, dict[str, str]] = field(default_factory=dict)
    prompts: dict[str, dict[str, str]] = field(default_factory=dict)
    formats: dict[str, Layout] = field(default_factory=dict)
    base: str = ""
    files: dict[str, SourceFile] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Size of the download in bytes."""
        return sum({file.path: file.size for file in self.files.values()}.values())

    @property
    def source(self) -> str:
        """The repository and the commit that the files are of; or where they can be had."""
        if not self.files:
            return self.published.removeprefix("https://")
        owner, repository, commit = self.base.split("/")[3:6]
        return f"github.com/{owner}/{repository} @ {commit[:7]}"

    @property
    def terms(self) -> dict[str, str]:
        """What the licence allows, and where the data are from."""
        return {
            "licence": self.licence if self.commercial else f"{self.licence}: not for commercial use",
            "source": self.source,
        }

    @property
    def facts(self) -> dict[str, str]:
        """What to know of it, by what it is."""
        sizes = (split if count is None else f"{split} {count:,}" for split, count in self.rows.items())
        facts = {
            self.name: self.about + (f"; {byte_amount(self.size)}" if self.files else ""),
            "task": f"{self.task}; metric: {', '.join(self.metric)}",
            "splits": ", ".join(sizes),
            "columns": ", ".join(self.columns),
            "sample": ", ".join(f"{name} {count:,}" for name, count in self.sample.items()),
            "parts": ", ".join(self.parts),
            "prompts": ", ".join(self.prompts),
            **self.terms,
            "note": self.note,
        }
        return {name: text for name, text in facts.items() if text}

    def has_splits(self, path: Path) -> bool:
        """Whether a path may hold several splits: a folder, or a file of one object with a list for each."""
        return path.is_dir() or self.layout(path).keys

    def layout(self, path: Path) -> Layout:
        """The layout of a file, by its extension."""
        return self.formats.get(data_extension(path).removeprefix(".") or "any", Layout())

    def split_of(self, *names: str) -> str | None:
        """The split that the name of a file tells; None = none, or a shard of one."""
        words = frozenset().union(*map(split_words, names))
        return max((split for split in self.rows if split_words(split) <= words), key=len, default=None)

    def splits(self, part: str, unknown: list[str] | None = None) -> list[str]:
        """The splits that a part means: `dev` is validation, and all of the languages where each has its own.

        Args:
            unknown: what to return where there is none; None = an error
        Raises: ConfigError: there is none.
        """
        words = split_words(part)
        matches = [split for split in self.rows if words == split_words(split)]
        matches = matches or [split for split in self.rows if words and words <= split_words(split)]
        if matches or unknown is not None:
            return matches or unknown or []
        known = [*self.rows, *self.parts]
        has = f"it has: {', '.join(known)}" if known else "it has none: leave part= out"
        raise ConfigError(f"part is {safe_repr(part)}, which {self.name} does not have{nearest(part, known)}; {has}")

    def chosen_parts(self, options: Mapping[str, Any]) -> tuple[list[str], str | None]:
        """The splits of the option `part`, and the one of `parts`, whose rows are read alone.

        Raises: ConfigError: it names none, or two of `parts`.
        """
        part = options.get("part", ())
        names = [part] if isinstance(part, str) else list(part) if isinstance(part, (list, tuple)) else [part]
        if not all(isinstance(name, str) and name for name in names):
            raise ConfigError(f"part is {safe_repr(part)}; give the name of a split of {self.name}, or several")
        if len(filters := [name for name in names if name in self.parts]) > 1:
            raise ConfigError(f"part names {' and '.join(filters)}; {self.name} is read by one of them")
        return [name for name in names if name not in filters], next(iter(filters), None)

    def reader(
        self, path: Path, options: Mapping[str, Any], *, in_folder: bool
    ) -> tuple[SetReader, str | None, dict[str, Any]]:
        """What reads a file, its format where its name does not say it, and the options of the format.

        Raises: ConfigError: a split of a file that is one itself, an unknown one, or another bad option. DataError: a
            file of several splits, and none is named.
        """
        (splits, part), layout = self.chosen_parts(options), self.layout(path)
        others = {**layout.options, **{name: value for name, value in options.items() if name != "part"}}
        own = {name: others.pop(name) for name in ("prompt", "characters") if name in others}
        if layout.keys and not splits:
            raise DataError(f"{path}: holds {', '.join(self.rows)}; say which to read: part= {next(iter(self.rows))}")
        if layout.keys:
            known = {split: self.splits(split, unknown=[split]) for split in splits}
            others["part"] = tuple(key for keys in known.values() for key in keys)
        elif splits and not in_folder:
            self.splits(splits[0])  # there is one
            raise ConfigError(f"part is for folders, and {path} is a file: name its folder, or leave part= out")
        # What decides about no row is left out: fingerprints of rows and positions of streams are of the rest.
        bare: dict[str, Any] = dict.fromkeys(("about", "note", "licence", "published"), "")
        bare |= {"rows": {}, "files": {}, "formats": {}}
        bare |= {name: {**getattr(self, name), **getattr(layout, name)} for name in ("columns", "labels", "patterns")}
        return SetReader(data_set=replace(self, **bare), part=part, **own), others.pop("kind", None), others

    def files_in(self, folder: Path, options: Mapping[str, Any], extensions: Iterable[str]) -> list[Path]:
        """The files of some splits in a folder, in the order of their names.

        Raises: DataError: there is none; or no split is named, and the folder has several. ConfigError: no such split.
        """
        parts, _ = self.chosen_parts(options)
        candidates = [
            path
            for path in sorted(folder.iterdir())
            if path.is_file() and not path.name.startswith(".") and fnmatch(path.name, self.layout(path).names)
            if data_extension(path) in extensions or (not path.suffix and "any" in self.formats)
        ]
        keyed = [path for path in candidates if self.layout(path).keys]
        if keyed or not candidates:
            return keyed
        by_split = {path: self.split_of(path.name) for path in candidates}
        there = list(dict.fromkeys(split for split in by_split.values() if split is not None))
        if not parts:
            if len(there) > 1:
                raise DataError(f"{folder}: has files of {', '.join(there)}; say which to read: part= {there[0]}")
            return candidates
        wanted = {split for part in parts for split in self.splits(part)}
        if not (files := [path for path, split in by_split.items() if split in wanted]):
            names = ", ".join(f"{path.name} ({split or 'of no split'})" for path, split in [*by_split.items()][:10])
            raise DataError(f"{folder}: has no file of {', '.join(parts)} of {self.name}; its files are: {names}")
        return files

    def label_note(self, path: str, columns: Iterable[str], file: str = "") -> str | None:
        """What to say of a file whose rows have no label, as those of test parts, though the data set has some."""
        column = {**self.columns, **self.layout(Path(file or path)).columns}.get("label")
        if column is None or "label" in columns:
            return None
        missing = " and ".join(map(safe_repr, _needed(column)))
        return f"{path}: has no column {missing}, so its rows have no label: a test part, or not all of {self.name}"

    def size_note(self, path: str, count: int, part: str = "", file: str = "") -> str | None:
        """What to say where the rows of a file are not as many as those of the split that its name tells.

        Args:
            file: of a folder, one of its files
        """
        shards = re.search(r"-of-(\d+)", path)
        split = self.split_of(Path(path).name, part)
        if split is None or part in self.parts or (shards is not None and int(shards[1]) > 1):
            return None
        published = {**self.rows, **self.layout(Path(file or path)).rows}[split]
        if published in (None, count):
            return None
        return f"{path}: has {count:,} rows; {self.name} as published has {published:,} in its part {split}"


def split_words(name: str) -> frozenset[str]:
    """The words of a name, by which a file or a part is found: dev, val and valid are validation."""
    return frozenset(SPLIT_WORDS.get(word, word) for word in re.split(r"[^a-z]+", name.lower()) if word)


@cache
def data_sets(path: Path = SETS) -> dict[str, DataSet]:
    """The published data sets, by name."""
    import yaml

    entries = yaml.safe_load(path.read_text("utf-8"))
    return {name: parse(DataSet, {"name": name, **entry}, name) for name, entry in entries.items()}


def find_data_set(name: str) -> DataSet:
    """The data set of a name. Raises: ConfigError: there is none."""
    if name not in data_sets():
        raise ConfigError(f"no data set is called {unknown_name(name)}")
    return data_sets()[name]


def unknown_name(name: object, formats: Iterable[str] = ()) -> str:
    """A name that no data set and no format has, as an error shows it: with those that are near, and where all are."""
    known, formats = data_sets(), list(formats)
    inner = [each for each in known if name and each.startswith(f"{name}/")]
    near = f"; it is several: {', '.join(inner)}" if inner else nearest(name, [*formats, *known])
    listed = f"; formats: {', '.join(formats)}" if formats else ""
    return f"{safe_repr(name)}{near}{listed}; glassformer data list shows the published data sets"


# ------------------------------------------------------------------------------------------------ rows of the task


@dataclass(frozen=True, kw_only=True)
class SetReader:
    """Makes rows of a task of those of a file.

    data_set: with the columns and labels of the file's layout
    part: one of its `parts`, whose rows are read alone
    prompt: one of its `prompts`, which rows are written as
    characters: of each text to read, from its beginning; None = all
    """

    data_set: DataSet
    part: str | None = None
    prompt: str | None = None
    characters: int | None = None

    def __post_init__(self) -> None:
        prompts, size = self.data_set.prompts, self.characters
        if self.prompt is not None and self.prompt not in prompts:
            allowed = f"it is one of: {', '.join(prompts)}" if prompts else f"{self.data_set.name} has none"
            raise ConfigError(f"prompt is {safe_repr(self.prompt)}{nearest(self.prompt, prompts)}; {allowed}")
        if size is not None and not is_int(size, 1):
            raise ConfigError(f"characters is {safe_repr(size)}; it must be a whole number from 1 up")

    def row(self, columns: Mapping[str, Any]) -> Row | None:
        """The row of a task, made of a row of the file; None = it is of another part.

        Raises: DataError: a missing column, an unknown label, or no number; without the place.
        """
        data_set = self.data_set
        if not data_set.columns:
            return dict(columns)
        row: Row = {}
        for role, column in data_set.columns.items():
            if role in OPTIONAL_ROLES and not _is_there(column, columns):
                continue
            row[role] = self._value(role, column, columns)
        for role in ("text", "source"):
            if self.characters is not None and isinstance(row.get(role), str):
                row[role] = row[role][: self.characters]
        if self.part is not None:
            for role, pattern in data_set.parts[self.part].items():
                cell = ", ".join(str(value) for value in labels_of(row.get(role)) if value is not None)
                if re.search(pattern, cell) is None:
                    return None
        if self.prompt is None:
            return row
        prompt = data_set.prompts[self.prompt].items()
        absent = [f"{{{role}}}" for role in OPTIONAL_ROLES if role not in row]
        return {role: _filled(text, row) for role, text in prompt if not any(name in text for name in absent)}

    def check_header(self, names: Sequence[str]) -> None:
        """Raises: DataError: a table lacks a column; without the name of the file."""
        for role, column in self.data_set.columns.items():
            for name in _needed(column):
                if name not in names and role not in OPTIONAL_ROLES:
                    raise DataError(f"{missing_column(name, names)}{self._fitting(names)}")

    def _value(self, role: str, column: str, columns: Mapping[str, Any]) -> Any:
        data_set = self.data_set
        try:
            if "{" in column:
                value: Any = _filled(column, columns).strip()
            elif span := _span(column):
                value = _answer(*span, columns, data_set.no_answer)
            else:
                value = _value(column, columns)
        except MissingColumnError as problem:
            raise DataError(f"{problem}{self._fitting(columns)}") from None
        types, words = ROLE_TYPES.get(role, ((), ""))
        if words and not isinstance(value, types):
            raise DataError(f"has {safe_repr(value)} as {column!r}; it must be {words}")
        if role in data_set.patterns:
            texts = [self._matched(role, column, text) for text in labels_of(value)]
            value = texts if isinstance(value, list) else texts[0]
        if role in data_set.numbers:
            return _number(column, value)
        return self._labels(role, value) if role in data_set.labels else value

    def _matched(self, role: str, column: str, text: str) -> str:
        pattern = self.data_set.patterns[role]
        if (match := re.fullmatch(pattern, str(text), re.DOTALL)) is None:
            raise DataError(f"has {safe_repr(text)} as {column!r}; it must match {pattern}")
        return match[1]

    def _fitting(self, columns: Iterable[str]) -> str:
        """Which data sets have these columns, as a hint."""
        there, fitting = set(columns), []
        for each in data_sets().values():
            for layout in (Layout(), *each.formats.values()):
                needed = {
                    name
                    for role, column in {**each.columns, **layout.columns}.items()
                    for name in _needed(column)
                    if role not in OPTIONAL_ROLES
                }
                if needed and needed <= there:
                    fitting.append((-len(needed), each.name))
        names = list(dict.fromkeys(name for _, name in sorted(fitting) if name != self.data_set.name))[:3]
        others = f" Its columns are those of {', '.join(names)}" if names else ""
        return f"; is it a file of {self.data_set.name}?{others}"

    def _labels(self, role: str, value: Any) -> Any:
        if isinstance(value, (list, tuple, np.ndarray)):
            names = [self._label(role, each) for each in value]
            return [name for name in names if name is not None] if self.data_set.other_labels == "drop" else names
        return self._label(role, value)

    def _label(self, role: str, value: Any) -> str | None:
        known = self.data_set.labels[role]
        if isinstance(known, list):
            if value in known:
                return str(value)
            if value in NO_LABELS:
                return None
            number = int(value) if re.fullmatch(r"\d{1,9}", str(value)) else len(known)
            if number < len(known):
                return known[number]
            allowed = f"{', '.join(known)}; or its number, from 0 to {len(known) - 1}"
        else:
            if (name := known.get(str(value))) is not None or self.data_set.other_labels == "drop":
                return name
            allowed = ", ".join(known)
        raise DataError(f"has {safe_repr(value)} as {self.data_set.columns[role]!r}; it must be one of: {allowed}")


@cache  # asked for each row
def _span(column: str) -> tuple[str, str] | None:
    """The columns a and b of `a[b]`; None = a column is no such one."""
    match = re.fullmatch(r"(\w+)\[(\w+)\]", column)
    return None if match is None else (match[1], match[2])


@cache
def _needed(column: str) -> tuple[str, ...]:
    """The columns of a file that a column of the table is made of."""
    return _span(column) or tuple(re.findall(r"\{(.+?)\}", column)) or (column.partition(".")[0],)


def _is_there(column: str, columns: Mapping[str, Any]) -> bool:
    return all(name in columns for name in _needed(column))


def _value(path: str, columns: Mapping[str, Any]) -> Any:
    """The value of a column; of `a.b`, what is called b within a, or within each value of a list."""
    name, _, rest = path.partition(".")
    if not isinstance(columns, Mapping):
        raise DataError(f"has {safe_repr(columns)} in a list; it must be an object with {name!r}")
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

    return re.sub(r"\{(.+?)\}", text, template)


def _answer(text: str, indices: str, columns: Mapping[str, Any], no_answer: str | None) -> dict[str, list[Any]]:
    """The answer of a column of texts that the numbers in another column cut out of it, as SQuAD's files have it."""
    whole, span = str(_value(text, columns)), str(_value(indices, columns))
    match = re.fullmatch(r"\((\d{1,9}), ?(\d{1,9})\)", span)
    start, end = map(int, match.groups()) if match else (0, 0)
    if not start < end <= len(whole):
        raise DataError(
            f"has {safe_repr(span)} as {indices!r}; it must be the first character and the end of an answer in "
            f"{text!r}, such as (3, 9)"
        )
    if whole[start:end] == no_answer:
        return {"text": [], "answer_start": []}
    return {"text": [whole[start:end]], "answer_start": [start]}


def _number(column: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):  # the last of an integer that no float holds
        number = math.nan
    if not math.isfinite(number):
        raise DataError(f"has {safe_repr(value)} as {column!r}; it must be a number")
    return number


# ------------------------------------------------------------------------------------------------ sources of rows


@dataclass(frozen=True)
class SetFormat(Format):
    """A text file of a published data set, in a format of its own."""

    reader: SetReader
    format: Format

    def read_header(self, lines: LineReader) -> Any:
        header = self.format.read_header(lines)
        if header and isinstance(header, tuple):
            try:
                self.reader.check_header(header)
            except DataError as problem:
                raise DataError(f"{lines.name}: {problem}") from None
        return header

    def rows(self, lines: LineReader, header: Any) -> Iterator[ParsedRow]:
        on_bad_rows = getattr(self.format, "on_bad_rows", "error")
        for parsed in self.format.rows(lines, header):
            row = lines.row_or_skip(on_bad_rows, placed, self.reader, parsed.row, lines.name, parsed.line)
            if row is not None:
                yield parsed._replace(row=row)


class SetRows(RowView):
    """Rows of a file of a published data set that are found by number. Raises: DataError: an invalid row."""

    def __init__(self, rows: RowSequence, reader: SetReader, columns: ColumnNames) -> None:
        self._rows, self._reader, schema, indices = rows, reader, RowSchema(columns), []
        for index in range(len(rows)):
            row = placed(reader, rows.row(index), rows.where(index))
            if row is not None:
                schema.validate(row, rows.where(index))
                indices.append(index)
        if not indices:
            raise DataError(f"{rows.name}: holds no row of part {reader.part}")
        self._indices, self._project = np.array(indices), schema.project
        self.name, self.columns, self.kinds = rows.name, schema.columns, schema.kinds
        self.fingerprint = sha256_of(rows.fingerprint.encode(), repr((reader, columns)).encode())

    def __len__(self) -> int:
        return len(self._indices)

    def _locate(self, index: int) -> tuple[RowSequence, int]:
        return self._rows, int(self._indices[index])

    def _change(self, row: Row) -> Row:
        return self._project(self._reader.row(row) or {})


class SetSource(RowSource):
    """A file of a published data set that is no text file, as a source of rows with the columns of its task."""

    def __init__(self, reader: SetReader, source: RowSource) -> None:
        self.name, self._reader, self._source = source.name, reader, source

    def indexed(self, columns: ColumnNames, limit: int) -> RowSequence:
        return SetRows(self._source.indexed(None, limit), self._reader, columns)

    def scan(self, position: Any, columns: ColumnNames, limit: int) -> Iterator[ScannedRow]:
        for item in self._source.scan(position, None, limit):
            row = placed(self._reader, item.row, item.where)
            if row is not None:
                yield item._replace(row=row)

    def stamp(self) -> list[Any]:
        return [*self._source.stamp(), repr(self._reader)]


def read_as(reader: SetReader, source: RowSource) -> RowSource:
    """A source of the rows of a task, from one of the rows of a file."""
    if isinstance(source, LineFile):
        return LineFile(source.path, SetFormat(reader, source.format), source.encoding)
    return SetSource(reader, source)


def placed(reader: SetReader, row: Mapping[str, Any], where: str, line: int | None = None) -> Row | None:
    """A row of the task; None = of another part. Raises: DataError: what is wrong with it, with its place."""
    try:
        return reader.row(row)
    except DataError as problem:
        raise DataError(f"{where if line is None else f'{where}: line {line}'} {problem}") from None
