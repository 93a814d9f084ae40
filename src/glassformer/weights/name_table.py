"""Weight name tables as text: a line for each of our modules, with the checkpoint's tensors next to it.

    embed.tokens               embeddings.word_embeddings              the same tensor
    {side}.blocks.{i}.ffn.up   {side}.layers.{i}.fc1                   of encoder and decoder
    blocks.{i}.attn_residual.{norm}   h.{i}.ln_1                       pre-norm's `before`, post-norm's `on_residual`
    blocks.{i}.attn.qkv        h.{i}.(query|key|value)                 three of theirs, one of ours
    blocks.{i}.attn.qkv        h.{i}.(q|k|v)_proj           [H K K]    with N heads each: grouped-query attention
    blocks.{i}.attn.qkv        h.{i}.qkv                    [heads]    q, k and v of head after head
    blocks.{i}.attn.qkv.bias   h.{i}.(q_proj||v_proj).bias             keys have no bias: those rows are 0
    blocks.{i}.attn.out        h.{i}.c_proj                 ᵀ          transposed
    blocks.{i}.ffn.gate        h.{i}.gate_up                [0/2]      the first half of its rows
    embed.summary              cls_token                    [1 1]      with leading dimensions of size 1 there
    layers.{i}.conv.weight     layers.{i}.conv.weight       |v|        lengths and directions of its rows there
    head.decoder               lm_head                      =          tied: another name of one of ours
    head.decoder               lm_head                      =?         tied if `spec.tied`
    head.decoder               lm_head                      =|embed.tokens   its own where the file has one, else that
    head.dense                 -                                       not in this family, though in the one it extends

Lines of heads follow `[head]`, and those of a single task `[its name]`; a later line replaces an earlier one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from torch import nn

from glassformer.errors import UnsupportedError
from glassformer.weights.names import (
    FileNames,
    Fused,
    FusedNoKeyBias,
    HeadByHead,
    Rule,
    Slice,
    Tied,
    TiedUnlessStored,
    Transposed,
    Unsqueezed,
    WeightNames,
)
from glassformer.weights.weight_norm import WeightNormed

PLACEHOLDERS = {"{side}": ("encoder", "decoder"), "{norm}": ("before", "on_residual")}


@dataclass(frozen=True)
class NameTable(FileNames):
    """A family's weight names; called with a spec and a task, it is their `WeightNames`.

    lines: the table
    unprefixed: tasks whose files do not write the prefix
    prefixes: of tasks that have another
    """

    lines: str
    unprefixed: tuple[str, ...] = ()
    prefixes: Mapping[str, str] = field(default_factory=dict)

    def extend(self, lines: str = "", **changes: Any) -> NameTable:
        """The table of a sibling family: these lines replace those of the same modules."""
        return replace(self, lines=f"{self.lines}\n[]\n{lines}", **changes)

    def __call__(self, spec: Any, task: str) -> WeightNames:
        body: dict[str, str | Rule] = {}
        head: dict[str, str | Rule] = {}
        section = ""
        for line in filter(None, map(str.strip, self.lines.splitlines())):
            if line.startswith("["):
                section = line[1:-1]
            elif section in ("", "head", task):
                table = head if section else body
                for ours, theirs, mark in _expand(line):
                    if theirs == "-":
                        table.pop(ours, None)
                    else:
                        table[ours] = _rule(theirs, mark, spec)
        shared = {one.name: getattr(self, one.name) for one in fields(FileNames)}
        shared["prefix"] = self.prefixes.get(task, self.prefix)
        return WeightNames(body=body, head=head, prefixed=task not in self.unprefixed, **shared)


Read = Callable[[str], torch.Tensor]

COMPUTED_ERROR = 1e-2
"""How far a stored sine may be from the computed one, in any dtype."""


def table_mistakes(names: WeightNames, ours: Sequence[str], theirs: Iterable[str], *, prefixed: bool) -> str:
    """What is wrong with a table, or "": every parameter without a line, and every tensor of a file that none names."""
    unnamed = [name for name in ours if not names.has_rule(name)]
    if not unnamed:
        return ""
    named = {their for name in ours if names.has_rule(name) for their in names.find(name, prefixed=prefixed)[1]}
    left = [name for name in theirs if name not in named and not names.is_ignored(name)]
    return (
        f"the recipe's table of weight names has no line for {len(unnamed)} parameters: {', '.join(unnamed)}; "
        f"and no line names {len(left)} tensors of the file: {', '.join(left) or 'none'}; "
        "add a line `ours  theirs` for each"
    )


def check_computed(network: nn.Module, names: WeightNames, tensors: Mapping[str, Any], read: Read) -> None:
    """Check that tables of positions in the file are those that the network computes itself, and does not read.

    Raises: UnsupportedError: they are others, such as trained ones.
    """
    for theirs in tensors:
        if path := names.computed.get(names.without_prefix(theirs)):
            stored = read(theirs).float()
            rows = torch.arange(stored.shape[0])[None]
            computed = network.get_submodule(path).to("cpu")(rows, torch.float32)[0]
            fits = stored.shape == computed.shape and bool(torch.isclose(stored, computed, atol=COMPUTED_ERROR).all())
            if not fits:
                raise UnsupportedError(
                    f"{theirs} in the file is not the table of sinusoidal positions {list(computed.shape)} that models "
                    "of this family compute: it was trained or made otherwise, and a network that reads such a table "
                    "is not supported; take a checkpoint without it, if that is what the model was trained with"
                )


def _expand(line: str) -> list[tuple[str, str, str]]:
    """Ours, theirs and the mark of a line, for each value of its placeholders."""
    lines = [line]
    for name, values in PLACEHOLDERS.items():
        lines = [line.replace(name, value) for value in values for line in lines] if name in line else lines
    return [(ours, theirs, "".join(mark)) for ours, theirs, *mark in (line.split(maxsplit=2) for line in lines)]


def _rule(theirs: str, mark: str, spec: Any) -> str | Rule:
    """The rule of a line."""
    if parts := re.fullmatch(r"(.*)\((.*)\)(.*)", theirs):
        before, alternatives, after = parts.groups()
        names = alternatives.split("|")
        full = tuple(before + name + after for name in names if name)
        if "" in names:
            return FusedNoKeyBias(full, gap=names.index(""))
        if not mark:
            return Fused(full)
        attention = spec.blocks.blocks[0].attention
        heads = {"H": attention.heads, "K": attention.K}
        return Fused(full, tuple(heads[letter] for letter in mark[1:-1].split()))
    if mark == "[heads]":
        return HeadByHead(theirs, spec.blocks.blocks[0].attention.E)
    if slices := re.fullmatch(r"\[(\d)/(\d)\]", mark):
        number, count = map(int, slices.groups())
        return Slice(theirs, (1,) * count, number)
    if mark == "|v|":
        return WeightNormed(theirs)
    if mark.startswith("["):
        return Unsqueezed(theirs, axes=mark.count("1"))
    if mark.startswith("=|"):
        return TiedUnlessStored(theirs, mark[2:])
    if mark == "=" or (mark == "=?" and spec.tied):
        return Tied(theirs)
    return Transposed(theirs) if mark == "ᵀ" else theirs
