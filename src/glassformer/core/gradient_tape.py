"""Gradients of a score of the output with respect to named activations: a tape that differentiates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from glassformer.core.flow import Edit, Tape


class GradientTape(Tape):
    """Records named activations, and the gradients of a score with respect to them; see `Network.gradients`.

    cut: the gradient stops at each recorded activation, so that no other of them has a part in its gradient; the graph
        that made it is not kept
    gradients: by tap, as `taps`; filled by `differentiate`, as is `of_parameters`
    """

    def __init__(self, *patterns: str, edit: Mapping[str, Edit] | None = None, cut: bool = False) -> None:
        super().__init__(*patterns, edit=edit)
        self.cut = cut
        self.gradients: dict[str, Tensor] = {}
        self.of_parameters: list[Tensor] = []

    def record(self, name: str, x: Tensor) -> Tensor:
        x = super().record(name, x)
        if name in self.taps:
            if self.cut or not x.requires_grad:
                x = x.detach().requires_grad_()
            self.taps[name] = x
        return x

    def differentiate(self, score: Tensor, parameters: Sequence[Tensor] = ()) -> None:
        """Compute the gradients of a score, also by some parameters; 0 where it does not depend on something."""
        values = [*self.taps.values(), *parameters]
        by_each = torch.autograd.grad(score, values, allow_unused=True) if score.requires_grad else [None] * len(values)
        gradients = [torch.zeros_like(x) if g is None else g for x, g in zip(values, by_each, strict=True)]
        self.gradients = dict(zip(self.taps, gradients, strict=False))
        self.of_parameters = gradients[len(self.taps) :]
        self.taps = {name: x.detach() for name, x in self.taps.items()}
