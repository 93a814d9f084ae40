"""Difference of two passes: of two checkpoints, two precisions or two texts, token by token and head by head.

    residual   |b - a| / |a| of each token's vector, at every level       where they first part: above a threshold
    heads      how much of its attention a head moves elsewhere, in [0, 1]
    map        of each head: what the other pass attends more (above 0) or less (below 0)

Tokens of two texts are paired by their place where there are as many, and else in order where they read the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from glassformer.errors import DataError
from glassformer.inspect.numbers import level_names
from glassformer.inspect.overview import CELLS, THUMBNAIL
from glassformer.inspect.tokens import Token
from glassformer.reports.charts import Series, SeriesLine
from glassformer.reports.report import Report
from glassformer.reports.table import Table

if TYPE_CHECKING:
    from glassformer.inspect.session import Progress, Session

THRESHOLD = 0.01
"""Of the difference of a vector, relative to its length, above which two passes have parted."""
LISTED = 10  # heads in the table
Pairs = list[tuple[int, int]]


@dataclass(frozen=True, eq=False, repr=False)
class PassDifference(Report, kind="pass-difference"):
    """How the pass b differs from the pass a, over N paired queries and M paired keys.

    names: of the two passes
    map: attention map
    queries, keys: the paired tokens, as a and b have them
    left_out: tokens of the queries that have no pair, of a and of b
    levels: names of the L + 1 levels of the residual stream
    distance: |b - a| / |a| of the vector of each token. [L + 1, N]
    length: |b| / |a| - 1, signed. [L + 1, N]
    heads: total variation ½ Σ |p_b - p_a| of attention, mean over queries. [L, H]
    shifts: p_b - p_a of each head; of long texts the largest of each bin of cells. [L, H, n, m]
    bins: number of queries and of keys in a cell of `shifts`
    """

    names: tuple[str, str]
    map: str
    queries: list[tuple[str, str]]
    keys: list[tuple[str, str]]
    left_out: tuple[int, int]
    levels: list[str]
    distance: Tensor
    length: Tensor
    heads: Tensor
    shifts: Tensor
    bins: tuple[int, int]

    @property
    def title(self) -> str:
        return "Difference"

    @property
    def heading(self) -> str:
        """What is compared."""
        return f"{self.names[1]} − {self.names[0]}"

    def first(self, threshold: float = THRESHOLD) -> tuple[int, int] | None:
        """Where the passes part: the first level with a difference above the threshold, and its token with the largest.

        Returns: numbers of the level and of the pair; None = nowhere.
        """
        above = (self.distance > threshold).any(-1).nonzero()
        if not len(above):
            return None
        level = int(above[0])
        return level, int(self.distance[level].argmax())

    @property
    def finding(self) -> str:
        """Where they part, and the head that differs most."""
        return f"{self.parting()} {self.strongest()}"

    def parting(self, threshold: float = THRESHOLD) -> str:
        """Where the passes part, in a sentence."""
        place = self.first(threshold)
        if place is None:
            most = float(self.distance.max())
            return (
                f"No vector differs by more than {threshold:.1%} of its length; the largest difference is {most:.1%}."
            )
        level, token = place
        words = " / ".join(dict.fromkeys(self.queries[token]))
        share = float(self.distance[level, token])
        where = self.levels[level] if level else "the embedding"
        return f"They part at {where}, at {words!r}: its vector differs by {share:.1%} of its length."

    def strongest(self) -> str:
        """The head that differs most, in a sentence."""
        layer, head = divmod(int(self.heads.argmax()), self.heads.shape[1])
        return f"Layer {layer}, head {head} differs most: it moves {float(self.heads.max()):.1%} of its attention."

    def tables(self) -> list[Table]:
        """The levels, and the heads that differ most."""
        ranked = self.heads.flatten().argsort(descending=True)[:LISTED].tolist()
        heads = [divmod(at, self.heads.shape[1]) for at in ranked]
        tokens = [" / ".join(dict.fromkeys(self.queries[at])) for at in self.distance.argmax(-1).tolist()]
        levels = [
            [name, f"{float(row.median()):.2%}", f"{float(row.max()):.2%}", token, f"{float(change):+.2%}"]
            for name, row, token, change in zip(self.levels, self.distance, tokens, self.length.mean(-1), strict=True)
        ]
        return [
            Table(["level", "median", "largest", "at", "length"], levels, "difference of vectors"),
            Table(
                ["head", "attention moved"],
                [[f"{layer}.{head}", f"{float(self.heads[layer, head]):.1%}"] for layer, head in heads],
                "heads that differ most",
            ),
        ]

    def charts(self) -> list[Series]:
        """The difference of vectors by level."""
        x = list(range(len(self.levels)))
        lines = [
            SeriesLine("largest", x, self.distance.amax(-1).tolist(), markers=True),
            SeriesLine("median", x, self.distance.median(-1).values.tolist(), markers=True),
        ]
        return [Series(title="Difference of vectors", x_label="level", lines=lines)]

    @property
    def notes(self) -> list[str]:
        """What is not compared."""
        a, b = self.left_out
        return [f"without a pair: {a} tokens of {self.names[0]}, {b} of {self.names[1]}"] if a or b else []


def difference(
    a: Session,
    b: Session,
    map: str,
    *,
    names: tuple[str, str] = ("a", "b"),
    progress: Progress = lambda done, of: None,
) -> PassDifference:
    """Compare two passes.

    Args:
        map: attention map of a, and with it the stream of its queries
        names: of the passes, in sentences
        progress: called with the number of layers done and of all
    Raises: DataError: they have other numbers of layers or heads, or other widths, or no token in common.
    """
    about, other = a.maps[map], b.maps.get(map)
    shape = (about.layers, about.heads)
    if other is None or (other.layers, other.heads) != shape:
        has = "no such map" if other is None else f"{other.layers} × {other.heads}"
        raise DataError(
            f"{names[0]} has {about.name!r} attention of {shape[0]} layers × {shape[1]} heads, {names[1]} has {has}; "
            "compare models of one shape"
        )
    queries, keys = (paired(a.streams[x], b.streams[x]) for x in (about.queries, about.keys))
    if not queries or not keys:
        raise DataError(f"{names[0]!r} and {names[1]!r} have no token in common; compare texts of as many tokens")
    own, their = ([x.states(i, about.queries) for i in range(len(x.stream_taps(about.queries)))] for x in (a, b))
    if len(own) != len(their) or own[0].shape[-1] != their[0].shape[-1]:
        raise DataError(
            f"the vectors of {names[0]} are {own[0].shape[-1]} wide at {len(own)} levels, those of {names[1]} "
            f"{their[0].shape[-1]} at {len(their)}; compare models of one shape"
        )
    rows, columns = (torch.tensor(list(zip(*pairs, strict=True))) for pairs in (queries, keys))
    vectors = [(x[rows[0]].double(), y[rows[1]].double()) for x, y in zip(own, their, strict=True)]
    tiny = torch.finfo(torch.float32).tiny
    lengths = torch.stack([x.norm(dim=-1) for x, _ in vectors]).clamp_min(tiny)
    heads, shifts = torch.zeros(shape), []
    bins = (-(-len(queries) // THUMBNAIL), -(-len(keys) // THUMBNAIL))
    for layer in range(shape[0]):
        progress(layer, shape[0])
        moved, maps = _layer_shift(a, b, about.name, layer, rows, columns, bins)
        heads[layer, : len(moved)] = moved
        shifts.append(maps)
    progress(*[shape[0]] * 2)
    return PassDifference(
        names=names,
        map=about.name,
        queries=_texts(queries, a.streams[about.queries], b.streams[about.queries]),
        keys=_texts(keys, a.streams[about.keys], b.streams[about.keys]),
        left_out=(len(a.streams[about.queries]) - len(queries), len(b.streams[about.queries]) - len(queries)),
        levels=level_names(len(vectors)),
        distance=torch.stack([(y - x).norm(dim=-1) for x, y in vectors]).div(lengths).float(),
        length=torch.stack([y.norm(dim=-1) for _, y in vectors]).div(lengths).sub(1).float(),
        heads=heads,
        shifts=torch.stack(shifts),
        bins=bins,
    )


def paired(a: Sequence[Token], b: Sequence[Token]) -> Pairs:
    """Tokens of two streams that stand for each other: by place where there are as many, else in order where they read
    the same.
    """
    if len(a) == len(b):
        return [(i, i) for i in range(len(a))]
    matcher = SequenceMatcher(None, [token.text for token in a], [token.text for token in b], autojunk=False)
    return [(x + i, y + i) for x, y, size in matcher.get_matching_blocks() for i in range(size)]


def _texts(pairs: Pairs, a: Sequence[Token], b: Sequence[Token]) -> list[tuple[str, str]]:
    return [(a[i].text, b[j].text) for i, j in pairs]


def _layer_shift(
    a: Session, b: Session, map: str, layer: int, rows: Tensor, columns: Tensor, bins: tuple[int, int]
) -> tuple[Tensor, Tensor]:
    """The attention that each head of a layer moves [H], and where to [H, n, m].

    What goes to tokens without a pair counts as one more key.

    Args:
        rows, columns: pairs of tokens, [2, N] and [2, M]
    """
    count = a.attention_layer(layer, map).attention.spec.heads
    moved, maps = [], []
    for head in range(count):
        total, strips = 0.0, []
        step = max(1, CELLS // (columns.shape[1] * bins[0])) * bins[0]  # whole bins
        for part in rows.split(step, dim=1):
            own, their = (
                session.head(layer, head, map).probs(part[side])[:, columns[side]].double()
                for side, session in enumerate((a, b))
            )
            shift = their - own
            rest = (their.sum(-1) - own.sum(-1)).abs()
            total += float((shift.abs().sum(-1) + rest).sum()) / 2
            strips.append(_pooled(shift, bins))
        moved.append(total / rows.shape[1])
        maps.append(torch.cat(strips))
    return torch.tensor(moved), torch.stack(maps)


def _pooled(x: Tensor, bins: tuple[int, int]) -> Tensor:
    """The number of the largest size in each bin, with its sign. [R, C] → [⌈R / bin⌉, ⌈C / bin⌉]"""
    padded = torch.nn.functional.pad(x, (0, -x.shape[1] % bins[1], 0, -x.shape[0] % bins[0]))
    cells = padded.unflatten(1, (-1, bins[1])).unflatten(0, (-1, bins[0])).transpose(1, 2).flatten(2)
    largest: Tensor = cells.gather(-1, cells.abs().argmax(-1, keepdim=True))[..., 0]
    return largest.float()
