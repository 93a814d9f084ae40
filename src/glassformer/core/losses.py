"""Cross-entropy losses, as sums over labels, with label smoothing and with chunked logits.

    at once    logits = x Wᵀ + b   [positions, V]   ──> cross-entropy        `summed_cross_entropy`
    chunked    x ──> logits of some positions ──> their losses, their gradients; and on to the next
                                                                             `linear_cross_entropy`

Labels of -100 do not count. Losses are sums, not means, so that the micro-batches of a training step can be added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.errors import ConfigError, DataError

if TYPE_CHECKING:
    from jaxtyping import Float, Int

IGNORE_INDEX = -100
"""The label that does not count, as in PyTorch."""

CHUNK_LOGITS = 2**25
"""Chunk size of `linear_cross_entropy`: how many logits exist at a time; 128 MiB of them in fp32."""


def count_labels(labels: Tensor) -> int:
    """Number of labels that are not -100."""
    return int((labels != IGNORE_INDEX).sum())


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy over the labels that are not -100, in at least fp32."""
    return summed_cross_entropy(logits, labels) / count_labels(labels)


def summed_cross_entropy(
    logits: Float[Tensor, "... C"], labels: Int[Tensor, "..."], smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """Summed cross-entropy over the labels that are not -100, in at least fp32, with label smoothing.

        loss = -(1 - s) · log p_label - s/C · Σ_c log p_c

    Args:
        logits: [..., C]
        labels: [...], or [..., 1]
        smoothing: s, from 0 up to 1
    Raises: DataError: labels that do not fit. ConfigError: smoothing outside [0, 1).
    Source: smoothing: Szegedy et al. 2016, section 7.
    """
    labels = checked_labels(labels, logits.shape)
    wide = logits.flatten(0, -2).to(_at_least_fp32(logits.dtype))
    return F.cross_entropy(
        wide,
        labels.flatten(),
        ignore_index=IGNORE_INDEX,
        reduction="sum",
        label_smoothing=checked_smoothing(smoothing),
    )


def linear_cross_entropy(
    x: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, "V"] | None,
    labels: Int[Tensor, "N"],
    *,
    smoothing: float = 0.0,
    logit_cap: float | None = None,
    chunk_logits: int = CHUNK_LOGITS,
) -> Float[Tensor, ""]:
    """Chunked cross-entropy: `summed_cross_entropy(x Wᵀ + b, labels, smoothing)` without the whole logits [N, V].

    Logits are computed for some positions at a time. While they exist, the gradient of the loss is at hand, p - target,
    and costs no second product later. So the forward pass also adds up the gradients of x, W and b (those of W and b in
    fp32), and the backward pass only scales them. Under autocast, dtypes are those of a linear layer.

    With a soft cap, y = c tanh(z / c) stands for each logit z, and p - target is multiplied by dy/dz = 1 - (y / c)².

    Args:
        labels: classes, all of which count, checked by `checked_labels`
        logit_cap: c of `soft_cap`; None: none
        chunk_logits: how many logits exist at a time
    Raises: RuntimeError: a gradient of the gradient is asked for, or a second backward pass; neither is supported.
    Source: gradients in the forward pass, chunk by chunk: Hsu et al. 2024, "Liger Kernel", section 3.2;
        why logits need not be stored: Wijmans et al. 2024, "Cut Your Losses in Large-Vocabulary Language Models".
    """
    needs_grad = torch.is_grad_enabled()  # inside `forward` of the function it is always off
    rows = max(1, chunk_logits // weight.shape[0])
    total: Tensor = _LinearCrossEntropy.apply(  # type: ignore[no-untyped-call]
        x, weight, bias, labels, checked_smoothing(smoothing), logit_cap, rows, needs_grad
    )
    return total


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        smoothing: float,
        logit_cap: float | None,
        rows: int,
        needs_grad: bool,
    ) -> Tensor:
        device = x.device.type
        narrow = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
        wide = _at_least_fp32(narrow)
        needs_x, needs_weight, needs_bias = (needs_grad and need for need in ctx.needs_input_grad[:3])
        total = torch.zeros((), dtype=wide, device=x.device)
        grads = (
            torch.empty_like(x) if needs_x else None,
            torch.zeros_like(weight, dtype=wide) if needs_weight else None,
            torch.zeros_like(bias, dtype=wide) if needs_bias and bias is not None else None,
        )
        of_x, of_weight, of_bias = grads
        with torch.autocast(device, enabled=False):
            W, b = weight.to(narrow), None if bias is None else bias.to(narrow)
            for start in range(0, len(x), rows):
                here = slice(start, start + rows)
                states, targets = x[here].to(narrow), labels[here, None]
                logits = F.linear(states, W, b).to(wide)
                slope = None if logit_cap is None else _soft_cap_in_place(logits, logit_cap)
                loss, exponentials, norm = _chunk_loss(logits, targets, smoothing)
                total += loss
                if not any(grad is not None for grad in grads):
                    continue
                gradient = _chunk_gradient(exponentials, norm, targets, smoothing)
                if slope is not None:
                    gradient *= slope
                if of_bias is not None:
                    of_bias += gradient.sum(0)
                error = gradient.to(narrow)
                if of_x is not None:
                    of_x[here] = error @ W
                if of_weight is not None and narrow == wide:
                    of_weight.addmm_(error.T, states)
                elif of_weight is not None:
                    of_weight += error.T @ states
        ctx.grads = grads
        ctx.dtypes = (x.dtype, weight.dtype, None if bias is None else bias.dtype)
        return total

    @staticmethod
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # create_graph=True
            raise RuntimeError("linear_cross_entropy has no second derivative; use summed_cross_entropy on the logits")
        if ctx.grads is None:
            raise RuntimeError("linear_cross_entropy keeps its gradients for one backward pass, which has already run")
        grads, ctx.grads = ctx.grads, None
        scaled = [
            None if grad is None else grad.mul_(above).to(dtype) for grad, dtype in zip(grads, ctx.dtypes, strict=True)
        ]
        return (*scaled, None, None, None, None, None)


