"""What could follow a node, as a frame: from it the page computes temperature, top-k and top-p by itself."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from glassformer.errors import DataError
from glassformer.explorer.frames import encode
from glassformer.inspect.writing import Writing

BINS = 64
MOST_NAMED = 200
"""Tokens whose characters are told; a person reads no more of them."""
SHAPE = ("temperature", "top_k", "top_p", "min_p", "typical_p")


def distribution(writing: Writing, *, w: str, node: int, count: int | None = None) -> bytes:
    """The likeliest tokens behind a node, or all of them, and what is not listed in bins.

    Args:
        w: the writing's name.
        count: how many are listed; None = the whole vocabulary, from which all is exact.
    Raises: DataError: no such node, nothing comes behind it, or no such count.
    """
    if count is not None and count < 1:
        raise DataError(f"count is {count}; it must be 1 or more")
    odds = writing.odds(node)
    asked = writing.asked_at(node)
    falling = odds.model.sort(descending=True, stable=True)
    listed = falling.indices[:count]
    arrays: dict[str, Any] = {
        "ids": listed.numpy().astype("uint32"),
        "logprobs": _exact(falling.values[:count]),
    }
    if odds.ruled is not odds.model:
        arrays["ruled"] = _exact(odds.ruled[listed])
    values, counts = binned(odds.ruled[falling.indices[len(listed) :]])
    return encode(
        "distribution",
        {**arrays, "rest_logprobs": _exact(values), "rest_counts": counts.numpy().astype("uint32")},
        {
            "w": w,
            "node": node,
            "vocabulary": len(odds.model),
            "entropy": odds.entropy,
            "tokens": [writing.tree.spelled(node, token) for token in listed[:MOST_NAMED].tolist()],
            **{name: getattr(asked, name) for name in SHAPE},
        },
    )


def binned(logprobs: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probabilities in at most 64 bins of equal width: of each, the log of the mean probability, and how many.

    At temperature 1 their sum is exact. A bin is a fraction of a nat wide, so that at others it is nearly so.
    """
    logprobs = logprobs[logprobs > -torch.inf]
    if not len(logprobs):
        return logprobs, torch.zeros(0, dtype=torch.long)
    low, high = logprobs.aminmax()
    width = (high - low).clamp(min=1e-6) / BINS
    place = ((logprobs - low) / width).long().clamp(max=BINS - 1)
    counts = torch.bincount(place, minlength=BINS)
    sums = torch.zeros(BINS, dtype=torch.float64).index_add_(0, place, logprobs.double().exp())
    held = counts > 0
    return (sums[held] / counts[held]).log().to(logprobs.dtype), counts[held]


def _exact(values: Tensor) -> Tensor:
    """As they were computed; browsers know no floats of 16 bits."""
    return values if values.dtype == torch.float64 else values.float()
