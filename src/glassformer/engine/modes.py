"""Evaluation mode as a context manager."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def eval_mode(network: nn.Module) -> Iterator[None]:
    """Put a network into evaluation mode; afterwards each module has its own mode again, also where they differ."""
    training = [module for module in network.modules() if module.training]
    network.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
