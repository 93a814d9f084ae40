"""All modules of the reference library's model by their paths: what `named_modules` gives where code looks for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import nn

from glassformer.models.reference_modules import Entry, Parts, reference_module
from glassformer.weights.names import Fused


def module_tree(network: nn.Module, entries: Mapping[str, Entry], parts: Parts) -> Iterator[tuple[str, nn.Module]]:
    """The modules of the reference library's model by their paths, in its order; then ours that hold no tensor."""
    paths = (path for name in entries for path in _parents(name))
    seen: set[int] = set()
    for path in dict.fromkeys(paths):
        part = reference_module(network, entries, path, parts)
        if isinstance(part, nn.Module):
            seen.add(id(part))
            yield path, part
    fused = {id(network.get_submodule(ours.rpartition(".")[0])) for ours, rule, _ in entries.values()
             if isinstance(rule, Fused)}  # fmt: skip
    for path, module in network.named_modules():
        leaf = not any(True for _ in module.children()) and not isinstance(module, nn.Identity)
        if leaf and path and id(module) not in seen | fused:
            yield path.removeprefix("head."), module


def _parents(name: str) -> list[str]:
    """`a.b.weight` → `a`, `a.b`"""
    steps = name.split(".")
    return [".".join(steps[:i]) for i in range(1, len(steps))]
