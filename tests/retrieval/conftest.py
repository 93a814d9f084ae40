"""A PostgreSQL server, started once for the tests of a process that need one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from tests.retrieval.postgres import Server, running_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    with running_server() as server:
        yield server


_numbers = count()


@pytest.fixture
def new_database(postgres: Server) -> Iterator[Callable[[], str]]:
    """Makes a database, and gives its address."""
    from glassformer.retrieval.postgres_database import PostgresDatabase

    made = []

    def make() -> str:
        made.append(f"store{next(_numbers)}")
        server.run(f"CREATE DATABASE {made[-1]}")
        return postgres.address(made[-1])

    server = PostgresDatabase(postgres.address())
    yield make
    for name in made:
        server.run(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    server.close()
