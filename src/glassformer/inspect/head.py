"""One attention head: every number from queries and keys to its output in the residual stream.

    q_i · k_j ──· scale, + bias, -inf if hidden──> score_ij ──softmax over j──> prob_ij
    Σ_j prob_ij v_j = z_i ──W_out──> out_i

Nothing of size T × S is stored: rows, tiles and stripes are computed on demand, by the functions of the model's
explicit path.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from threading import Lock
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.core.dot_product import attention_scores, softmax
from glassformer.core.masks import AttentionPattern
from glassformer.errors import ConfigError, DataError, nearest
from glassformer.files import safe_repr
from glassformer.reports.report import Display
from glassformer.reports.table import Table

TILE = 256
"""Rows and columns of a tile."""

HeadMix = Literal["mean", "max", "weights", "written"]
"""How the maps of several heads become one: see `mixed`."""

RowSelection = slice | int | str | Sequence[int] | Tensor | None

PositionBiasRows = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Queries [R, E], keys [S, E] and the positions of the queries among them [R] → position bias of a head. [R, S]"""


class LRUCache:
    """Least-recently-used cache: groups of tensors by key, at most `limit` bytes; thread-safe.

    Two threads that need the same missing tensor may both compute it, so that no thread waits for another's work.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.nbytes = 0
        self._tensors: OrderedDict[Hashable, tuple[Tensor, ...]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, compute: Callable[[], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """The tensors of a key, computed if they are not cached."""
        with self._lock:
            if key in self._tensors:
                self._tensors.move_to_end(key)
                return self._tensors[key]
        tensors = compute()
        with self._lock:
            if key not in self._tensors:
                self._put(key, tensors)
        return tensors

    def put(self, key: Hashable, tensors: tuple[Tensor, ...]) -> None:
        """Set the tensors of a key."""
        with self._lock:
            if key in self._tensors:
                self.nbytes -= storage_bytes(self._tensors.pop(key))
            self._put(key, tensors)

    def _put(self, key: Hashable, tensors: tuple[Tensor, ...]) -> None:
        self._tensors[key] = tensors
        self.nbytes += storage_bytes(tensors)
        while self.nbytes > self.limit and len(self._tensors) > 1:  # the newest stays, however large
            _, oldest = self._tensors.popitem(last=False)
            self.nbytes -= storage_bytes(oldest)


def storage_bytes(tensors: Iterable[Tensor]) -> int:
    """RAM of the storages of tensors: a view keeps its whole storage alive, and several views of one count it once."""
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage() for tensor in tensors}
    return sum(storage.nbytes() for storage in storages.values())


SHOWN = 32
"""Queries and keys of the map in a notebook: more columns do not fit its width."""


@dataclass(frozen=True, eq=False)
class AttentionHead(Display):
    """An attention head: its queries, keys and values, and all that is computed from them.

        head = session.head(4, 11)
        head.q[3], head.k[5]                    a query and a key [E]
        head.scores(3), head.probs(3)           their row: one number a key [1, S]
        head.probs()                            the attention map [T, S]

    `rows` selects queries: None = all, an index, a slice, several indices, or a token: wherever it stands.

    Args:
        q: queries, after rotary position embedding where the model has it. [T, E]
        k, v: keys and values of the head, or of its key/value group. [S, E]
        projection: the columns of W_out that belong to this head. [D, E]
        cache: of tiles.
        bias_by_distance: the position bias depends on the distance of query and key alone.
        tokens: of the queries and of the keys; none = they are named by their numbers.
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
    pattern: AttentionPattern
    position_bias: PositionBiasRows | None
    cache: LRUCache
    score_cap: float | None = None
    bias_by_distance: bool = True
    tokens: tuple[Sequence[str], Sequence[str]] = ((), ())

    @property
    def caption(self) -> str:
        """What it is, above its map in a notebook."""
        return f"Attention of {self.map} layer {self.layer} head {self.head}: a row is a query, a column a key"

    def tables(self) -> list[Table]:
        """The attention weights of the first queries and keys, by their positions, shaded."""
        shown = min(len(self.q), SHOWN), min(len(self.k), SHOWN)
        weights = self.probs(slice(0, shown[0]))[:, : shown[1]].tolist()
        some = f"the first {shown[0]} × {shown[1]} of {len(self.q):,} × {len(self.k):,} weights"
        counts = len(self.q), len(self.k)
        queries, keys = (
            names[:n] if len(names) == count else list(map(str, range(n)))
            for names, n, count in zip(self.tokens, shown, counts, strict=True)
        )
        rows = [[query, *(f"{x:.2f}" for x in row)] for query, row in zip(queries, weights, strict=True)]
        whole = shown == counts
        return [Table(["", *keys], rows, "" if whole else some, shades=weights, as_picture=True)]

    def products(self, rows: RowSelection = None) -> Tensor:
        """Dot products q · k, not scaled. [R, S]"""
        with torch.no_grad():
            return self.q[self._indices(rows)] @ self.k.mT

    def bias(self, rows: RowSelection = None) -> Tensor | None:
        """Position bias, which is added to the scores; None where there is none. [R, S]"""
        with torch.no_grad():
            positions, S = self._key_positions(rows), len(self.k)
            pattern_bias = self.pattern.bias(positions, S)
            pattern_bias = None if pattern_bias is None else pattern_bias.to(self.q.dtype)
            if self.position_bias is None:
                return pattern_bias
            bias = self.position_bias(self.q[self._indices(rows)], self.k, positions)
            return bias if pattern_bias is None else bias + pattern_bias

    def masked(self, rows: RowSelection = None) -> Tensor | None:
        """Attention mask, True where a query may not attend; None where nothing is masked. [R, S] bool"""
        if self.pattern == AttentionPattern():
            return None
        return ~self.pattern.rows(self._key_positions(rows), len(self.k))

    def scores(self, rows: RowSelection = None) -> Tensor:
        """Attention scores: q · k · scale, with a soft cap if the model has one, + bias; -inf where masked. [R, S]"""
        masked = self.masked(rows)
        with torch.no_grad():
            keep = None if masked is None else ~masked
            q, bias = self.q[self._indices(rows)], self.bias(rows)
            return attention_scores(q, self.k, keep, bias, self.scale, self.score_cap)

    def probs(self, rows: RowSelection = None) -> Tensor:
        """Attention weights (probabilities); every row sums to 1. [R, S]"""
        with torch.no_grad():
            return softmax(self.scores(rows))

    def weighted(self, row: int) -> Tensor:
        """Values weighted by one query's probabilities: the terms of the sum that is z. [S, E]"""
        with torch.no_grad():
            return self.probs(row).mT * self.v

    def z(self, rows: RowSelection = None) -> Tensor:
        """The head's output before the projection: the mean of values, weighted by the probabilities. [R, E]"""
        with torch.no_grad():
            return self.probs(rows) @ self.v

    def out(self, rows: RowSelection = None) -> Tensor:
        """The head's contribution to the layer's output, which is the sum over heads plus the bias. [R, D]"""
        with torch.no_grad():
            z = self.z(rows).to(self.projection.dtype)  # narrower than the weights under packed products
            return z @ self.projection.mT

    def written(self, rows: RowSelection = None) -> Tensor:
        """Length (L2 norm) of what the head adds to the layer's output at each query. [R]"""
        out = self.out(rows)
        lengths: Tensor = out.to(torch.promote_types(out.dtype, torch.float32)).norm(dim=-1)
        return lengths

    def tile(self, level: int, row: int, column: int) -> Tensor:
        """A tile of the max-pooled attention map; a number is the largest of 2^level × 2^level. [≤ 256, ≤ 256]

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
            raise DataError(f"there is no tile ({row}, {column}) at level {level}; it has {rows} × {columns} of them")
        key = ("stripe", self.map, self.layer, self.head, level, row)
        (stripe,) = self.cache.get(key, lambda: (self._stripe(level, row),))
        return stripe[:, column * TILE : (column + 1) * TILE]

    def _stripe(self, level: int, row: int) -> Tensor:
        """A row of tiles at once: the softmax needs whole rows anyway. [≤ 256, S / 2^level]"""
        begin, end = row * TILE << level, min((row + 1) * TILE << level, len(self.q))
        cells = 1 << level
        # TILE rows at a time, so that no T × S matrix is made; a pixel of more rows is pooled in two stages.
        rows_at_once = min(cells, TILE)
        parts = [
            pooled(self.probs(slice(first, min(first + TILE, end))), rows_at_once, cells)
            for first in range(begin, end, TILE)
        ]
        return pooled(torch.cat(parts), cells // rows_at_once, 1)

    def _indices(self, rows: RowSelection) -> Tensor | slice:
        if rows is None or isinstance(rows, slice):
            return slice(None) if rows is None else rows
        if isinstance(rows, str):
            return self._places(rows)
        try:
            indices = torch.as_tensor([rows] if isinstance(rows, int) else rows, device=self.q.device)
        except (TypeError, ValueError, RuntimeError):
            indices = torch.tensor(0.5)
        if indices.dim() != 1 or (len(indices) and indices.is_floating_point()):
            raise DataError(f"rows is {safe_repr(rows)}; it must be a query's number, several, a slice, or None: all")
        invalid = indices[(indices < 0) | (indices >= len(self.q))]
        if len(invalid):
            raise DataError(f"there is no query {int(invalid[0])}; the pass has queries 0 to {len(self.q) - 1}")
        return indices if len(indices) else indices.long()  # an empty list becomes a float tensor

    def _places(self, token: str) -> Tensor:
        """The queries that are this token. Raises: DataError: none is."""
        queries = self.tokens[0]
        places = [i for i, each in enumerate(queries) if each.strip() == token.strip()]
        if not places:
            shown = f"; its queries are {', '.join(queries[:SHOWN])}" if queries else ", and its tokens are not known"
            raise DataError(f"this pass has no query {safe_repr(token)}{nearest(token, dict.fromkeys(queries))}{shown}")
        return torch.tensor(places, device=self.q.device)

    def _key_positions(self, rows: RowSelection) -> Tensor:
        """Positions of queries among the keys; the last query is at the position of the last key."""
        T, S = len(self.q), len(self.k)
        return torch.arange(S - T, S, device=self.q.device)[self._indices(rows)]

    def __repr__(self) -> str:
        T, S, E = len(self.q), len(self.k), self.q.shape[1]
        return f"AttentionHead({self.map} layer {self.layer} head {self.head}: {T} queries × {S} keys, width {E})"


def mixed(
    heads: Iterable[AttentionHead],
    mix: HeadMix = "mean",
    *,
    rows: RowSelection = None,
    weights: Sequence[float] | None = None,
) -> Tensor:
    """Attention maps of several heads as one; every row sums to 1, but of the maximum. [R, S]

        mean       Σ A_h / H
        max        the largest A_h of each pair
        weights    Σ w_h A_h / Σ w_h
        written    Σ ‖o_h(t)‖ A_h(t, s) / Σ ‖o_h(t)‖        o_h(t): what head h adds to the layer's output at query t

    Args:
        heads: with the same queries and keys; one at a time is in memory where they are an iterator
        mix: as above
        rows: as in `AttentionHead.probs`
        weights: one for each head, for "weights" alone
    Raises: ConfigError: no head, no such mix, or weights that do not fit.
    """
    if mix not in get_args(HeadMix):
        raise ConfigError(f"mix is {safe_repr(mix)}; allowed: {', '.join(get_args(HeadMix))}")
    if (mix == "weights") != (weights is not None):
        raise ConfigError('weights= and mix="weights" go together: give one weight for each head')
    if weights is not None and (not all(w >= 0 and isfinite(w) for w in weights) or not sum(weights) > 0):
        raise ConfigError(f"weights is {list(weights)}; they must be 0 or more, and one of them above 0")
    sums: Tensor | None = None
    total: Tensor | float = 0.0
    count = 0
    for count, head in enumerate(heads, 1):
        probs = head.probs(rows)
        if weights is not None and count > len(weights):
            raise ConfigError(f"weights has {len(weights)} numbers, and there are more heads: give one for each")
        if mix == "max":
            sums = probs if sums is None else torch.maximum(sums, probs)
            continue
        share = (
            head.written(rows)[:, None].to(probs)
            if mix == "written"
            else 1.0
            if weights is None
            else weights[count - 1]
        )
        sums, total = probs * share if sums is None else sums + probs * share, total + share
    if sums is None:
        raise ConfigError("there is no head to mix; give one at least")
    if weights is not None and count < len(weights):
        raise ConfigError(f"there are {count} heads to mix, and {len(weights)} weights: give one for each")
    if mix == "max":
        return sums
    return sums / (total.clamp_min(torch.finfo(sums.dtype).tiny) if isinstance(total, Tensor) else total)


def pooled(values: Tensor, rows: int, columns: int) -> Tensor:
    """Max pooling over rows × columns rectangles, smaller at the edges. [..., ⌈R/rows⌉, ⌈S/columns⌉]"""
    if rows == columns == 1:
        return values
    flat = values.flatten(0, -3) if values.dim() > 2 else values[None]
    maxima = F.max_pool2d(flat[None], (rows, columns), ceil_mode=True)[0]
    return maxima.unflatten(0, values.shape[:-2]) if values.dim() > 2 else maxima[0]
