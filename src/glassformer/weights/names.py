"""Their tensor names and ours, as data.

A recipe's table says, for each of our modules, where its tensors lie in a checkpoint. A rule speaks of a *stem* (a
module); weight and bias follow. `{i}` and `{j}` stand for the numbers in a path.

    "blocks.{i}.attn.out": "encoder.layer.{i}.attention.output.dense"                     the same tensor
    "blocks.{i}.attn.out": Transposed("h.{i}.attn.c_proj")                                 rows and columns swapped
    "blocks.{i}.attn.qkv": Fused(("…query", "…key", "…value"), sizes=(768, 768, 768))      three of theirs, one of ours
    "blocks.{i}.attn.qkv.bias": Gapped(("…query.bias", "…value.bias"), sizes=(…), gap=1)   the rows between are 0
    "blocks.{i}.ffn.up": Part("h.{i}.mlp.gate_up", sizes=(96, 96), number=1)              some rows of one of theirs
    "head.decoder.weight": Tied("cls.predictions.decoder.weight")                          shared with another of ours
    "head.decoder": TiedUnlessStored("lm_head", "embed.tokens")                            the same, or else shared
    "head.constant.values": OneRow("final_logits_bias")                                    a vector, a matrix there

Every rule can be inverted, so that saving gives back the very bytes that were loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Same:
    """Their tensor is ours."""

    theirs: str

    @property
    def stems(self) -> tuple[str, ...]:
        return (self.theirs,)

    def shapes(self, ours: Shape) -> list[Shape]:
        """What shape each of their tensors must have, given ours."""
        return [ours]

    def read(self, tensors: Sequence[Tensor]) -> Tensor:
        return tensors[0]

    def write(self, ours: Tensor) -> list[Tensor]:
        return [ours]


@dataclass(frozen=True)
class Transposed(Same):
    """Their matrix has inputs as rows, ours has outputs as rows; vectors are the same.

    Ours is a view of theirs, so that a mapped file stays mapped; products take either layout at the same speed.
    """

    def shapes(self, ours: Shape) -> list[Shape]:
        return [ours[::-1]]

    def read(self, tensors: Sequence[Tensor]) -> Tensor:
        return tensors[0].T if tensors[0].dim() == 2 else tensors[0]

    def write(self, ours: Tensor) -> list[Tensor]:
        return [ours.T.contiguous() if ours.dim() == 2 else ours]


@dataclass(frozen=True)
class Fused:
    """Several of their tensors, one below the other, are one of ours; `sizes` are their numbers of rows."""

    theirs: tuple[str, ...]
    sizes: tuple[int, ...]

    @property
    def stems(self) -> tuple[str, ...]:
        return self.theirs

    def shapes(self, ours: Shape) -> list[Shape]:
        return [(size, *ours[1:]) for size in self.sizes]

    def read(self, tensors: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(tensors))

    def write(self, ours: Tensor) -> list[Tensor]:
        return list(ours.split(list(self.sizes)))


@dataclass(frozen=True)
class Gapped(Fused):
    """As `Fused`, but part number `gap` of ours stands in no file: a bias that keys do not have.

    It is 0, and not saved. What is added to all keys alike changes no softmax; but for rounding, its gradient is 0 too.
    """

    gap: int

    def shapes(self, ours: Shape) -> list[Shape]:
        return self._without_gap(super().shapes(ours))

    def read(self, tensors: Sequence[Tensor]) -> Tensor:
        zeros = tensors[0].new_zeros(self.sizes[self.gap], *tensors[0].shape[1:])
        return super().read([*tensors[: self.gap], zeros, *tensors[self.gap :]])

    def write(self, ours: Tensor) -> list[Tensor]:
        return self._without_gap(super().write(ours))

    def _without_gap(self, parts: list[Any]) -> list[Any]:
        return parts[: self.gap] + parts[self.gap + 1 :]


@dataclass(frozen=True)
class Part:
    """One of their tensors is several of ours, one below the other; ours is the one with this `number`.

    sizes: the rows of each. `fit.gather` joins them again.
    """

    theirs: str
    sizes: tuple[int, ...]
    number: int

    @property
    def stems(self) -> tuple[str, ...]:
        return (self.theirs,)

    def shapes(self, ours: Shape) -> list[Shape]:
        return [(sum(self.sizes), *ours[1:])]

    def read(self, tensors: Sequence[Tensor]) -> Tensor:
        parts: tuple[Tensor, ...] = tensors[0].split(list(self.sizes))
        return parts[self.number]

    def write(self, ours: Tensor) -> list[Tensor]:
        return [ours]


@dataclass(frozen=True)
class Tied(Same):
    """Our parameter is another name of one that is already read; theirs, where a file repeats it, is not."""


@dataclass(frozen=True)
class TiedUnlessStored(Same):
    """Their tensor is ours; a file without it means that our module shares its weight with the module `ours`."""

    ours: str


@dataclass(frozen=True)
class OneRow(Same):
    """Our vector is the only row of their matrix; or more such axes of length 1 stand before ours."""

    axes: int = 1

    def shapes(self, ours: Shape) -> list[Shape]:
        return [(1,) * self.axes + ours]

    def read(self, tensors: Sequence[Tensor]) -> Tensor:
        return tensors[0].flatten(0, self.axes - 1)[0] if self.axes > 1 else tensors[0][0]

    def write(self, ours: Tensor) -> list[Tensor]:
        return [ours.reshape((1,) * self.axes + ours.shape)]


@dataclass(frozen=True)
class Stacked:
    """How newer files spell experts: one tensor for all of them, where older ones have some for each.

        [X, parts · rows, columns]   ↔   for each expert j, its parts [rows, columns], one below the other

    theirs: the older names of the parts, in full, with `{j}` for the expert
    """

    theirs: tuple[str, ...]

    def shapes(self, stacked: Shape) -> list[Shape] | None:
        """The shapes of the parts, expert after expert; None where the stack cannot be cut so."""
        fits = len(stacked) == 3 and min(stacked) > 0 and stacked[1] % len(self.theirs) == 0
        if not fits or stacked[0] > MOST_EXPERTS:
            return None
        return [(stacked[1] // len(self.theirs), stacked[2])] * (stacked[0] * len(self.theirs))

    def read(self, stacked: Tensor) -> list[Tensor]:
        return [part for expert in stacked.unbind() for part in expert.chunk(len(self.theirs))]

    def write(self, parts: Sequence[Tensor]) -> Tensor:
        each = len(self.theirs)
        return torch.stack([torch.cat(list(parts[at : at + each])) for at in range(0, len(parts), each)])


MOST_EXPERTS = 1024
"""No published model has more in a layer; each costs time before the first tensor is read."""

Rule = Same | Transposed | Fused | Part | Tied
Table = Mapping[str, "str | Rule"]


@dataclass(frozen=True)
class Names:
    """A family's whole table.

    body: ours → theirs, below `prefix`, which files of a model with a head write and files of a bare body do not
    head: ours → theirs, by full name
    ignored: names in files that are no parameters (buffers of old releases), by full name, `{i}` for numbers
    newer: full names below `prefix` that newer files have → the older ones that the rest of the table speaks of
    zeros: ours, by full name, that files may leave out because they are 0
    prefixed: files of a model with this head write the prefix; a table may know it only to read files of other heads
    """

    body: Table
    head: Table = field(default_factory=dict)
    prefix: str = ""
    ignored: tuple[str, ...] = ()
    newer: Mapping[str, str | Stacked] = field(default_factory=dict)
    zeros: tuple[str, ...] = ()
    prefixed: bool = True

    def with_head(self, parameters: Iterable[str]) -> Names:
        """The table of this body with a head of the caller's own, whose parameters files hold by our names.

        Args:
            parameters: the full names of the head's parameters, all below `head`.
        """
        body = {ours: theirs for ours, theirs in self.body.items() if not ours.startswith("head.")}
        generals = (_generalised(name)[0] for name in parameters)
        return replace(self, body=body, head={name: name for name in generals}, prefixed=True)

    def find(self, ours: str, *, prefixed: bool) -> tuple[Rule, list[str]]:
        """The rule of one of our parameters, and the full names of their tensors."""
        stem, _, leaf = ours.rpartition(".")
        for table, prefix in (
            (self.head, ""),
            (self.body, f"{self.prefix}." if prefixed and self.prefix else ""),
        ):
            for key, tail in ((ours, ""), (stem, f".{leaf}")):
                general, numbers = _generalised(key)
                if general in table:
                    entry = table[general]
                    rule = Same(entry) if isinstance(entry, str) else entry
                    return rule, [prefix + theirs.format(**numbers) + tail for theirs in rule.stems]
        raise KeyError(f"the recipe has no rule for its parameter {ours!r}")

    def older(self, theirs: str, shape: Shape) -> tuple[Stacked | None, list[str]]:
        """The names by which the table knows a tensor of a file: its own, or those that a newer spelling stands for."""
        bare = theirs.removeprefix(f"{self.prefix}.") if self.prefix else theirs
        general, numbers = _generalised(bare)
        entry = self.newer.get(general)
        prefix = theirs.removesuffix(bare)
        if isinstance(entry, str):
            return None, [prefix + entry.format(**numbers)]
        shapes = entry.shapes(shape) if entry is not None else None
        if entry is None or shapes is None:
            return None, [theirs]
        experts = range(len(shapes) // len(entry.theirs))
        return entry, [prefix + part.format(**numbers, j=j) for j in experts for part in entry.theirs]

    def are_prefixed(self, theirs: Iterable[str]) -> bool:
        """Do the names in a file stand below the prefix?"""
        return any(name.startswith(f"{self.prefix}.") for name in theirs)

    def is_ignored(self, theirs: str) -> bool:
        """Is this name in a file known to be no parameter?"""
        bare = theirs.removeprefix(f"{self.prefix}.") if self.prefix else theirs
        return _generalised(theirs)[0] in self.ignored or _generalised(bare)[0] in self.ignored


def _generalised(path: str) -> tuple[str, dict[str, str]]:
    """`blocks.3.attn` → `blocks.{i}.attn` and {"i": "3"}; a second number becomes `{j}`."""
    numbers: dict[str, str] = {}

    def letter(found: re.Match[str]) -> str:
        name = "ij"[len(numbers)] if len(numbers) < 2 else f"k{len(numbers)}"
        numbers[name] = found.group()
        return "{" + name + "}"

    return re.sub(r"(?<![^.])\d+(?![^.])", letter, path), numbers
