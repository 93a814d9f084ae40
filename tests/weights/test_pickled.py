"""Pickled checkpoints: honest ones are converted in a child process, others do nothing and get one clear line."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.errors import WeightsError
from glassformer.weights import pickled
from glassformer.weights.pickled import convert
from glassformer.weights.read import open_checkpoint


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_both_formats_of_torch_are_read(tmp_path: Path, zipped: bool) -> None:
    weight = torch.randn(30, 20)
    state = {
        "embed": weight,
        "head": weight,
        "turned": weight.t(),
        "slice": weight[3:5],
        "half": torch.nn.Parameter(torch.ones(3, dtype=torch.bfloat16)),
        "none": torch.zeros(0, 4),
        "count": torch.tensor(7),
    }
    torch.save(state, tmp_path / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
    with open_checkpoint(tmp_path, allow_pickle=True) as checkpoint:
        assert set(checkpoint.tensors) == set(state)
        assert checkpoint.files == (tmp_path / "pytorch_model.bin",)
        assert checkpoint.tensors["head"].file == tmp_path / "pytorch_model.bin"
        got = {name: checkpoint.read(name) for name in state}
    assert all(torch.equal(got[name], tensor) and got[name].dtype == tensor.dtype for name, tensor in state.items())


def test_the_converted_copy_is_gone_after_closing_and_when_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spare = tmp_path / "spare"
    spare.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spare))
    model = tmp_path / "model"
    model.mkdir()
    torch.save({"w": torch.ones(3)}, model / "weights.pt")
    checkpoint = open_checkpoint(model, allow_pickle=True)
    assert len(list(spare.iterdir())) == 1
    weight = checkpoint.read("w")
    checkpoint.close()
    assert weight.sum() == 3 and not list(spare.iterdir())
    with pytest.warns(ResourceWarning):
        forgotten = open_checkpoint(model, allow_pickle=True)
        del forgotten
    assert not list(spare.iterdir())
    (model / "weights.pt").write_bytes(b"nonsense")
    with pytest.raises(WeightsError, match="not a file that torch"):
        open_checkpoint(model, allow_pickle=True)
    assert not list(spare.iterdir())


def test_sharded_pickles_and_nested_states(tmp_path: Path) -> None:
    torch.save({"model_state_dict": {"a": torch.ones(2)}, "step": 3}, tmp_path / "pytorch_model-1.bin")
    torch.save({"b": torch.zeros(2)}, tmp_path / "pytorch_model-2.bin")
    (tmp_path / "pytorch_model.bin.index.json").write_text(
        '{"weight_map": {"a": "pytorch_model-1.bin", "b": "pytorch_model-2.bin"}}'
    )
    with open_checkpoint(tmp_path, allow_pickle=True) as checkpoint:
        assert checkpoint.read("a").sum() == 2 and checkpoint.read("b").sum() == 0


def test_safetensors_come_first_and_start_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from glassformer.weights.write import write_checkpoint

    write_checkpoint(tmp_path, {"w": torch.ones(1)})
    (tmp_path / "pytorch_model.bin").write_bytes(b"never read")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("a process was started"))
    with open_checkpoint(tmp_path, allow_pickle=True) as checkpoint:
        assert list(checkpoint.tensors) == ["w"]


def test_several_pickles_are_ambiguous(tmp_path: Path) -> None:
    for name in ("a.pt", "b.pt"):
        torch.save({"w": torch.ones(1)}, tmp_path / name)
    with pytest.raises(WeightsError, match=r"not clear.*'a\.pt', 'b\.pt'"):
        open_checkpoint(tmp_path, allow_pickle=True)


def test_the_child_sees_no_secret_and_works_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    monkeypatch.chdir(tmp_path)
    # Modules a folder could bring along to be imported in place of the real ones.
    for name in ("torch.py", "json.py", "glassformer.py", "sitecustomize.py"):
        (tmp_path / name).write_text("raise SystemExit('imported from the current folder')")
    environment: dict[str, str] = {}
    run = subprocess.run

    def spy(*arguments: Any, **options: Any) -> Any:
        environment.update(options["env"])
        return run(*arguments, **options)

    monkeypatch.setattr(subprocess, "run", spy)
    torch.save({"w": torch.ones(1)}, "weights.pt")
    with open_checkpoint(Path(), allow_pickle=True) as checkpoint:
        assert checkpoint.read("w").sum() == 1
    assert environment and "HF_TOKEN" not in environment and "PYTHONPATH" not in environment


def test_a_child_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(1)}, tmp_path / "weights.pt")
    with pytest.raises(WeightsError, match=r"weights\.pt: was not read within"):
        convert(tmp_path / "weights.pt", tmp_path / "out", timeout_s=0.01)


def test_a_child_stopped_by_a_signal_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.save({"w": torch.ones(1)}, tmp_path / "weights.pt")
    monkeypatch.setattr(pickled, "_BOOTSTRAP", "import os; os.kill(os.getpid(), 9)")
    with pytest.raises(WeightsError, match=r"weights\.pt: .*stopped by signal 9") as caught:
        convert(tmp_path / "weights.pt", tmp_path / "out")
    assert "\n" not in str(caught.value)


ACTS = [
    "__import__('socket').socket()",
    "__import__('subprocess').run(['true'])",
    "__import__('os').system('true')",
    "__import__('os').fork()",
    "__import__('os').posix_spawn('/bin/true', ['true'], {})",
    "__import__('os').execv('/bin/true', ['true'])",
    "open(SOURCE + '.stolen', 'w')",
    "open(SOURCE, 'r+')",
    "__import__('os').open(SOURCE, 1)",
    "__import__('os').remove(SOURCE)",
    "__import__('os').rename(SOURCE, SOURCE + '2')",
    "__import__('os').symlink(SOURCE, SOURCE + '2')",
    "__import__('os').mkdir(SOURCE + '2')",
    "__import__('shutil').rmtree('.')",
    "__import__('ctypes').CDLL(None)",
    "bytearray(20_000_000_000)",
]


@pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded on Linux alone")
def test_the_fence_holds_even_if_the_unpickler_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a pickle could do if it got past `weights_only`: here each act is simply done, behind the fence."""
    source = tmp_path / "weights.pt"
    torch.save({"w": torch.ones(1)}, source)
    before = source.read_bytes()
    attempt = (
        "import glassformer.weights.pickled as child\n"
        "SOURCE = sys.argv[1]\n"
        "def attempt(source, target):\n"
        f"    for act in {ACTS!r}:\n"
        "        try: eval(act)\n"
        "        except (PermissionError, MemoryError): continue\n"
        "        raise child.WeightsError('NOT STOPPED: ' + act)\n"
        "    raise child.WeightsError('all stopped')\n"
        "child._convert_in_child = attempt\n"
        "child.main(*sys.argv[1:])\n"
    )
    monkeypatch.setattr(pickled, "_BOOTSTRAP", pickled._BOOTSTRAP.replace("main(*sys.argv[1:])", "\n" + attempt))
    with pytest.raises(WeightsError, match=r"weights\.pt: all stopped"):
        convert(source, tmp_path / "out")
    assert source.read_bytes() == before and sorted(os.listdir(tmp_path)) == ["weights.pt"]


