"""Overview of all attention heads of a layer: thumbnails, statistics such as entropy, and a summary in words.

Some patterns of attention have a name: to the previous token, to the same word, in order, to special tokens.

    probs of a head ──> share of its attention that follows each pattern ──less that of uniform attention──> clarity

The pattern of a head is a relation between tokens where one is clear, and else the clearest of all. What a session
opens with and the summary of each head follow from this one rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.inspect.head import AttentionHead, pooled
from glassformer.inspect.tokens import Token
from glassformer.reports.report import Report
from glassformer.reports.table import Table, percent

THUMBNAIL = 64  # pixels
SAMPLED_FROM = 1_024  # queries: up to here all rows are used
SAMPLED_ROWS = 256  # of longer texts, so that the time grows with T, not with T²
CELLS = 2**22  # probabilities computed at once: 16 MB in fp32
PATTERNS = {
    "repeat": "other occurrences of the token",
    "followed": "what came after the token's last occurrence",
    "previous": "the previous token",
    "next": "the next token",
    "copy": "the same token",
    "order": "in order, from beginning to end",
    "same": "the token itself",
    "first": "the first token",
    "special": "special tokens",
}
"""Patterns as a summary has them."""
HEAD_KINDS = {
    "induction": ("followed", "share of attention to what came after the token's last occurrence"),
    "same word": ("repeat", "share of attention to other occurrences of the token"),
    "copy": ("copy", "share of attention to the same token of the other side"),
    "in order": ("order", "largest share along a path from beginning to end"),
    "previous token": ("previous", "share of attention to the token before"),
    "next token": ("next", "share of attention to the token after"),
    "itself": ("same", "share of attention to the token itself"),
    "first token": ("first", "share of attention to the first token"),
    "special tokens": ("special", "share of attention to special tokens"),
    "broad": ("", "entropy, relative to that of uniform attention"),
    "mixed": ("", "largest share of attention to one of these"),
}
"""Name of what a head does → its pattern, and the metric by which such heads are sorted."""
RELATIONS = ("repeat", "followed", "previous", "next", "copy", "order")
"""Patterns that say how tokens belong together; others are sinks, where attention rests that is not needed."""
SOME = ("repeat", "followed", "copy")
"""Patterns that only some queries can have: their shares are means over these."""
FEWEST = 3  # queries that a pattern of SOME must be seen in
CLEAR = 1 / 3  # attention above that of a uniform head, from which a relation between tokens comes before any sink


@dataclass(frozen=True, eq=False, repr=False)
class Overview(Report, kind="overview"):
    """Thumbnails and statistics of the attention heads of a layer.

    thumbnails: max-pooled attention maps. [H, ≤ 64, ≤ 64]
    bins: number of queries and of keys in a pixel
    rows_used, rows_total: where fewer rows are used, they are a sample of evenly spaced queries
    stats: means over queries, by name: [H]
        entropy_bits   attention entropy; `entropy_most_bits`: that of uniform attention
        special        attention to special tokens; `first`: to the first token
        previous, same, next   attention to the neighbours and the token itself, in self-attention
        distance       mean attention distance in tokens; likewise
    summaries: the main pattern of each head, in words, by the rule of `rank`
    kinds: what each head does, a name of `HEAD_KINDS`, and its metric
    """

    thumbnails: Tensor
    bins: tuple[int, int]
    rows_used: int
    rows_total: int
    stats: dict[str, Tensor]
    summaries: list[str]
    kinds: list[tuple[str, float]]

    def tables(self) -> list[Table]:
        """A row for each head: its main pattern, entropy and mean distance."""
        names = {"entropy_bits": "entropy, bits", "distance": "distance, tokens"}
        shown = {title: self.stats[name].tolist() for name, title in names.items() if name in self.stats}
        rows = [
            [str(head), summary, *(f"{values[head]:.2f}" for values in shown.values())]
            for head, summary in enumerate(self.summaries)
        ]
        sample = f", of {self.rows_used:,} of {self.rows_total:,} queries" if self.sampled else ""
        return [Table(headings=["head", "attends", *shown], rows=rows, caption=f"{len(rows)} attention heads{sample}")]

    @property
    def sampled(self) -> bool:
        """Whether only a sample of the rows was used."""
        return self.rows_used < self.rows_total


def overview(
    heads: Sequence[AttentionHead],
    keys: Sequence[Token],
    queries: Sequence[Token] | None = None,
    *,
    exact: bool = False,
) -> Overview:
    """Compute the overview of all heads of a layer.

    Args:
        keys: tokens of the keys [S]
        queries: of the queries [T]; None = the same (self-attention)
        exact: use every row instead of a sample.
    """
    same_stream = queries is None
    T, S, device = len(heads[0].q), len(heads[0].k), heads[0].q.device
    _, bin_rows = _sampling(T)
    bin_columns = -(-S // THUMBNAIL)
    rows = (torch.arange(T) if exact else sampled_rows(T)).to(device)
    special = torch.tensor([token.special for token in keys], device=device)
    thumbnails = torch.zeros(len(heads), -(-T // bin_rows), -(-S // bin_columns), device=device)
    totals: dict[str, Tensor] = {}
    patterns = PatternShares(queries or keys, keys, len(rows), same_stream=same_stream)
    for part in rows.split(max(1, CELLS // (S * len(heads)))):
        probs = torch.stack([head.probs(part) for head in heads])  # [H, R, S]
        pixels = pooled(probs, 1, bin_columns).float()
        thumbnails.scatter_reduce_(1, (part // bin_rows)[None, :, None].expand_as(pixels), pixels, "amax")
        masked = heads[0].masked(part)
        visible = torch.full_like(part, S) if masked is None else (~masked).sum(-1)
        patterns.add(probs.float(), part, masked)
        for name, total in _sums(probs.float(), visible, part, special, same_stream).items():
            # In place: a list of small tensors between the large ones would keep the allocator from reusing memory.
            totals[name] = total if name not in totals else totals[name].add_(total)
    stats = {name: total / len(rows) for name, total in totals.items()}
    by_head = [{name: float(values[i]) for name, values in stats.items()} for i in range(len(heads))]
    shares = patterns.shares()
    main = [main_pattern(shares, i) for i in range(len(heads))]
    return Overview(
        thumbnails=thumbnails,
        bins=(bin_rows, bin_columns),
        rows_used=len(rows),
        rows_total=T,
        stats=stats,
        summaries=[_summary(numbers, pattern, keys[0]) for numbers, pattern in zip(by_head, main, strict=True)],
        kinds=[_kind(numbers, pattern) for numbers, pattern in zip(by_head, main, strict=True)],
    )


def sampled_rows(T: int) -> Tensor:
    """The queries that an overview uses: all of them, of a long text a sample. [R]"""
    step, _ = _sampling(T)
    return (torch.arange(0, T, step) + step // 2).clamp(max=T - 1)


def _sampling(T: int) -> tuple[int, int]:
    """The step between sampled queries, and the number of queries in a row of pixels, a multiple of it."""
    if T <= SAMPLED_FROM:
        return 1, -(-T // THUMBNAIL)
    step = -(-T // SAMPLED_ROWS)
    return step, step * (SAMPLED_ROWS // THUMBNAIL)


def _sums(probs: Tensor, visible: Tensor, rows: Tensor, special: Tensor, same_stream: bool) -> dict[str, Tensor]:
    """Sums of the statistics over queries. probs [H, R, S], visible: number of keys of each query [R] → [H] each"""
    log = torch.where(probs > 0, probs, 1.0).log2()
    sums = {
        "entropy_bits": -(probs * log).sum((-1, -2)),
        "entropy_most_bits": visible.log2().sum().repeat(len(probs)),
        "special": probs[:, :, special].sum((-1, -2)),
        "first": probs[:, :, 0].sum(-1),
    }
    if same_stream:
        S = probs.shape[-1]
        for name, offset in (("previous", -1), ("same", 0), ("next", 1)):
            inside = ((rows + offset >= 0) & (rows + offset < S)).nonzero()[:, 0]
            sums[name] = probs[:, inside, rows[inside] + offset].sum(-1)
        distance = (rows[:, None] - torch.arange(S, device=rows.device)[None, :]).abs().to(probs.dtype)
        sums["distance"] = (probs * distance).sum((-1, -2))
    return sums


def _summary(numbers: dict[str, float], pattern: tuple[str, float, float], first: Token) -> str:
    """The main pattern of a head in words, or else how widely its attention is spread."""
    kind, share, clarity = pattern
    words = f"{PATTERNS[kind]} ({first.text})" if kind == "first" and first.special else PATTERNS[kind]
    entropy, maximum = numbers["entropy_bits"], numbers["entropy_most_bits"]
    if share >= 0.5:
        return f"mostly {words}, {percent(share)}"
    if clarity < CLEAR and entropy >= 0.8 * maximum:
        return f"spread widely, {entropy:.1f} of {maximum:.1f} bits"
    if share >= 0.25:
        return f"often {words}, {percent(share)}"
    distance = f", {numbers['distance']:.1f} tokens away on average" if "distance" in numbers else ""
    return f"mixed{distance}, {entropy:.1f} of {maximum:.1f} bits"


def _kind(numbers: dict[str, float], pattern: tuple[str, float, float]) -> tuple[str, float]:
    """What a head does, by the rule of its summary, and the metric of this kind."""
    kind, share, clarity = pattern
    spread = numbers["entropy_bits"] / max(numbers["entropy_most_bits"], 1e-9)
    if share < 0.5 and clarity < CLEAR and spread >= 0.8:
        return "broad", spread
    if share < 0.25:
        return "mixed", share
    return next(name for name, (its, _) in HEAD_KINDS.items() if its == kind), share


def rank(kind: str, clarity: float) -> tuple[bool, float]:
    """By which the pattern of a head, and the head to open with, are chosen: the largest."""
    return kind in RELATIONS and clarity >= CLEAR, clarity


class PatternShares:
    """The share of attention that follows each pattern, summed over queries part by part.

    Args:
        queries, keys: tokens of the two streams; the same of self-attention
        rows: queries that will be added
    """

    def __init__(self, queries: Sequence[Token], keys: Sequence[Token], rows: int, *, same_stream: bool) -> None:
        numbers = {text: at for at, text in enumerate({token.text.casefold() for token in (*queries, *keys)})}
        self._words = torch.tensor([numbers[token.text.casefold()] for token in keys])
        self._of = torch.tensor([-1 if token.special else numbers[token.text.casefold()] for token in queries])
        self._special = torch.tensor([token.special for token in keys])
        self._rows, self._same_stream = rows, same_stream
        self._sums: dict[str, Tensor] = {}
        self._counts: dict[str, int] = {}
        self._in_order: _InOrder | None = None if same_stream else _InOrder(rows, len(keys))

    def add(self, probs: Tensor, rows: Tensor, masked: Tensor | None) -> None:
        """Add queries.

        Args:
            probs: [H, R, S]
            rows: their numbers [R]
            masked: keys that they cannot see [R, S]
        """
        device, keys = probs.device, probs.shape[-1]
        visible = torch.ones(len(rows), keys, dtype=torch.bool, device=device) if masked is None else ~masked
        uniform = visible / visible.sum(-1, keepdim=True)
        targets = {kind: x.to(device) for kind, x in self._targets(rows.cpu()).items()}
        stacked = torch.stack(list(targets.values())).to(probs.dtype)  # [K, R, S]
        shares = torch.einsum("hrs,krs->khr", probs, stacked)
        shares = torch.cat([shares, torch.einsum("rs,krs->kr", uniform.to(probs.dtype), stacked)[:, None]], dim=1)
        for kind, target, share in zip(targets, targets.values(), shares, strict=True):
            there = (target & visible).any(-1)
            total = (share[:, there] if kind in SOME else share).sum(-1)
            self._sums[kind] = self._sums.get(kind, 0.0) + total
            self._counts[kind] = self._counts.get(kind, 0) + int(there.sum())
        if self._in_order is not None:
            self._in_order.add(torch.cat([probs.float(), uniform[None].float()]))

    def shares(self) -> dict[str, list[float]]:
        """Of each pattern that queries can have: the share of each head and, last, of uniform attention. H + 1"""
        shares = {
            kind: (total / (self._counts[kind] if kind in SOME else self._rows)).tolist()
            for kind, total in self._sums.items()
            if self._counts[kind] >= (FEWEST if kind in SOME else 1)
        }
        return shares if self._in_order is None else {**shares, "order": self._in_order.share().tolist()}

    def _targets(self, rows: Tensor) -> dict[str, Tensor]:
        """The keys that each pattern means, for each query of `rows`. [R, S] bool"""
        t, s = rows[:, None], torch.arange(len(self._words))[None]
        same_word = (self._of[rows][:, None] == self._words) & ~self._special
        sinks = {"first": (s == 0).expand_as(same_word), "special": self._special.expand_as(same_word)}
        if not self._same_stream:
            return {"copy": same_word, **sinks}
        repeat = same_word & (s != t)
        followed = (repeat & (s < t)).roll(1, -1) & (s > 0) & (s != t)
        near = {"previous": s == t - 1, "next": s == t + 1, "same": s == t}
        return {"repeat": repeat, "followed": followed, **near, **sinks}


class _InOrder:
    """The largest share that one key a query can take, where each key is after the last one taken.

    Dynamic programming over queries; a query may be passed over. Of many keys a query, as frames of sound are, it takes
    a band of neighbours.
    """

    def __init__(self, rows: int, keys: int) -> None:
        self._rows, self._band = rows, max(1, keys // max(rows, 100))
        self._best: Tensor | None = None

    def add(self, probs: Tensor) -> None:
        """Add the next queries. [H, R, S]"""
        bands = torch.nn.functional.avg_pool1d(probs, self._band, ceil_mode=True) * self._band
        if self._best is None:
            self._best = torch.zeros(len(bands), bands.shape[-1] + 1, device=bands.device)
        best = self._best  # best[:, k]: with keys before band k
        for row in bands.unbind(1):
            best[:, 1:] = torch.maximum(best[:, 1:], best[:, :-1] + row).cummax(-1).values

    def share(self) -> Tensor:
        """The share of each head. [H]"""
        assert self._best is not None
        return self._best[:, -1] / self._rows


def main_pattern(shares: Mapping[str, Sequence[float]], head: int) -> tuple[str, float, float]:
    """The pattern of a head: its name, its share, and its clarity.

    Args:
        shares: of `PatternShares`
    """
    clarity = {kind: of_heads[head] - of_heads[-1] for kind, of_heads in shares.items()}
    kind = max(clarity, key=lambda kind: rank(kind, clarity[kind]))
    return kind, shares[kind][head], clarity[kind]
