"""Read and write data sets: CSV, TSV, JSON, JSONL, Parquet, CoNLL, text, published data sets, audio folders, lists.

    read_rows("train.csv")                                    read_rows(["de.train.conll", "fr.train.conll"])
    read_rows("train.jsonl.gz", columns=("text", "label"))    read_rows("news/*.parquet")
    read_rows("train.{en,de}")   columns source, target       read_rows("calls/")   a folder of sound
    write_rows(Path("part.csv"), rows, columns=("text", "label"))

Every row is validated once; errors name its file and line. Of a file only the offsets of its rows stay in memory.
"""

from __future__ import annotations

import csv
import glob
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from glassformer.data.audio_folder import AudioFolder, is_audio_folder
from glassformer.data.columnar import HuggingFaceRows, ParquetFile, rows_of_frame
from glassformer.data.json_records import RecordFile, is_squad
from glassformer.data.json_rows import JsonLines, JsonList
from glassformer.data.lines import MAX_ROW_BYTES, DataFormat, LineFile, data_extension, encoding_of, format_of
from glassformer.data.plain_text import UNIVERSAL_DEPENDENCIES, ParallelFiles, PlainText, Sentences
from glassformer.data.sequence import (
    ColumnNames,
    InMemoryRows,
    Row,
    RowSchema,
    RowSequence,
    RowSource,
    ScannedRow,
    as_row,
)
from glassformer.data.sets import data_sets, find_data_set, read_as, unknown_name
from glassformer.data.tables import TSV_OPTIONS, DelimitedText
from glassformer.data.views import ColumnSubset, ConcatenatedRows
from glassformer.errors import ConfigError, DataError
from glassformer.files import error_reason, is_int, refuse_repeated, safe_repr
from glassformer.files.atomic import new_file
from glassformer.plugins import Registry

__all__ = ["Row", "RowSequence", "Source", "read_rows", "write_rows"]

Source: TypeAlias = "str | Path | Sequence[str | Path] | Mapping[str, str | Path] | Iterable[Mapping[str, Any]]"
"""A path, a pattern, several of them; column → file of lines; a list of dicts, a `datasets` Dataset, a pandas frame."""

MAX_LIMIT = 1 << 40  # of the bytes of a row, what a stream can be asked for

OUTPUT_FORMATS = ("csv", "tsv", "jsonl")

PAIR = re.compile(r"(.*)\{([^{},]+),([^{},]+)\}(.*)", re.DOTALL)


