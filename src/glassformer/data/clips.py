"""A folder of sound: files in a folder a label, or files and a table beside them that says what each is.

    digits/zero/1.wav  digits/one/7.wav        read_rows("digits")     {"file": "digits/zero/1.wav", "label": "zero"}
    calls/metadata.csv  calls/a.flac           read_rows("calls")      {"file": "calls/a.flac", "text": "Good morning"}

The table is metadata.csv, metadata.tsv, metadata.jsonl or manifest.…, with a column `file_name`, `path` or `file`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from glassformer.data.index import Indexed
from glassformer.data.lines import LIMIT
from glassformer.data.records import JsonLines
from glassformer.data.schema import Schema, missing
from glassformer.data.sequence import Listed, Row, Rows
from glassformer.data.tables import Table
from glassformer.errors import DataError
from glassformer.files import reason

ENDINGS = (".wav", ".flac", ".ogg", ".opus", ".mp3", ".m4a", ".aac", ".aiff", ".wma")
TABLES = tuple(f"{stem}.{end}" for stem in ("metadata", "manifest") for end in ("csv", "tsv", "jsonl"))
PATHS = ("file_name", "path", "file")


class Clips(Rows):
    """Rows with `file`, and what its folder or a table says of it; the sound itself is read elsewhere.

    The fingerprint takes in the files' names, sizes and times, not every sample.
    Raises: DataError: no sound; a table without a column of files, or one that names a file that is not there.
    """

    def __init__(self, folder: Path, *, columns: Sequence[str] | None = None, limit: int = LIMIT) -> None:
        self._folder = folder
        table = next((folder / name for name in TABLES if (folder / name).is_file()), None)
        self._rows, self._path = _listing(folder) if table is None else _tabled(table, limit)
        self._listed = table is None
        self._schema = Schema(columns)
        digest = hashlib.sha256(self._rows.fingerprint.encode())
        for index in range(len(self._rows)):
            row = self._whole(index)
            self._schema.checked(row, self._rows.where(index))
            try:
                status = Path(row["file"]).stat()
            except OSError as problem:
                raise DataError(f"{self._rows.where(index)}: {row['file']}: {reason(problem)}") from problem
            digest.update(f"{status.st_size} {status.st_mtime_ns} ".encode())
        self.columns, self.kinds = self._schema.columns, self._schema.kinds
        self.fingerprint = digest.hexdigest()

    def row(self, index: int) -> Row:
        return self._schema.cut(self._whole(index), self.where(index))

    def file(self, index: int) -> str:
        return str(self._folder)

    def where(self, index: int) -> str:
        return str(self._whole(index)["file"]) if self._listed else self._rows.where(index)

    def __len__(self) -> int:
        return len(self._rows)

    def _whole(self, index: int) -> Row:
        row = self._rows.row(index)
        file = str(self._folder / str(row.pop(self._path)))
        return {"file": file} | row | {"file": file}


def is_folder_of_sound(folder: Path) -> bool:
    """Whether a sound file lies in it, or in a folder within."""
    return any(path.suffix.lower() in ENDINGS for path in folder.rglob("*"))


def _listing(folder: Path) -> tuple[Rows, str]:
    """The files of a folder, in order; those of folders within have its name as their label."""
    files = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.suffix.lower() in ENDINGS)
    if not files:
        raise DataError(f"{folder}: holds no sound; files must end in {', '.join(ENDINGS)}")
    flat = [path for path in files if len(path.parts) == 1]
    if flat and len(flat) < len(files):
        raise DataError(
            f"{folder}: {flat[0]} lies beside folders of labels; put it into one, or write a metadata.csv"
        )
    rows = [{"path": str(path)} | ({} if flat else {"label": path.parts[0]}) for path in files]
    return Listed(rows, name=str(folder)), "path"


def _tabled(table: Path, limit: int) -> tuple[Rows, str]:
    how = {
        ".csv": Table(),
        ".tsv": Table(delimiter="\t", quotes=False),
        ".jsonl": JsonLines(),
    }[table.suffix]
    rows = Indexed(table, how, limit=limit)
    for name in PATHS:
        if name in rows.columns:
            return rows, name
    raise DataError(
        f"{table}: {missing(PATHS[0], rows.columns)}; one must name the files: {', '.join(PATHS)}"
    )
