"""The peak memory of a process of its own: that of a test's process has a peak already, below which it sees nothing.

opened, grown = measured(open_damaged, folder)              a function of a module; in bytes
subprocess.run([sys.executable, "-c", PEAK_KB + "…"])       source to put in front of a program's own
"""

from __future__ import annotations

import multiprocessing
import re
import resource
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

PEAK_KB = r"""
import re, resource
def peak_kb():
    try:  # not ru_maxrss, which a process has from the one that started it, however large
        return int(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
"""


def held_bytes(name: str = "VmHWM") -> int:
    """What this process has held at most; or, by the name "VmRSS", holds now, where the system says it."""
    try:
        return int(re.search(rf"{name}:\s+(\d+)", Path("/proc/self/status").read_text())[1]) * 1024  # type: ignore[index]
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def measured(function: Callable[..., Any], *arguments: Any, timeout_s: float = 600) -> tuple[Any, int]:
    """Call a function in a process forked from a fresh one that has imported the library and done nothing else.

    So no earlier peak, and no memory that was freed and kept, hides what it takes; and the fork takes no seconds.

    Args: function: of a module · arguments: as it takes them, to be pickled, as its result
    Returns: its result, and by how many bytes the peak of the process is above what it held before.
    Raises: AssertionError: it raised, with its traceback; or its process died, or took too long.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["glassformer.model", "tests.peak", "pytest"])  # which modules of tests import
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_measure, args=(theirs, function, arguments))
    process.start()
    theirs.close()
    try:
        assert ours.poll(timeout_s), f"{function.__name__}{arguments} took more than {timeout_s} s"
        result, grown, error = ours.recv()
    except EOFError:
        process.join()
        raise AssertionError(f"the process of {function.__name__}{arguments} died: {process.exitcode}") from None
    finally:
        process.kill()
        process.join()
    assert error is None, error
    return result, grown


def _measure(connection: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Measure in the process of its own, and send the result, the growth and the traceback of an error."""
    with suppress(OSError):  # Linux: the peak of what was imported with the function is none of its own
        Path("/proc/self/clear_refs").write_text("5")
    before = held_bytes("VmRSS")
    try:
        connection.send((function(*arguments), held_bytes() - before, None))
    except BaseException:
        connection.send((None, 0, traceback.format_exc()))
