"""A checkpoint under the names that a recipe's table speaks of, however new the spelling of its file.

a file of today                          the table
mlp.experts.down_proj [8, D, F]   ──>    block_sparse_moe.experts.0.w2 … experts.7.w2, each [D, F]
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from glassformer.weights.header import TensorInfo
from glassformer.weights.names import Names, Stacked
from glassformer.weights.read import Checkpoint


class Spelled:
    """What `fill` reads of a checkpoint: `tensors` and `read`, by the table's names.

    A part of a stack is a view of it: no number is read or copied before it is used.
    """

    def __init__(self, checkpoint: Checkpoint, names: Names) -> None:
        self._checkpoint = checkpoint
        self._places: dict[
            str, tuple[str, Stacked | None, int]
        ] = {}  # name → that in the file, how it was cut, which part
        self.tensors: dict[str, TensorInfo] = {}
        for stored, info in checkpoint.tensors.items():
            rule, known = names.older(stored, info.shape)
            if known != [stored] and any(name in checkpoint.tensors for name in known):
                rule, known = None, [stored]  # the file has both spellings: this one is a surplus
            shapes = (None if rule is None else rule.shapes(info.shape)) or [info.shape]
            for number, (name, shape) in enumerate(zip(known, shapes, strict=True)):
                self.tensors[name] = replace(info, shape=shape, bytes=info.bytes // len(shapes))
                self._places[name] = (stored, rule, number)

    def read(self, name: str, *, passing: bool = False) -> Tensor:
        """One tensor, as a view of its file wherever its place there allows; `passing` as in `Checkpoint.read`."""
        stored, rule, number = self._places[name]
        tensor = self._checkpoint.read(stored, passing=passing)
        return tensor if rule is None else rule.read(tensor)[number]
