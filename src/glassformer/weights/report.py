"""Load report: loaded, newly initialised and unused tensors of a checkpoint, with layers folded into one line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from glassformer.errors import WeightsError
from glassformer.files import counted
from glassformer.reports.report import Report
from glassformer.reports.table import Table

MAX_LINES = 20  # a kind: a file may hold a million names
MAX_SHAPES = 3  # a line
MAX_NAME_CHARS = 200  # of a tensor: that of a hostile file may have megabytes
NUMBER = "#"  # instead of a layer's number

MEANINGS = {
    "new": "not in the checkpoint, so initialised: train them before use",
    "unused": "in the checkpoint, not in this model, such as the head of another task",
}


@dataclass(frozen=True, slots=True)
class TensorGroup:
    """Tensors whose names share a prefix, with layer numbers folded to a range.

    name: "cls.predictions.*", "layers.0-11.attn.*"; of a single tensor its own
    tensors: their number
    shapes: the different ones, in order
    """

    name: str
    tensors: int
    shapes: tuple[tuple[int, ...], ...]

    @property
    def shape(self) -> str:
        """The shapes as text: `768×768, 768`."""
        texts = ["×".join(map(str, shape)) or "1" for shape in self.shapes[:MAX_SHAPES]]
        return ", ".join(texts + ["…"] * (len(self.shapes) > MAX_SHAPES))


@dataclass(repr=False)
class LoadReport(Report, kind="load"):
    """Which parameters were loaded from a checkpoint, which are new, and which tensors are unused.

    loaded: parameters read from the file
    new: parameters initialised, since only the requested task has them
    unused: tensors of the file that this network has no use for
    warnings: unused config keys, and the like
    shapes: of the new and the unused ones
    """

    loaded: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def groups(self, kind: str) -> list[TensorGroup]:
        """The tensors that are "new" or "unused", grouped by name prefix."""
        return group_by_prefix(self.new if kind == "new" else self.unused, self.shapes)

    @property
    def new_in_head(self) -> list[str]:
        """Parameters of the head that are random, and with them all that it predicts."""
        return [name for name in self.new if name.startswith("head.")]

    def require_head(self, name: str, task: str) -> None:
        """Raises: WeightsError: parameters of the head are random, where a task has one that predicts."""
        if self.new_in_head and task != "feature-extraction":
            raise WeightsError(
                f"{name}: holds no head for {task} ({', '.join(self.new_in_head[:3])} would be random, and with it "
                "every prediction); leave --task out, or name a model that was trained for it"
            )

    @property
    def heading(self) -> str:
        """How many parameters were read from the file."""
        return f"loaded: {counted(len(self.loaded), 'tensor')}"

    def tables(self) -> list[Table]:
        """The new and the unused tensors, grouped by the beginning of their names."""
        return [self._table(kind, groups) for kind in MEANINGS if (groups := self.groups(kind))]

    def _table(self, kind: str, groups: list[TensorGroup]) -> Table:
        rows = [[printable(group.name), printable(group.shape), f"{group.tensors:,}"] for group in groups[:MAX_LINES]]
        if rest := groups[MAX_LINES:]:
            rows.append([f"… and {counted(len(rest), 'group')} more", "", f"{sum(g.tensors for g in rest):,}"])
        number = counted(sum(group.tensors for group in groups), "tensor")
        caption = f"{kind}: {number} {MEANINGS[kind]}"
        return Table([kind, "shapes", "tensors"], rows, caption, left=2, longest=MAX_NAME_CHARS)

    def remarks(self) -> list[str]:
        return [f"warning: {printable(warning)}" for warning in self.warnings]


def group_by_prefix(names: Iterable[str], shapes: dict[str, tuple[int, ...]]) -> list[TensorGroup]:
    """Group tensor names by prefix: two parts of the name, or all parts up to a number and one more.

    cls.predictions.bias, cls.predictions.transform.dense.weight  →  cls.predictions.*  2
    layers.0.attn.k.weight, layers.1.attn.k.weight                →  layers.0-1.attn.k.weight  2
    """
    by_prefix: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        by_prefix.setdefault(_prefix(name), []).append(name)
    return [_group(prefix, members, shapes) for prefix, members in by_prefix.items()]


def _prefix(name: str) -> tuple[str, ...]:
    pattern = _pattern(name)
    end = pattern.index(NUMBER) + 2 if NUMBER in pattern else 2
    return pattern[: max(1, min(end, len(pattern) - 1))]


def _pattern(name: str) -> tuple[str, ...]:
    """The parts of a name, with `NUMBER` for each number."""
    return tuple(NUMBER if part.isdecimal() else part for part in name.split("."))


def _group(prefix: tuple[str, ...], names: list[str], shapes: dict[str, tuple[int, ...]]) -> TensorGroup:
    same = len({_pattern(name) for name in names}) == 1
    parts = list(_pattern(names[0]) if same else prefix)
    for i, part in enumerate(parts):
        if part == NUMBER:
            parts[i] = _range({name.split(".")[i] for name in names})
    return TensorGroup(
        name=".".join(parts if same else [*parts, "*"]),
        tensors=len(names),
        shapes=tuple(dict.fromkeys(shapes[name] for name in names if name in shapes)),
    )


def _range(numbers: set[str]) -> str:
    """{"0", "1", "5"} → "0-5"; some layers between may lack the tensor."""
    ends = [end(numbers, key=lambda number: (len(number), number)) for end in (min, max)]
    return "-".join(dict.fromkeys(ends))


def printable(text: str) -> str:
    """Sanitise text with names from a file in it: printable, and not endless."""
    text = text if text.isprintable() else repr(text)[1:-1]
    return text if len(text) <= MAX_NAME_CHARS else f"{text[: MAX_NAME_CHARS - 20]}…"
