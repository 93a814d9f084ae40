"""Fingerprint of weights: a hash that tells two sets of parameters apart by a few numbers of each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import torch
from torch import Tensor

SAMPLES = 256
"""Values of each parameter that go into the hash."""


def weights_fingerprint(parameters: Iterable[tuple[str, Tensor]], *, dtypes: bool = True) -> str:
    """Fingerprint of named parameters, ten hex digits; dtypes: those of two dtypes differ, even if they are equal.

    A hash of every parameter's name, shape and dtype, and of numbers picked evenly from it: of the weights in memory,
    so two fine-tunings of one model differ, and so does a model whose weights somebody edited. It is no proof that
    every number is the same; a change of a few numbers only can escape it.
    """
    digest = hashlib.sha256()
    for name, parameter in parameters:
        flat = parameter.detach().flatten()
        sample = flat[:: max(1, len(flat) // SAMPLES)]
        dtype = parameter.dtype if dtypes else ""
        digest.update(f"{name} {list(parameter.shape)} {dtype}\n".encode())
        digest.update(sample.to("cpu", torch.float64).numpy().tobytes())
    return digest.hexdigest()[:10]
