"""Data sets are downloaded whole and right, or not at all; what is there is not downloaded again."""

from __future__ import annotations

import gzip
import hashlib
import importlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from glassformer.data import sets
from glassformer.data.sets import DataSet, data_sets
from glassformer.errors import ConfigError, DataError, GlassformerError
from glassformer.files.schema import parse
from glassformer.hub.data_sets import (
    data_file,
    data_folder,
    fetch_data_set,
    fetched_folder,
    find_downloadable,
    is_fetched,
)
from glassformer.tasks.registry import task_class
from tests.hub.hub_server import Fault, HubServer, Repository, Serve

SENTENCES = b"0\tA\tO\n\n0\tB\tO\n\n"
DIGEST = hashlib.sha256(SENTENCES[7:]).hexdigest()
SOURCES = {
    "rows.txt": b"spam;joy\r\nso glad;joy\r\nleave;anger\r\n",
    "all.conllu": SENTENCES,
    "pairs.en.gz": gzip.compress(b"one\ntwo\n"),
}
FILES = {
    "rows.tsv.gz": {"path": "rows.txt", "size": 30, "header": "text;label", "without": ["spam;joy"]},
    "train.conll": {"path": "all.conllu", "size": 14, "part": [0, 7]},
    "val.conll": {
        "path": "all.conllu",
        "size": 14,
        "part": [7, 14],
        "sha256": hashlib.sha256(SENTENCES[7:]).hexdigest(),
    },
    "pairs.en.gz": {"path": "pairs.en.gz", "size": 30},
}


