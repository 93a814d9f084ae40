"""Weight name mapping: a checkpoint's tensor names to parameter names, as rules that can be inverted.

A recipe's table maps each of our modules to the tensors of a checkpoint. A rule names a *stem* (a module); weight and
bias follow. `{i}` and `{j}` are placeholders for the numbers in a path; a line for one number goes before theirs.

    "blocks.{i}.attn.out": "encoder.layer.{i}.attention.output.dense"                     the same tensor
    "blocks.{i}.attn.out": Transposed("h.{i}.attn.c_proj")                                 rows and columns swapped
    "blocks.{i}.attn.qkv": Fused(("…query", "…key", "…value"), sizes=(12, 4, 4))      three of theirs, one of ours
    "blocks.{i}.attn.qkv.bias": FusedNoKeyBias(("…query.bias", "…value.bias"), gap=1)       rows between are 0
    "blocks.{i}.attn.qkv": HeadByHead("….query_key_value", width=64)                     q, k and v of head after head
    "blocks.{i}.ffn.up": Slice("h.{i}.mlp.gate_up", sizes=(1, 1), number=1)             some rows of one of theirs
    "head.decoder.weight": Tied("cls.predictions.decoder.weight")                          shared with another of ours
    "head.decoder": TiedUnlessStored("lm_head", "embed.tokens")                            the same, or else shared
    "head.constant.values": Unsqueezed("final_logits_bias")                                a vector, a matrix there

A recipe writes its table as text (`name_table.py`). Here `ours` is the name of a parameter or module, `theirs` that of
a tensor in the checkpoint. As every rule can be inverted, saving gives back the very bytes that were loaded.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import WeightsError
from glassformer.weights.header import TensorInfo
from glassformer.weights.read import WeightFiles

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Same:
    """The same tensor under another name."""

    theirs: str

    @property
    def stems(self) -> tuple[str, ...]:
        return (self.theirs,)

    def shapes(self, ours: Shape) -> list[Shape]:
        """The shapes that the checkpoint's tensors must have for a parameter of shape `ours`."""
        return [ours]

    def read(self, tensors: Sequence[Tensor]) -> Tensor:
        """The checkpoint's tensors → the parameter."""
        return tensors[0]

    def write(self, ours: Tensor) -> list[Tensor]:
        """The parameter → the checkpoint's tensors: the inverse of `read`."""
        return [ours]


@dataclass(frozen=True)
class Transposed(Same):
    """A transposed matrix: the checkpoint has inputs as rows (`Conv1D` of GPT-2), ours has outputs as rows.

    Vectors are the same. Ours is a view, so that a memory-mapped file stays mapped; matrix products take either layout
    at the same speed.
    """

    def shapes(self, ours: Shape) -> list[Shape]:
        return [ours[::-1]]

    def read(self, tensors: Sequence[Tensor]) -> Tensor:
        return tensors[0].T if tensors[0].dim() == 2 else tensors[0]

    def write(self, ours: Tensor) -> list[Tensor]:
        return [ours.T.contiguous() if ours.dim() == 2 else ours]


