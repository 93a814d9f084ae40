"""Several processes that train together, forked from this one, which has imported torch already."""

from __future__ import annotations

import os
import pickle
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def together(work: Callable[[], Any], folder: Path, world: int = 2, *, limit_s: float = 120) -> list[Any]:
    """What `work` returns in each of `world` processes, by rank; an error of one is an error here."""
    if not hasattr(os, "fork"):
        pytest.skip("needs fork, which this system does not have")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = []
    for rank in range(world):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                import faulthandler

                # A crew that waits for a lost one ends too, and says where it waited.
                faulthandler.dump_traceback_later(limit_s, exit=True, file=sys.__stderr__)
                os.environ |= {
                    "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world),
                    "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                }  # fmt: skip
                (folder / f"answer-{rank}").write_bytes(pickle.dumps(work()))
                code = 0
            except BaseException:
                traceback.print_exc(file=sys.__stderr__)
            finally:
                os._exit(code)
        children.append(child)
    codes = [os.waitpid(child, 0)[1] for child in children]
    assert codes == [0] * world, f"the processes ended with {codes}"
    return [pickle.loads((folder / f"answer-{rank}").read_bytes()) for rank in range(world)]
