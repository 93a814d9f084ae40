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
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, timeout=60)
    if done.returncode == 3:
        pytest.skip("this system's C library is not GNU's")
    return int(done.stdout)


@pytest.mark.soak  # two processes, each of which trains
def test_pages_are_touched_once() -> None:
    assert faults("kept") < faults("as usual") / 4


def test_elsewhere_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(malloc.sys, "platform", "darwin")
    assert malloc.keep_freed_memory() is False
