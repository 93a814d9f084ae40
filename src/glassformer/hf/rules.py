"""Base classes of one's own rules of generation: logits processors and stopping criteria, and lists of them."""

from __future__ import annotations

from typing import Any

from torch import Tensor


class OwnLogitsProcessor:
    """A rule that changes the logits of each step; subclasses define the call."""

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """The changed logits. ids [R, T], scores [R, V] → [R, V]"""
        raise NotImplementedError(f"{type(self).__name__} must define __call__(self, input_ids, scores)")


class OwnStoppingCriterion:
    """A rule that ends rows; subclasses define the call."""

    def __call__(self, input_ids: Tensor, scores: Any, **options: Any) -> Any:
        """Whether each row ends: a bool, or one for each row. [R]"""
        raise NotImplementedError(f"{type(self).__name__} must define __call__(self, input_ids, scores)")


class RuleList(list[Any]):
    """Rules, applied one after another."""
