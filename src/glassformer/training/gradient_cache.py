"""Gradient caching: the gradient of a loss that compares all examples of a batch, in the memory of a part of it.

    1  part ─ network ─ vectors        of every part, without what a backward pass would need
    2  all vectors ─ loss ─ backward   the gradient of every vector: a few numbers a text
    3  part ─ network ─ vectors ─ backward, from their gradients        part by part, as if all were one call

The gradient is that of the whole batch, since the loss depends on the weights by the vectors alone (the chain rule). It
takes a second forward pass, which draws the dropout of the first.

Source: Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup", section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from glassformer.tasks.types import MicroBatch
from glassformer.training.state import capture_rng, restore_rng


def cached_backward(
    parts: Sequence[MicroBatch],
    vectors_of: Callable[[MicroBatch], Tensor],
    losses_of: Callable[[Tensor], dict[str, Tensor]],
    backward: Callable[[dict[str, Tensor]], None],
) -> dict[str, Tensor]:
    """Add the gradients of the losses of a batch that is computed in parts; its losses.

    Args:
        parts: micro-batches that make up the batch
        vectors_of: runs the network on a part [texts, D]
        losses_of: the losses of all vectors, in the order of the parts
        backward: a backward pass from losses, with their weights
    """
    generators, vectors = [], []
    for part in parts:
        generators.append(capture_rng())
        with torch.no_grad():
            vectors.append(vectors_of(part))
    leaves = torch.cat(vectors).requires_grad_()
    losses = losses_of(leaves)
    backward(losses)
    assert leaves.grad is not None
    gradients = leaves.grad.split([len(x) for x in vectors])
    for part, generator, gradient in zip(parts, generators, gradients, strict=True):
        restore_rng(generator)
        vectors_of(part).backward(gradient)
    return losses
