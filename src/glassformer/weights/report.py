"""What became of every tensor when a checkpoint was loaded, as a table that folds a hundred layers into a line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape

MOST_LINES = 20  # of a kind: a file may hold a million names
MOST_SHAPES = 3  # of a line
MOST_LETTERS = 200  # of a name
NUMBER = "#"  # in the place of a layer's number

MEANING = {
    "new": "not in the checkpoint, so initialised: train them before use",
    "unused": "in the checkpoint, not in this model, such as the head of another task",
}


@dataclass(frozen=True, slots=True)
class Group:
    """Tensors with one beginning, the layers' numbers folded.

    name: "cls.predictions.*", "layers.0-11.attn.*"; of a single tensor its own
    tensors: how many · shapes: the different ones, in order
    """

    name: str
    tensors: int
    shapes: tuple[tuple[int, ...], ...]

    @property
    def shape(self) -> str:
        """The shapes in words: `768×768, 768`."""
        shown = ["×".join(map(str, shape)) or "1" for shape in self.shapes[:MOST_SHAPES]]
        return ", ".join(shown + ["…"] * (len(self.shapes) > MOST_SHAPES))


@dataclass(repr=False)
class LoadReport:
    """What became of every tensor, in the file and in the network.

    loaded: ours, filled from the file · new: ours, initialised, since only the asked-for task has them
    unused: theirs, of no use to this network · warnings: config keys that nobody reads, and the like
    shapes: of the new and the unused ones

    Printed, it is a table; a notebook draws it.
    """

    loaded: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def groups(self, kind: str) -> list[Group]:
        """The tensors that are "new" or "unused", by how their names begin."""
        return grouped(self.new if kind == "new" else self.unused, self.shapes)

    def __repr__(self) -> str:
        return (
            f"LoadReport(loaded={len(self.loaded)}, new={len(self.new)}, unused={len(self.unused)}, "
            f"warnings={len(self.warnings)})"
        )

    def __str__(self) -> str:
        lines = [f"loaded   {len(self.loaded):>5} tensors"]
        for kind, meaning in MEANING.items():
            groups = self.groups(kind)
            if not groups:
                continue
            lines.append(f"{kind:<8} {sum(g.tensors for g in groups):>5} tensors  {meaning}")
            rows = [(clear(g.name), f"{g.tensors:,}", clear(g.shape)) for g in groups[:MOST_LINES]]
            first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
            lines += [
                f"  {name:<{first}}  {count:>{second}}  {shape}".rstrip() for name, count, shape in rows
            ]
            lines += [f"  {words}" for words in left_out(groups)]
        return "\n".join(lines + [f"warning  {clear(warning)}" for warning in self.warnings])

    def _repr_html_(self) -> str:
        rows = [_html_row("loaded", "", len(self.loaded), "", "")]
        for kind, meaning in MEANING.items():
            groups = self.groups(kind)
            for i, group in enumerate(groups[:MOST_LINES]):
                rows.append(
                    _html_row("" if i else kind, group.name, group.tensors, group.shape, "" if i else meaning)
                )
            rows += [_html_row("", words, None, "", "") for words in left_out(groups)]
        rows += [_html_row("warning", warning, None, "", "") for warning in self.warnings]
        head = "".join(f"<th>{name}</th>" for name in ("", "name", "tensors", "shapes", ""))
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def grouped(names: Iterable[str], shapes: dict[str, tuple[int, ...]]) -> list[Group]:
    """Names by their beginning: two parts of it, or all parts up to a number and one more.

    cls.predictions.bias, cls.predictions.transform.dense.weight  →  cls.predictions.*  2
    layers.0.attn.k.weight, layers.1.attn.k.weight                →  layers.0-1.attn.k.weight  2
    """
    found: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        found.setdefault(_beginning(name), []).append(name)
    return [_group(beginning, members, shapes) for beginning, members in found.items()]


def _beginning(name: str) -> tuple[str, ...]:
    form = _form(name)
    end = form.index(NUMBER) + 2 if NUMBER in form else 2
    return form[: max(1, min(end, len(form) - 1))]


def _form(name: str) -> tuple[str, ...]:
    """The parts of a name, whatever its numbers."""
    return tuple(NUMBER if part.isdecimal() else part for part in name.split("."))


def _group(beginning: tuple[str, ...], names: list[str], shapes: dict[str, tuple[int, ...]]) -> Group:
    same = len({_form(name) for name in names}) == 1
    shown = list(_form(names[0]) if same else beginning)
    for place, part in enumerate(shown):
        if part == NUMBER:
            shown[place] = _range({name.split(".")[place] for name in names})
    return Group(
        name=".".join(shown if same else [*shown, "*"]),
        tensors=len(names),
        shapes=tuple(dict.fromkeys(shapes[name] for name in names if name in shapes)),
    )


def _range(numbers: set[str]) -> str:
    """{"0", "1", "5"} → "0-5"; some between may miss the tensor."""
    ends = [end(numbers, key=lambda number: (len(number), number)) for end in (min, max)]
    return "-".join(dict.fromkeys(ends))


def left_out(groups: list[Group]) -> list[str]:
    """A line for what is not shown, where something is not."""
    rest = groups[MOST_LINES:]
    return [f"… and {sum(g.tensors for g in rest):,} tensors more"] if rest else []


def clear(text: str) -> str:
    """Text with names from a file in it, safe to print and not endless."""
    text = text if text.isprintable() else repr(text)[1:-1]
    return text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 20]}…"


def _html_row(kind: str, name: str, count: int | None, shape: str, meaning: str) -> str:
    cells = (kind, clear(name), "" if count is None else f"{count:,}", shape, meaning)
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
