"""Locks of folders: one process at a time, and none that is gone, by `flock` or by the name of a file."""

from __future__ import annotations

import errno
import os
import re
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from glassformer.errors import ConfigError
from glassformer.files import lock as module
from glassformer.files.lock import FolderLock, holder_lives
from tests.training.kill import ended, fork, in_child


@pytest.fixture(params=["flock", "renamed"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """As on a file system with locks, and on one without."""
    if request.param == "renamed":

        def none_here(handle: int, operation: int) -> None:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

        monkeypatch.setattr(module.fcntl, "flock", none_here)
    return str(request.param)


@pytest.fixture(autouse=True)
def short_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_POLL_SECONDS", 0.002)


def holding(path: Path) -> tuple[int, Callable[[], None]]:
    """A child that holds the lock, and how to let it go on."""
    ready, begin = os.pipe()
    done, finish = os.pipe()

    def work() -> None:
        with FolderLock(path):
            os.write(begin, b"!")
            os.read(done, 1)

    child = fork(work)
    os.read(ready, 1)

    def go_on() -> None:
        os.write(finish, b"!")
        for handle in (ready, begin, done, finish):
            os.close(handle)

    return child, go_on


def test_a_second_process_is_told_who_holds_it(tmp_path: Path, kind: str) -> None:
    child, go_on = holding(tmp_path / "lock")
    with pytest.raises(ConfigError) as told, FolderLock(tmp_path / "lock"):
        pass
    assert f"{tmp_path}: is in use by process {child} on {socket.gethostname()} since 20" in str(told.value)
    assert "stop it, or use another folder" in str(told.value)
    go_on()
    assert ended(child) == 0
    with FolderLock(tmp_path / "lock"):
        pass


def test_who_looks_whether_it_is_held_does_not_take_it(tmp_path: Path, kind: str) -> None:
    lock = tmp_path / "lock"
    assert holder_lives(lock) is None, "there is no such lock"
    child, go_on = holding(lock)
    assert holder_lives(lock) is True
    with pytest.raises(ConfigError), FolderLock(lock):
        pass
    os.kill(child, signal.SIGKILL)
    ended(child)
    go_on()
    assert holder_lives(lock) is False, "its process was killed"
    with FolderLock(lock):
        assert holder_lives(lock) is True
    assert holder_lives(lock) is False


def test_a_holder_on_another_machine_is_not_known(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("elsewhere~1~~~00000000")
    assert holder_lives(tmp_path / "lock") is None


def test_one_that_was_killed_holds_nothing(tmp_path: Path, kind: str) -> None:
    child, go_on = holding(tmp_path / "lock")
    os.kill(child, signal.SIGKILL)
    with FolderLock(tmp_path / "lock", wait=5):  # it is not even waited for yet
        assert ended(child) == -signal.SIGKILL
    go_on()


def test_a_fork_of_the_holder_that_lives_on_holds_nothing(tmp_path: Path, kind: str) -> None:
    ready, begin = os.pipe()

    def work() -> None:
        with FolderLock(tmp_path / "lock"):
            if os.fork() == 0:
                os.write(begin, b"!")
                time.sleep(60)
            time.sleep(60)

    child = fork(work)
    os.read(ready, 1)
    os.kill(child, signal.SIGKILL)
    assert ended(child) == -signal.SIGKILL
    try:
        with FolderLock(tmp_path / "lock", wait=1):
            pass
    finally:
        os.killpg(child, signal.SIGKILL)
        os.close(ready)
        os.close(begin)


def test_a_fork_that_leaves_the_block_does_not_let_go(tmp_path: Path, kind: str) -> None:
    with FolderLock(tmp_path / "lock") as lock:
        assert in_child(lambda: lock.__exit__(None, None, None)) == 0
        with pytest.raises(ConfigError, match=f"process {os.getpid()} "), FolderLock(tmp_path / "lock"):
            pass
        with pytest.raises(ConfigError, match="held already"), lock:
            pass
    with lock:  # and may be used again
        pass


def test_waiting_ends_when_it_comes_free(tmp_path: Path, kind: str) -> None:
    child, go_on = holding(tmp_path / "lock")
    go_on()
    with FolderLock(tmp_path / "lock", wait=10):
        pass
    assert ended(child) == 0


def count_together(folder: Path, processes: int, times: int) -> None:
    """Processes that add to a number in a file, read and written apart: any two at once would lose one."""
    file = folder / "number"
    file.write_text("0")

    def work() -> None:
        for _ in range(times):
            with FolderLock(folder / "lock", wait=600):
                number = int(file.read_text())
                time.sleep(0.0001)
                file.write_text(str(number + 1))

    children = [fork(work) for _ in range(processes)]
    assert [ended(child) for child in children] == [0] * processes
    assert int(file.read_text()) == processes * times


def test_eight_processes_take_it_50_times_each(tmp_path: Path, kind: str) -> None:
    count_together(tmp_path, 8, 50)
    assert {path.name for path in tmp_path.iterdir()} <= {"lock", "lock.d", "number"}


@pytest.mark.soak
def test_many_processes_take_it_many_times_each(tmp_path: Path, kind: str) -> None:
    count_together(tmp_path, 32, 500)


@pytest.mark.parametrize("places", [2, pytest.param(20, marks=pytest.mark.soak)])
def test_eight_processes_and_one_gets_it_each_time(tmp_path: Path, kind: str, places: int) -> None:
    """As when a run is started eight times at once: one goes on, seven are told its number."""
    for place in range(places):
        folder = tmp_path / str(place)
        folder.mkdir()

        def work(folder: Path = folder) -> None:
            try:
                with FolderLock(folder / "lock"):
                    (folder / f"won-{os.getpid()}").touch()
                    while len(list(folder.glob("*n-*")) + list(folder.glob("told-*"))) < 8:
                        time.sleep(0.001)
            except ConfigError as problem:
                found = re.search(r"process (\d+) on", str(problem))
                (folder / f"told-{os.getpid()}").write_text(found[1] if found else "")

        children = [fork(work) for _ in range(8)]
        assert [ended(child) for child in children] == [0] * 8
        (won,) = folder.glob("won-*")
        told = [path.read_text() for path in folder.glob("told-*")]
        # One that looks in the instant between taking and saying so cannot be told by whom.
        assert len(told) == 7 and set(told) <= {won.name.removeprefix("won-"), ""}


def test_a_folder_that_is_missing_is_an_error_of_the_system(tmp_path: Path, kind: str) -> None:
    with pytest.raises(FileNotFoundError), FolderLock(tmp_path / "run" / "lock"):
        pass


@pytest.mark.parametrize(
    ("changed", "free"),
    [
        ({}, False),
        ({2: "another boot 17"}, True),  # its number went to another process since
        ({1: str(2**22 - 1)}, True),  # there is no such process
        ({0: "elsewhere", 1: str(2**22 - 1)}, False),  # who could tell
    ],
)
def test_who_is_gone_is_told_by_host_number_and_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[int, str], free: bool
) -> None:
    monkeypatch.setattr(FolderLock, "_try_flock", lambda self: None)
    words = module._own_name().split("~")
    for place, word in changed.items():
        words[place] = word
    folder = tmp_path / "lock.d"
    folder.mkdir()
    (folder / "~".join(words)).touch()
    (folder / ".DS_Store").touch()  # what others leave there is not asked
    if free:
        with FolderLock(tmp_path / "lock"):
            (held,) = folder.glob("*~*")
            assert held.name.startswith(f"{module._host()}~{os.getpid()}~")
        assert {path.name for path in folder.iterdir()} == {"free", ".DS_Store"}
    else:
        told = re.escape(f"if it is gone, delete {folder}")
        with pytest.raises(ConfigError, match=told), FolderLock(tmp_path / "lock"):
            pass


@pytest.mark.parametrize("stale", [False, True], ids=["free", "its holder is gone"])
def test_who_was_held_up_between_looking_and_taking_does_not_take_it_from_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stale: bool
) -> None:
    monkeypatch.setattr(FolderLock, "_try_flock", lambda self: None)
    (tmp_path / "lock.d").mkdir()
    (tmp_path / "lock.d" / (f"{module._host()}~{2**22 - 1}~~~00000000" if stale else "free")).touch()
    looked, quicker = module._is_free, FolderLock(tmp_path / "lock")

    def held_up(name: str) -> bool:
        found = looked(name)
        monkeypatch.setattr(module, "_is_free", looked)
        quicker.__enter__()
        return found

    monkeypatch.setattr(module, "_is_free", held_up)
    assert FolderLock(tmp_path / "lock")._try_rename() is False
    quicker.__exit__(None, None, None)
    assert [path.name for path in (tmp_path / "lock.d").iterdir()] == ["free"]


def test_where_there_is_no_proc_a_signal_that_does_nothing_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    exists = Path.exists
    monkeypatch.setattr(Path, "exists", lambda self: str(self) != "/proc/self/stat" and exists(self))
    child = fork(lambda: None)
    assert ended(child) == 0
    assert module._started(child) is None and module._started(os.getpid()) == ""
