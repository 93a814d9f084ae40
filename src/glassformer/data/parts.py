"""What rows are read from, part by part: each can be read by number, or gone through from a mark on.

parts_of(["de.conll", "en.{src,tgt}", "news/*.parquet"])        File, Pairs, Columnar, Columnar, …
"""

from __future__ import annotations

import glob
import os
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from glassformer.data.clips import Clips, is_folder_of_sound
from glassformer.data.columnar import Dataset, from_frame
from glassformer.data.formats import Format
from glassformer.data.index import Indexed
from glassformer.data.kinds import ENDINGS, ending, format_of, kind_of_file, no_options
from glassformer.data.lines import Lines, opened
from glassformer.data.parallel import Parallel, unequal
from glassformer.data.parquet import Parquet, ParquetRows
from glassformer.data.schema import missing
from glassformer.data.sequence import Listed, Narrowed, Row, Rows, as_row
from glassformer.data.texts import PlainText
from glassformer.errors import DataError

Source: TypeAlias = (
    "str | Path | Sequence[str | Path] | Mapping[str, str | Path] | Iterable[Mapping[str, Any]]"
)
"""A path, a pattern, several of them; column → file of lines; a list of dicts, a `datasets` Dataset, a pandas frame."""

Mark: TypeAlias = Any
"""A place in a part from which it can be gone through again, as JSON can write it; None = the beginning."""

Needed: TypeAlias = "Sequence[str] | None"

PAIR = re.compile(r"(.*)\{([^{},]+),([^{},]+)\}(.*)", re.DOTALL)


class Seen(NamedTuple):
    """A row on the way through a part; `behind`: the mark from which the next one is read."""

    row: Row
    where: str
    behind: Mark


class Part(ABC):
    """Something that rows are read from. `name`: what messages call it."""

    name: str

    @abstractmethod
    def by_number(self, columns: Needed, limit: int) -> Rows:
        """Its rows by number, all looked at."""

    @abstractmethod
    def scan(self, mark: Mark, columns: Needed, limit: int) -> Iterator[Seen]:
        """Its rows one after the other; `columns` may already be left out, and are not yet looked at."""

    def stamp(self) -> list[Any]:
        """What shows that it is still the same, without reading it."""
        return [Path(self.name).name, os.path.getsize(self.name) if os.path.exists(self.name) else None]


class File(Part):
    """A file of lines."""

    def __init__(self, path: Path, how: Format) -> None:
        self.name, self._path, self._format = str(path), path, how

    def by_number(self, columns: Needed, limit: int) -> Rows:
        return Indexed(self._path, self._format, columns=columns, limit=limit)

    def scan(self, mark: Mark, columns: Needed, limit: int) -> Iterator[Seen]:
        with opened(self._path) as stream:
            lines = Lines(stream, self.name, limit=limit)
            head = self._format.begin(lines)
            if mark is not None:
                lines.go(*mark)
            for item in self._format.rows(lines, head):
                yield Seen(item.row, f"{self.name}: line {item.line}", [item.end, item.behind])

    def stamp(self) -> list[Any]:
        return [*super().stamp(), repr(self._format)]


class Columnar(Part):
    """A Parquet file."""

    def __init__(self, path: Path) -> None:
        self.name, self._path = str(path), path

    def by_number(self, columns: Needed, limit: int) -> Rows:
        return ParquetRows(self._path, columns)

    def scan(self, mark: Mark, columns: Needed, limit: int) -> Iterator[Seen]:
        number = mark or 0
        for batch in Parquet(self._path, columns).batches(number):
            for row in batch.to_pylist():
                yield Seen(row, f"{self.name}: row {number}", number + 1)
                number += 1


class Pairs(Part):
    """Files whose lines belong together, a column each."""

    def __init__(self, files: Mapping[str, str | Path]) -> None:
        self._files = {name: Path(path) for name, path in files.items()}
        self._parts = [File(path, PlainText(name=name, blank=True)) for name, path in self._files.items()]
        self.name = self._parts[0].name

    def by_number(self, columns: Needed, limit: int) -> Rows:
        for name in columns or ():
            if name not in self._files:
                raise DataError(f"{self.name}: {missing(name, self._files)}")
        return Parallel({name: self._files[name] for name in columns or self._files}, limit=limit)

    def scan(self, mark: Mark, columns: Needed, limit: int) -> Iterator[Seen]:
        marks = mark or [None] * len(self._parts)
        scans = [part.scan(each, columns, limit) for part, each in zip(self._parts, marks, strict=True)]
        for seen in zip_longest(*scans):
            if None in seen:
                raise unequal(self._parts[seen.index(None)].name, next(each.where for each in seen if each))
            row = {name: value for each in seen for name, value in each.row.items()}
            yield Seen(row, seen[0].where, [each.behind for each in seen])

    def stamp(self) -> list[Any]:
        return [part.stamp() for part in self._parts]


class Sound(Part):
    """A folder of sound."""

    def __init__(self, folder: Path) -> None:
        self.name, self._folder = str(folder), folder

    def by_number(self, columns: Needed, limit: int) -> Rows:
        return Clips(self._folder, columns=columns, limit=limit)

    def scan(self, mark: Mark, columns: Needed, limit: int) -> Iterator[Seen]:
        return _counted(self.by_number(columns, limit), mark or 0)


