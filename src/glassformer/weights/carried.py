"""Tensors of a checkpoint that are no parameters of the network, and that other readers of its files expect.

They go from the file that was loaded to the one that is saved: the pooler of a tagger, which no head of ours reads, or
a table of sinusoidal positions, which the network computes.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from glassformer.weights.load import export_weights
from glassformer.weights.names import WeightNames
from glassformer.weights.read import WeightFiles
from glassformer.weights.renamed_checkpoint import RenamedCheckpoint


def carried_tensors(checkpoint: WeightFiles, names: WeightNames) -> dict[str, Tensor]:
    """The tensors that no parameter holds: name without the family's prefix → tensor, mapped from the file."""
    tensors = RenamedCheckpoint(checkpoint, names)
    bare = {name: names.without_prefix(name) for name in tensors.tensors}
    return {own: tensors.read(name) for name, own in bare.items() if names.is_carried(own)}


def saved_tensors(
    network: nn.Module, names: WeightNames, carried: Mapping[str, Tensor], *, prefixed: bool
) -> dict[str, Tensor]:
    """All tensors of a saved checkpoint: the network's parameters, and what was carried.

    Args: carried: from `carried_tensors` · prefixed: as in `export_weights`
    """
    dtype = next(network.parameters()).dtype
    prefix = f"{names.prefix}." if prefixed and names.prefixed and names.prefix else ""
    beside = {prefix + name: tensor.to(dtype) for name, tensor in carried.items()}
    return {**beside, **export_weights(network, names, prefixed=prefixed)}
