"""Renamed tensors: a checkpoint of a newer release under the names of a recipe's table, stacked experts cut apart."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from glassformer.weights.header import TensorInfo
from glassformer.weights.names import StackedExperts, WeightNames
from glassformer.weights.read import WeightFiles


class RenamedCheckpoint:
    """A checkpoint under the names of a recipe's table, where newer releases gave tensors other names.

        the file                              the table
        mlp.experts.down_proj [8, D, F]  ──>  block_sparse_moe.experts.0.w2 … experts.7.w2, each [D, F]

    A part of a stack is a view of it: no number is read or copied before it is used.

    Attributes:
        tensors: name in the table → shape, dtype, bytes and file.
    """

    def __init__(self, checkpoint: WeightFiles, names: WeightNames) -> None:
        self._checkpoint = checkpoint
        # name in the table → name in the file, how that tensor is cut, which of its parts
        self._sources: dict[str, tuple[str, StackedExperts | None, int]] = {}
        self.tensors: dict[str, TensorInfo] = {}
        for stored, info in checkpoint.tensors.items():
            rule, targets = names.table_names(stored, info.shape)
            if targets != [stored] and any(name in checkpoint.tensors for name in targets):
                rule, targets = None, [stored]  # the file has both spellings: this one is a surplus
            shapes = (None if rule is None else rule.shapes(info.shape)) or [info.shape]
            for number, (name, shape) in enumerate(zip(targets, shapes, strict=True)):
                self.tensors[name] = replace(info, shape=shape, bytes=info.bytes // len(shapes))
                self._sources[name] = (stored, rule, number)

    def read(self, name: str, *, transient: bool = False) -> Tensor:
        """Read one tensor, memory-mapped where its offset in the file allows it.

        Args:
            transient: as in `WeightFiles.read`.
        """
        stored, rule, number = self._sources[name]
        tensor = self._checkpoint.read(stored, transient=transient)
        return tensor if rule is None else rule.read(tensor)[number]

    def read_together(self, names: list[str], dtype: torch.dtype) -> Tensor | None:
        """Several tensors as one vector of this dtype, mapped without a copy; None where that cannot be done."""
        sources = [self._sources[name] for name in names]
        if any(rule is not None for _, rule, _ in sources) or self.tensors[names[0]].dtype != dtype:
            return None
        return self._checkpoint.read_together([stored for stored, _, _ in sources])

    def read_into(self, name: str, target: Tensor) -> None:
        """Copy one tensor into `target`, a contiguous CPU tensor of its shape, and into the dtype of that."""
        stored, rule, _ = self._sources[name]
        if rule is None and self.tensors[name].dtype == target.dtype:
            self._checkpoint.read_into(stored, target)
        else:
            target.copy_(self.read(name, transient=True))


def carried_tensors(checkpoint: WeightFiles, names: WeightNames) -> dict[str, Tensor]:
    """The tensors that are no parameters of the network, and that other readers of its files expect, mapped.

    They go from the file that was loaded to the one that is saved: the pooler of a tagger, which no head of ours reads,
    or a table of sinusoidal positions, which the network computes.
    Returns: name without the family's prefix → tensor.
    """
    tensors = RenamedCheckpoint(checkpoint, names)
    bare = {name: names.without_prefix(name) for name in tensors.tensors}
    return {own: tensors.read(name) for name, own in bare.items() if names.is_carried(own)}
