"""Target modules of adapters: the linear layers of a network that can be adapted, by name.

q, k and v are one matrix here. Each is a target module of its own, with the rows of the layer that are its outputs:

    blocks.0.attn.qkv   [H·E + 2·K·E, D]      target modules  blocks.0.attn.q · blocks.0.attn.k · blocks.0.attn.v
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate

from torch import nn

from glassformer.compression.low_rank import AdaptedLinear
from glassformer.core.attention import Attention
from glassformer.core.cross_attention import CrossAttention
from glassformer.core.language_heads import TokenPrediction
from glassformer.core.stack import Stack

INSIDE = re.compile(r"\.adapters(\.|$)")
"""In paths of modules within an adapted layer."""


@dataclass(frozen=True, slots=True)
class TargetModule:
    """A linear layer that can be adapted, or one of several matrices that it fuses.

    layer: path of the linear layer
    rows: its outputs
    number, of: index among the fused matrices, and their count
    """

    layer: str
    rows: slice
    number: int = 0
    of: int = 1


def target_modules(network: nn.Module) -> dict[str, TargetModule]:
    """All modules that can be adapted, by name: linear layers, with q, k and v each apart.

    Not those over a vocabulary, nor those that share their matrix with another layer, which would change too. A layer
    with several paths has the name of the first; so has one of blocks that share their parameters, and all of them
    share its adapter.
    """
    modules: dict[str, TargetModule] = {}
    visited: set[int] = set()
    repeated = repeated_modules(network)
    owners = Counter(id(p) for m in network.modules() if id(m) not in repeated for p in m.parameters(recurse=False))
    for owner, module in network.named_modules():
        inside = isinstance(module, (TokenPrediction, AdaptedLinear)) or INSIDE.search(owner)
        layers = () if inside else module.named_children()
        for name, layer in layers:
            if (
                type(layer) not in (nn.Linear, AdaptedLinear)
                or owners[id(layer.weight)] > 1
                or id(layer.weight) in visited
            ):
                continue
            visited.add(id(layer.weight))
            prefix = f"{owner}." if owner else ""
            parts = _fused_parts(module, name) or {name: layer.out_features}
            ends = list(accumulate(parts.values(), initial=0))
            for number, part in enumerate(parts):
                rows = slice(ends[number], ends[number + 1])
                modules[prefix + part] = TargetModule(prefix + name, rows, number, len(parts))
    return modules


def repeated_modules(network: nn.Module) -> set[int]:
    """The ids of the modules that are only in blocks with the parameters of an earlier block."""
    first: set[int] = set()
    later: set[int] = set()
    for stack in (module for module in network.modules() if isinstance(module, Stack)):
        for i, j in enumerate(stack.spec.shared):
            (first if i == j else later).update(map(id, stack[i].modules()))
    return later - first


def _fused_parts(owner: nn.Module, name: str) -> dict[str, int]:
    """The matrices that a layer fuses, and their numbers of rows."""
    if isinstance(owner, Attention) and name == "qkv":
        spec = owner.spec
        return {"q": spec.heads * spec.E, "k": spec.K * spec.E, "v": spec.K * spec.E}
    if isinstance(owner, CrossAttention) and name == "kv":
        return dict.fromkeys(("k", "v"), owner.spec.K * owner.spec.E)
    return {}
