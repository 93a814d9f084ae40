"""Reading checkpoints: validated, memory-mapped, and never changed by what is done with the tensors."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from glassformer.errors import WeightsError
from glassformer.weights import read
from glassformer.weights.header import DTYPE_NAMES, read_file_header
from glassformer.weights.read import open_checkpoint

pytestmark = pytest.mark.filterwarnings("error")


def write_raw(path: Path, header: Any, data: bytes, pad: bytes = b"") -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text + pad)) + text + pad + data)
    return path


def entry(dtype: str, shape: list[int], begin: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def sharded(folder: Path) -> dict[str, torch.Tensor]:
    tensors = {"a": torch.arange(6.0).view(2, 3), "b": torch.ones(4), "c": torch.zeros(2, dtype=torch.int64)}
    save_file({"a": tensors["a"], "b": tensors["b"]}, folder / "model-00001-of-00002.safetensors")
    save_file({"c": tensors["c"]}, folder / "model-00002-of-00002.safetensors")
    first, second = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
    weight_map = {"a": first, "b": first, "c": second}
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": 56}, "weight_map": weight_map})
    )
    return tensors


def test_a_single_file_is_listed_without_reading_and_read_by_name(tmp_path: Path) -> None:
    tensors = {"w": torch.randn(3, 4), "half": torch.ones(5, dtype=torch.bfloat16), "none": torch.zeros(0, 7)}
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    with open_checkpoint(tmp_path) as checkpoint:
        assert checkpoint.metadata == {"format": "pt"}
        assert checkpoint.files == (tmp_path / "model.safetensors",)
        info = checkpoint.tensors["half"]
        assert (info.shape, info.dtype, info.bytes) == ((5,), torch.bfloat16, 10)
        for name, tensor in tensors.items():
            assert torch.equal(checkpoint.read(name), tensor)


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float16, torch.int8, torch.bool, torch.float8_e4m3fn, torch.float8_e5m2]
)
def test_every_stored_dtype_comes_back(tmp_path: Path, dtype: torch.dtype) -> None:
    tensor = torch.tensor([0.0, 1.0, 1.0]).to(dtype)
    save_file({"x": tensor}, tmp_path / "model.safetensors")
    with open_checkpoint(tmp_path) as checkpoint:
        assert checkpoint.read("x").dtype == dtype
        assert torch.equal(checkpoint.read("x").view(torch.uint8), tensor.view(torch.uint8))


def test_writing_to_a_tensor_never_reaches_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"w": torch.arange(100_000.0)}, path)
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    with open_checkpoint(tmp_path) as checkpoint:
        parameter = torch.nn.Parameter(checkpoint.read("w"))
        (parameter * 2).sum().backward()
        with torch.no_grad():
            parameter.sub_(parameter.grad)
    assert parameter[1] == -1.0  # valid after close
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before


def test_tensors_are_mapped_not_copied(tmp_path: Path) -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("memory is read from /proc, which this system has not")
    save_file({"w": torch.ones(16_000_000)}, tmp_path / "model.safetensors")

    def resident() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("RssAnon")).split()[1])

    with open_checkpoint(tmp_path) as checkpoint:
        checkpoint.read("w")
        before = resident()
        tensor = checkpoint.read("w")
        assert resident() - before < 4_000_000 < tensor.numel() * 4


def test_odd_places_in_the_file_are_read_aligned(tmp_path: Path) -> None:
    data = b"x" + struct.pack("<2f", 1, 2)
    header = {"b": entry("U8", [1], 0, 1), "a": entry("F32", [2], 1, 9)}
    for pad in (b"", b" ", b"  ", b"   "):
        write_raw(tmp_path / "model.safetensors", header, data, pad)
        with open_checkpoint(tmp_path) as checkpoint:
            tensor = checkpoint.read("a")
            assert tensor.tolist() == [1, 2] and tensor.data_ptr() % 4 == 0


def test_shards_are_read_through_the_index(tmp_path: Path) -> None:
    tensors = sharded(tmp_path)
    with open_checkpoint(tmp_path) as checkpoint:
        assert list(checkpoint.tensors) == ["a", "b", "c"] and len(checkpoint.files) == 2
        assert checkpoint.tensors["c"].file.name == "model-00002-of-00002.safetensors"
        for name, tensor in tensors.items():
            assert torch.equal(checkpoint.read(name), tensor)


def test_the_single_file_counts_before_the_index(tmp_path: Path) -> None:
    sharded(tmp_path)
    save_file({"only": torch.ones(1)}, tmp_path / "model.safetensors")
    with open_checkpoint(tmp_path) as checkpoint:
        assert list(checkpoint.tensors) == ["only"]


def test_a_tensor_the_index_puts_in_another_shard_is_an_error(tmp_path: Path) -> None:
    sharded(tmp_path)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(index.read_text().replace('"c": "model-00002', '"c": "model-00001'))
    with pytest.raises(WeightsError, match=r"model-00001.*does not hold tensor 'c'"):
        open_checkpoint(tmp_path)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    sharded(tmp_path)
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(WeightsError, match="model-00002-of-00002"):
        open_checkpoint(tmp_path)


def test_missing_file_and_empty_folders_say_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="no such folder"):
        open_checkpoint(tmp_path / "absent")
    with pytest.raises(
        WeightsError, match=r"model\.safetensors and model\.safetensors\.index\.json; the folder is empty"
    ):
        open_checkpoint(tmp_path)
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(WeightsError, match=r"the folder has 'notes\.txt'"):
        open_checkpoint(tmp_path)
    with pytest.raises(WeightsError, match="is a file; give the folder"):
        open_checkpoint(tmp_path / "notes.txt")


def test_pickles_alone_are_refused_with_both_ways_out(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(1)}, tmp_path / "pytorch_model.bin")
    with pytest.raises(WeightsError, match=r"can run any code.*allow_pickle=True.*save_pretrained.*safetensors"):
        open_checkpoint(tmp_path)


@pytest.mark.parametrize("cut", [0, 1, 7, 8, 9, 60, -1, -8])
def test_a_cut_file_is_detected(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"w": torch.arange(10.0), "v": torch.ones(3)}, path)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(WeightsError, match=r"model\.safetensors.*(too few|cut short)"):
        open_checkpoint(tmp_path)


def test_a_padded_file_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"w": torch.arange(10.0)}, path)
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(WeightsError, match="1 bytes at its end that belong to no tensor"):
        open_checkpoint(tmp_path)


def test_a_git_lfs_pointer_says_so(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\n")
    with pytest.raises(WeightsError, match="git lfs pull"):
        open_checkpoint(tmp_path)


def test_a_bool_tensor_of_other_bytes_is_refused_when_read(tmp_path: Path) -> None:
    write_raw(tmp_path / "model.safetensors", {"m": entry("BOOL", [2], 0, 2)}, b"\x01\x02")
    with open_checkpoint(tmp_path) as checkpoint, pytest.raises(WeightsError, match="BOOL"):
        checkpoint.read("m")


def test_unknown_names_and_closed_checkpoints_are_clear_errors(tmp_path: Path) -> None:
    save_file({"w": torch.ones(1)}, tmp_path / "model.safetensors")
    checkpoint = open_checkpoint(tmp_path)
    with pytest.raises(WeightsError, match="no tensor 'x'"):
        checkpoint.read("x")
    checkpoint.close()
    checkpoint.close()
    with pytest.raises(WeightsError, match="closed"):
        checkpoint.read("w")


def test_a_file_that_changes_while_open_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"w": torch.ones(4)}, path)
    with open_checkpoint(tmp_path) as checkpoint:
        path.unlink()
        with pytest.raises(WeightsError, match="'w' cannot be read"):
            checkpoint.read("w")
    save_file({"w": torch.ones(4)}, path)
    with open_checkpoint(tmp_path) as checkpoint:
        save_file({"w": torch.ones(2, 2)}, path)
        with pytest.raises(WeightsError, match="changed while"):
            checkpoint.read("w")


def test_no_file_stays_open(tmp_path: Path) -> None:
    if not Path("/proc/self/fd").exists():
        pytest.skip("open files are counted in /proc, which this system has not")
    save_file({"w": torch.ones(4)}, tmp_path / "model.safetensors")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with open_checkpoint(tmp_path) as checkpoint:
            checkpoint.read("w")
    assert len(os.listdir("/proc/self/fd")) == before


class TestLinks:
    def blob(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file({"w": torch.ones(2)}, path)
        return path

    def test_the_hub_cache_is_made_of_links_and_read(self, tmp_path: Path) -> None:
        repository = tmp_path / "hub" / "models--org--name"
        self.blob(repository / "blobs" / "abc")
        snapshot = repository / "snapshots" / "0123"
        snapshot.mkdir(parents=True)
        (snapshot / "model.safetensors").symlink_to("../../blobs/abc")
        with open_checkpoint(snapshot) as checkpoint:
            assert checkpoint.read("w").tolist() == [1, 1]

    def test_the_shared_blobs_of_the_hub_cache_are_read(self, tmp_path: Path) -> None:
        self.blob(tmp_path / "hub" / "blobs" / "ab" / "abcd")
        repository = tmp_path / "hub" / "models--org--name"
        (repository / "blobs").mkdir(parents=True)
        (repository / "blobs" / "abc").symlink_to("../../blobs/ab/abcd")
        snapshot = repository / "snapshots" / "0123"
        snapshot.mkdir(parents=True)
        (snapshot / "model.safetensors").symlink_to("../../blobs/abc")
        with open_checkpoint(snapshot) as checkpoint:
            assert checkpoint.read("w").tolist() == [1, 1]

    def test_a_link_out_of_a_snapshot_is_refused(self, tmp_path: Path) -> None:
        self.blob(tmp_path / "secret")
        snapshot = tmp_path / "hub" / "models--org--name" / "snapshots" / "0123"
        snapshot.mkdir(parents=True)
        (snapshot / "model.safetensors").symlink_to(tmp_path / "secret")
        with pytest.raises(WeightsError, match="leads out"):
            open_checkpoint(snapshot)

    def test_a_link_within_the_folder_and_to_the_folder_is_read(self, tmp_path: Path) -> None:
        self.blob(tmp_path / "model" / "real.safetensors")
        (tmp_path / "model" / "model.safetensors").symlink_to("real.safetensors")
        (tmp_path / "alias").symlink_to("model")
        with open_checkpoint(tmp_path / "alias") as checkpoint:
            assert checkpoint.read("w").tolist() == [1, 1]


def test_the_real_model_is_listed_and_read_in_a_moment(minilm: Path) -> None:
    with open_checkpoint(minilm) as checkpoint:
        assert len(checkpoint) > 100
        embedding = next(name for name in checkpoint.tensors if name.endswith("word_embeddings.weight"))
        assert tuple(checkpoint.read(embedding).shape) == (30522, 384)
    assert read_file_header(minilm / "model.safetensors").tensors.keys() == checkpoint.tensors.keys()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the mappings of a process are listed on Linux")
def test_a_passing_tensor_takes_its_pages_of_the_file_with_it(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    save_file({"a": torch.ones(64, 64), "b": torch.zeros(8)}, file)

    def mappings() -> int:
        return sum(str(file) in line for line in Path("/proc/self/maps").read_text().splitlines())

    with open_checkpoint(tmp_path) as checkpoint:
        passing = checkpoint.read("a", transient=True)
        assert passing.sum() == 64 * 64 and mappings() == 1
        del passing
        assert mappings() == 0
        stays = checkpoint.read("b")
        assert checkpoint.read("b").data_ptr() == stays.data_ptr() and mappings() == 1


def test_the_bytes_of_a_tensor_are_read_into_another(tmp_path: Path) -> None:
    stored = {"a": torch.randn(5, 3).bfloat16(), "b": torch.randn(7), "none": torch.empty(0, 2)}
    save_file(stored, tmp_path / "model.safetensors")
    whole = torch.zeros(9, 3, dtype=torch.bfloat16)
    with open_checkpoint(tmp_path) as checkpoint:
        checkpoint.read_into("a", whole[2:7])
        assert whole[2:7].equal(stored["a"]) and not whole[:2].any() and not whole[7:].any()
        for name in ("b", "none"):
            target = torch.zeros_like(stored[name])
            checkpoint.read_into(name, target)
            assert target.equal(stored[name])
    with pytest.raises(WeightsError, match="closed"):
        checkpoint.read_into("b", torch.zeros(7))


def test_another_file_in_its_place_is_not_read_into_a_tensor(tmp_path: Path) -> None:
    path, target = tmp_path / "model.safetensors", torch.zeros(4)
    save_file({"w": torch.ones(4)}, path)
    with open_checkpoint(tmp_path) as checkpoint:
        path.unlink()
        with pytest.raises(WeightsError, match="cannot be opened"):
            checkpoint.read_into("w", target)
    save_file({"w": torch.ones(4)}, path)
    with open_checkpoint(tmp_path) as checkpoint:
        path.unlink()
        save_file({"w": torch.full((4,), 2.0)}, path)  # the same header
        with pytest.raises(WeightsError, match="changed while"):
            checkpoint.read_into("w", target)
    assert not target.any()
    with open_checkpoint(tmp_path) as checkpoint:
        checkpoint.read_into("w", torch.zeros(4))
        os.truncate(path, path.stat().st_size - 4)  # after it was opened for reading
        with pytest.raises(WeightsError, match="changed while"):
            checkpoint.read_into("w", target)


ON_LINUX = pytest.mark.skipif(not read.SUPPORTED, reason="tensors are mapped side by side on 64-bit Linux alone")
ROW = 2**17  # numbers: whole pages, wherever a page has up to 256 kB
ROWS = {"k": 1, "o": 4, "q": 4, "v": 1}


def write_parts(path: Path, names: str, dtype: torch.dtype, header_bytes: int = 1_000) -> torch.Tensor:
    """A file with these tensors, whose header has so many bytes. Returns: q, k and v of them, end to end."""
    tensors = {name: torch.randn(ROWS[name], ROW).to(dtype) for name in names}
    header: dict[str, Any] = {}
    end = 0
    for name, x in tensors.items():
        header[name] = entry(DTYPE_NAMES[dtype], list(x.shape), end, end + x.nbytes)
        end += x.nbytes
    data = b"".join(x.view(torch.uint8).numpy().tobytes() for x in tensors.values())
    write_raw(path, header, data, b" " * (header_bytes - len(json.dumps(header))))
    return torch.cat([tensors[name] for name in "qkv" if name in tensors]).flatten()


@ON_LINUX
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_tensors_are_mapped_side_by_side(tmp_path: Path, dtype: torch.dtype) -> None:
    expected = write_parts(tmp_path / "model.safetensors", "koqv", dtype)
    for _ in range(2):
        with open_checkpoint(tmp_path) as checkpoint:
            fused = checkpoint.read_together(["q", "k", "v"])
        assert fused is not None and fused.dtype == dtype and fused.equal(expected)
        fused.zero_()  # memory, not the file


@ON_LINUX
def test_tensors_of_several_shards_are_mapped_side_by_side(tmp_path: Path) -> None:
    shards = {"a.safetensors": "ko", "b.safetensors": "qv"}
    weight_map = {name: shard for shard, names in shards.items() for name in names}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    first = write_parts(tmp_path / "a.safetensors", shards["a.safetensors"], torch.float32)
    others = write_parts(tmp_path / "b.safetensors", shards["b.safetensors"], torch.float32)
    query, value = others.split([ROWS["q"] * ROW, ROWS["v"] * ROW])
    with open_checkpoint(tmp_path) as checkpoint:
        fused = checkpoint.read_together(["q", "k", "v"])
        assert fused is not None and fused.equal(torch.cat([query, first, value]))
    write_parts(tmp_path / "b.safetensors", shards["b.safetensors"], torch.float32, 1_008)
    with open_checkpoint(tmp_path) as checkpoint:
        assert checkpoint.read_together(["q", "k", "v"]) is None  # k begins elsewhere in its page than q ends


@ON_LINUX
def test_a_mapping_side_by_side_goes_with_its_tensor(tmp_path: Path) -> None:
    write_parts(tmp_path / "model.safetensors", "koqv", torch.float32)

    def mappings() -> int:
        return Path("/proc/self/maps").read_text().count(str(tmp_path))

    with open_checkpoint(tmp_path) as checkpoint:
        fused = checkpoint.read_together(["q", "k", "v"])
    assert fused is not None and mappings() == len("qkv")
    rows = fused[5:7]
    del fused
    assert rows.isfinite().all() and mappings() == len("qkv")
    del rows
    assert mappings() == 0


@pytest.mark.parametrize(
    ("names", "dtype", "header_bytes"),
    [
        ("kqv", torch.uint8, 1_000),  # too small to be worth it
        ("koqv", torch.float32, 1_001),  # numbers that begin between two addresses of their size
    ],
)
def test_what_cannot_be_mapped_side_by_side(tmp_path: Path, names: str, dtype: torch.dtype, header_bytes: int) -> None:
    write_parts(tmp_path / "model.safetensors", names, dtype, header_bytes)
    with open_checkpoint(tmp_path) as checkpoint:
        assert checkpoint.read_together(["q", "k", "v"]) is None
