"""Scores of labels: what becomes of a classifier's logits."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda logits: logits.softmax(-1),  # labels exclude one another
    "sigmoid": torch.sigmoid,  # each for itself
    "none": lambda logits: logits,
}
"""Logits [..., labels] → scores, by the names of Hugging Face transformers."""