def _chunk_loss(logits: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor, Tensor]:
    """Summed loss of a chunk; exp(logits - largest), which takes their memory, and its sums. [], [N, V], [N, 1]"""
    top, target = logits.amax(-1, keepdim=True), (1 - smoothing) * logits.gather(-1, targets)
    if smoothing:
        target += smoothing * logits.mean(-1, keepdim=True)
    norm = logits.sub_(top).exp_().sum(-1, keepdim=True)
    return (norm.log() + top - target).sum(), logits, norm


def _chunk_gradient(exponentials: Tensor, norm: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """Gradient of a chunk's loss by its logits, p - target, in the memory of the exponentials. [N, V]"""
    p = exponentials.div_(norm)
    p.scatter_add_(-1, targets, torch.full_like(norm, smoothing - 1))
    return p.sub_(smoothing / p.shape[-1]) if smoothing else p


def _soft_cap_in_place(x: Tensor, cap: float) -> Tensor:
    """Cap x in place; returns the slope of the cap, 1 - tanh²(x / cap)."""
    slope = 1 - x.div_(cap).tanh_().square()
    x.mul_(cap)
    return slope


def checked_labels(labels: Tensor, shape: Sequence[int]) -> Tensor:
    """Check class labels against logits of shape [..., C]: integers [...], each from 0 to C - 1, or -100.

    Raises: DataError: they do not fit.
    """
    labels, classes = shaped_labels(labels, shape), shape[-1]
    counted = labels[labels != IGNORE_INDEX]
    if counted.numel() and not 0 <= int(counted.min()) <= int(counted.max()) < classes:
        raise DataError(
            f"labels hold numbers from {int(counted.min())} to {int(counted.max())}; "
            f"allowed: 0 to {classes - 1}, and -100 for what does not count"
        )
    return labels


def shaped_labels(labels: Tensor, shape: Sequence[int]) -> Tensor:
    """Check the shape and dtype of class labels: integers, one for each row of logits of this shape. [...]

    Raises: DataError: they do not fit.
    """
    expected = tuple(shape[:-1])
    if labels.shape not in (expected, (*expected, 1)):
        raise DataError(
            f"labels have shape {list(labels.shape)}, logits {list(shape)}; labels must be {list(expected)}"
        )
    if labels.dtype not in (torch.int64, torch.int32):
        raise DataError(f"labels are {labels.dtype}; a label is the number of a class: labels.long()")
    return labels.long().reshape(expected)


def checked_smoothing(smoothing: float) -> float:
    """Check the label smoothing: the share of the target that is spread over all classes.

    Raises: ConfigError: outside [0, 1).
    """
    if not 0 <= smoothing < 1:
        raise ConfigError(f"smoothing is {smoothing}; it must be from 0 up to, but not including, 1")
    return smoothing


def refuse_smoothing(smoothing: float, what: str) -> None:
    """Refuse label smoothing where labels are not classes.

    Raises: ConfigError: smoothing is not 0.
    """
    if smoothing:
        raise ConfigError(f"smoothing is {smoothing}, but {what}; only labels that name a class can be smoothed")


def _at_least_fp32(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)
