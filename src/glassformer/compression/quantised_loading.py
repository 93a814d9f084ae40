"""Quantise while loading: `load(folder, dtype="int8")` rounds each weight to levels as it is read from its file.

    file ──(one tensor)──> levels and scales, a block of rows at a time ──> QuantisedLinear, QuantisedEmbedding

So the model never lies in memory in floating point: at most one tensor of the file does, next to the levels.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from glassformer.compression.quantise import Scheme, round_to_nearest
from glassformer.compression.quantised_network import embedding_layers, quantisable_layers
from glassformer.core.levels import PER_WORD, pack
from glassformer.core.quantised import QUANTISED, StoredLevels
from glassformer.errors import ConfigError
from glassformer.weights.quantised import replace_layer

TABLES = Scheme(8)
"""Of embeddings, and of output projections over the vocabulary."""

SCHEMES = {8: Scheme(8), 4: Scheme(4, 32)}
"""Bits → how linear layers are rounded."""

BLOCK_WEIGHTS = 1 << 16
"""Weights that are rounded at a time, in fp32: the smaller the holes that these leave in memory, the better."""


class RoundedWhenRead:
    """Takes the weights of a network that are stored as levels, one at a time as they are read.

    Args:
        network: whose layers have shapes alone
        bits: 8 or 4
    Raises: ConfigError: groups of 4-bit levels do not divide a width.
    """

    def __init__(self, network: nn.Module, bits: int) -> None:
        layers, group = quantisable_layers(network), SCHEMES[bits].group_size
        for path, layer in layers.items():  # all of them, before any is read
            if group and layer.in_features % group:
                raise ConfigError(
                    f"dtype is 'int{bits}', and {path} has {layer.in_features} columns, which groups of {group} do not "
                    "divide; take dtype 'int8', or smaller groups: glassformer shrink --to int4 --set int4.group_size=8"
                )
        self._schemes = dict.fromkeys(layers, SCHEMES[bits]) | dict.fromkeys(embedding_layers(network), TABLES)

    def takes(self, names: Iterable[str]) -> bool:
        """Whether a parameter becomes levels, by its names in the network."""
        return any(name.removesuffix(".weight") in self._schemes and name.endswith(".weight") for name in names)

    def put(self, network: nn.Module, names: Iterable[str], weight: Tensor) -> None:
        """Replace the layers that have this weight under these names."""
        paths = [name.removesuffix(".weight") for name in names]
        path = next(path for path in paths if path in self._schemes)
        stored = rounded_by_rows(weight, self._schemes[path], path)
        for path in paths:
            if not isinstance(network.get_submodule(path), QUANTISED):  # a module that several others hold
                replace_layer(network, path, stored)


def rounded_by_rows(weight: Tensor, scheme: Scheme, name: str) -> StoredLevels:
    """A weight as its nearest levels, some rows at a time, with scales in fp32. [rows, columns]"""
    rows, columns = weight.shape
    width, kind = (-(-columns // PER_WORD), torch.int32) if scheme.bits == 4 else (columns, torch.int8)
    # What stays is allocated first: behind temporary numbers it would keep their memory from the system.
    levels = torch.empty(rows, width, dtype=kind, device=weight.device)
    scales = torch.empty(rows, columns // (scheme.group_size or columns), device=weight.device)
    step = max(1, BLOCK_WEIGHTS // columns)
    for block in (slice(start, start + step) for start in range(0, rows, step)):
        made = round_to_nearest(weight[block], scheme, name)
        levels[block] = pack(made.levels) if scheme.bits == 4 else made.levels
        scales[block] = made.scale
    return StoredLevels(levels, scales, columns)


def check_not_levels(stored: object, bits: int) -> None:
    """Raises: ConfigError: the checkpoint stores levels already."""
    if stored:
        raise ConfigError(
            f"dtype is 'int{bits}', and the checkpoint is quantised already: leave dtype out, or load the model that "
            "it was made from"
        )
