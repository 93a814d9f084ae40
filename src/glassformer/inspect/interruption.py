"""Interrupt a long computation of a network between two of its blocks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from glassformer.models import Network


@contextmanager
def before_each_block(network: Network, call: Callable[[], None]) -> Iterator[None]:
    """Call something before each block of each forward pass in this thread; what it raises ends the pass."""
    own = threading.get_ident()

    def hook(*_: Any) -> None:
        if threading.get_ident() == own:  # several threads share the network
            call()

    handles = [block.register_forward_pre_hook(hook) for stack in network.stacks().values() for block in stack]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
