"""Where the kernels cannot be had there is one warning, and everything works as before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
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
    assert file.stat().st_size > 10_000 and not file.stat().st_mode & 0o077
    native._kernel.clear()
    monkeypatch.setattr(native, "_compile", None)
    assert native.kernel() is not None


@pytest.mark.parametrize("why", ["a file is there", "read-only"])
def test_a_folder_that_cannot_be_written(cold: Path, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels are compiled for this process, in a folder of its own, and not for nothing."""
    if why == "read-only":
        cold.mkdir()
        allowed = os.access  # root may write everywhere
        monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != cold and allowed(path, mode))
    else:
        cold.write_text("no folder")
    tried: list[Path] = []

    def compile_nothing(path: Path) -> None:
        tried.append(path)
        raise OSError("this test does not wait for it")

    monkeypatch.setattr(native, "_compile", compile_nothing)
    with pytest.warns(UserWarning) as caught:
        assert native.kernel() is None
    assert [path.parent == cold for path in tried] == [False]
    assert f"{cold}: cannot be written; set XDG_CACHE_HOME" in str(caught[0].message)


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


@pytest.fixture(scope="module")
def compiled() -> bytes:
    """The machine code that this machine has, compiled now if it has none."""
    path = native._cache_folder() / f"kernels-{native._digest()}"
    if not path.exists():
        native._compile(path)
    return path.read_bytes()


@pytest.fixture
def instant(compiled: bytes, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Compiling takes no time; where it was compiled to."""
    places: list[Path] = []

    def compile_now(path: Path) -> None:
        places.append(path)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_bytes(compiled)

    monkeypatch.setattr(native, "_compile", compile_now)
    return places


def link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "writable file": (lambda path: path.chmod(0o666), "others can write to it"),
    "file of a group": (lambda path: path.chmod(0o620), "others can write to it"),
    "writable folder": (lambda path: path.parent.chmod(0o777), "others can write to it"),
    "link": (link, "is a link"),
    "link to nothing": (lambda path: (path.unlink(), path.symlink_to("nothing")), "is a link"),
    "pipe": (pipe, "is not a regular file"),
    "folder": (lambda path: (path.unlink(), path.mkdir(0o700)), "is not a regular file"),
    "another's file": (lambda path: os.chown(path, 12345, 12345), "belongs to another user"),
    "another's folder": (lambda path: os.chown(path.parent, 12345, 12345), "belongs to another user"),
}


@pytest.mark.parametrize("harm", HOSTILE)
def test_what_others_may_have_written_is_not_run(
    cold: Path, compiled: bytes, instant: list[Path], monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    """It is neither loaded nor replaced: the kernels are compiled in a private folder, which is removed."""
    cold.mkdir(mode=0o700)
    path = cold / f"kernels-{native._digest()}"
    path.touch(mode=0o600)
    path.write_bytes(compiled)
    change, message = HOSTILE[harm]
    if harm.startswith("another's") and os.getuid() != 0:
        monkeypatch.setattr(os, "getuid", lambda: 12345)
    else:
        change(path)
    before = sorted(cold.iterdir())
    with pytest.warns(UserWarning, match=message):
        assert native.kernel() is not None
    assert len(instant) == 1 and instant[0].parent != cold and not instant[0].parent.exists()
    assert sorted(cold.iterdir()) == before


def test_a_private_file_is_run(cold: Path, compiled: bytes, instant: list[Path]) -> None:
    cold.mkdir(mode=0o755)
    path = cold / f"kernels-{native._digest()}"
    path.touch(mode=0o644)
    path.write_bytes(compiled)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert native.kernel() is not None
    assert not instant


def test_a_fork_while_another_thread_compiles(cold: Path, instant: list[Path]) -> None:
    """The child does not wait for a thread that it does not have."""
    held = native._lock
    with held:
        child = os.fork()
        if not child:
            os._exit(0 if native._lock is not held and native.kernel() is not None else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


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


ASK = "import sys; from glassformer.engine import native; sys.exit(native.kernel() is None)"
COUNTED = """
import os, sys, time
from pathlib import Path
from glassformer.engine import native
def compile_slowly(path):
    (path.parent.parent / f"compiled-{os.getpid()}").touch()
    time.sleep(0.5)
    path.touch(mode=0o600)
    path.write_bytes(Path(sys.argv[1]).read_bytes())
native._compile = compile_slowly
sys.exit(native.kernel() is None)
"""


@pytest.mark.parametrize("count", [3, pytest.param(8, marks=pytest.mark.soak)])
def test_of_cold_starts_at_once_one_compiles(tmp_path: Path, compiled: bytes, count: int) -> None:
    """The others wait for its file, and load it."""
    (tmp_path / "code").write_bytes(compiled)
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-W", "error", "-c", COUNTED, str(tmp_path / "code")]
    started = [subprocess.Popen(command, env=environment) for _ in range(count)]
    assert [each.wait(timeout=240) for each in started] == [0] * count
    assert len(list(tmp_path.glob("compiled-*"))) == 1


@pytest.mark.parametrize("whom", ["compiler", "both"])
def test_a_compiler_killed_midway(tmp_path: Path, whom: str) -> None:
    """Nothing of it stays: the next start compiles, or would; the lock is free."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    first = subprocess.Popen([sys.executable, "-c", ASK], env=environment, stderr=subprocess.PIPE, text=True)
    children = Path(f"/proc/{first.pid}/task/{first.pid}/children")
    while not (running := children.read_text().split()):
        assert first.poll() is None, "it ended without a compiler"
        time.sleep(0.01)
    if whom == "both":
        first.kill()
    os.kill(int(running[0]), signal.SIGKILL)
    _, said = first.communicate(timeout=120)
    assert whom == "both" or ("exit code -9" in said and first.returncode == 1)
    folder = tmp_path / "glassformer"
    assert list(folder.iterdir()) == []
    with native._one_at_a_time(folder):
        pass
