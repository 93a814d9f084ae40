"""Opening a store, wherever it is: a folder with a SQLite database."""

from __future__ import annotations

from pathlib import Path

from glassformer.files import as_path
from glassformer.retrieval.sqlite_store import create_folder, open_folder
from glassformer.retrieval.store import Store, StoreSettings


def open_store(where: str | Path) -> Store:
    """Open a store for reading and writing.

    Args:
        where: its folder
    Raises: DataError: there is no store, or it is damaged or of another version.
    """
    return open_folder(as_path(where).expanduser())


def create_store(where: str | Path, settings: StoreSettings) -> Store:
    """Make a store, or continue one of the same settings.

    Where a store of other settings is there, that one answers until `finish` of the new one.
    """
    return create_folder(as_path(where).expanduser(), settings)
