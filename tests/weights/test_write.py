"""Writing checkpoints: files that other libraries read, and a previous checkpoint that survives every failure."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save

from glassformer.errors import ConfigError, WeightsError
from glassformer.files import atomic
from glassformer.files.atomic import atomic_file, write_json
from glassformer.weights.header import DTYPES
from glassformer.weights.read import open_checkpoint
from glassformer.weights.write import write_checkpoint, write_tensors


def everything() -> dict[str, torch.Tensor]:
    tensors = {f"x.{name}": torch.tensor([[0.0, 1.0], [1.0, 0.0]]).to(dtype) for name, dtype in DTYPES.items()}
    return tensors | {"scalar": torch.tensor(3.5), "none": torch.zeros(0, 3), 'odd "name" ü\n': torch.ones(1)}


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_file_is_byte_for_byte_that_of_the_safetensors_library() -> None:
    stream = io.BytesIO()
    write_tensors(stream, everything(), {"format": "pt"})
    assert stream.getvalue() == save(everything(), {"format": "pt"})


def test_a_checkpoint_comes_back_byte_equal(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "new" / "folder", everything(), metadata={"from": "a test"})
    assert listing(tmp_path / "new" / "folder") == ["model.safetensors"]
    with open_checkpoint(tmp_path / "new" / "folder") as checkpoint:
        assert checkpoint.metadata == {"format": "pt", "from": "a test"}
        assert set(checkpoint.tensors) == set(everything())
        for name, tensor in everything().items():
            got = checkpoint.read(name)
            assert got.dtype == tensor.dtype and got.shape == tensor.shape
            assert torch.equal(got.reshape(-1).view(torch.uint8), tensor.reshape(-1).view(torch.uint8))


@given(
    shapes=st.lists(st.lists(st.integers(0, 4), max_size=4), min_size=1, max_size=6),
    limit=st.integers(1, 400),
)
@settings(max_examples=40, deadline=None)
def test_any_split_into_shards_reads_back(tmp_path_factory: Any, shapes: list[list[int]], limit: int) -> None:
    folder = tmp_path_factory.mktemp("shards")
    tensors = {f"t{number}": torch.randn(shape) for number, shape in enumerate(shapes)}
    write_checkpoint(folder, tensors, max_shard_bytes=limit)
    with open_checkpoint(folder) as checkpoint:
        assert set(checkpoint.tensors) == set(tensors)
        assert all(torch.equal(checkpoint.read(name), tensor) for name, tensor in tensors.items())
        by_file: dict[Path, list[int]] = {}
        for info in checkpoint.tensors.values():
            by_file.setdefault(info.file, []).append(info.bytes)
    assert all(sum(sizes) <= limit or sum(map(bool, sizes)) == 1 for sizes in by_file.values())


def test_views_and_shared_memory_are_written_whole(tmp_path: Path) -> None:
    base = torch.arange(12.0).view(3, 4)
    tensors = {
        "base": base,
        "tied": base,
        "turned": base.t(),
        "row": base[1],
        "wide": torch.ones(1).expand(5),
        "one": torch.ones(()).expand(1),
    }
    write_checkpoint(tmp_path, {name: torch.nn.Parameter(tensor) for name, tensor in tensors.items()})
    loaded = load_file(tmp_path / "model.safetensors")
    assert all(torch.equal(loaded[name], tensor) for name, tensor in tensors.items())


def test_shards_have_the_names_and_index_others_expect(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, {name: torch.ones(10) for name in "abc"}, max_shard_bytes=80)
    assert listing(tmp_path) == [
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
    ]
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == 120
    assert index["weight_map"]["c"] == "model-00002-of-00002.safetensors"


def test_one_layout_replaces_the_other_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    for number, limit in enumerate((80, 80, 1000, 1000, 40, 1000)):
        tensors = {name: torch.full((10,), float(number)) for name in "abc"}
        write_checkpoint(tmp_path, tensors, max_shard_bytes=limit)
        with open_checkpoint(tmp_path) as checkpoint:
            assert all(torch.equal(checkpoint.read(name), tensors[name]) for name in "abc")
            files = {path.name for path in checkpoint.files}
        index = set() if limit == 1000 else {"model.safetensors.index.json"}
        assert set(listing(tmp_path)) == files | index | {"config.json"}


def test_a_loaded_model_keeps_its_numbers_when_its_folder_is_saved_over(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, {"w": torch.ones(50_000)})
    with open_checkpoint(tmp_path) as checkpoint:
        weight = checkpoint.read("w")
    write_checkpoint(tmp_path, {"w": weight * 2})
    assert weight.sum() == 50_000
    write_checkpoint(tmp_path, {"w": weight})  # onto itself, as far as a caller can tell
    with open_checkpoint(tmp_path) as checkpoint:
        assert checkpoint.read("w").sum() == 50_000


@pytest.mark.parametrize(
    ("tensor", "reason"),
    [
        (torch.ones(2, dtype=torch.complex64), "complex64"),
        (torch.ones(2).to_sparse(), "to_dense"),
        (torch.ones(2, device="meta"), "meta device"),
    ],
)
def test_what_the_format_cannot_hold_is_refused_before_writing(
    tmp_path: Path, tensor: torch.Tensor, reason: str
) -> None:
    with pytest.raises(WeightsError, match=f"'odd'.*{reason}"):
        write_checkpoint(tmp_path / "new", {"fine": torch.ones(1), "odd": tensor})
    assert not (tmp_path / "new").exists()


def test_no_tensors_reserved_names_and_bad_limits_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="at least one tensor"):
        write_checkpoint(tmp_path, {})
    with pytest.raises(WeightsError, match="__metadata__"):
        write_checkpoint(tmp_path, {"__metadata__": torch.ones(1)})
    with pytest.raises(WeightsError, match="not valid Unicode"):
        write_checkpoint(tmp_path, {"\ud800": torch.ones(1)})
    with pytest.raises(WeightsError, match="texts to texts"):
        write_checkpoint(tmp_path, {"a": torch.ones(1)}, metadata={"step": 3})  # type: ignore[dict-item]
    assert not listing(tmp_path)
    with pytest.raises(WeightsError, match="max_shard_bytes"):
        write_checkpoint(tmp_path, {"a": torch.ones(1)}, max_shard_bytes=0)


class TestFailures:
    """At every step the system may refuse: the old checkpoint loads, and nothing lies next to it."""

    @pytest.mark.parametrize("limits", [(1000, 1000), (1000, 80), (80, 80), (80, 1000)])
    def test_a_failure_at_any_step_keeps_the_old_checkpoint(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int]
    ) -> None:
        old = {name: torch.zeros(10) for name in "abc"}
        new = {name: torch.ones(10) for name in "abc"}
        for step in range(100):
            folder = tmp_path / str(step)
            write_checkpoint(folder, old, max_shard_bytes=limits[0])
            before = {path.name: path.read_bytes() for path in folder.iterdir()}
            faults = Faults(step)
            with monkeypatch.context() as patch:
                patch.setattr(atomic, "open", faults.open, raising=False)
                patch.setattr(os, "replace", faults.wrap(os.replace))
                patch.setattr(os, "fsync", faults.wrap(os.fsync))
                try:
                    write_checkpoint(folder, new, max_shard_bytes=limits[1])
                except WeightsError as error:
                    assert "cannot be written: injected" in str(error)
                    committed = False
                else:
                    committed = True
            if not faults.fired:
                assert committed and step > 5
                break
            with open_checkpoint(folder) as checkpoint:  # whole: all old, or (after the rename) all new
                sums = {float(checkpoint.read(name).sum()) for name in "abc"}
            assert sums in ({0.0}, {10.0})
            assert not [name for name in listing(folder) if name.endswith(".partial")]
            if sums == {0.0}:
                assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
        else:
            pytest.fail("the save never ran through")

    @pytest.mark.skipif(sys.platform == "win32", reason="file size limits are POSIX")
    def test_a_full_disk_keeps_the_old_checkpoint(self, tmp_path: Path) -> None:
        write_checkpoint(tmp_path, {"w": torch.ones(10)})
        script = (
            "import resource, sys, torch\n"
            "from pathlib import Path\n"
            "from glassformer.errors import WeightsError\n"
            "from glassformer.weights.write import write_checkpoint\n"
            "sys.dont_write_bytecode = True\n"  # a module that is cut short would stay cut
            "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
            "try: write_checkpoint(Path(sys.argv[1]), {'w': torch.ones(1_000_000)})\n"
            "except WeightsError as error: print(error)\n"
        )
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(folder for folder in sys.path if folder)}
        done = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path)],
            capture_output=True,
            text=True,
            env=environment,
            check=True,
        )
        assert "cannot be written: File too large; no file is left half-written" in done.stdout
        assert listing(tmp_path) == ["model.safetensors"]
        with open_checkpoint(tmp_path) as checkpoint:
            assert checkpoint.read("w").sum() == 10

    def test_a_folder_that_cannot_be_made_is_a_clear_error(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("in the way")
        with pytest.raises(WeightsError, match="cannot be written"):
            write_checkpoint(tmp_path / "file", {"w": torch.ones(1)})
        with pytest.raises(WeightsError, match="cannot be written"):
            write_json(tmp_path / "file" / "config.json", {})

    def test_a_read_only_folder_is_a_clear_error(self, tmp_path: Path) -> None:
        if not hasattr(os, "geteuid") or os.geteuid() == 0:
            pytest.skip("permissions do not bind the superuser")
        tmp_path.chmod(0o500)
        try:
            with pytest.raises(WeightsError, match="cannot be written: Permission denied"):
                write_checkpoint(tmp_path, {"w": torch.ones(1)})
        finally:
            tmp_path.chmod(0o700)


class Faults:
    """Lets `step` calls through, and fails the next one as a broken disk would."""

    def __init__(self, step: int) -> None:
        self.left = step
        self.fired = False

    def check(self) -> None:
        self.left -= 1
        if self.left == -1:
            self.fired = True
            raise OSError(5, "injected")

    def wrap(self, function: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            self.check()
            return function(*arguments, **options)

        return call

    def open(self, *arguments: Any) -> Any:
        self.check()
        stream = open(*arguments)  # noqa: SIM115 - the caller closes it
        faults = self

        class Stream(io.BufferedWriter):
            def write(self, data: Any) -> int:
                faults.check()
                return super().write(data)

        return Stream(stream.detach())


def test_an_interrupted_file_leaves_the_old_one_and_no_part(tmp_path: Path) -> None:
    target = tmp_path / "notes"
    target.write_text("old")
    with pytest.raises(KeyboardInterrupt), atomic_file(target) as stream:
        stream.write(b"half")
        raise KeyboardInterrupt
    assert target.read_text() == "old" and listing(tmp_path) == ["notes"]


def test_json_is_written_in_one_step_and_strict(tmp_path: Path) -> None:
    write_json(tmp_path / "config.json", {"hidden_size": 8, "name": "ü"})
    assert (tmp_path / "config.json").read_text("utf-8") == '{\n  "hidden_size": 8,\n  "name": "ü"\n}\n'
    for bad in ({"x": float("nan")}, {"x": {1, 2}}):
        with pytest.raises(ConfigError, match=r"config\.json: cannot be written as JSON"):
            write_json(tmp_path / "config.json", bad)
    assert json.loads((tmp_path / "config.json").read_text("utf-8"))["name"] == "ü"
    assert listing(tmp_path) == ["config.json"]


def test_new_files_can_be_read_by_those_the_user_lets_read(tmp_path: Path) -> None:
    if os.name != "posix":
        pytest.skip("file modes are POSIX")
    before = os.umask(0o022)
    try:
        write_checkpoint(tmp_path, {"w": torch.ones(1)})
    finally:
        os.umask(before)
    assert (tmp_path / "model.safetensors").stat().st_mode & 0o777 == 0o644
