"""Opening a store, wherever it is: a folder with a SQLite database, or a PostgreSQL database."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from glassformer.files import as_path
from glassformer.retrieval.options import is_store_folder
from glassformer.retrieval.postgres_database import is_address
from glassformer.retrieval.sqlite_store import open_folder, writing_folder
from glassformer.retrieval.store import Store, StoreSettings


def open_store(where: str | Path) -> Store:
    """Open a store for reading and writing.

    Args:
        where: its folder, or the address of its database: postgresql://USER:PASSWORD@HOST:PORT/DATABASE
    Raises: DataError: there is no store, it is damaged or of another version, or its server does not answer.
    """
    if is_address(where):
        from glassformer.retrieval.postgres_store import open_database

        return open_database(str(where))
    return open_folder(as_path(where).expanduser())


def writing_store(where: str | Path, settings: StoreSettings) -> AbstractContextManager[Store]:
    """A store to write to, as the one writer: made, or one of the same settings continued; closed at the end.

    Where a store of other settings is there, that one answers until `finish` of the new one.

    Raises: DataError: the folder cannot be made, or the server refuses. ConfigError: another process writes; which
    one, and since when.
    """
    if is_address(where):
        from glassformer.retrieval.postgres_store import writing_database

        return writing_database(str(where), settings)
    return writing_folder(as_path(where).expanduser(), settings)


def store_exists(where: str | Path) -> bool:
    """Whether there is a store. Raises: DataError: its server does not answer."""
    if is_address(where):
        from glassformer.retrieval.postgres_store import database_has_store

        return database_has_store(str(where))
    return is_store_folder(as_path(where).expanduser())


def store_folder(where: str | Path) -> Path | None:
    """The folder of a store; None = it is in a database."""
    return None if is_address(where) else as_path(where).expanduser()
