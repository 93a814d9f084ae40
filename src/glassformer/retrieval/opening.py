"""Opening a store, wherever it is: a folder with a SQLite database."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from glassformer.files import as_path
from glassformer.retrieval.sqlite_store import open_folder, writing_folder
from glassformer.retrieval.store import Store, StoreSettings


def open_store(where: str | Path) -> Store:
    """Open a store for reading and writing.

    Args:
        where: its folder
    Raises: DataError: there is no store, or it is damaged or of another version.
    """
    return open_folder(as_path(where).expanduser())


def writing_store(where: str | Path, settings: StoreSettings) -> AbstractContextManager[Store]:
    """A store to write to, as the one writer: made, or one of the same settings continued; closed at the end.

    Where a store of other settings is there, that one answers until `finish` of the new one.

    Raises: DataError: the folder cannot be made. ConfigError: another process writes; which one, and since when.
    """
    return writing_folder(as_path(where).expanduser(), settings)
