"""Next-token distributions as binary frames, from which the page computes temperature, top-k and top-p by itself."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from glassformer.errors import DataError
from glassformer.explorer.binary_frames import encode
from glassformer.inspect.generation_trace import GenerationTrace

BINS = 64
MAX_SPELLED_TOKENS = 200
"""Most probable tokens whose text is sent; a person reads no more of them."""
SAMPLING_OPTIONS = ("temperature", "top_k", "top_p", "min_p", "typical_p")


def distribution(trace: GenerationTrace, *, w: str, node: int, count: int | None = None) -> bytes:
    """The next-token distribution at a node: its most probable tokens, and a histogram of the rest.

    Args:
        w: the id of the trace.
        count: how many tokens are listed; None = the whole vocabulary, from which everything is exact.
    Raises: DataError: no such node, a node that ends its text, or an invalid count.
    """
    if count is not None and count < 1:
        raise DataError(f"count is {count}; it must be 1 or more")
    next_token = trace.distribution(node)
    options = trace.options_at(node)
    ranked = next_token.model.sort(descending=True, stable=True)
    listed = ranked.indices[:count]
    arrays: dict[str, Any] = {
        "ids": listed.numpy().astype("uint32"),
        "logprobs": _exact(ranked.values[:count]),
    }
    if next_token.after_rules is not next_token.model:
        arrays["ruled"] = _exact(next_token.after_rules[listed])
    values, counts = logprob_histogram(next_token.after_rules[ranked.indices[len(listed) :]])
    return encode(
        "distribution",
        {**arrays, "rest_logprobs": _exact(values), "rest_counts": counts.numpy().astype("uint32")},
        {
            "w": w,
            "node": node,
            "vocabulary": len(next_token.model),
            "entropy": next_token.entropy,
            "tokens": [trace.tree.spelling(node, token) for token in listed[:MAX_SPELLED_TOKENS].tolist()],
            **{name: getattr(options, name) for name in SAMPLING_OPTIONS},
        },
    )


def logprob_histogram(logprobs: Tensor) -> tuple[Tensor, Tensor]:
    """Histogram of log-probabilities, at most 64 bins of equal width: log mean probability and count of each.

    At temperature 1 the total probability is exact. A bin is a fraction of a nat wide: at others it is nearly so.
    """
    logprobs = logprobs[logprobs > -torch.inf]
    if not len(logprobs):
        return logprobs, torch.zeros(0, dtype=torch.long)
    low, high = logprobs.aminmax()
    width = (high - low).clamp(min=1e-6) / BINS
    bin_index = ((logprobs - low) / width).long().clamp(max=BINS - 1)
    counts = torch.bincount(bin_index, minlength=BINS)
    sums = torch.zeros(BINS, dtype=torch.float64).index_add_(0, bin_index, logprobs.double().exp())
    occupied = counts > 0
    return (sums[occupied] / counts[occupied]).log().to(logprobs.dtype), counts[occupied]


def _exact(values: Tensor) -> Tensor:
    """Float32 or float64: browsers have no 16-bit float arrays."""
    return values if values.dtype == torch.float64 else values.float()
