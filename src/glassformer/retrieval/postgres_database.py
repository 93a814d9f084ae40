"""Connections to PostgreSQL: addresses that are shown without their password, errors in one sentence, one writer.

postgresql://USER:PASSWORD@HOST:PORT/DATABASE       as libpq reads it; or PGPASSWORD has the password
"""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from glassformer.errors import ConfigError, DataError, import_optional

SCHEMES = ("postgresql://", "postgres://")
CONNECTION = {"connect_timeout": 10, "keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
"""Unless the address has others: a server that goes away without a word is noticed after a minute."""
LOCK = (1_195_397_187, 1)
"""Of the one writer: two numbers that other programs are not likely to use."""

PROBLEMS = {
    ("08", "57P"): "the server went away: {}; try again when it runs: what was written is there",
    # disk full, out of memory, a limit of the program
    ("53100", "53200", "54000"): "cannot be written: {}; make room, and index again: what was indexed is there",
    ("42501", "25006"): "the server does not allow it: {}; ask its administrator for the right",  # no right, read-only
    # no such table or schema
    ("42P01", "3F000"): "its tables are gone: {}; another process has made the store again: open it again",
}
"""How the code of an error begins → what it means, and what to do."""

_ADDRESS = re.compile(
    r"postgres(?:ql)?://(?:(?P<user>[^:@/?#]*)(?::[^@/?#]*)?@)?(?P<host>[^@/?#]*)(?:/(?P<database>[^@?#]*))?"
    r"(?:\?(?P<query>[^@#]*))?"
)
_HOST = r"(?:\[[0-9a-fA-F:.%]*\]|[^:\[\],]*)(?::\d*)?"
_HOSTS = re.compile(f"{_HOST}(?:,{_HOST})*")


def is_address(where: str | Path) -> bool:
    """Whether the place of a store is the address of a database, and no folder."""
    return str(where).startswith(SCHEMES)


def shown_address(where: str | Path) -> str:
    """The place of a store as it is shown: the address of a database without its password; a folder as it is."""
    if not is_address(where):
        return str(where)
    if (parts := _parts(str(where))) is None:
        return f"{SCHEMES[0]}…"
    user = f"{parts['user']}@" if parts["user"] else ""
    given = parse_qs(parts["query"] or "")
    query = "&".join(f"{name}={given[name][-1]}" for name in ("host", "port") if name in given)
    return f"{SCHEMES[0]}{user}{parts['host']}/{parts['database'] or ''}" + (f"?{query}" if query else "")


def _parts(address: str) -> dict[str, str | None] | None:
    """The parts of an address; None = it cannot be read, and what seems to be a host may be of the password."""
    match = _ADDRESS.fullmatch(address)
    return match.groupdict() if match and _HOSTS.fullmatch(match["host"]) else None


class PostgresDatabase:
    """A connection, which is opened again where it broke, unless it is that of the writer.

    shown: the address without its password

    Args:
        address: of the database
        is_writer: with the lock of the one writer
    Raises: ConfigError: the address cannot be read, or another process writes. DataError: the server does not answer.
    """

    def __init__(self, address: str, *, is_writer: bool = False) -> None:
        self.driver = import_optional("psycopg", "psycopg[binary]", "postgres", "a store in PostgreSQL")
        self.shown, self.is_writer = shown_address(address), is_writer
        self.lock = threading.RLock()
        self._settings = self._read(address)
        self._path: Any = None
        self._connection = self._connect()
        if is_writer:
            self._lock_writer()

    def _read(self, address: str) -> dict[str, Any]:
        try:
            if _parts(address) is None:
                raise ValueError
            given = self.driver.conninfo.conninfo_to_dict(address)
        except (ValueError, self.driver.Error):
            # What libpq says of it may quote a part of the password.
            raise ConfigError(
                f"the address of the database cannot be read; it is {SCHEMES[0]}USER:PASSWORD@HOST:PORT/DATABASE; "
                "write a special character of the password by its code, such as %40 for @ and %2F for /"
            ) from None
        name = f"glassformer {os.getpid()} {socket.gethostname()}"[:63]
        return {**CONNECTION, "application_name": name, **given, "client_encoding": "utf8"}

    def _connect(self) -> Any:
        try:
            connection = self.driver.connect(**self._settings, autocommit=True, prepare_threshold=None)
            if self._path:
                connection.execute(self._path)
        except self.driver.Error as error:
            raise self._refused(str(error)) from None
        return connection

    def _refused(self, message: str) -> DataError:
        """The error of a connection that could not be made."""
        lines = [line for line in message.splitlines() if line.strip()] or ["no reason given"]
        reason = next((line for line in lines if "FATAL" in line or "failed" in line), lines[0])
        reason = re.sub(r".*(?:FATAL:|failed:)\s*", "", reason)
        if "password" in reason or "authentication" in reason:
            remedy = "give the password in the address, in PGPASSWORD or in ~/.pgpass"
        elif "does not exist" in reason and "database" in reason:
            remedy = "make the database first, by createdb"
        else:
            remedy = "see that the server runs, and that the address is right"
        return DataError(f"{self.shown}: the server cannot be asked: {reason}; {remedy}")

    def _lock_writer(self) -> None:
        if self.run("SELECT pg_try_advisory_lock(?, ?)", LOCK)[0][0]:
            return
        rows = self.run(
            "SELECT application_name, to_char(backend_start, 'YYYY-MM-DD HH24:MI:SS') FROM pg_stat_activity "
            "WHERE pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted "
            "AND classid::bigint = ? AND objid::bigint = ?)",
            LOCK,
        )
        words = rows[0][0].split(" ", 2) if rows and rows[0][0] else []
        who = f"process {words[1]} on {words[2]} since {rows[0][1]}" if len(words) == 3 else "another process"
        self.close()
        raise ConfigError(f"{self.shown}: is in use by {who}; wait for it to end, or stop it")

    def search_in(self, *schemas: str) -> None:
        """Look for tables in these schemas from now on."""
        sql = self.driver.sql
        self._path = sql.SQL("SET search_path TO {}").format(sql.SQL(", ").join(map(sql.Identifier, schemas)))
        with self.lock, self.errors():
            self._open().execute(self._path)

    def close(self) -> None:
        """Close the connection; a writer releases its lock."""
        with self.lock:
            self._connection.close()

    # ---------------------------------------------------------------------------------------------- statements

    def run(self, query: str, values: Sequence[Any] = (), *, binary: bool = False) -> list[Any]:
        """Run a statement, with `?` where its values go. Returns: its rows.

        Args:
            binary: types that Python does not have come as the bytes that the server sends
        """
        with self.lock, self.errors():
            cursor = self._open().execute(query.replace("?", "%s"), list(values), binary=binary)
            return list(cursor.fetchall()) if cursor.description else []

    def run_many(self, query: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement without a result once for each row of values."""
        with self.lock, self.errors(), self._open().cursor() as cursor:
            cursor.executemany(query.replace("?", "%s"), rows)

    @contextmanager
    def copying(self, table: str) -> Iterator[Any]:
        """Rows that are written to a table one after the other, as COPY does."""
        with self.lock, self.errors(), self._open().cursor() as cursor, cursor.copy(f"COPY {table}") as copy:
            yield copy

    @contextmanager
    def block(self, begin: str) -> Iterator[None]:
        """A transaction; inside of another one, a part of it.

        Args:
            begin: the statement that begins it
        """
        with self.lock, self.errors():
            if self._open().info.transaction_status != self.driver.pq.TransactionStatus.IDLE:
                yield
                return
            self.run(begin)
            try:
                yield
                self.run("COMMIT")
            except BaseException:
                with suppress(self.driver.Error):  # the server may be away
                    self._connection.execute("ROLLBACK")
                raise

    def _open(self) -> Any:
        if self._connection.closed and not self.is_writer:
            self._connection = self._connect()
        return self._connection

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Raise errors of the server as ours, with what to do."""
        try:
            yield
        except self.driver.Error as error:
            raise self._problem(error) from error

    def _problem(self, error: Any) -> DataError:
        state, reason = error.sqlstate or "", error.diag.message_primary or str(error).partition("\n")[0]
        state = "08" if self._connection.closed else state
        known = (text for states, text in PROBLEMS.items() if state.startswith(states))
        return DataError(f"{self.shown}: {next(known, 'the server refuses: {}').format(reason)}")
