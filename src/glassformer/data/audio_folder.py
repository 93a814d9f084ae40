"""Audio folders: a subfolder for each label, or audio files and a metadata table beside them.

    digits/zero/1.wav  digits/one/7.wav        read_rows("digits")     {"file": "digits/zero/1.wav", "label": "zero"}
    calls/metadata.csv  calls/a.flac           read_rows("calls")      {"file": "calls/a.flac", "text": "Good morning"}

The table is metadata.csv, metadata.tsv, metadata.jsonl or manifest.…, with a column `file_name`, `path` or `file`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from glassformer.data.index import IndexedRows
from glassformer.data.json_rows import JsonLines
from glassformer.data.lines import MAX_ROW_BYTES
from glassformer.data.schema import Schema, missing_column
from glassformer.data.sequence import InMemoryRows, Row, RowSequence
from glassformer.data.tables import Table
from glassformer.errors import DataError
from glassformer.files import error_reason

AUDIO_EXTENSIONS = (".wav", ".flac", ".ogg", ".opus", ".mp3", ".m4a", ".aac", ".aiff", ".wma")
METADATA_NAMES = tuple(
    f"{stem}.{end}" for stem in ("metadata", "manifest") for end in ("csv", "tsv", "jsonl")
)
PATH_COLUMNS = ("file_name", "path", "file")


class AudioFolderRows(RowSequence):
    """Rows of an audio folder: `file`, and its label or the columns of the table; audio is decoded elsewhere.

    The fingerprint takes in the files' names, sizes and times, not every sample.
    Raises: DataError: no audio file; a table without a column of files, or that names a missing file.
    """

    def __init__(
        self, folder: Path, *, columns: Sequence[str] | None = None, limit: int = MAX_ROW_BYTES
    ) -> None:
        self._folder = folder
        table = next((folder / name for name in METADATA_NAMES if (folder / name).is_file()), None)
        self._rows, self._path_column = _listing(folder) if table is None else _read_metadata(table, limit)
        self._labelled_by_folder = table is None
        self._schema = Schema(columns)
        digest = hashlib.sha256(self._rows.fingerprint.encode())
        for index in range(len(self._rows)):
            row = self._full_row(index)
            self._schema.validate(row, self._rows.where(index))
            try:
                status = Path(row["file"]).stat()
            except OSError as problem:
                raise DataError(
                    f"{self._rows.where(index)}: {row['file']}: {error_reason(problem)}"
                ) from problem
            digest.update(f"{status.st_size} {status.st_mtime_ns} ".encode())
        self.columns, self.kinds = self._schema.columns, self._schema.kinds
        self.fingerprint = digest.hexdigest()

    def row(self, index: int) -> Row:
        return self._schema.project(self._full_row(index), self.where(index))

    def file(self, index: int) -> str:
        return str(self._folder)

    def where(self, index: int) -> str:
        return str(self._full_row(index)["file"]) if self._labelled_by_folder else self._rows.where(index)

    def __len__(self) -> int:
        return len(self._rows)

    def _full_row(self, index: int) -> Row:
        row = self._rows.row(index)
        file = str(self._folder / str(row.pop(self._path_column)))
        return {"file": file} | row | {"file": file}


def is_audio_folder(folder: Path) -> bool:
    """Whether an audio file lies in it or in a folder below."""
    return any(path.suffix.lower() in AUDIO_EXTENSIONS for path in folder.rglob("*"))


def _listing(folder: Path) -> tuple[RowSequence, str]:
    """The audio files of a folder in order; those of a subfolder have its name as their label."""
    files = sorted(
        path.relative_to(folder) for path in folder.rglob("*") if path.suffix.lower() in AUDIO_EXTENSIONS
    )
    if not files:
        raise DataError(f"{folder}: holds no audio; files must end in {', '.join(AUDIO_EXTENSIONS)}")
    flat = [path for path in files if len(path.parts) == 1]
    if flat and len(flat) < len(files):
        raise DataError(
            f"{folder}: {flat[0]} lies beside folders of labels; put it into one, or write a metadata.csv"
        )
    rows = [{"path": str(path)} | ({} if flat else {"label": path.parts[0]}) for path in files]
    return InMemoryRows(rows, name=str(folder)), "path"


def _read_metadata(table: Path, limit: int) -> tuple[RowSequence, str]:
    format = {
        ".csv": Table(),
        ".tsv": Table(delimiter="\t", quotes=False),
        ".jsonl": JsonLines(),
    }[table.suffix]
    rows = IndexedRows(table, format, limit=limit)
    for name in PATH_COLUMNS:
        if name in rows.columns:
            return rows, name
    raise DataError(
        f"{table}: {missing_column(PATH_COLUMNS[0], rows.columns)}; one must name the files: {', '.join(PATH_COLUMNS)}"
    )
