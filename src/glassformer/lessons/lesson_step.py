"""A step of a lesson: a formula, the tensors it computes, and what to notice in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import fill

from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class LessonStep:
    """One step of the way: what is computed, the tensors it makes, and what to notice in them."""

    name: str
    formula: str
    tensors: Mapping[str, Tensor]
    notice: str

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def __str__(self) -> str:
        rows = [f"{self.name}:   {self.formula}"]
        for name, tensor in self.tensors.items():
            rows.append(f"    {name:<22} {list(tensor.shape)}")
            if (
                tensor.dim() > 1 and max(tensor.shape[-2:]) <= 8 and tensor.numel() <= 64
            ):  # small enough to read
                number = "{:7.3f}" if tensor.is_floating_point() else "{:7d}"
                rows += [
                    "        " + " ".join(map(number.format, row)) for row in tensor.flatten(0, -2).tolist()
                ]
        return "\n".join([*rows, fill(self.notice, 100, initial_indent="    → ", subsequent_indent="      ")])