@pytest.fixture
def served(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HubServer:
    """A server of the files of the data set `mine`."""
    server = serve(Repository(dict(SOURCES)))
    entry = {"name": "mine", "about": "rows", "task": "tag", "rows": {"train": 1}, "licence": "CC0"}
    base = f"{server.endpoint}/{server.repository.name}/resolve/main/"
    mine = parse(DataSet, {**entry, "base": base, "files": FILES})
    monkeypatch.setattr(sets, "data_sets", lambda: {"mine": mine})
    monkeypatch.setattr(importlib.import_module("huggingface_hub.constants"), "HF_ASSETS_CACHE", str(tmp_path))
    return server


def test_files_are_prepared_verified_and_kept(served: HubServer) -> None:
    with pytest.raises(DataError, match="glassformer data fetch mine"):
        fetched_folder("mine")
    folder = fetch_data_set("mine")
    assert folder == data_folder() / "mine" and fetched_folder(["mine"]) == data_folder()
    assert gzip.decompress((folder / "rows.tsv.gz").read_bytes()) == b"text;label\nso glad;joy\r\nleave;anger\r\n"
    assert (folder / "train.conll").read_bytes() + (folder / "val.conll").read_bytes() == SENTENCES
    assert gzip.decompress((folder / "pairs.en.gz").read_bytes()) == b"one\ntwo\n"
    digests = json.loads((folder / "digests.json").read_text())
    assert digests["train.conll"] == hashlib.sha256(SENTENCES[:7]).hexdigest() and set(digests) == set(FILES)
    assert {path.name for path in folder.iterdir()} - set(FILES) <= {"digests.json", ".lock"}
    requests = served.repository.requests
    assert len(requests) == 3, "a source of two files is downloaded once"

    requests.clear()
    assert fetch_data_set("mine") == folder and not requests
    (folder / "val.conll").write_bytes(b"damaged")
    (folder / "pairs.en.gz").write_bytes(b"damaged")
    fetch_data_set("mine")
    assert len(requests) == 2 and (folder / "val.conll").read_bytes() == SENTENCES[7:]


def test_an_interrupted_download_goes_on(served: HubServer, tmp_path: Path) -> None:
    served.repository.faults.append(Fault("cut", at=5, file="rows.txt"))
    with pytest.raises(DataError, match="which resumes it"):
        fetch_data_set("mine", tmp_path / "data")
    (partial,) = (tmp_path / "data" / "mine").glob(".*.download")
    assert partial.read_bytes() == SOURCES["rows.txt"][:5]
    served.repository.faults.clear()
    assert b"leave" in gzip.decompress((fetch_data_set("mine", tmp_path / "data") / "rows.tsv.gz").read_bytes())
    partial.write_bytes(SOURCES["rows.txt"] + b"longer than it is")  # of another time
    (partial.parent / "rows.tsv.gz").unlink()
    fetch_data_set("mine", tmp_path / "data")
    assert not partial.exists()


def test_a_download_that_fills_the_disk_goes_on(
    served: HubServer, small_disk: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"".join(b"text number %d;joy\n" % number for number in range(100_000))
    served.repository.files["rows.txt"] = content
    mine = find_downloadable("mine")
    file = replace(mine.files["rows.tsv.gz"], size=len(content))
    monkeypatch.setattr(sets, "data_sets", lambda: {"mine": replace(mine, files={"rows.tsv.gz": file})})
    disk = small_disk("1m")
    with pytest.raises(DataError, match=r"download: the download cannot be written: No space left .* is kept, and the"):
        fetch_data_set("mine", disk)
    (partial,) = (disk / "mine").glob(".*.download")
    assert content.startswith(partial.read_bytes()) and 500_000 < partial.stat().st_size <= 1 << 20
    served.repository.requests.clear()
    small_disk("9m")
    made = fetch_data_set("mine", disk) / "rows.tsv.gz"
    assert gzip.decompress(made.read_bytes()) == b"text;label\n" + content
    assert not partial.exists() and len(served.repository.requests) == 1


@pytest.mark.parametrize(
    ("source", "content", "message"),
    [
        ("all.conllu", b"0\tX\tO\n\n0\tY\tO\n\n", "val.conll has the SHA-256 digest .* expected"),
        ("rows.txt", b"log in", "is 6 bytes, and should be about 30; if this network has a login page"),
        ("pairs.en.gz", b"<html>no gzip at all</html>", "is no gzip file: .*; fetch it again"),
        ("rows.txt", None, "rows.txt: could not be fetched .*404"),
    ],
)
def test_wrong_files_are_refused(
    source: str, content: bytes | None, message: str, served: HubServer, tmp_path: Path
) -> None:
    served.repository.files.pop(source)
    if content is not None:
        served.repository.files[source] = content
    with pytest.raises(DataError, match=message):
        fetch_data_set("mine", tmp_path)
    served.repository.files[source] = SOURCES[source]
    fetch_data_set("mine", tmp_path)  # nothing of it stays in the way


def test_the_first_digest_counts_from_then_on(served: HubServer) -> None:
    folder = fetch_data_set("mine")
    (folder / "rows.tsv.gz").unlink()
    served.repository.files["rows.txt"] = SOURCES["rows.txt"].replace(b"glad", b"sad!")
    with pytest.raises(DataError, match=r"rows.tsv.gz has the SHA-256 digest .* do not use it"):
        fetch_data_set("mine")
    (folder / "digests.json").write_text("damaged")  # then files whose digest is not known may be somebody's own
    (folder / "rows.tsv.gz").write_bytes(b"mine")
    with pytest.raises(DataError, match=r"rows.tsv.gz: is there, and was not fetched; move it away"):
        fetch_data_set("mine")
    assert (folder / "rows.tsv.gz").read_bytes() == b"mine"


def test_errors(served: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mime", "", "../mine", "mine/"):
        with pytest.raises(ConfigError, match=r"no data set is called .*; glassformer data list shows"):
            fetch_data_set(name)
    (tmp_path / "file").write_text("")
    with pytest.raises(GlassformerError, match="cannot be written"):
        fetch_data_set("mine", tmp_path / "file")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(DataError, match="connections are off"):
        fetch_data_set("mine", tmp_path / "new")
    with pytest.raises(DataError, match=r"no such file; fetch the data set: glassformer data fetch mine --output /"):
        data_file(tmp_path, "mine/rows.tsv")
    with pytest.raises(DataError, match=r"fetch the data set: glassformer data fetch mine$"):
        data_file(data_folder(), "mine/rows.tsv")


def test_the_catalogue_is_whole() -> None:
    for name, entry in data_sets().items():
        assert entry.name == name and task_class(entry.task), name
        if not entry.files:
            assert entry.published.startswith("https://") and not entry.base
            continue
        assert entry.base.startswith("https://") and entry.base.endswith("/")
        assert any(len(part) == 40 and int(part, 16) for part in entry.base.split("/")), "at a commit"
        for file in entry.files.values():
            assert file.sha256 is None or len(file.sha256) == 64
            assert not file.part or 0 <= file.part[0] < file.part[1] <= file.size


def test_a_data_set_that_is_had_elsewhere_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    message = (
        r"cnn_dailymail is not downloaded from here; get its files from https://huggingface\.co/datasets/abisee/"
        r"cnn_dailymail \(licence: Apache-2\.0 .*\), and read them by its name: glassformer data inspect FILE --kind "
        r"cnn_dailymail; in a configuration, data\.format: {kind: cnn_dailymail}"
    )
    for fetch in (fetch_data_set, fetched_folder):
        with pytest.raises(DataError, match=message):
            fetch("cnn_dailymail")
    known = data_sets()["cnn_dailymail"]
    assert sum(known.rows.values()) == 311_971 and known.source == "huggingface.co/datasets/abisee/cnn_dailymail"
    assert not is_fetched(known, tmp_path) and known.size == 0 and known.to_dict()["files"] == {}


def test_digests_of_the_catalogue_are_those_of_the_data_here(shared: Path) -> None:
    def content(name: str) -> bytes:
        return gzip.decompress((shared / "data" / name).read_bytes())

    added = b"i like that product very much;joy\n"
    plays, tags = content("tinyshakespeare/input.txt.gz"), content("wnut17/en.val.conll.gz")
    sources = {
        "emotion/train.txt.gz": added + content("emotion/train.txt.gz"),
        "tinyshakespeare/input.txt.gz": plays + b"the rest of them",
        "wnut17/en.val.conll.gz": tags + b"\n",
        "subjqa_electronics/dev.csv.gz": content("subjqa_electronics/dev.csv.gz"),
    }
    for path, source in sources.items():
        name, _, file = path.partition("/")
        entry = data_sets()[name].files[file]
        assert hashlib.sha256(entry.prepare(source)).hexdigest() == entry.sha256, path
