"""Where the kernels cannot be had there is one warning, and everything works as before."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from glassformer import Model
from glassformer.engine import native
from glassformer.models import FAMILIES

pytestmark = pytest.mark.skipif(not native.available(), reason="needs numba and an x86 processor")


@pytest.fixture
def cold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A process that has not asked for the kernels, with an empty cache folder."""
    monkeypatch.setattr(native, "_kernel", [])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    yield tmp_path / "glassformer"


def generated(prepare: bool) -> torch.Tensor:
    torch.manual_seed(0)
    model = Model.from_config(FAMILIES["llama"].tiny, task="text-generation").eval()
    if prepare:
        model.prepare("fp32")
    return model.generate(torch.tensor([[5, 6, 7]]), max_new_tokens=8, min_new_tokens=8)


def expect_a_warning(why: str) -> None:
    """One warning, for any number of calls, and the same tokens."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tokens = [generated(prepare=True) for _ in range(2)]
    ours = [str(w.message) for w in caught if "the compiled kernels" in str(w.message)]
    assert len(ours) == 1 and why in ours[0]
    assert torch.equal(tokens[0], tokens[1]) and torch.equal(tokens[0], generated(prepare=False))


def test_a_cold_cache_is_filled_and_a_warm_one_read(cold: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert native.kernel() is not None
    (file,) = cold.iterdir()
    assert file.stat().st_size > 10_000
    native._kernel.clear()
    monkeypatch.setattr(native, "_compile", None)
    assert native.kernel() is not None


def test_a_folder_that_cannot_be_written(cold: Path) -> None:
    cold.write_text("no folder")
    expect_a_warning("File exists")


def test_a_compiler_that_fails(cold: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "command", lambda *given: [sys.executable, "-c", "raise ImportError('half a numba')"])
    expect_a_warning("half a numba")


def test_a_compiler_that_crashes(cold: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "command", lambda *given: [sys.executable, "-c", "import os; os.abort()"])
    expect_a_warning("exit code")


def test_a_damaged_file(cold: Path) -> None:
    cold.mkdir()
    (cold / f"kernels-{native._digest()}").write_bytes(b"glassformer kernels\n" + bytes(1_000))
    expect_a_warning("damaged")


def test_a_file_of_somebody_else(cold: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cold.mkdir()
    (cold / f"kernels-{native._digest()}").write_bytes(b"machine code")
    if os.getuid() == 0:
        os.chown(cold / f"kernels-{native._digest()}", 12345, 12345)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 12345)
    expect_a_warning("somebody else")


def test_without_numba(cold: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_installed", lambda package: False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tokens = generated(prepare=True)
    assert torch.equal(tokens, generated(prepare=False))
    assert not cold.exists()


def test_on_another_processor(cold: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert native.kernel() is None


def test_with_another_openmp(cold: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_openmp", lambda: None)
    assert native.kernel() is None


def test_running_them_needs_no_numba() -> None:
    program = (
        "import sys, torch; from glassformer.engine import native; "
        "assert native.kernel() is not None; sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], env=os.environ).returncode == 0