def test_a_swelling_archive_is_refused_before_it_is_read(tmp_path: Path) -> None:
    bomb = tmp_path / "weights.pt"
    torch.save({"w": torch.zeros(10_000_000)}, tmp_path / "plain.pt")
    with (
        zipfile.ZipFile(tmp_path / "plain.pt") as plain,
        zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for name in plain.namelist():
            packed.writestr(name, plain.read(name))
    assert bomb.stat().st_size < 100_000
    with pytest.raises(WeightsError, match=r"declares 40000000 bytes and stores \d+: it would swell"):
        convert(bomb, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_mildly_packed_archive_is_still_read(tmp_path: Path) -> None:
    torch.save({"w": torch.arange(1000.0)}, tmp_path / "plain.pt")
    packed_path, deflated = tmp_path / "packed.pt", zipfile.ZIP_DEFLATED
    with (
        zipfile.ZipFile(tmp_path / "plain.pt") as plain,
        zipfile.ZipFile(packed_path, "w", deflated) as packed,
    ):
        for name in plain.namelist():
            packed.writestr(name, plain.read(name))
    (tmp_path / "plain.pt").unlink()
    with open_checkpoint(tmp_path, allow_pickle=True) as checkpoint:
        assert torch.equal(checkpoint.read("w"), torch.arange(1000.0))