def files_of(path: str) -> list[str]:
    """The files that a name stands for: itself, or both of a pair `train.{en,de}`."""
    pair = PAIR.fullmatch(path)
    return [path] if pair is None else [f"{pair[1]}{part}{pair[4]}" for part in (pair[2], pair[3])]


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
        kind: csv, tsv, jsonl, json, parquet, conll, conllu, text or audio, where the name does not say it; a published
            data set, such as squad or glue/cola (`sets.yaml`); or a format of a plug-in, such as guitar of
            glassformer-guitar
        limit: maximum bytes of a row
        options: encoding: of text files that are not UTF-8, "latin-1". Of the format: `DelimitedText` (csv, tsv),
            `JsonList` (json), `Sentences` (conll, conllu), `PlainText` (text); records: the lists of nested JSON,
            "data.paragraphs.qas". Of a published data set also part: a split, "validation", or several; prompt: rows
            as one of its prompts; characters: of each text, at most
    Returns: `RowSequence`: a sequence of dicts, each with its file and line.
    Raises:
        DataError: a file that cannot be read, is empty or damaged; an invalid row, with file and line
        ConfigError: an unknown option of the format
        MissingExtraError: Parquet without pyarrow
    """
    if not is_int(limit, 1, MAX_LIMIT + 1):
        raise ConfigError(f"limit is {safe_repr(limit)} bytes; take a whole number from 1 to {MAX_LIMIT}")
    RowSchema(columns)  # validates the list of columns before anything is read
    rows = [opened.indexed(columns, limit) for opened in open_sources(source, kind, options)]
    return rows[0] if len(rows) == 1 else ConcatenatedRows(rows)


def open_sources(source: Source, kind: str | None, options: Mapping[str, Any]) -> list[RowSource]:
    """The row sources that a path, pattern, mapping or object stands for; patterns and folders are expanded.

    Raises: DataError: a pattern that matches no file, a folder without rows, a file that is named twice. ConfigError:
        an unknown option.
    """
    if isinstance(source, Mapping):
        encoding, options = encoding_of(options)
        _refuse_options("parallel lines", options)
        other = [type(path).__name__ for path in source.values() if not isinstance(path, (str, Path))]
        if other or not source:
            raise DataError(
                f"a mapping names a file of lines for each column, and not {other[0] if other else 'none'}; "
                "of several data sets, give one"
            )
        return [ParallelFiles(source, encoding)]
    paths: list[Any] = [source] if isinstance(source, (str, Path)) else []
    if isinstance(source, (list, tuple)) and source and all(isinstance(path, (str, Path)) for path in source):
        paths = list(source)
    if not paths:
        _refuse_options("rows that lie in memory", options)
        return [InMemorySource(source)]
    sources = [opened for path in paths for opened in _sources_at(path, kind, options)]
    refuse_repeated((opened.name for opened in sources), DataError)
    return sources


def _sources_at(path: str | Path, kind: str | None, options: Mapping[str, Any]) -> Iterator[RowSource]:
    matches = [str(path)]
    if kind is not None and kind in FORMATS and FORMATS[kind].any_path:
        yield FORMATS[kind].open(Path(path), options)
        return
    if PAIR.fullmatch(str(path)):
        encoding, options = encoding_of(options)
        _refuse_options("parallel lines", options)
        yield ParallelFiles(dict(zip(("source", "target"), files_of(str(path)), strict=True)), encoding)
        return
    if glob.has_magic(str(path)) and not Path(path).exists():
        matches = sorted(glob.glob(str(path), recursive=True))
        if not matches:
            raise DataError(f"{path}: no file matches this pattern")
    for match in map(Path, matches):
        if not match.is_dir():
            yield _file_source(match, kind, options)
        elif kind == "audio" or (kind is None and is_audio_folder(match)):
            yield _audio_source(match, options)
        else:
            yield from _folder_sources(match, kind, options)


def _folder_sources(folder: Path, kind: str | None, options: Mapping[str, Any]) -> Iterator[RowSource]:
    """The files of a folder, in the order of their names; all must have one format."""
    if kind is None or detect_format(folder, kind) in FORMATS:
        files = sorted(
            path for path in folder.iterdir() if path.is_file() and format_of_extension(data_extension(path))
        )
        kinds = {detect_format(path, kind) for path in files}
    else:
        files = find_data_set(kind).files_in(folder, options, EXTENSIONS)
        kinds = {data_extension(path) for path in files}
    if len(kinds) != 1:
        what = f"files of several kinds: {', '.join(sorted(kinds))}" if kinds else "neither sound nor rows"
        raise DataError(f"{folder}: holds {what}; {_parallel_in(folder, kind) or 'name the files'}")
    return (_file_source(path, kind, options, in_folder=True) for path in files)


def _parallel_in(folder: Path, kind: str | None) -> str:
    """How parallel files of a folder are named, train.en.gz and train.de.gz; "" = there are none."""
    order = list(find_data_set(str(kind)).files) if is_data_set(kind) else []  # of English and German, say
    there = sorted(path.name for path in folder.iterdir() if path.is_file())
    by_text: dict[tuple[str, str], list[str]] = {}
    for name in sorted(there, key=lambda name: order.index(name) if name in order else len(order)):
        if (match := re.fullmatch(r"(.+\.)(?!gz$)([a-z]{2,3})(\.gz)?", name)) is not None:
            by_text.setdefault((match[1], match[3] or ""), []).append(match[2])
    pairs = [f"{text}{{{','.join(names)}}}{packed}" for (text, packed), names in by_text.items() if len(names) == 2]
    return f"name parallel files by both: {', '.join(str(folder / pair) for pair in pairs[:3])}" if pairs else ""


def _file_source(path: Path, kind: str | None, options: Mapping[str, Any], *, in_folder: bool = False) -> RowSource:
    kind = detect_format(path, kind)
    if kind not in FORMATS:
        reader, own_kind, others = find_data_set(kind).reader(path, options, in_folder=in_folder)
        if own_kind is None and path.exists() and format_of_extension(data_extension(path)) is None:
            raise DataError(
                f"{path}: its name does not say what {kind} is in it; let it end in {', '.join(EXTENSIONS)}"
            )
        return read_as(reader, _file_source(path, own_kind, others))
    return FORMATS[kind].open(path, options)


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
            return rows_of_frame(self._source, columns)
        return InMemoryRows(self._source, columns=columns)

    def scan(self, position: Any, columns: ColumnNames, limit: int) -> Iterator[ScannedRow]:
        start = position or 0
        if hasattr(self._source, "__len__"):
            yield from super().scan(start, columns, limit)
            return
        if iter(self._source) is self._source:
            raise DataError(
                "a generator can be read only once; give a list, or an object that starts a new iterator each time"
            )
        for number, row in enumerate(islice(self._source, start, None), start=start):
            where = f"{self.name}: row {number}"
            yield ScannedRow(as_row(row, where), where, number + 1)

    def stamp(self) -> list[Any]:
        return [self.name, len(self._source) if hasattr(self._source, "__len__") else None]


def _json_source(path: Path, options: Mapping[str, Any]) -> RowSource:
    encoding, own = encoding_of(options)
    if not own and is_squad(path, encoding):
        return _file_source(path, "squad", options)
    if "records" not in own:
        return LineFile(path, format_of("json", JsonList, own), encoding)
    records = own.pop("records")
    _refuse_options("records", own)
    return RecordFile(path, records, encoding)


def _parquet_source(path: Path, options: Mapping[str, Any]) -> RowSource:
    _refuse_options("parquet", options)
    return ParquetFile(path)


def _audio_source(path: Path, options: Mapping[str, Any]) -> RowSource:
    if not path.is_dir():
        raise DataError(
            f"{path}: is not a folder; audio is read from a folder, with a subfolder for each label or a table"
        )
    _refuse_options("audio", options)
    return AudioFolder(path)


_OWN_FORMATS = {
    "csv": DataFormat.of_lines("csv", DelimitedText, ".csv"),
    "tsv": DataFormat.of_lines("tsv", DelimitedText, ".tsv", **TSV_OPTIONS),
    "jsonl": DataFormat.of_lines("jsonl", JsonLines, ".jsonl", ".ndjson"),
    "json": DataFormat(open=_json_source, extensions=(".json",)),
    "parquet": DataFormat(open=_parquet_source, extensions=(".parquet",)),
    "conll": DataFormat.of_lines("conll", Sentences, ".conll", ".bio", ".iob"),
    "conllu": DataFormat.of_lines("conllu", Sentences, ".conllu", **UNIVERSAL_DEPENDENCIES),
    "text": DataFormat.of_lines("text", PlainText, ".txt"),
    "audio": DataFormat(open=_audio_source),
}
EXTENSIONS = {extension: kind for kind, format in _OWN_FORMATS.items() for extension in format.extensions}
"""File extension → format of this package; each may be followed by .gz."""
FORMATS: Registry[DataFormat] = Registry(
    "data",
    _OWN_FORMATS,
    fits=lambda name, part: isinstance(part, DataFormat),
    must="a glassformer.data.lines.DataFormat",
    reserved=data_sets,
)
"""Name → format; those of plug-ins too, but of none that is called as a published data set."""


def format_of_extension(extension: str) -> str | None:
    """The format of files with an extension; plug-ins are imported where this package has none."""
    if extension in EXTENSIONS or not extension:
        return EXTENSIONS.get(extension)
    return next((kind for kind, format in FORMATS.items() if extension in format.extensions), None)


def is_data_set(kind: object) -> bool:
    """Whether a published data set is called so; all its columns are known, so none is there by mistake."""
    return isinstance(kind, str) and kind not in FORMATS and kind in data_sets()


def detect_format(path: Path, kind: str | None = None) -> str:
    """The format of a file. Raises: ConfigError: an unknown kind. DataError: an unknown extension, no such file."""
    if kind is not None:
        if kind not in FORMATS and not is_data_set(kind):
            raise ConfigError(f"kind is {unknown_name(kind, FORMATS)}")
        return kind
    format = format_of_extension(data_extension(path))
    if format is None and not path.exists():
        raise DataError(f"{path}: there is no such file or folder")
    if format is None:
        raise DataError(
            f"{path}: its name does not say what it holds; it should end in {', '.join(EXTENSIONS)} "
            f"(or .gz behind it), or give kind=: {', '.join(FORMATS)}"
        )
    return format


def _refuse_options(what: str, options: Mapping[str, Any]) -> None:
    """Raises: ConfigError: any option, as this source takes none."""
    if options:
        raise ConfigError(f"{safe_repr(next(iter(options)))} is no option of {what}, which has none")


def _is_instance(source: Any, package: str, name: str) -> bool:
    """Whether an object is an instance of a class of an optional package, without importing that package."""
    module = sys.modules.get(package)
    return module is not None and isinstance(source, getattr(module, name, ()))


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Write rows to a new file in the format of its extension: .csv, .tsv or .jsonl.

    Raises: ConfigError: another extension. DataError: the file exists, cannot be written, or cannot hold a value.
    """
    kind = output_format(path)
    try:
        with new_file(path) as file:
            if kind == "jsonl":
                file.writelines(json.dumps(dict(row), ensure_ascii=False) + "\n" for row in rows)
            else:
                _write_table(path, file, kind, rows, columns)
    except FileExistsError:
        raise DataError(f"{path}: already exists; move it away, or name another file") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error_reason(error)}") from error


def output_format(path: Path) -> str:
    """The output format of a file name. Raises: ConfigError: an unknown extension."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in OUTPUT_FORMATS:
        raise ConfigError(f"{path}: rows are written as {', '.join(OUTPUT_FORMATS)}; let its name end in one of them")
    return kind


def _write_table(path: Path, file: Any, kind: str, rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
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
