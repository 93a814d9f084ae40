"""Row sources: files, folders and objects, each read by index or streamed from a resume position.

open_sources(["de.conll", "en.{src,tgt}", "news/*.parquet"])    LineFileSource, ParallelSource, ParquetSource, …
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

from glassformer.data.audio_folder import AudioFolderRows, is_audio_folder
from glassformer.data.columnar import HuggingFaceRows, from_frame
from glassformer.data.format_detection import (
    EXTENSIONS,
    data_extension,
    detect_format,
    make_format,
    refuse_options,
)
from glassformer.data.formats import Format
from glassformer.data.index import IndexedRows
from glassformer.data.lines import LineReader, open_decompressed
from glassformer.data.parallel import ParallelRows, unequal_lengths
from glassformer.data.parquet import ParquetReader, ParquetRows
from glassformer.data.plain_text import PlainText
from glassformer.data.schema import missing_column
from glassformer.data.sequence import InMemoryRows, Row, RowSequence, as_row
from glassformer.data.views import ColumnSubset
from glassformer.errors import DataError

Source: TypeAlias = (
    "str | Path | Sequence[str | Path] | Mapping[str, str | Path] | Iterable[Mapping[str, Any]]"
)
"""A path, a pattern, several of them; column → file of lines; a list of dicts, a `datasets` Dataset, a pandas frame."""

ResumePosition: TypeAlias = Any
"""A JSON value from which a source can be read on; None = its beginning."""

ColumnNames: TypeAlias = "Sequence[str] | None"

PAIR = re.compile(r"(.*)\{([^{},]+),([^{},]+)\}(.*)", re.DOTALL)


class ScannedRow(NamedTuple):
    """A row of a scan; `next_position`: where the scan resumes after it."""

    row: Row
    where: str
    next_position: ResumePosition


class RowSource(ABC):
    """A file, folder or object that holds rows. `name`: what messages call it."""

    name: str

    @abstractmethod
    def indexed(self, columns: ColumnNames, limit: int) -> RowSequence:
        """Its rows with random access, all validated."""

    @abstractmethod
    def scan(self, position: ResumePosition, columns: ColumnNames, limit: int) -> Iterator[ScannedRow]:
        """Its rows in order; other columns may already be left out, and values are not yet validated."""

    def stamp(self) -> list[Any]:
        """A cheap identity (name and size), to tell whether a saved position still fits."""
        return [Path(self.name).name, os.path.getsize(self.name) if os.path.exists(self.name) else None]


class LineFileSource(RowSource):
    """A file in a line-based format."""

    def __init__(self, path: Path, format: Format) -> None:
        self.name, self._path, self._format = str(path), path, format

    def indexed(self, columns: ColumnNames, limit: int) -> RowSequence:
        return IndexedRows(self._path, self._format, columns=columns, limit=limit)

    def scan(self, position: ResumePosition, columns: ColumnNames, limit: int) -> Iterator[ScannedRow]:
        with open_decompressed(self._path) as stream:
            lines = LineReader(stream, self.name, limit=limit)
            header = self._format.read_header(lines)
            if position is not None:
                lines.seek(*position)
            for item in self._format.rows(lines, header):
                yield ScannedRow(item.row, f"{self.name}: line {item.line}", [item.end, item.lines_read])

    def stamp(self) -> list[Any]:
        return [*super().stamp(), repr(self._format)]


class ParquetSource(RowSource):
    """A Parquet file."""

    def __init__(self, path: Path) -> None:
        self.name, self._path = str(path), path

    def indexed(self, columns: ColumnNames, limit: int) -> RowSequence:
        return ParquetRows(self._path, columns)

    def scan(self, position: ResumePosition, columns: ColumnNames, limit: int) -> Iterator[ScannedRow]:
        number = position or 0
        for batch in ParquetReader(self._path, columns).batches(number):
            for row in batch.to_pylist():
                yield ScannedRow(row, f"{self.name}: row {number}", number + 1)
                number += 1


class ParallelSource(RowSource):
    """Parallel files: line n of each makes a row, a column a file."""

    def __init__(self, files: Mapping[str, str | Path]) -> None:
        self._files = {name: Path(path) for name, path in files.items()}
        self._sources = [
            LineFileSource(path, PlainText(name=name, blank=True)) for name, path in self._files.items()
        ]
        self.name = self._sources[0].name

    def indexed(self, columns: ColumnNames, limit: int) -> RowSequence:
        for name in columns or ():
            if name not in self._files:
                raise DataError(f"{self.name}: {missing_column(name, self._files)}")
        return ParallelRows({name: self._files[name] for name in columns or self._files}, limit=limit)

    def scan(self, position: ResumePosition, columns: ColumnNames, limit: int) -> Iterator[ScannedRow]:
        positions = position or [None] * len(self._sources)
        scans = [
            source.scan(start, columns, limit) for source, start in zip(self._sources, positions, strict=True)
        ]
        for items in zip_longest(*scans):
            if None in items:
                shorter = self._sources[items.index(None)].name
                raise unequal_lengths(shorter, next(item.where for item in items if item))
            row = {name: value for item in items for name, value in item.row.items()}
            yield ScannedRow(row, items[0].where, [item.next_position for item in items])

    def stamp(self) -> list[Any]:
        return [source.stamp() for source in self._sources]


class AudioFolderSource(RowSource):
    """A folder of audio files."""

    def __init__(self, folder: Path) -> None:
        self.name, self._folder = str(folder), folder

    def indexed(self, columns: ColumnNames, limit: int) -> RowSequence:
        return AudioFolderRows(self._folder, columns=columns, limit=limit)

    def scan(self, position: ResumePosition, columns: ColumnNames, limit: int) -> Iterator[ScannedRow]:
        return _scan_indexed(self.indexed(columns, limit), position or 0)


class InMemorySource(RowSource):
    """An object in memory: a list of dicts, a `datasets` Dataset, a pandas DataFrame, any iterable of mappings."""

    def __init__(self, source: Any) -> None:
        self.name, self._source = "the list", source
        if not isinstance(source, Iterable):
            kinds = "files, lists of dicts, data sets or frames"
            raise DataError(f"rows come from {kinds}; got {type(source).__name__}")

    def indexed(self, columns: ColumnNames, limit: int) -> RowSequence:
        if isinstance(self._source, RowSequence):
            return self._source if columns is None else ColumnSubset(self._source, columns)
        if _is_instance(self._source, "datasets", "Dataset"):
            return HuggingFaceRows(self._source, columns)
        if _is_instance(self._source, "pandas", "DataFrame"):
            return from_frame(self._source, columns)
        return InMemoryRows(self._source, columns=columns)

    def scan(self, position: ResumePosition, columns: ColumnNames, limit: int) -> Iterator[ScannedRow]:
        if hasattr(self._source, "__len__"):
            return _scan_indexed(self.indexed(columns, limit), position or 0)
        if iter(self._source) is self._source:
            raise DataError(
                "a generator can be read only once; give a list, or an object that starts a new iterator each time"
            )
        return self._scan_iterable(position or 0)

    def _scan_iterable(self, start: int) -> Iterator[ScannedRow]:
        for number, row in enumerate(islice(self._source, start, None), start=start):
            where = f"{self.name}: row {number}"
            yield ScannedRow(as_row(row, where), where, number + 1)

    def stamp(self) -> list[Any]:
        return [self.name, len(self._source) if hasattr(self._source, "__len__") else None]


def open_sources(source: Source, kind: str | None, options: Mapping[str, Any]) -> list[RowSource]:
    """The row sources that a path, pattern, mapping or object stands for; patterns and folders are expanded.

    Raises: DataError: a pattern that matches no file, a folder without rows. ConfigError: an unknown option.
    """
    if isinstance(source, Mapping):
        refuse_options("parallel lines", options)
        other = [type(path).__name__ for path in source.values() if not isinstance(path, (str, Path))]
        if other or not source:
            raise DataError(
                f"a mapping names a file of lines for each column, and not {other[0] if other else 'none'}; "
                "of several data sets, give one"
            )
        return [ParallelSource(source)]
    paths: list[Any] = [source] if isinstance(source, (str, Path)) else []
    if isinstance(source, (list, tuple)) and source and all(isinstance(path, (str, Path)) for path in source):
        paths = list(source)
    if not paths:
        refuse_options("rows that lie in memory", options)
        return [InMemorySource(source)]
    return [opened for path in paths for opened in _sources_at(path, kind, options)]


def _sources_at(path: str | Path, kind: str | None, options: Mapping[str, Any]) -> Iterator[RowSource]:
    if pair := PAIR.fullmatch(str(path)):
        refuse_options("parallel lines", options)
        prefix, first, second, suffix = pair.groups()
        yield ParallelSource({"source": f"{prefix}{first}{suffix}", "target": f"{prefix}{second}{suffix}"})
    elif glob.has_magic(str(path)) and not Path(path).exists():
        matches = sorted(glob.glob(str(path), recursive=True))
        if not matches:
            raise DataError(f"{path}: no file matches this pattern")
        for match in matches:
            yield from _file_or_folder(Path(match), kind, options)
    else:
        yield from _file_or_folder(Path(path), kind, options)


def _file_or_folder(path: Path, kind: str | None, options: Mapping[str, Any]) -> Iterator[RowSource]:
    if path.is_dir():
        yield from _folder_sources(path, kind, options)
    else:
        yield _file_source(path, detect_format(path, kind), options)


def _file_source(path: Path, kind: str, options: Mapping[str, Any]) -> RowSource:
    if kind == "audio":
        raise DataError(
            f"{path}: is not a folder; audio is read from a folder, with a subfolder for each label or a table"
        )
    if kind == "parquet":
        refuse_options(kind, options)
        return ParquetSource(path)
    return LineFileSource(path, make_format(kind, options))


def _folder_sources(folder: Path, kind: str | None, options: Mapping[str, Any]) -> Iterator[RowSource]:
    """A folder of audio, or of files of one format in the order of their names."""
    if kind == "audio" or (kind is None and is_audio_folder(folder)):
        refuse_options("audio", options)
        yield AudioFolderSource(folder)
        return
    files = sorted(path for path in folder.iterdir() if path.is_file() and data_extension(path) in EXTENSIONS)
    kinds = {detect_format(path, kind) for path in files}
    if len(kinds) != 1:
        what = f"files of several kinds: {', '.join(sorted(kinds))}" if kinds else "neither sound nor rows"
        raise DataError(f"{folder}: holds {what}; name the files")
    for path in files:
        yield _file_source(path, detect_format(path, kind), options)


def _scan_indexed(rows: RowSequence, start: int) -> Iterator[ScannedRow]:
    for number in range(start, len(rows)):
        yield ScannedRow(rows.row(number), rows.where(number), number + 1)


def _is_instance(source: Any, package: str, name: str) -> bool:
    """Whether an object is an instance of a class of an optional package, without importing that package."""
    module = sys.modules.get(package)
    return module is not None and isinstance(source, getattr(module, name, ()))
