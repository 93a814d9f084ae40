"""Processes that are killed and disks that refuse, at a chosen moment; and runs that go on afterwards.

Children are forked from a process that has torch already, so a kill costs milliseconds. A disk is made to refuse from
outside: by standing in for the calls through which Python reaches it.
"""

from __future__ import annotations

import builtins
import hashlib
import io
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

Train = Callable[[Path], None]
"""Trains in a folder, from where the folder says the run stands, to the end."""

CALLS = ("fsync", "replace", "rename", "mkdir", "unlink", "rmdir")


class Disk:
    """The calls that change the disk, counted from 0; `strike` happens instead of some.

    A write that is struck has written half of its bytes, as a kill or a full disk may leave it.
    """

    def __init__(self, strike: Callable[[], None] | None, when: Callable[[int], bool], *, removes: bool = True) -> None:
        self.strike, self.when = strike, when
        self.calls = CALLS if removes else CALLS[:4]
        self.count = 0
        self.counting = True

    def due(self) -> bool:
        if not self.counting:
            return False
        self.count += 1
        return self.strike is not None and self.when(self.count - 1)

    @contextmanager
    def watched(self) -> Iterator[Disk]:
        before = {name: getattr(os, name) for name in self.calls}
        opens = builtins.open
        try:
            for name, call in before.items():
                setattr(os, name, self._watched(call))
            builtins.open = io.open = self._open  # type: ignore[assignment]
            yield self
        finally:
            builtins.open = io.open = opens
            for name, call in before.items():
                setattr(os, name, call)

    def _watched(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **options: Any) -> Any:
            if self.due():
                assert self.strike is not None
                self.strike()
            return call(*arguments, **options)

        return watched

    def _open(self, file: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
        if "b" not in mode or not set(mode) & set("wax+"):
            return _open(file, mode, *rest, **options)
        disk = self

        class Raw(io.FileIO):
            def write(self, data: Any) -> int:
                if disk.due():
                    assert disk.strike is not None
                    super().write(memoryview(data)[: len(data) // 2])
                    disk.strike()
                return super().write(data) or 0

        raw = Raw(file, mode.replace("b", ""))
        return io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)


_open = io.open


def refuse(number: int) -> Callable[[], None]:
    """A strike: the system refuses with this errno."""

    def strike() -> None:
        raise OSError(number, os.strerror(number))

    return strike


def die() -> None:
    """A strike: the process, and all it started, are gone."""
    os.killpg(0, signal.SIGKILL)


def fork(work: Callable[[], None]) -> int:
    """Do it in a child with a process group of its own; the child's id."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.setpgid(0, 0)
        torch.set_num_threads(1)  # threads do not come along into a fork
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def ended(child: int) -> int:
    """How a child ended: 0 = well, -9 = killed."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def in_child(work: Callable[[], None]) -> int:
    """Do it in a child and wait: how it ended."""
    return ended(fork(work))


# --------------------------------------------------------------------------------- kills while training


@dataclass(frozen=True)
class After:
    """Kill after so many seconds."""

    seconds: float


@dataclass(frozen=True)
class InSave:
    """Kill in the n-th save of the process, counted from 0, at this call that changes the disk."""

    save: int
    call: int


Kill = After | InSave


def run(train: Train, folder: Path, kills: Iterable[Kill] = ()) -> list[Kill]:
    """Train to the end, killed and started again as often as there are kills; those that came before the end."""
    came: list[Kill] = []
    for kill in kills:
        code = killed(train, folder, kill)
        if code == 0:
            return came
        assert code == -signal.SIGKILL, f"a run that was to be killed ended with {code}"
        came.append(kill)
    code = in_child(lambda: train(folder))
    assert code == 0, f"the run ended with {code}"
    return came


def killed(train: Train, folder: Path, kill: Kill) -> int:
    """Train until the kill: -9, or 0 where it came to the end before."""
    if isinstance(kill, InSave):
        return in_child(lambda: _die_in_save(train, folder, kill))
    child = fork(lambda: train(folder))
    time.sleep(kill.seconds)
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:  # it has not come to make its group yet
        os.kill(child, signal.SIGKILL)
    return ended(child)


def _die_in_save(train: Train, folder: Path, kill: InSave) -> None:
    disk = Disk(die, lambda call: call == kill.call)
    disk.counting = False

    def begins(number: int) -> None:
        disk.counting = number >= kill.save

    with disk.watched(), each_save(begins):
        train(folder)


def calls_of_a_save(train: Train, folder: Path) -> int:
    """How many calls change the disk from one save of a run to the next; the run ends there."""
    disk = Disk(None, lambda call: False)
    disk.counting = False
    told = folder / "calls"

    def begins(number: int) -> None:
        if number == 1:
            disk.counting = False
            told.write_text(str(disk.count))
            die()
        disk.counting = True

    def work() -> None:
        with disk.watched(), each_save(begins):
            train(folder)

    assert in_child(work) == -signal.SIGKILL, "a run that is to be killed in its saves needs two of them"
    return int(told.read_text())


@contextmanager
def each_save(begins: Callable[[int], None]) -> Iterator[None]:
    """Tell of each save, counted from 0: it begins where a folder `….tmp` is made."""
    mkdir = os.mkdir
    seen: list[str] = []

    def watched(path: Any, *arguments: Any, **options: Any) -> None:
        if str(path).endswith(".tmp") and str(path) not in seen:
            begins(len(seen))
            seen.append(str(path))
        mkdir(path, *arguments, **options)

    os.mkdir = watched
    try:
        yield
    finally:
        os.mkdir = mkdir


def survives(train: Train, folder: Path, weights: str, *, kills: int, in_saves: int, seed: int) -> None:
    """Kill runs at random until there were enough; each must end with the weights of one that nobody killed.

    Args:
        train: trains in the folder it is given, or goes on there · folder: for the runs
        weights: the file of a run that holds what it learned
        kills: how many in all, and how many of them `in_saves`
    """
    draw = random.Random(seed)
    # In this very process: what torch imports when it first trains, seconds of it, is there in every child then.
    train(_fresh(folder / "straight"))
    wanted = digest(folder / "straight" / weights)
    begin = time.monotonic()
    run(train, _fresh(folder / "again"))
    took = time.monotonic() - begin
    assert digest(folder / "again" / weights) == wanted, "the same run twice gives different weights"
    calls = calls_of_a_save(train, _fresh(folder / "counted"))
    came: list[Kill] = []
    number = 0
    while len(came) < kills or sum(isinstance(kill, InSave) for kill in came) < in_saves:
        number += 1
        assert number <= 2 * kills + 10, f"runs end before they are killed: {len(came)} kills in {number} runs"
        place = _fresh(folder / f"run-{number}")
        plan: list[Kill] = [
            InSave(draw.randrange(2), draw.randrange(calls))
            if draw.random() < 0.5
            else After(draw.uniform(0, took / 2))
            for _ in range(4)
        ]
        came += run(train, place, plan)
        assert digest(place / weights) == wanted, f"run {number}, killed at {plan}, ended with other weights"


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _fresh(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder
