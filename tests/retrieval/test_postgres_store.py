"""The store in PostgreSQL: its address, a server that is away or refuses, rare terms first, the approximate index."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from shlex import quote

import numpy as np
import pytest
from typer.testing import CliRunner

import glassformer.retrieval.postgres_store as postgres_store
from glassformer.cli.app import app
from glassformer.errors import ConfigError, DataError, MissingExtraError
from glassformer.retrieval.indexing import index_folder, report_of
from glassformer.retrieval.opening import open_store, writing_store
from glassformer.retrieval.postgres_database import PostgresDatabase, is_address, shown_address
from glassformer.retrieval.postgres_store import PostgresStore, create_tables, open_database
from glassformer.retrieval.store import ContentBatch, StoreSettings
from tests.retrieval.encoders import write_documents
from tests.retrieval.made import TEXTS, dump, formula, passages, vectors
from tests.retrieval.postgres import PASSWORD, Server, running_server


@pytest.fixture
def store(new_database: Callable[[], str]) -> Iterator[PostgresStore]:
    made = create_tables(PostgresDatabase(new_database()), StoreSettings(model="m", width=4))
    made.write([ContentBatch("h1.md", passages(*TEXTS), vectors(3), names=["tower.md"])])
    made.finish()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://me:secret@db.example:5432/notes", "postgresql://me@db.example:5432/notes"),
        ("postgres://me:s%40c%2Fret@[::1]:5/notes?sslmode=require", "postgresql://me@[::1]:5/notes"),
        ("postgresql://me@/notes?host=/run/postgres&password=secret", "postgresql://me@/notes?host=/run/postgres"),
        ("postgresql://one:1,two:2/notes", "postgresql://one:1,two:2/notes"),
        ("postgresql:///notes", "postgresql:///notes"),
    ],
)
def test_an_address_is_shown_without_its_password(address: str, shown: str) -> None:
    assert is_address(address) and shown_address(address) == shown
    assert not is_address(Path("postgresql:/x")) and shown_address("notes.store") == "notes.store"


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:sec@ret@host/notes", "postgresql://me:sec/ret@host/notes", "postgresql://me:secret",
        "postgresql://me:sec#ret@host/notes", "postgresql://me:sec%ret@host/notes", "postgresql://me:sec?ret@host/notes",
        "postgresql://me@host/notes?secret=1", "postgresql://me@host:secret/notes", "postgresql://a:1,me:secret/notes",
    ],
)  # fmt: skip
def test_an_address_that_cannot_be_read_is_not_quoted(address: str) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(ConfigError, match="cannot be read; it is postgresql://USER:PASSWORD@HOST") as raised:
        open_store(address)
    assert "sec" not in str(raised.value) and raised.value.__cause__ is None
    assert raised.value.__suppress_context__
    assert "ret" not in shown_address(address)


def test_who_may_not_enter(postgres: Server) -> None:
    database = PostgresDatabase(postgres.with_password(PASSWORD))
    assert database.run("SELECT 1") == [(1,)] and PASSWORD not in database.shown
    database.close()
    with pytest.raises(
        DataError, match=r'password authentication failed for user "postgres"; give the password'
    ) as raised:
        open_store(postgres.with_password("wrong%secret"))
    assert "secret" not in str(raised.value)
    with pytest.raises(DataError, match="no password supplied; give the password in the address, in PGPASSWORD"):
        open_store(f"postgresql://postgres@127.0.0.1:{postgres.port}/postgres")
    with pytest.raises(DataError, match='database "nowhere" does not exist; make the database first, by createdb'):
        open_store(postgres.address("nowhere"))
    with pytest.raises(DataError, match=r"[Cc]onnection refused.*see that the server runs"):
        open_store("postgresql://postgres:secret@127.0.0.1:1/notes")
    with pytest.raises(DataError, match=r"postgresql://x@host.invalid/notes: the server cannot be asked: .*host"):
        open_store("postgresql://x:secret@host.invalid/notes")


def test_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"PostgreSQL needs .*psycopg\[binary\].*glassformer\[postgres\]"):
        open_store("postgresql://me@host/notes")


def test_what_is_no_store(new_database: Callable[[], str], store: PostgresStore) -> None:
    with pytest.raises(DataError, match=r"no store of documents; `glassformer index FOLDER --output postgresql://"):
        open_store(new_database())
    store.database.run("UPDATE glassformer.store SET version = 99")
    address = store.database.shown
    with pytest.raises(DataError, match="has version 99; supported: 1; index the folder into a new database"):
        open_store(address)
    with pytest.raises(DataError, match="has version 99"), writing_store(address, store.settings):
        pass


def test_tables_that_are_gone(store: PostgresStore) -> None:
    store.database.run(f"DROP SCHEMA {store.schema} CASCADE")
    with pytest.raises(DataError, match=r"its tables are gone: .*open it again"):
        store.search_words("lighthouse", 5)


def test_a_server_without_pgvector(new_database: Callable[[], str], tmp_path: Path) -> None:
    address = new_database()
    admin = PostgresDatabase(address)
    admin.run("CREATE ROLE guest LOGIN")
    guest = address.replace("postgres@", "guest@")
    try:
        with (
            pytest.raises(DataError, match=r"needs the extension pgvector on the server: an administrator installs"),
            writing_store(guest, StoreSettings(model="m", width=4)),
        ):
            pass
        with pytest.raises(DataError, match=r"does not allow it: permission denied.*ask its administrator"):
            index_folder(write_documents(tmp_path / "documents"), guest)
    finally:
        admin.run("DROP ROLE guest")
        admin.close()


def test_a_database_in_another_encoding(postgres: Server) -> None:
    server = PostgresDatabase(postgres.address())
    server.run("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    try:
        with (
            pytest.raises(DataError, match="the database is in LATIN1; make one in UTF8: createdb -E UTF8"),
            writing_store(postgres.address("latin"), StoreSettings()),
        ):
            pass
    finally:
        server.run("DROP DATABASE latin")
        server.close()


def test_a_server_that_goes_away(tmp_path: Path) -> None:
    """A reader says so, and answers again when the server is there; a writer ends, and the next goes on."""
    folder = write_documents(tmp_path / "documents")
    with running_server() as server:
        index_folder(folder, server.address())
        reader = open_database(server.address())
        assert reader.search_words("lighthouse", 5)
        with writing_store(server.address(), reader.settings) as writer:
            server.stop()
            for use in (lambda: reader.search_words("lighthouse", 5), lambda: writer.remove(["tower.md"])):
                with pytest.raises(DataError, match=r"the server (went away|cannot be asked)"):
                    use()
            server.start()
            assert reader.search_words("lighthouse", 5)
            with pytest.raises(DataError, match="the server went away"):
                writer.remove(["tower.md"])  # its lock is gone: another may write now
        report = index_folder(folder, server.address())
        assert {what: n for what, n in report.changes.items() if n} == {"unchanged": 3}
        reader.close()


@pytest.mark.parametrize("kills", [2, pytest.param(6, marks=pytest.mark.soak)])
def test_killed_while_it_writes(new_database: Callable[[], str], tmp_path: Path, kills: int) -> None:
    folder, address = write_documents(tmp_path / "documents"), new_database()
    for number in range(15):
        (folder / f"{number}.txt").write_text(" ".join(f"File {number} has sentence {n}." for n in range(200)))
    program = (
        "import sys, glassformer.retrieval.indexing as i; i.BATCH_PASSAGES = 8; print('ready', flush=True); "
        "i.index_folder(sys.argv[1], sys.argv[2])"
    )
    index_folder(folder, tmp_path / "whole")
    draw = np.random.default_rng(0)
    for _ in range(kills):
        child = subprocess.Popen([sys.executable, "-c", program, folder, address], stdout=subprocess.PIPE)
        assert child.stdout is not None and child.stdout.readline() == b"ready\n"
        time.sleep(draw.uniform(0.1, 0.8))
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        for _ in range(100):  # the server notices that the writer is gone
            try:
                with writing_store(address, StoreSettings()) as opened:
                    for match in opened.matches([id for id, _ in opened.search_words("sentence 7", 50)]):
                        assert (folder / match.file).read_text()[match.start : match.stop] == match.text
                break
            except ConfigError:
                time.sleep(0.1)
    index_folder(folder, address)
    assert dump(address) == dump(tmp_path / "whole")


@pytest.mark.parametrize("budget", [1, 30, 1_000])
def test_rare_terms_first_gives_the_same_results(
    new_database: Callable[[], str], budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, shares = np.random.default_rng(0), 1 / np.arange(1, 301)
    texts = [
        " ".join(f"w{x}" for x in draw.choice(300, draw.integers(5, 60), p=shares / shares.sum())) for _ in range(400)
    ]
    made = create_tables(PostgresDatabase(new_database()), StoreSettings(language="none"))
    made.write([ContentBatch("h", passages(*texts), names=["a"])])
    monkeypatch.setattr(postgres_store, "MAX_SCORED", budget)
    for limit in (1, 20, 400):
        for _ in range(10):
            question = " ".join(f"w{x}" for x in draw.choice(300, 5, p=shares / shares.sum()))
            expected = sorted(formula(question, texts, "none").items(), key=lambda x: (-x[1], x[0]))[:limit]
            listed = made.search_words(question, limit)
            assert [x for _, x in listed] == pytest.approx([x for _, x in expected[: len(listed)]], rel=1e-9)
            assert all(score < 1e-3 for _, score in expected[len(listed) :])
    made.close()


def test_many_vectors_are_searched_by_an_index(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_store, "APPROXIMATE_FROM", 500)
    many = vectors(2_000, seed=1)
    store.write([ContentBatch("h2.md", passages(*["word"] * 2_000), many, names=["many.md"])])
    store.finish()
    (definition,) = store._run("SELECT indexdef FROM pg_indexes WHERE indexname = 'nearest'")[0]
    assert "m='24', ef_construction='128'" in definition
    store.write([ContentBatch("h3.md", passages(*["hidden"] * 500), many[:500], complete=False)])
    for number in range(20):
        query = vectors(1, seed=100 + number)[0].astype(np.float32)
        exact = many.astype(np.float32) @ (query / np.linalg.norm(query))
        with store._reading():
            store._run("SET LOCAL enable_seqscan = off")
            listed = store.search_vectors(query, 10)
        assert max(id for id, _ in listed) <= 2_003 and len(listed) == 10
        assert [score for _, score in listed] == pytest.approx(np.sort(exact)[::-1][:10], abs=0.02)
        assert listed[0][1] == pytest.approx(exact.max(), abs=1e-3)
    store.remove(["many.md"])
    store.finish()
    assert store._run("SELECT to_regclass('nearest')") == [(None,)]
    assert len(store.search_vectors(query, 10)) == 3


def test_on_the_command_line(new_database: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    folder = write_documents(tmp_path / "documents")
    address = new_database() + "&password=secret"
    run = CliRunner()
    made = run.invoke(app, ["index", str(folder), "--output", address, "--model", "none"])
    assert made.exit_code == 0 and "3 documents" in made.output and "secret" not in made.output, made.output
    assert f"--store {quote(shown_address(address))}" in made.output.replace("\n", " ")
    found = run.invoke(app, ["find", "lighthouse", "--store", address, "--json"])
    assert json.loads(found.stdout)["matches"][0]["file"] == "tower.md"
    status = run.invoke(app, ["index", address, "--status", "--json"])
    assert json.loads(status.stdout)["store"] == shown_address(address)
    with writing_store(address, StoreSettings()) as opened:
        assert report_of(opened, address).store == shown_address(address)
        busy = run.invoke(app, ["index", str(folder), "--output", address])
        assert f"is in use by process {os.getpid()}" in str(busy.exception)
    page = run.invoke(app, ["look", address, "--html", str(tmp_path / "page.html")])
    assert f"--store {quote(shown_address(address))} --html" in str(page.exception)
    (tmp_path / "q.csv").write_text("question,file\nWhen was the lighthouse built?,tower.md\n")
    judged = run.invoke(app, ["evaluate", address, "--queries", str(tmp_path / "q.csv"), "--json"])
    assert judged.exit_code == 0, judged.output
