"""Foreign weight names: a checkpoint of another library, under the reference library's names.

A table has a line for each of their modules, `{i}` for the numbers in a path:

    encoder.blocks.{i}.attn_ln   model.encoder.layers.{i}.self_attn_layer_norm        the same tensors
    {side}.positional            model.{side}.embed_positions.weight                  of encoder and decoder; one tensor
    blocks.{i}.in_proj           layers.{i}.self_attn.(q_proj|k_proj|v_proj)          its rows in equal parts
    blocks.{i}.in_proj.bias      layers.{i}.self_attn.(q_proj||v_proj).bias           a part that must be 0, and is left
    proj                         visual_projection.weight                    ᵀ        transposed
    mask                         -                                                    not read
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from glassformer.errors import WeightsError
from glassformer.files import safe_repr
from glassformer.weights.read import ComputedWeights, WeightFiles

LEAVES, SIDES = ("weight", "bias"), ("encoder", "decoder")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a table.

    names: ours of the parts, "" for one that is left out; none: the tensor is not read.
    """

    pattern: re.Pattern[str]
    names: tuple[str, ...]
    transposed: bool


@dataclass(frozen=True, slots=True)
class StoredPart:
    """Where a tensor comes from: its name in the file, which of how many parts of its rows, and the line."""

    stored: str
    part: int
    line: Line


def read_table(text: str) -> list[Line]:
    """The lines of a table."""
    lines = []
    sided = (line.replace("{side}", side) for line in text.splitlines() for side in SIDES[: 1 + ("{side}" in line)])
    for theirs, ours, *mark in (line.split() for line in sided if line.strip()):
        pattern = re.sub(r"\\{(\w)\\}", r"(?P<\1>\\d+)", re.escape(theirs))
        parts = re.fullmatch(r"(.*)\((.*)\)(.*)", ours)
        names = [ours]
        if parts:
            before, alternatives, after = parts.groups()
            names = [before + name + after if name else "" for name in alternatives.split("|")]
        lines.append(Line(re.compile(pattern), () if ours == "-" else tuple(names), mark == ["ᵀ"]))
    return lines


class RenamedWeights(ComputedWeights):
    """An open checkpoint of another library, by the reference library's names.

    A tensor that no line of the table names keeps its own, so that the load report lists it.
    """

    def __init__(self, checkpoint: WeightFiles, table: str) -> None:
        super().__init__(checkpoint.files, {}, {}, None, checkpoint.settings)
        self._checkpoint = checkpoint
        self._sources: dict[str, StoredPart] = {}
        lines = read_table(table)
        for stored, info in checkpoint.tensors.items():
            line, names = _find(lines, stored)
            parts = max(1, len(line.names))
            if len(names) > 1 and (not info.shape or info.shape[0] % parts):
                raise WeightsError(
                    f"{info.file}: {safe_repr(stored)} is {list(info.shape)}; its rows must make {parts} equal parts"
                )
            shape = info.shape if parts == 1 else (info.shape[0] // parts, *info.shape[1:])
            for part, name in enumerate(names):
                if name:
                    shape_here = shape[::-1] if line.transposed else shape
                    self.tensors[name] = replace(info, shape=shape_here, bytes=info.bytes // parts)
                    self._sources[name] = StoredPart(stored, part, line)

    def read(self, name: str, *, transient: bool = False) -> Tensor:
        if name not in self._sources:
            raise WeightsError(f"{self.files[0]}: has no tensor {safe_repr(name)}; see WeightFiles.tensors")
        source = self._sources[name]
        tensor = self._checkpoint.read(source.stored, transient=transient)
        names = source.line.names
        if len(names) > 1:
            parts = tensor.chunk(len(names))
            if any(not ours and bool(part.any()) for ours, part in zip(names, parts, strict=True)):
                raise WeightsError(
                    f"{self.files[0]}: {safe_repr(source.stored)} has rows that must be 0 in this architecture, and "
                    "are not; the file is of another one"
                )
            tensor = parts[source.part]
        return tensor.T if source.line.transposed else tensor

    def rows(self, name: str) -> int:
        """The first size of a tensor. Raises: WeightsError: it is not there."""
        return self.shape(name)[0]

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor. Raises: WeightsError: it is not there, or a number."""
        info = self.tensors.get(name)
        if info is None or not math.prod(info.shape) or not info.shape:
            raise WeightsError(f"{self.files[0]}: has no tensor {safe_repr(name)}, or an empty one; it is cut off")
        return info.shape

    def count(self, pattern: str) -> int:
        """How many numbers `{i}` are in the names that begin with a pattern, such as `model.encoder.layers.{i}.`."""
        expression = re.compile(re.escape(pattern).replace(r"\{i\}", r"(\d+)"))
        return len({match[1] for match in map(expression.match, self.tensors) if match})

    def close(self) -> None:
        super().close()
        self._checkpoint.close()


def _find(lines: Sequence[Line], stored: str) -> tuple[Line, list[str]]:
    """The line of a tensor by its full name, else by its module's, and the names of its parts."""
    stem, _, leaf = stored.rpartition(".")
    for name, tail in ((stored, ""), (stem, f".{leaf}")):
        for line in lines:
            if (not tail or leaf in LEAVES) and (match := line.pattern.fullmatch(name)):
                return line, [ours and ours.format(**match.groupdict()) + tail for ours in line.names]
    return Line(re.compile(""), (stored,), False), [stored]
