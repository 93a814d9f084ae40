"""Fetching from a Hub that fails: never a wrong file in the cache, one clear line for what went wrong.

The Hub is a small server on this machine (`hub_server.py`), the client the real one.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from glassformer.errors import DataError, WeightsError
from glassformer.hub import resolve
from glassformer.hub.fetch import SnapshotRecord
from glassformer.hub.find import missing_files, model_files
from tests.full_disk import full_disk
from tests.hub.hub_server import COMMIT, Fault, HubServer, Repository, Serve


def weights(seed: int, size: int = 3000) -> bytes:
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return struct.pack("<Q", len(header)) + header + random.Random(seed).randbytes(size)


def repository(seed: int = 0, **files: bytes) -> Repository:
    small = {
        "config.json": b'{"model_type": "bert"}',
        "tokenizer.json": b"{}",
        "vocab.txt": b"a\nb\n",
        "README.md": b"#",
    }
    return Repository(small | {"model.safetensors": weights(seed), "onnx/model.onnx": b"no"} | files)


def fetch(server: HubServer, cache: Path, **options: object) -> Path:
    return resolve(server.repository.name, endpoint=server.endpoint, cache_folder=cache, **options)  # type: ignore[arg-type]


def wrong_files(cache: Path) -> list[Path]:
    """Files of the cache whose content is not what their name promises."""
    wrong = []
    for blob in cache.glob("models--*/blobs/*"):
        content = blob.read_bytes()
        good = {
            hashlib.sha256(content).hexdigest(),
            hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest(),
        }
        if blob.name not in good and not blob.name.endswith(".incomplete"):
            wrong.append(blob)
    return wrong


def test_only_what_is_needed_is_fetched_and_the_second_time_nothing(serve: Serve, tmp_path: Path) -> None:
    server = serve(repository())
    folder = fetch(server, tmp_path)
    names = sorted(path.name for path in folder.rglob("*") if path.is_file())
    assert names == ["config.json", "model.safetensors", "tokenizer.json", "vocab.txt"]
    assert (folder / "model.safetensors").read_bytes() == server.repository.files["model.safetensors"]
    requests = len(server.repository.requests)
    assert fetch(server, tmp_path) == folder
    assert fetch(server, tmp_path, offline=True) == folder
    assert fetch(server, tmp_path, revision=COMMIT) == folder
    assert len(server.repository.requests) == requests


def test_files_are_read_through_once(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(repository())
    fetch(server, tmp_path)
    monkeypatch.setattr("glassformer.hub.fetch._digest", lambda *_: pytest.fail("read through again"))
    fetch(server, tmp_path)


def test_a_snapshot_others_left_incomplete_is_completed(serve: Serve, tmp_path: Path) -> None:
    from huggingface_hub import hf_hub_download

    server = serve(repository())
    for name in ("config.json", "model.safetensors"):
        hf_hub_download("org/name", name, endpoint=server.endpoint, cache_dir=tmp_path)
    assert (fetch(server, tmp_path, offline=True) / "model.safetensors").is_file()  # enough, where that is all
    assert (fetch(server, tmp_path) / "tokenizer.json").is_file()


@pytest.mark.representative("0", "1")
@pytest.mark.parametrize("seed", range(4))
def test_no_fault_of_the_network_puts_a_wrong_file_in_the_cache(serve: Serve, tmp_path: Path, seed: int) -> None:
    """200 faults in four parts: cut anywhere, wrong bytes, wrong length, 5xx, ranges ignored or wrong."""
    server = serve(repository())
    dice = random.Random(seed)
    kinds = [
        "cut",
        "cut",
        "cut",
        "flip",
        "flip",
        "short",
        "long",
        "status",
        "head status",
        "no range",
        "wrong range",
    ]
    outcomes = {"whole": 0, "refused": 0}
    for number in range(50):
        served = server.repository = repository(seed=100 * seed + number)
        size = len(served.files["model.safetensors"])
        kind, times = dice.choice(kinds), dice.choice([1, 1, 2, 1000])
        at = dice.randrange(size)
        served.faults = [Fault(kind, at, times, dice.choice([500, 502, 503, 504, 403, 404]))]
        if kind.endswith("range"):  # they show when a download is resumed
            served.faults.insert(0, Fault("cut", max(at, 1), 1))
        cache = tmp_path / str(number)
        try:
            folder = fetch(server, cache)
        except (DataError, WeightsError) as error:
            assert "org/name" in str(error) and str(error).isprintable()
            outcomes["refused"] += 1
        else:
            assert (folder / "model.safetensors").read_bytes() == served.files["model.safetensors"]
            outcomes["whole"] += 1
        assert not wrong_files(cache)
        assert sum(request.startswith("GET") and "safetensors" in request for request in served.requests) <= 14
    assert min(outcomes.values()) > 5


@pytest.mark.parametrize("states_sizes", [True, False])
@pytest.mark.filterwarnings("ignore:Not enough free disk space")
def test_a_full_disk_is_named_and_whole_files_stay(
    serve: Serve, small_disk: Callable[[str], Path], states_sizes: bool
) -> None:
    server = serve(repository(**{"model.safetensors": weights(0, 3_000_000)}))
    server.repository.states_sizes = states_sizes
    cache = small_disk("2m")
    with pytest.raises(DataError) as caught:
        fetch(server, cache)
    reason = "does not fit: the download takes 3,000,108 bytes" if states_sizes else "cannot be written: No space left"
    assert f"org/name: model.safetensors {reason}" in str(caught.value)
    assert "no space left" in str(caught.value).lower() and f"the cache is {cache}: free disk" in str(caught.value)
    if states_sizes:
        assert len(server.repository.requests) == 1, "nothing is downloaded that does not fit"
    server.repository.requests.clear()
    small_disk("9m")
    folder = fetch(server, cache)
    assert (folder / "model.safetensors").read_bytes() == server.repository.files["model.safetensors"]
    asked = [request for request in server.repository.requests if request.startswith("GET /org/")]
    assert states_sizes or [Path(request).name for request in asked] == ["model.safetensors"]


def test_a_disk_that_fills_meanwhile_is_named(serve: Serve, tmp_path: Path) -> None:
    server = serve(repository())
    with (
        full_disk(3_000),
        pytest.raises(DataError, match=r"org/name: model\.safetensors cannot be written: File too large"),
    ):
        fetch(server, tmp_path)
    assert not wrong_files(tmp_path)
    assert fetch(server, tmp_path).is_dir()


def test_a_stalled_download_ends_in_a_clear_error(serve: Serve, tmp_path: Path) -> None:
    server = serve(repository())
    server.repository.faults = [Fault("stall", at=0)]
    start = time.monotonic()
    with pytest.raises(DataError, match=r"org/name: could not be fetched.*try again, or pass a local folder"):
        fetch(server, tmp_path)
    assert time.monotonic() - start < 60  # not the minutes that a stalled connection may take
    server.repository.faults = [Fault("stall", at=1000, times=1)]
    assert fetch(server, tmp_path).is_dir()


def test_wrong_bytes_are_put_aside_and_fetched_once_more(serve: Serve, tmp_path: Path) -> None:
    server = serve(repository())
    server.repository.faults = [Fault("flip", at=2000, times=1)]
    folder = fetch(server, tmp_path)
    assert (folder / "model.safetensors").read_bytes() == server.repository.files["model.safetensors"]
    damaged = list((tmp_path / "models--org--name" / "glassformer" / "damaged").iterdir())
    assert len(damaged) == 1 and damaged[0].read_bytes() != server.repository.files["model.safetensors"]


def test_wrong_bytes_twice_are_a_clear_error(serve: Serve, tmp_path: Path) -> None:
    server = serve(repository())
    server.repository.faults = [Fault("flip", at=2000)]
    with pytest.raises(WeightsError, match=r"model\.safetensors has digest .*the server stated.*damaged twice"):
        fetch(server, tmp_path)
    assert (
        sum(
            request == "GET /org/name/resolve/" + COMMIT + "/model.safetensors"
            for request in server.repository.requests
        )
        == 2
    )
    assert not wrong_files(tmp_path)


def test_wrong_bytes_in_a_small_file_are_noticed_as_well(serve: Serve, tmp_path: Path) -> None:
    server = serve(repository())
    server.repository.faults = [Fault("flip", at=3, file="vocab.txt")]
    with pytest.raises(WeightsError, match=r"vocab\.txt has digest"):
        fetch(server, tmp_path)


def test_damage_in_the_cache_is_noticed_and_mended(serve: Serve, tmp_path: Path) -> None:
    server = serve(repository())
    folder = fetch(server, tmp_path)
    blob = (folder / "model.safetensors").resolve()
    blob.write_bytes(blob.read_bytes()[:-1] + b"!")
    os.utime(blob, (1, 1))
    with pytest.raises(WeightsError, match="it is quarantined; fetch it again with a connection"):
        fetch(server, tmp_path, offline=True)
    with pytest.raises(DataError, match=r"the Hub cache lacks model\.safetensors"):
        fetch(server, tmp_path, offline=True)
    assert fetch(server, tmp_path) == folder
    assert (folder / "model.safetensors").read_bytes() == server.repository.files["model.safetensors"]


def test_a_link_on_to_a_store_of_many_repositories_is_judged_by_the_first_name(serve: Serve, tmp_path: Path) -> None:
    server = serve(repository())
    blob = (fetch(server, tmp_path) / "model.safetensors").resolve()
    store = tmp_path / "blobs" / "ab" / ("ab" * 32)
    store.parent.mkdir(parents=True)
    blob.rename(store)
    blob.symlink_to(os.path.relpath(store, blob.parent))
    requests = len(server.repository.requests)
    folder = fetch(server, tmp_path)
    assert len(server.repository.requests) == requests
    store.write_bytes(b"damaged")
    assert (fetch(server, tmp_path) / "model.safetensors").read_bytes() == server.repository.files["model.safetensors"]
    assert not store.exists() and folder.is_dir()


def test_a_cache_without_links_is_checked_by_the_caller(serve: Serve, tmp_path: Path) -> None:
    server = serve(repository())
    folder = fetch(server, tmp_path)
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").write_bytes(content[:-1])
    served: list[Path] = []

    def check(path: Path) -> None:
        served.append(path)
        if path.read_bytes() != content:
            raise WeightsError("cut short")

    assert (fetch(server, tmp_path, check=check) / "model.safetensors").read_bytes() == content
    assert served


def test_nothing_in_the_cache_offline_says_so_and_asks_nobody(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(repository())
    with pytest.raises(DataError, match=r"org/name: .*not in the Hub cache; connections are off"):
        fetch(server, tmp_path, offline=True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(DataError, match="connections are off"):
        fetch(server, tmp_path)
    assert server.repository.requests == []


def test_an_unknown_name_and_an_unknown_place_are_clear_errors(serve: Serve, tmp_path: Path) -> None:
    server = serve(repository())
    with pytest.raises(DataError, match="other/name: no folder of that name here, and no such model on the Hub"):
        resolve("other/name", endpoint=server.endpoint, cache_folder=tmp_path)
    with socket.socket() as unused:  # a port on which nobody listens
        unused.bind(("127.0.0.1", 0))
        closed_endpoint = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(DataError, match=r"could not be fetched from the Hub .*check the connection"):
            resolve("org/name", endpoint=closed_endpoint, cache_folder=tmp_path)
    assert not list(tmp_path.glob("models--*/snapshots/*"))


@pytest.mark.parametrize("status", [401, 403, 500, 503])
def test_a_hub_that_is_down_is_a_clear_error(serve: Serve, tmp_path: Path, status: int) -> None:
    server = serve(repository())
    server.repository.api_status = status
    with pytest.raises(DataError, match="org/name: "):
        fetch(server, tmp_path)


def test_pickles_are_not_fetched_unless_allowed(serve: Serve, tmp_path: Path) -> None:
    served = repository(**{"pytorch_model.bin": b"pickled"})
    del served.files["model.safetensors"]
    server = serve(served)
    with pytest.raises(DataError, match=r"only pickled weights \(pytorch_model\.bin\).*allow_pickle=True"):
        fetch(server, tmp_path)
    assert (fetch(server, tmp_path, allow_pickle=True) / "pytorch_model.bin").read_bytes() == b"pickled"


def test_adapters_are_fetched_without_a_model(serve: Serve, tmp_path: Path) -> None:
    own = {"adapter_config.json": b"{}", "adapter_model.safetensors": weights(0), "tokenizer.json": b"{}"}
    server = serve(Repository(own | {"adapter_model.bin": b"pickled", "training_args.bin": b"pickled"}))
    folder = fetch(server, tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == sorted(own)
    requests = len(server.repository.requests)
    assert fetch(server, tmp_path) == fetch(server, tmp_path, offline=True) == folder
    assert len(server.repository.requests) == requests
    (folder / "adapter_model.safetensors").unlink()
    assert missing_files(folder) == ["adapter_model.safetensors"]
    pickled = serve(Repository({"adapter_config.json": b"{}", "adapter_model.bin": b"pickled"}))
    with pytest.raises(DataError, match=r"only pickled weights \(adapter_model\.bin\).*allow_pickle=True"):
        fetch(pickled, tmp_path / "pickled")
    assert (fetch(pickled, tmp_path / "pickled", allow_pickle=True) / "adapter_model.bin").is_file()


def test_a_repository_without_a_model_is_a_clear_error(serve: Serve, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has no config\.json"):
        fetch(serve(Repository({"README.md": b"#"})), tmp_path)
    with pytest.raises(DataError, match="holds no weights"):
        fetch(serve(Repository({"config.json": b"{}", "tf_model.h5": b""})), tmp_path)
    index = b'{"weight_map": {"w": "model-00001-of-00001.safetensors"}}'
    with pytest.raises(DataError, match=r"the repository itself lacks model-00001-of-00001\.safetensors"):
        fetch(serve(Repository({"config.json": b"{}", "model.safetensors.index.json": index})), tmp_path)


def test_one_copy_of_the_weights_is_wanted() -> None:
    others = [
        "pytorch_model.bin",
        "tf_model.h5",
        "onnx/model.onnx",
        "model.fp16.safetensors",
        "README.md",
        "x.py",
    ]
    shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    index = "model.safetensors.index.json"
    assert model_files(["config.json", "model.safetensors", *shards, index, *others]) == [
        "config.json",
        "model.safetensors",
    ]
    assert model_files([*shards, index, *others]) == sorted([*shards, index])
    assert model_files(others) == []
    assert model_files(others, allow_pickle=True) == ["pytorch_model.bin"]
    modules = ["modules.json", "1_Pooling/config.json", "2_Dense/config.json", "2_Dense/model.safetensors"]
    assert model_files([*modules, "openvino/config.json", "2_Dense/pytorch_model.bin"]) == sorted(modules)


def test_a_folder_says_what_it_lacks(tmp_path: Path) -> None:
    assert missing_files(tmp_path) == ["config.json", "model.safetensors"]
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "x.safetensors"}}')
    assert missing_files(tmp_path) == ["x.safetensors"]
    (tmp_path / "x.safetensors").write_text("")
    assert missing_files(tmp_path) == []


@pytest.mark.parametrize("blob", ["file", "link"])
def test_a_file_out_of_the_cache_is_never_moved(serve: Serve, tmp_path: Path, blob: str) -> None:
    """A damaged name may lead to any file of the user: its link goes, in the snapshot or among the blobs."""
    server = serve(repository())
    cache, precious = tmp_path / "cache", tmp_path / ("ab" * 32)
    name = fetch(server, cache) / "model.safetensors"
    precious.write_bytes(b"a thesis")
    if blob == "link":
        stored = name.resolve()
        stored.unlink()
        stored.symlink_to(precious)
    else:
        name.unlink()
        name.symlink_to(precious)
    with pytest.raises(WeightsError, match="it is quarantined"):
        fetch(server, cache, offline=True)
    assert precious.read_bytes() == b"a thesis" and not precious.is_symlink()
    assert (fetch(server, cache) / "model.safetensors").read_bytes() == server.repository.files["model.safetensors"]
    assert precious.read_bytes() == b"a thesis"


def test_a_loop_of_links_ends(serve: Serve, tmp_path: Path) -> None:
    server = serve(repository())
    name = fetch(server, tmp_path) / "model.safetensors"
    stored = name.resolve()
    stored.unlink()
    stored.symlink_to(stored)
    assert (fetch(server, tmp_path) / "model.safetensors").read_bytes() == server.repository.files["model.safetensors"]


@pytest.mark.parametrize("linked", ["snapshot", "subfolder"])
def test_a_file_behind_a_linked_folder_is_never_moved(serve: Serve, tmp_path: Path, linked: str) -> None:
    server = serve(repository())
    folder, own = fetch(server, tmp_path / "cache"), tmp_path / "own"
    shutil.copytree(folder, own)
    name = "model.safetensors" if linked == "snapshot" else "more/model.safetensors"
    if linked == "snapshot":
        shutil.rmtree(folder)
        folder.symlink_to(own)
    else:
        (folder / "more").symlink_to(own)
    before = {path.name: path.read_bytes() for path in own.iterdir()}
    with pytest.raises(OSError, match="its folder is a link out of the cache"):
        SnapshotRecord(folder).quarantine(name)
    assert {path.name: path.read_bytes() for path in own.iterdir()} == before


def test_a_cache_behind_a_link_is_still_the_cache(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "cache").symlink_to(tmp_path / "disk")
    server = serve(repository())
    (fetch(server, tmp_path / "cache") / "model.safetensors").resolve().write_bytes(b"damaged")
    folder = fetch(server, tmp_path / "cache")
    assert (folder / "model.safetensors").read_bytes() == server.repository.files["model.safetensors"]


def test_a_large_file_continues_where_the_last_call_stopped(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glassformer.hub.fetch.LARGE", 1_000)
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 100)
    served = repository(4)
    server, content = serve(served), served.files["model.safetensors"]
    for at in (700, 1900):
        served.faults = [Fault("cut", at)]
        with pytest.raises(DataError, match="could not be fetched from the Hub"):
            fetch(server, tmp_path)
        (partial,) = tmp_path.glob("models--*/glassformer/partial/*[!k]")
        assert partial.read_bytes() == content[:at] and not wrong_files(tmp_path)
    served.faults, served.ranges[:] = [], []
    folder = fetch(server, tmp_path)
    assert served.ranges == ["bytes=1900-"] and (folder / "model.safetensors").read_bytes() == content
    assert not partial.exists() and not wrong_files(tmp_path)


@pytest.mark.parametrize("kind", ["other bytes", "too many bytes", "no range", "wrong range"])
def test_a_large_file_that_continues_wrongly_is_fetched_whole(
    kind: str, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glassformer.hub.fetch.LARGE", 1_000)
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 100)
    served = repository(5)
    server = serve(served)
    served.faults = [Fault("cut", 900)]
    with pytest.raises(DataError):
        fetch(server, tmp_path)
    (partial,) = tmp_path.glob("models--*/glassformer/partial/*[!k]")
    served.faults = [Fault(kind, times=1)] if kind.endswith("range") else []
    if kind == "other bytes":
        partial.write_bytes(bytes(900))
    elif kind == "too many bytes":
        partial.write_bytes(bytes(10_000))
    folder = fetch(server, tmp_path)
    assert (folder / "model.safetensors").read_bytes() == served.files["model.safetensors"]
    assert not wrong_files(tmp_path) and not partial.exists()
