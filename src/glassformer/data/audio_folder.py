"""Audio folders: a subfolder for each label, or audio files and a metadata table next to them.

    digits/zero/1.wav  digits/one/7.wav        read_rows("digits")     {"file": "digits/zero/1.wav", "label": "zero"}
    calls/metadata.csv  calls/a.flac           read_rows("calls")      {"file": "calls/a.flac", "text": "Good morning"}

The table is metadata.csv, metadata.tsv, metadata.jsonl or manifest.…, with a column `file_name`, `path` or `file`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from glassformer.data.json_rows import JsonLines
from glassformer.data.lines import Format, IndexedRows
from glassformer.data.sequence import (
    ColumnNames,
    InMemoryRows,
    Row,
    RowSchema,
    RowSequence,
    RowSource,
    RowView,
    missing_column,
)
from glassformer.data.tables import TSV_OPTIONS, DelimitedText
from glassformer.errors import DataError
from glassformer.files import error_reason, safe_repr

AUDIO_EXTENSIONS = (".wav", ".flac", ".ogg", ".opus", ".mp3", ".m4a", ".aac", ".aiff", ".wma")
SOUND_AND_VIDEO = frozenset(
    """.wav .flac .ogg .oga .opus .mp3 .m4a .aac .aif .aiff .amr .au .caf .wma .webm .mp4 .m4v .mov .mkv .avi .mpg .mpeg
    .ts .3gp""".split()
)
"""What is transcribed of a folder; videos have sound too."""
METADATA_FORMATS: dict[str, Format] = {
    ".csv": DelimitedText(),
    ".tsv": DelimitedText(**TSV_OPTIONS),
    ".jsonl": JsonLines(),
}
PATH_COLUMNS = ("file_name", "path", "file")


class AudioFolder(RowSource):
    """A folder of audio files."""

    def __init__(self, folder: Path) -> None:
        self.name, self._folder = str(folder), folder

    def indexed(self, columns: ColumnNames, limit: int) -> RowSequence:
        return AudioFolderRows(self._folder, columns, limit)


class AudioFolderRows(RowView):
    """Rows of an audio folder: `file`, and its label or the columns of the table; audio is decoded elsewhere.

    The fingerprint takes in the files' names, sizes and times, not every sample.
    Raises: DataError: no audio file; a table without a column of files, or that names a file that is missing or lies
        outside the folder.
    """

    def __init__(self, folder: Path, columns: ColumnNames, limit: int) -> None:
        self.name, self._folder = str(folder), folder
        names = [f"{stem}{end}" for stem in ("metadata", "manifest") for end in METADATA_FORMATS]
        table = next((folder / name for name in names if (folder / name).is_file()), None)
        self._has_table = table is not None
        self._rows = _listing(folder) if table is None else _read_metadata(table, limit)
        self._path_column = next(name for name in PATH_COLUMNS if name in self._rows.columns)
        schema = RowSchema(columns)
        self._project = schema.project
        digest = hashlib.sha256(self._rows.fingerprint.encode())
        for index in range(len(self._rows)):
            row = self._full_row(self._rows.row(index))
            schema.validate(row, self._rows.where(index))
            try:
                path_within(folder, row["file"])
                status = Path(row["file"]).stat()
            except DataError as problem:
                raise DataError(f"{self._rows.where(index)}: {problem}") from problem
            except OSError as problem:
                raise DataError(f"{self._rows.where(index)}: {row['file']}: {error_reason(problem)}") from problem
            digest.update(f"{status.st_size} {status.st_mtime_ns} ".encode())
        self.columns, self.kinds, self.fingerprint = schema.columns, schema.kinds, digest.hexdigest()

    def file(self, index: int) -> str:
        return self.name

    def where(self, index: int) -> str:
        return self._rows.where(index) if self._has_table else str(self._full_row(self._rows.row(index))["file"])

    def _change(self, row: Row) -> Row:
        return self._project(self._full_row(row))

    def _full_row(self, row: Row) -> Row:
        file = str(self._folder / str(row.pop(self._path_column)))
        return {"file": file} | row | {"file": file}


def path_within(folder: Path, path: Path | str) -> Path:
    """A path that a table names, which must lie in the folder of the table, links followed.

    Raises: DataError: it leads out of the folder (path traversal).
    """
    try:
        inside = Path(path).resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError) as problem:  # a null byte; a loop of links
        raise DataError(f"{safe_repr(str(path))} is no path of a file: {error_reason(problem)}") from problem
    if not inside:
        raise DataError(f"{safe_repr(str(path))} lies outside the folder {folder}; put the file into the folder")
    return Path(path)


def audio_files(folder: Path) -> list[Path]:
    """The audio files in a folder and in those below, in the order of their paths; hidden ones are left out."""
    return sorted(_audio_files(folder))


def is_audio_folder(folder: Path) -> bool:
    """Whether an audio file lies in it or in a folder below."""
    return any(True for _ in _audio_files(folder))


def no_audio(folder: Path) -> DataError:
    """The error for a folder without audio files."""
    return DataError(f"{folder}: holds no audio; files must end in {', '.join(AUDIO_EXTENSIONS)}")


def _audio_files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        # Hidden: what macOS keeps of a file on other disks, `._riff.wav`, is no audio.
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.suffix.lower() in AUDIO_EXTENSIONS and not hidden and not path.is_dir():
            yield path


def _listing(folder: Path) -> RowSequence:
    """The audio files of a folder in order; those of a subfolder have its name as their label."""
    files = [path.relative_to(folder) for path in audio_files(folder)]
    if not files:
        raise no_audio(folder)
    flat = [path for path in files if len(path.parts) == 1]
    if flat and len(flat) < len(files):
        raise DataError(f"{folder}: {flat[0]} lies next to folders of labels; put it into one, or write a metadata.csv")
    rows = [{"path": str(path)} | ({} if flat else {"label": path.parts[0]}) for path in files]
    return InMemoryRows(rows, name=str(folder))


def _read_metadata(table: Path, limit: int) -> RowSequence:
    rows = IndexedRows(table, METADATA_FORMATS[table.suffix], limit=limit)
    if not {*PATH_COLUMNS} & {*rows.columns}:
        raise DataError(
            f"{table}: {missing_column(PATH_COLUMNS[0], rows.columns)}; one must name the files: "
            f"{', '.join(PATH_COLUMNS)}"
        )
    return rows


def sound_files(names: Iterable[str | Path]) -> list[Path]:
    """The recordings of files and folders: the files, and the audio and video files within folders, by name.

    Raises: DataError: a folder without any.
    """
    recordings: list[Path] = []
    for path in map(Path, names):
        if not path.is_dir():
            recordings.append(path)
            continue
        inside = sorted(each for each in path.rglob("*") if each.suffix.lower() in SOUND_AND_VIDEO and each.is_file())
        if not inside:
            raise DataError(f"{path} holds no audio or video file; known suffixes: {' '.join(sorted(SOUND_AND_VIDEO))}")
        recordings += inside
    return recordings
