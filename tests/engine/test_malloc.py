"""Freed memory stays with the process, where the C library lets it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from glassformer.engine import malloc

# Pages that are touched anew are counted by the system: a step that allocates what it freed has none.
PROGRAM = """
import resource, sys, torch
if sys.argv[1] == "kept":
    from glassformer.engine.malloc import keep_freed_memory
    if not keep_freed_memory():
        raise SystemExit(3)
def step():
    held = [torch.empty(n).fill_(1) for n in (800_000, 3_000_000, 800_000, 12_000_000) * 4]
    del held
step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(4):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, timeout=300)
    if done.returncode == 3:
        pytest.skip("this system's C library is not GNU's")
    return int(done.stdout)


@pytest.mark.soak  # two processes, each of which trains
def test_pages_are_touched_once() -> None:
    assert faults("kept") < faults("as usual") / 4


# Batches allocate, write and free pieces of 12 to 24 MB, as the tensors of an encoder; then one of 400 MB is freed.
BATCHES = """
import ctypes, resource, sys
from glassformer.engine.malloc import keep_freed_memory, keep_memory_of_batches
asked = {"batches": [keep_memory_of_batches], "all": [keep_freed_memory, keep_memory_of_batches]}
if not all([keep() for keep in asked.get(sys.argv[1], ())]):
    raise SystemExit(3)
C = ctypes.CDLL(None)
C.malloc.restype, C.malloc.argtypes, C.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
C.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
def write(*megabytes):
    places = [C.malloc(n << 20) for n in megabytes]
    for place, n in zip(places, megabytes):
        C.memset(place, 1, n << 20)
    for place in places:
        C.free(place)
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() >> 20
write(12, 24, 12, 24)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(4):
    write(12, 24, 12, 24)
faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
write(400)
print(faults, resident())
"""


def test_elsewhere_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(malloc.sys, "platform", "darwin")
    monkeypatch.setattr(malloc, "_returns_nothing", False)
    assert malloc.keep_freed_memory() is False
    assert malloc.keep_memory_of_batches() is False


def batches(how: str) -> tuple[int, int]:
    """Pages touched anew by the batches after the first, and megabytes held in the end."""
    done = subprocess.run([sys.executable, "-c", BATCHES, how], capture_output=True, text=True, timeout=300)
    if done.returncode == 3:
        pytest.skip("this system's C library is not GNU's")
    faults, megabytes = map(int, done.stdout.split())
    return faults, megabytes


def test_batches_reuse_memory_and_large_pieces_go_back() -> None:
    faults, megabytes = batches("batches")
    assert faults < batches("as usual")[0] / 4
    assert megabytes < 300


def test_what_is_kept_for_good_stays_kept() -> None:
    _, megabytes = batches("all")
    assert megabytes > 400
