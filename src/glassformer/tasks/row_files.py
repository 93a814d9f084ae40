"""Files that rows name: recordings, images, tables, arrays, in the folder of the rows' own table or in another.

"clips/a.wav"                             in the folder of the table, or the one that is named
{"bytes": b"RIFF…", "path": "a.wav"}      as Parquet files of the Hub and Hugging Face `datasets` hold it
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.data.audio_folder import path_within
from glassformer.tasks.types import Dataset


class RowFiles:
    """The files of a column of rows.

    Args:
        rows: with their column of files
        folder: of the files; None = that of the table
    """

    def __init__(self, rows: Dataset, column: str, folder: str | None) -> None:
        self.rows, self.column = rows, column
        self._folder = None if folder is None else Path(folder)

    def value(self, index: int) -> Any:
        """What a row has in the column."""
        return self.rows[index].get(self.column)

    def source(self, index: int, value: Any) -> Any:
        """The path or the bytes of the file that a row's value names; of another value, such as an array, that.

        Raises: DataError: a path that leads out of the folder.
        """
        if isinstance(value, Mapping):
            value = next((value[name] for name in ("bytes", "array", "path") if value.get(name) is not None), None)
        return self.path(index, value) if isinstance(value, str) and value else value

    def digest(self) -> str:
        """A hash of sizes and times of the files that rows name: other files under the same names change it."""
        digest = hashlib.sha256()
        for index in range(len(self.rows)):
            value = self.value(index)
            if value is not None and not isinstance(value, str):
                break  # a column has values of one type: no row names a file
            if value is not None and (path := self.path(index, value)).is_file():
                status = path.stat()
                digest.update(f"{status.st_size} {status.st_mtime_ns} ".encode())
        return digest.hexdigest()

    def path(self, index: int, name: str) -> Path:
        """The path of a file, within the folder. Raises: DataError: it leads out of it."""
        file: Any = getattr(self.rows, "file", None)
        table = Path(file(index)) if file is not None else Path()
        if self._folder is None and not table.exists():
            return Path(name)  # of rows in memory, whose paths are the caller's own
        if self._folder is None and table.is_dir():
            return path_within(table, name)  # an audio folder gives whole paths
        folder = self._folder or table.parent
        return path_within(folder, folder / name)
