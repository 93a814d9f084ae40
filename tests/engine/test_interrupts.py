"""Ctrl-C while a step of generation runs, or while its kernels are compiled: in child processes, by real signals."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from glassformer import Model
from glassformer.core.cache import KeyValueCache
from glassformer.core.flow import Batch, Flow
from glassformer.engine import native
from glassformer.engine.prepare import prepare
from glassformer.engine.program import CHUNK_BITS, DONE, STATE_SIZE, TICKET
from glassformer.models import FAMILIES

pytestmark = pytest.mark.skipif(not native.available(), reason="needs numba and an x86 processor")


@pytest.mark.parametrize("job", ["step", "compiling"])
def test_an_interrupt(job: str, tmp_path: Path) -> None:
    assert native.kernel() is not None  # its file is in the cache folder now
    program = f"from tests.engine import test_interrupts; test_interrupts.{job}()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"EMPTY_FOLDER": str(tmp_path)},
        cwd=Path(__file__).parents[2],
        start_new_session=True,  # a group of its own gets the signals
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout) == (0, "interrupted, and went on\n"), done.stderr


def stuck(job: int, threads: int) -> None:
    """The kernel on a program whose first chunk nobody computes, until the signal has come."""
    words = (ctypes.c_int64 * STATE_SIZE).from_address(ctypes.c_int64.from_address(job).value)
    state = np.ctypeslib.as_array(words)
    state[TICKET] += 1
    phase = state[TICKET] >> CHUNK_BITS

    def interrupt() -> None:
        while state[TICKET] & ((1 << CHUNK_BITS) - 1) < 1_000:  # more than there are: it is waiting
            time.sleep(0.001)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        state[DONE], state[TICKET] = 0, (phase + 1) << CHUNK_BITS

    threading.Thread(target=interrupt).start()
    kernel, native._kernel[0] = KERNELS[0], KERNELS[0]
    kernel(job, threads)


KERNELS: list[native.Kernel] = []


@torch.inference_mode()
def step() -> None:
    torch.manual_seed(0)
    model = Model.from_config(FAMILIES["llama"].tiny, task="text-generation").eval()
    prepare(model.network, "fp32")
    kernel = native.kernel()
    assert kernel is not None
    KERNELS.append(kernel)
    ids = torch.arange(5, 14)[None]
    wanted = model.network(Batch(input_ids=ids), Flow()).logits
    cache = KeyValueCache()
    model.network(Batch(input_ids=ids[:, :8]), Flow(cache=cache))
    native._kernel[0] = stuck
    with pytest.raises(KeyboardInterrupt):
        model.network(Batch(input_ids=ids[:, 8:]), Flow(cache=cache))
    assert cache.length == 8
    got = model.network(Batch(input_ids=ids[:, 8:]), Flow(cache=cache)).logits
    torch.testing.assert_close(got[0, -1], wanted[0, -1], atol=1e-5, rtol=1e-5)  # type: ignore[index]
    tokens = model.generate(ids, max_new_tokens=12, min_new_tokens=12)
    native._kernel[0] = stuck
    with pytest.raises(KeyboardInterrupt):
        model.generate(ids, max_new_tokens=12, min_new_tokens=12)
    assert torch.equal(model.generate(ids, max_new_tokens=12, min_new_tokens=12), tokens)
    print("interrupted, and went on")


def compiling() -> None:
    """In this thread, then next to it; the compiler is a process that waits, and then copies a file."""
    warnings.simplefilter("error")
    known, folder = native._cache_folder() / f"kernels-{native._digest()}", Path(os.environ["EMPTY_FOLDER"])
    os.environ["XDG_CACHE_HOME"] = str(folder)
    begun, go = folder / "begun", folder / "go"
    compiler = (
        "import pathlib, shutil, sys, time; begun, go, known, path = map(pathlib.Path, sys.argv[1:]); begun.touch()\n"
        "while not go.exists(): time.sleep(0.01)\n"
        "shutil.copy(known, path)"
    )
    native.command = lambda program, path: [  # type: ignore[assignment]
        *(sys.executable, "-c", compiler), *map(str, (begun, go, known, path))
    ]  # fmt: skip

    def interrupt() -> None:
        while not begun.exists():
            time.sleep(0.01)
        begun.unlink()
        os.killpg(0, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        native.kernel()
    assert not list((folder / "glassformer").iterdir()) and not native._kernel
    native.preload()
    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        time.sleep(300)
    go.touch()
    assert native.kernel() is not None
    shutil.rmtree(folder / "glassformer")
    print("interrupted, and went on")
