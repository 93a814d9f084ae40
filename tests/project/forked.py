"""Python programs in processes of their own, forked from one that has imported what all of them need."""

from __future__ import annotations

import os
import sys
from multiprocessing import get_context
from pathlib import Path

PRELOADED = ["torch", "numpy", "glassformer.model", "glassformer.training.run", "glassformer.tasks.pipelines"]


def run_forked(source: str, folder: Path, log: Path, timeout: float = 300) -> int | None:
    """Run a program in a folder, offline, as `python -` would; what it prints goes to a file.

    Returns: its exit status; None if it ran out of time
    """
    # A server is forked, since importing torch takes two seconds.
    context = get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    process = context.Process(target=_execute, args=(source, str(folder), str(log)))
    process.start()
    process.join(timeout)
    status = process.exitcode
    process.kill()
    process.join()
    return status


def _execute(source: str, folder: str, log: str) -> None:
    os.environ["HF_HUB_OFFLINE"] = "1"  # nothing that is preloaded has read it yet
    os.chdir(folder)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.argv = ["-"]
    with open(os.devnull) as sys.stdin:
        exec(compile(source, "<stdin>", "exec"), sys.modules["__main__"].__dict__)