class Memory(Part):
    """An object that gives rows: a list, a `datasets` Dataset, a pandas frame, anything that can be gone through."""

    def __init__(self, source: Any) -> None:
        self.name, self._source = "the list", source
        if not isinstance(source, Iterable):
            kinds = "files, lists of dicts, data sets or frames"
            raise DataError(f"rows come from {kinds}; got {type(source).__name__}")

    def by_number(self, columns: Needed, limit: int) -> Rows:
        if isinstance(self._source, Rows):
            return self._source if columns is None else Narrowed(self._source, columns)
        if _is(self._source, "datasets", "Dataset"):
            return Dataset(self._source, columns)
        if _is(self._source, "pandas", "DataFrame"):
            return from_frame(self._source, columns)
        return Listed(self._source, columns=columns)

    def scan(self, mark: Mark, columns: Needed, limit: int) -> Iterator[Seen]:
        if hasattr(self._source, "__len__"):
            return _counted(self.by_number(columns, limit), mark or 0)
        if iter(self._source) is self._source:
            raise DataError(
                "a generator is gone when it is read; give something that can be gone through again"
            )
        return self._passing(mark or 0)

    def _passing(self, start: int) -> Iterator[Seen]:
        for number, row in enumerate(islice(self._source, start, None), start=start):
            where = f"{self.name}: row {number}"
            yield Seen(as_row(row, where), where, number + 1)

    def stamp(self) -> list[Any]:
        return [self.name, len(self._source) if hasattr(self._source, "__len__") else None]


def parts_of(source: Source, kind: str | None, options: Mapping[str, Any]) -> list[Part]:
    """The parts of a source, patterns and folders written out.

    Raises: DataError: a pattern that no file fits, a folder without rows. ConfigError: an option that a kind has not.
    """
    if isinstance(source, Mapping):
        no_options("parallel lines", options)
        other = [type(path).__name__ for path in source.values() if not isinstance(path, (str, Path))]
        if other or not source:
            raise DataError(
                f"a mapping names a file of lines for each column, and not {other[0] if other else 'none'}; "
                "of several data sets, give one"
            )
        return [Pairs(source)]
    paths: list[Any] = [source] if isinstance(source, (str, Path)) else []
    if isinstance(source, (list, tuple)) and source and all(isinstance(each, (str, Path)) for each in source):
        paths = list(source)
    if not paths:
        no_options("rows that lie in memory", options)
        return [Memory(source)]
    return [part for path in paths for part in _parts_at(path, kind, options)]


def _parts_at(path: str | Path, kind: str | None, options: Mapping[str, Any]) -> Iterator[Part]:
    if pair := PAIR.fullmatch(str(path)):
        no_options("parallel lines", options)
        before, first, second, behind = pair.groups()
        yield Pairs({"source": f"{before}{first}{behind}", "target": f"{before}{second}{behind}"})
    elif glob.has_magic(str(path)) and not Path(path).exists():
        fitting = sorted(glob.glob(str(path), recursive=True))
        if not fitting:
            raise DataError(f"{path}: no file fits this pattern")
        for each in fitting:
            yield from _within_or_at(Path(each), kind, options)
    else:
        yield from _within_or_at(Path(path), kind, options)


def _within_or_at(path: Path, kind: str | None, options: Mapping[str, Any]) -> Iterator[Part]:
    if path.is_dir():
        yield from _parts_within(path, kind, options)
    else:
        yield _part(path, kind_of_file(path, kind), options)


def _part(path: Path, kind: str, options: Mapping[str, Any]) -> Part:
    if kind == "audio":
        raise DataError(
            f"{path}: is no folder; sound is read from a folder, with folders of labels or a table"
        )
    if kind == "parquet":
        no_options(kind, options)
        return Columnar(path)
    return File(path, format_of(kind, options))


def _parts_within(folder: Path, kind: str | None, options: Mapping[str, Any]) -> Iterator[Part]:
    """A folder of sound, or of files of one kind, one behind the other by name."""
    if kind == "audio" or (kind is None and is_folder_of_sound(folder)):
        no_options("audio", options)
        yield Sound(folder)
        return
    files = sorted(path for path in folder.iterdir() if path.is_file() and ending(path) in ENDINGS)
    kinds = {kind_of_file(path, kind) for path in files}
    if len(kinds) != 1:
        what = f"files of several kinds: {', '.join(sorted(kinds))}" if kinds else "neither sound nor rows"
        raise DataError(f"{folder}: holds {what}; name the files")
    for path in files:
        yield _part(path, kind_of_file(path, kind), options)


def _counted(rows: Rows, start: int) -> Iterator[Seen]:
    for number in range(start, len(rows)):
        yield Seen(rows.row(number), rows.where(number), number + 1)


def _is(source: Any, package: str, name: str) -> bool:
    """Whether an object is of a class of a package that may not be there; who has the object has imported it."""
    module = sys.modules.get(package)
    return module is not None and isinstance(source, getattr(module, name, ()))