@dataclass(frozen=True)
class Fused:
    """Several tensors concatenated along rows, such as q, k and v; `sizes` are their shares of the rows (): equal."""

    theirs: tuple[str, ...]
    sizes: tuple[int, ...] = ()

    @property
    def stems(self) -> tuple[str, ...]:
        return self.theirs

    @property
    def shares(self) -> tuple[int, ...]:
        """The share of each part."""
        return self.sizes or (1,) * len(self.theirs)

    def rows(self, total: int) -> list[int]:
        """The rows of each part, of this many in all."""
        return [total * share // sum(self.shares) for share in self.shares]

    def shapes(self, ours: Shape) -> list[Shape]:
        return [(rows, *ours[1:]) for rows in self.rows(ours[0])]

    def read(self, tensors: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(tensors))

    def write(self, ours: Tensor) -> list[Tensor]:
        return list(ours.split(self.rows(ours.shape[0])))


@dataclass(frozen=True)
class FusedNoKeyBias(Fused):
    """`Fused` biases of which part number `gap` is in no file, since the model's keys have no bias.

    It is 0, and not saved. What is added to all keys changes no softmax; but for rounding, its gradient is 0 too.
    """

    gap: int = 0

    @property
    def shares(self) -> tuple[int, ...]:
        return self.sizes or (1,) * (len(self.theirs) + 1)

    def shapes(self, ours: Shape) -> list[Shape]:
        return self._without_gap(super().shapes(ours))

    def read(self, tensors: Sequence[Tensor]) -> Tensor:
        first = self._without_gap(list(self.shares))[0]
        rows = tensors[0].shape[0] * self.shares[self.gap] // first
        missing = tensors[0].new_zeros(rows, *tensors[0].shape[1:])
        return super().read([*tensors[: self.gap], missing, *tensors[self.gap :]])

    def write(self, ours: Tensor) -> list[Tensor]:
        return self._without_gap(super().write(ours))

    def _without_gap(self, parts: list[Any]) -> list[Any]:
        return parts[: self.gap] + parts[self.gap + 1 :]


@dataclass(frozen=True)
class Slice(Same):
    """A slice of the rows of a fused tensor, such as `gate_up_proj`: the one with this `number`.

    sizes: the share of each slice. `export_weights` concatenates them again.
    """

    sizes: tuple[int, ...]
    number: int

    def shapes(self, ours: Shape) -> list[Shape]:
        return [(ours[0] * sum(self.sizes) // self.sizes[self.number], *ours[1:])]

    def read(self, tensors: Sequence[Tensor]) -> Tensor:
        unit = tensors[0].shape[0] // sum(self.sizes)
        slices: tuple[Tensor, ...] = tensors[0].split([unit * share for share in self.sizes])
        return slices[self.number]


@dataclass(frozen=True)
class HeadByHead(Same):
    """A fused tensor whose rows are q, k and v of the first head, then of the second, …: ours has all q first.

    width: E; the number of heads may differ by layer
    """

    width: int

    def read(self, tensors: Sequence[Tensor]) -> Tensor:
        by_head: Tensor = tensors[0].unflatten(0, (-1, 3, self.width))
        return by_head.transpose(0, 1).reshape(tensors[0].shape)

    def write(self, ours: Tensor) -> list[Tensor]:
        return [ours.unflatten(0, (3, -1, self.width)).transpose(0, 1).reshape(ours.shape)]


@dataclass(frozen=True)
class Tied(Same):
    """Tied weights: the parameter is another name of one that is read already; a file's copy of it is not read."""


@dataclass(frozen=True)
class TiedUnlessStored(Same):
    """A tensor of its own where the file has one, else tied: shared with the module `ours`."""

    ours: str


@dataclass(frozen=True)
class Unsqueezed(Same):
    """A tensor that the checkpoint stores with leading dimensions of size 1, `axes` of them."""

    axes: int = 1

    def shapes(self, ours: Shape) -> list[Shape]:
        return [(1,) * self.axes + ours]

    def read(self, tensors: Sequence[Tensor]) -> Tensor:
        return tensors[0].flatten(0, self.axes - 1)[0] if self.axes > 1 else tensors[0][0]

    def write(self, ours: Tensor) -> list[Tensor]:
        return [ours.reshape((1,) * self.axes + ours.shape)]


@dataclass(frozen=True)
class StackedExperts:
    """Experts of newer checkpoints: one stacked tensor for all of them, where older ones have tensors for each.

        [X, parts · rows, columns]   ↔   for each expert j, its parts [rows, columns], one below the other

    theirs: the older names of an expert's tensors, in full, with `{j}` for the expert
    """

    theirs: tuple[str, ...]

    def shapes(self, stacked: Shape) -> list[Shape] | None:
        """The shapes of the unstacked tensors, expert after expert; None where the stack cannot be cut so."""
        fits = len(stacked) == 3 and min(stacked) > 0 and stacked[1] % len(self.theirs) == 0
        if not fits or stacked[0] > MAX_EXPERTS:
            return None
        return [(stacked[1] // len(self.theirs), stacked[2])] * (stacked[0] * len(self.theirs))

    def read(self, stacked: Tensor) -> list[Tensor]:
        return [part for expert in stacked.unbind() for part in expert.chunk(len(self.theirs))]

    def write(self, parts: Sequence[Tensor]) -> Tensor:
        count = len(self.theirs)  # of an expert
        return torch.stack([torch.cat(list(parts[start : start + count])) for start in range(0, len(parts), count)])


MAX_EXPERTS = 1024
"""Limit on experts in a layer. No published model has more; each costs time before the first tensor is read."""

Rule = Same | Transposed | Fused | Slice | Tied
Rules = Mapping[str, "str | Rule"]


@dataclass(frozen=True, kw_only=True)
class FileNames:
    """What a family's files have besides a tensor for each parameter.

    prefix: of the body's names in files of a model with a head; files of a bare body do not write it
    ignored: names in files that are no parameters (buffers of old releases), by full name, `{i}` for numbers
    unread: names in files, without the prefix, of parameters that this head has not and the files have (a pooler)
    computed: names in files of tables that a module of ours computes, by full name → that module
    renamed: full names below `prefix` that newer files have → the older ones in the rest of the table
    nested: beginnings of full names in files of multimodal models, whose text part this is → in its own files
    zero_if_missing: parameters, by full name, that files may leave out because they are 0
    """

    prefix: str = ""
    ignored: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    computed: Mapping[str, str] = field(default_factory=dict)
    renamed: Mapping[str, str | StackedExperts] = field(default_factory=dict)
    nested: Mapping[str, str] = field(default_factory=dict)
    zero_if_missing: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class WeightNames(FileNames):
    """The weight names of a family: parameter or module → the rule for its tensors in a checkpoint.

    body: ours → theirs, below `prefix`
    head: ours → theirs, by full name
    prefixed: files of a model with this head write the prefix; a table may know it only to read files of other heads
    """

    body: Rules
    head: Rules = field(default_factory=dict)
    prefixed: bool = True

    def with_head(self, parameters: Iterable[str]) -> WeightNames:
        """The table of this body with a custom head, whose parameters have the same names in files.

        Args:
            parameters: the full names of the head's parameters, all below `head`
        """
        body = {ours: theirs for ours, theirs in self.body.items() if not ours.startswith("head.")}
        patterns = (_with_placeholders(name)[0] for name in parameters)
        return replace(self, body=body, head={pattern: pattern for pattern in patterns}, prefixed=True)

    def has_rule(self, ours: str) -> bool:
        """Whether the table has a rule for a parameter, by its own name or its module's."""
        names = (ours, ours.rpartition(".")[0])
        keys = {*names, *(_with_placeholders(name)[0] for name in names)}
        return any(key in self.head or key in self.body for key in keys)

    def find(self, ours: str, *, prefixed: bool) -> tuple[Rule, list[str]]:
        """The rule of a parameter, and the full names of its tensors in the checkpoint.

        Raises: WeightsError: the recipe's table has no rule for it.
        """
        stem, _, leaf = ours.rpartition(".")
        for table, prefix in (
            (self.head, ""),
            (self.body, f"{self.prefix}." if prefixed and self.prefix else ""),
        ):
            for key, tail in ((ours, ""), (stem, f".{leaf}")):
                pattern, numbers = (key, {}) if key in table else _with_placeholders(key)
                if pattern in table:
                    entry = table[pattern]
                    rule = Same(entry) if isinstance(entry, str) else entry
                    return rule, [prefix + theirs.format(**numbers) + tail for theirs in rule.stems]
        raise WeightsError(
            f"the recipe's table of weight names has no line for the parameter {ours}; add a line `{ours}  theirs`"
        )

    def table_names(self, theirs: str, shape: Shape) -> tuple[StackedExperts | None, list[str]]:
        """The names in this table of a tensor in a file: its own, or the older ones that a newer name replaces.

        Returns: how a stacked tensor is cut (None: it is not), and the names.
        """
        for outer, own in self.nested.items():
            if theirs.startswith(outer):
                theirs = own + theirs.removeprefix(outer)
                break
        bare = self.without_prefix(theirs)
        pattern, numbers = _with_placeholders(bare)
        entry = self.renamed.get(pattern)
        prefix = theirs.removesuffix(bare)
        if isinstance(entry, str):
            return None, [prefix + entry.format(**numbers)]
        shapes = entry.shapes(shape) if entry is not None else None
        if entry is None or shapes is None:
            return None, [theirs]
        experts = range(len(shapes) // len(entry.theirs))
        return entry, [prefix + part.format(**numbers, j=j) for j in experts for part in entry.theirs]

    def has_prefix(self, theirs: Iterable[str]) -> bool:
        """Whether the tensor names of a file begin with the prefix."""
        return any(name.startswith(f"{self.prefix}.") for name in theirs)

    def is_ignored(self, theirs: str) -> bool:
        """Whether a name in a file is known to be no parameter."""
        known = {*self.ignored, *self.unread, *self.computed}
        return not known.isdisjoint(_with_placeholders(name)[0] for name in (theirs, self.without_prefix(theirs)))

    def is_carried(self, own: str) -> bool:
        """Whether a tensor, by its name without the prefix, goes from the loaded file to the saved one.

        So does the pooler of a body, which some heads read and others do not: a tagger's file keeps it for the next.
        """
        if own.rpartition(".")[0] in self.poolers:
            return True
        return not {own, _with_placeholders(own)[0]}.isdisjoint({*self.unread, *self.computed})

    @cached_property
    def poolers(self) -> frozenset[str]:
        """The names in files of parts of a head that belong to the body there."""
        parts = [
            Same(entry) if isinstance(entry, str) else entry for ours, entry in self.body.items() if _is_head(ours)
        ]
        return frozenset(stem for rule in parts for stem in rule.stems)

    def without_prefix(self, theirs: str) -> str:
        """A name in a file without the prefix."""
        return theirs.removeprefix(f"{self.prefix}.") if self.prefix else theirs


def _is_head(ours: str) -> bool:
    return ours.partition(".")[0] == "head"


def _with_placeholders(path: str) -> tuple[str, dict[str, str]]:
    """`blocks.3.attn` → `blocks.{i}.attn` and {"i": "3"}; a second number becomes `{j}`."""
    numbers: dict[str, str] = {}

    def placeholder(match: re.Match[str]) -> str:
        name = "ij"[len(numbers)] if len(numbers) < 2 else f"k{len(numbers)}"
        numbers[name] = match.group()
        return "{" + name + "}"

    return re.sub(r"(?<![^.])\d+(?![^.])", placeholder, path), numbers


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

    def drop(self, stored: Container[str]) -> None:
        """Leave out tensors, by their names in the file."""
        for name in [name for name, (source, _, _) in self._sources.items() if source in stored]:
            del self.tensors[name], self._sources[name]

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
