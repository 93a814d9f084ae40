"""Embedding by workers of Ray: the store is that of one process to the byte, also where a worker is killed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import glassformer
import glassformer.retrieval.indexing as indexing
import glassformer.retrieval.ray_embedding as ray_embedding
from glassformer.errors import ConfigError, DataError, MissingExtraError
from glassformer.model import Model
from glassformer.retrieval.indexing import index_folder
from glassformer.retrieval.options import StoreOptions, WorkerOptions
from glassformer.retrieval.sqlite_store import SqliteStore
from tests.retrieval.encoders import make_encoder, write_documents
from tests.retrieval.made import dump_with_ids

TWO = WorkerOptions(workers=2)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return glassformer.load(make_encoder(tmp_path_factory.mktemp("encoder")))


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Two workers, started once for the tests of this file."""
    ray = pytest.importorskip("ray", reason="the package ray is not installed")
    pytest.importorskip("ray.data", reason="the package ray[data] is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_niceness", "0")  # other tests take the processor meanwhile
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
        yield
        ray.shutdown()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = write_documents(tmp_path / "documents")
    for number in range(12):
        (folder / f"{number}.txt").write_text(" ".join(f"File {number} has sentence {n}." for n in range(60)))
    (folder / "copy.txt").write_bytes((folder / "3.txt").read_bytes())
    return folder


def test_a_worker_is_killed_in_the_middle(
    cluster: None, folder: Path, tmp_path: Path, encoder: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    psutil = pytest.importorskip("psutil")
    monkeypatch.setattr(indexing, "BATCH_PASSAGES", 8)
    monkeypatch.setattr(ray_embedding, "GROUPS", 5)  # two runs of Ray Data
    options = StoreOptions(size=32, overlap=8)
    index_folder(folder, tmp_path / "one", encoder, options=options)
    killed: list[int] = []
    written, write = 0, SqliteStore.write

    def write_and_kill(store: SqliteStore, batches: object) -> None:
        nonlocal written
        written += 1
        if written == 3:
            workers = [x for x in psutil.Process().children(recursive=True) if "MapWorker" in " ".join(x.cmdline())]
            workers[0].kill()
            killed.append(workers[0].pid)
        write(store, batches)  # type: ignore[arg-type]

    monkeypatch.setattr(SqliteStore, "write", write_and_kill)
    report = index_folder(folder, tmp_path / "two", encoder, options=options, workers=TWO)
    assert killed and 10 < written <= 20 and report.embedded == report.passage_count > 80
    assert dump_with_ids(tmp_path / "two") == dump_with_ids(tmp_path / "one")


def test_a_model_that_the_workers_do_not_have(cluster: None, folder: Path, tmp_path: Path, encoder: Model) -> None:
    options = StoreOptions(model=str(tmp_path / "elsewhere"))
    with pytest.raises(DataError, match=r"a worker of Ray cannot embed: .*elsewhere"):
        index_folder(folder, tmp_path / "store", encoder, options=options, workers=TWO)
    assert index_folder(folder, tmp_path / "store", encoder, options=options).embedded > 0  # and it goes on without


def test_nothing_new_starts_no_cluster(
    folder: Path, tmp_path: Path, encoder: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    index_folder(folder, tmp_path / "store", encoder)
    monkeypatch.setitem(sys.modules, "ray", None)
    assert index_folder(folder, tmp_path / "store", encoder, workers=TWO).embedded == 0
    with pytest.raises(MissingExtraError, match=r"embedding by several workers needs .*ray.*glassformer\[ray\]"):
        index_folder(folder, tmp_path / "other", encoder, workers=TWO)


def test_no_cluster_there(folder: Path, tmp_path: Path, encoder: Model) -> None:
    ray = pytest.importorskip("ray", reason="the package ray is not installed")
    ray.shutdown()
    for address in ("127.0.0.1:1", "ray://127.0.0.1:1"):
        with pytest.raises(ConfigError, match=r"no cluster of Ray answers there: .*refused; start one by `ray start"):
            index_folder(folder, tmp_path / "store", encoder, workers=WorkerOptions(ray=address))
