"""One head of one attention layer: every number on the way from queries and keys to what it adds to the stream.

    q_i · k_j ──· scale, + bias, -inf if hidden──> score_ij ──softmax over j──> prob_ij
    Σ_j prob_ij v_j = z_i ──W_out──> out_i

Nothing of size T × S is kept: rows, tiles and stripes are computed when asked for, by the functions that the model's
explicit path uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.core.attention import attention_scores, softmax
from glassformer.core.masks import Pattern
from glassformer.core.positions import BucketedBias
from glassformer.errors import DataError
from glassformer.inspect.kept import Kept

TILE = 256
"""Rows and columns of a tile."""

Rows = slice | int | Sequence[int] | Tensor | None


@dataclass(frozen=True, eq=False)
class Head:
    """A head's tensors, and all that follows from them.

        head = session.head(4, 11)
        head.q[3], head.k[5]                    a query and a key [E]
        head.scores(3), head.probs(3)           their row: one number a key [1, S]
        head.probs()                            the whole map [T, S]

    `rows` chooses queries: None = all, a number, a slice, or several numbers.

    Args:
        q: queries, turned by their positions where the model does so. [T, E]
        k, v: keys and values of the head, or of the group that shares them. [S, E]
        projection: the columns of W_out that read this head. [D, E]
    """

    map: str
    layer: int
    head: int
    kv_head: int
    q: Tensor
    k: Tensor
    v: Tensor
    projection: Tensor
    scale: float
    pattern: Pattern
    position_bias: BucketedBias | None
    kept: Kept

    def products(self, rows: Rows = None) -> Tensor:
        """q · k, before anything else. [R, S]"""
        with torch.inference_mode():
            return self.q[self._indices(rows)] @ self.k.mT

    def bias(self, rows: Rows = None) -> Tensor | None:
        """What the position adds to the scores; None where it adds nothing. [R, S]"""
        with torch.inference_mode():
            places, S = self._places(rows), len(self.k)
            shown = self.pattern.bias(places, S)
            shown = None if shown is None else shown.to(self.q.dtype)
            if self.position_bias is None:
                return shown
            bias = self.position_bias.rows(places, S)[0, self.head]
            return bias if shown is None else bias + shown

    def hidden(self, rows: Rows = None) -> Tensor | None:
        """True where a query may not look; None where all is seen. [R, S] bool"""
        return None if self.pattern == Pattern() else ~self.pattern.rows(self._places(rows), len(self.k))

    def scores(self, rows: Rows = None) -> Tensor:
        """q · k · scale + bias, and -inf where hidden. [R, S]"""
        hidden = self.hidden(rows)
        with torch.inference_mode():
            keep = None if hidden is None else ~hidden
            return attention_scores(self.q[self._indices(rows)], self.k, keep, self.bias(rows), self.scale)

    def probs(self, rows: Rows = None) -> Tensor:
        """How each query shares its attention; every row sums to 1. [R, S]"""
        with torch.inference_mode():
            return softmax(self.scores(rows))

    def weighted(self, row: int) -> Tensor:
        """One query's share of every value: the terms of the sum that is z. [S, E]"""
        with torch.inference_mode():
            return self.probs(row).mT * self.v

    def z(self, rows: Rows = None) -> Tensor:
        """The mean of the values, weighted by the probabilities. [R, E]"""
        with torch.inference_mode():
            return self.probs(rows) @ self.v

    def out(self, rows: Rows = None) -> Tensor:
        """What the head adds to the layer's output; all heads and the output's bias make the whole. [R, D]"""
        with torch.inference_mode():
            z = self.z(rows).to(self.projection.dtype)  # narrower than the weights under packed products
            return z @ self.projection.mT

    def tile(self, level: int, row: int, column: int) -> Tensor:
        """A square of the map, each number the largest of 2^level × 2^level probabilities. [≤ 256, ≤ 256]

            level 0    a number a pair of tokens; tile (row, column) begins at query 256 · row, key 256 · column
            level 4    a number for 16 × 16 pairs: 4,096 × 4,096 tokens are one tile

        Raises: DataError: no such tile.
        """
        T, S = len(self.q), len(self.k)
        levels = max(0, (max(T, S) - 1).bit_length() - TILE.bit_length() + 1) + 1
        if not 0 <= level < levels:
            raise DataError(f"there is no tile level {level}; this map has levels 0 to {levels - 1}")
        side = TILE << level
        rows, columns = -(-T // side), -(-S // side)
        if not (0 <= row < rows and 0 <= column < columns):
            raise DataError(
                f"there is no tile ({row}, {column}) at level {level}; it has {rows} × {columns} of them"
            )
        key = ("stripe", self.map, self.layer, self.head, level, row)
        (stripe,) = self.kept.get(key, lambda: (self._stripe(level, row),))
        return stripe[:, column * TILE : (column + 1) * TILE]

    def _stripe(self, level: int, row: int) -> Tensor:
        """A row of tiles at once: the softmax needs whole rows anyway. [≤ 256, S / 2^level]"""
        begin, end = row * TILE << level, min((row + 1) * TILE << level, len(self.q))
        cells = 1 << level
        at_once = min(cells, TILE)  # rows of a pixel that come from one piece of work
        parts = [
            pooled(self.probs(slice(at, min(at + TILE, end))), at_once, cells)
            for at in range(begin, end, TILE)
        ]
        return pooled(torch.cat(parts), cells // at_once, 1)

    def _indices(self, rows: Rows) -> Tensor | slice:
        if rows is None or isinstance(rows, slice):
            return slice(None) if rows is None else rows
        chosen = torch.as_tensor([rows] if isinstance(rows, int) else rows, device=self.q.device)
        wrong = chosen[(chosen < 0) | (chosen >= len(self.q))]
        if len(wrong):
            raise DataError(f"there is no query {int(wrong[0])}; the pass has queries 0 to {len(self.q) - 1}")
        return chosen if len(chosen) else chosen.long()  # torch makes floats of no numbers

    def _places(self, rows: Rows) -> Tensor:
        """Where the chosen queries stand among the keys; the last query stands at the last key."""
        T, S = len(self.q), len(self.k)
        return torch.arange(S - T, S, device=self.q.device)[self._indices(rows)]

    def __repr__(self) -> str:
        T, S, E = len(self.q), len(self.k), self.q.shape[1]
        return f"Head({self.map} layer {self.layer} head {self.head}: {T} queries × {S} keys, width {E})"


def pooled(values: Tensor, rows: int, columns: int) -> Tensor:
    """The largest of each rows × columns rectangle; those at the edges may be smaller. [..., ⌈R/rows⌉, ⌈S/columns⌉]"""
    if rows == columns == 1:
        return values
    flat = values.flatten(0, -3) if values.dim() > 2 else values[None]
    down = F.max_pool2d(flat[None], (rows, columns), ceil_mode=True)[0]
    return down.unflatten(0, values.shape[:-2]) if values.dim() > 2 else down[0]
