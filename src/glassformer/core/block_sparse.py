"""Block-sparse attention: a long text at a cost that grows with its length, not with the square of it.

    keys, in blocks         0 1 2 3 4 5 6 7 8 9
    queries, in blocks  0   x x x x x x x x x x      the first and the last block see all, and are seen by all
                        1   x x x . . o . . . x
                        2   x x x x . . o . . x      x  itself and its neighbours
                        3   x . x x x . . . . x      o  drawn by lot, differently in each head and layer
                        4   x o . x x x . . . x
                        …
                        9   x x x x x x x x x x

Each block of queries meets the few blocks of keys that it sees and no others, so nothing of size T × S is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.core.attention import Attention, attention_scores, softmax
from glassformer.core.flow import Flow
from glassformer.core.masks import Mask, Pattern
from glassformer.core.specs import BlockSparseAttentionSpec
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

PAPER_LENGTHS = (1024, 3072, 4096)
"""Texts of so many tokens get the blocks drawn for the longest text, as when the paper's models were trained."""
PAPER_REACH = 1024
"""How far into a text blocks are drawn then."""
NUMBERS_AT_ONCE = 2**22
"""Numbers of gathered keys in work at once: 16 MB in fp32."""

Draw = tuple[tuple[tuple[int, ...], ...], ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Which blocks of keys each block of queries meets, but for the first and the last, which meet all.

    blocks: numbers of blocks. [H, N - 2, G]
    times: how often each counts in the softmax; 0 = not at all. [H, N - 2, G]

    Where all heads have the same plan, H is 1.
    """

    blocks: Tensor
    times: Tensor

    @staticmethod
    def standing(N: int) -> Plan:
        """What every plan for N blocks has: the first block, the three around, the last."""
        own = torch.arange(1, N - 1)
        first, last = torch.zeros_like(own), torch.full_like(own, N - 1)
        blocks = torch.stack([first, own - 1, own, own + 1, last], dim=-1)  # [N - 2, 5]
        times = torch.ones_like(blocks)
        times[0, 1] = times[-1, 3] = 0  # this neighbour is the first block, or the last, and already there
        return Plan(blocks[None], times[None])

    def and_first(self, more: int) -> Plan:
        """The same, where the first block counts so many times more."""
        return Plan(self.blocks, torch.cat([self.times[..., :1] + more, self.times[..., 1:]], dim=-1))

    def and_drawn(self, drawn: Tensor) -> Plan:
        """The same, and for each head blocks of its own. drawn [H, N - 2, R]"""
        blocks, times = (x.expand(len(drawn), -1, -1) for x in (self.blocks, self.times))
        return Plan(torch.cat([blocks, drawn], dim=-1), torch.cat([times, torch.ones_like(drawn)], dim=-1))

    def counts(self) -> Int[Tensor, "H N N"]:
        """How often each block of keys counts for each block of queries."""
        H, inner, _ = self.blocks.shape
        counts = torch.ones(H, inner + 2, inner + 2, dtype=torch.long)
        counts[:, 1:-1] = 0
        counts[:, 1:-1].scatter_add_(-1, self.blocks, self.times)
        return counts


@dataclass(frozen=True, slots=True)
class BlockPattern(Pattern):
    """What block-sparse attention lets a query see in evaluation, the same in all heads; short texts see all.

    In evaluation every drawn block is the first one. Its keys are then met `random` times more, as if they stood in the
    text so often: log(1 + random) is added to their scores.
    """

    block: int = 64
    random: int = 3

    @property
    def masked(self) -> Pattern:
        return Pattern()

    def is_whole(self, tokens: int) -> bool:
        """Is a text so short that all of it is seen? Then two draws of blocks would not fit beside the others."""
        return tokens <= (5 + 2 * self.random) * self.block

    def blocks_of(self, tokens: int) -> int:
        """How many blocks a text has; the last may be shorter."""
        return -(-tokens // self.block)

    def plan(self, tokens: int) -> Plan:
        """Which blocks are met in evaluation."""
        return Plan.standing(self.blocks_of(tokens)).and_first(self.random)

    def rows(self, places: Int[Tensor, "R"], S: int) -> Bool[Tensor, "R S"]:
        return self._times(places, S) > 0

    def bias(self, places: Int[Tensor, "R"], S: int) -> Float[Tensor, "R S"] | None:
        return None if self.is_whole(S) else self._times(places, S).clamp(min=1).double().log()

    def by_distance(self, tokens: int) -> bool:
        return self.is_whole(tokens)

    def pairs(self, tokens: int) -> int:
        if self.is_whole(tokens):
            return tokens**2
        N = self.blocks_of(tokens)
        sizes = torch.full((N,), self.block)
        sizes[-1] = tokens - (N - 1) * self.block
        return int(sizes @ self.plan(tokens).counts()[0].clamp(max=1) @ sizes)

    def _times(self, places: Tensor, S: int) -> Tensor:
        """How often each key counts for these queries. [R, S]"""
        if self.is_whole(S):
            return torch.ones(len(places), S, dtype=torch.long, device=places.device)
        counts = self.plan(S).counts()[0].to(places.device)
        return counts[places // self.block].repeat_interleave(self.block, dim=-1)[:, :S]

    def __str__(self) -> str:
        return f"blocks of {self.block}, {self.random} drawn"


class BlockSparseAttention(Attention):
    """Attention in which each block of queries sees a few blocks of keys.

        s = q kᵀ · scale;   probs_ij = t_ij exp(s_ij) / Σ_j t_ij exp(s_ij);   z = probs v

    t_ij says how often j's block counts for i's: mostly 0. A text of up to 5 + 2 · `random` blocks gets full attention.
    Hidden tokens see nothing. Where a tape listens to `scores` or `probs` all T × S of them are made, as s + log t.

    Args:
        x: the residual stream after the norm. [B, T, D]
        flow: as for `Attention`, without a cache and a bias; `keep` is [B, 1, S]. Blocks are counted from the row's
            beginning, padding included, and each packed text has its own.
    Returns: what is added to the residual stream. [B, T, D]
    Raises: ConfigError: a cache, a bias, or a `keep` that is not the same for all queries.
    Taps: as for `Attention`
    Source: Zaheer et al. 2020, section 2 and appendix D.
    Differs: the paper draws blocks by lot in training and after it. The reference library draws them in training alone,
    by the paper's seeds, and takes the first block in their place in evaluation; so does this. Nothing of `probs` is
    dropped, but in short texts.
    """

    spec: BlockSparseAttentionSpec
    pattern: BlockPattern

    def __init__(self, spec: BlockSparseAttentionSpec) -> None:
        super().__init__(spec)
        self.pattern = BlockPattern(block=spec.block, random=spec.random)

    def plan(self, tokens: int) -> Plan:
        """Which blocks are met in this mode, training or evaluation."""
        if not self.training:
            return self.pattern.plan(tokens)
        spec, N = self.spec, self.pattern.blocks_of(tokens)
        drawn = draw(N, spec.block, spec.random, spec.heads, spec.seed, spec.longest)
        return Plan.standing(N).and_drawn(torch.tensor(drawn, dtype=torch.long))

    def mix(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None, flow: Flow) -> Tensor:
        T, S = q.shape[2], k.shape[2]
        if T != S or bias is not None:
            raise ConfigError(
                "block-sparse attention goes with neither cache nor bias; it sees a whole text, at no distance"
            )
        texts = flow.segments  # of one length, they come as a batch; else as the row that they lie in
        lengths = (S,) if texts is None or texts.tokens != S else texts.lengths
        if all(map(self.pattern.is_whole, lengths)):
            return super().mix(q, k, v, mask, bias, flow)
        if flow.keep is not None and flow.keep.shape[1] != 1:
            raise ConfigError(
                f"keep has shape {list(flow.keep.shape)}; block-sparse attention hides a key from all queries alike: "
                f"[{len(q)}, 1, {S}]"
            )
        if self.wants(flow, "scores", "probs"):
            return self._drawn_out(q, k, v, mask, lengths, flow)
        return self._gathered(q, k, v, mask.keep)

    def _drawn_out(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, lengths: Sequence[int], flow: Flow
    ) -> Tensor:
        times = self._times(lengths).to(q.device)
        keep = times > 0
        if mask.keep is not None:
            keep = keep & mask.keep & mask.keep.mT  # [B, H, T, S]
        bias = times.clamp(min=1).double().log().to(q.dtype)
        scores = self.tap(flow, "scores", attention_scores(q, k, keep, bias, self.scale))  # [B, H, T, S]
        return self.tap(flow, "probs", softmax(scores)) @ v

    def _times(self, lengths: Sequence[int]) -> Tensor:
        """How often each key counts for each query of texts that lie end to end. [H, T, T]"""
        times = torch.zeros(self.spec.heads, sum(lengths), sum(lengths), dtype=torch.long)
        end = 0
        for length in lengths:
            start, end = end, end + length
            own: Tensor = torch.ones(1, 1, 1, dtype=torch.long)
            if not self.pattern.is_whole(length):
                counts, block = self.plan(length).counts(), self.spec.block
                own = counts.repeat_interleave(block, dim=1).repeat_interleave(block, dim=2)
            times[:, start:end, start:end] = own[:, :length, :length]
        return times

    def _gathered(self, q: Tensor, k: Tensor, v: Tensor, keep: Tensor | None) -> Tensor:
        """The fused kernel for each block of queries, on the keys that it sees. [B, H, T, E]"""
        (B, H, T, E), block = q.shape, self.spec.block
        if keep is None:
            keep = torch.ones(1, 1, 1, T, dtype=torch.bool, device=q.device)
        N = self.pattern.blocks_of(T)
        if N * block != T:
            q, k, v = (F.pad(x, (0, 0, 0, N * block - T)) for x in (q, k, v))
            keep = F.pad(keep, (0, N * block - T))  # with False
        ends = torch.cat([q[:, :, :block], q[:, :, -block:]], dim=2)
        first, last = F.scaled_dot_product_attention(ends, k, v, keep, scale=self.scale).chunk(2, dim=2)

        plan = self.plan(T)
        blocks = plan.blocks.to(q.device)  # [H or 1, N - 2, G]
        weight = plan.times.double().log().to(q)[..., None]  # of each key, -inf where it counts 0 times
        shown = keep.expand(B, 1, 1, -1).unflatten(-1, (N, block))[:, 0, 0]  # [B, N, block]
        queries = q.unflatten(2, (N, block))[:, :, 1:-1]  # [B, H, N - 2, block, E]
        keys, values = (x.unflatten(2, (N, block)).flatten(1, 2) for x in (k, v))  # [B, H · N, block, E]
        heads = torch.arange(H, device=q.device)[:, None, None]
        at_once = max(1, NUMBERS_AT_ONCE // (B * H * E * block * blocks.shape[-1]))
        if torch.is_grad_enabled():
            at_once = (
                N - 2
            )  # all is kept for the backward pass anyway, which would take a whole table for each piece
        parts = []
        for start in range(0, N - 2, at_once):
            some = slice(start, start + at_once)
            seen = blocks[:, some]  # [H or 1, Q, G]
            weights = weight[:, some].masked_fill(~shown[:, seen], -torch.inf)  # [B, H or 1, Q, G, block]
            places, met = (seen + heads * N).flatten(), (B * H, seen.shape[1], -1, E)
            part = F.scaled_dot_product_attention(
                queries[:, :, some].flatten(0, 1),  # [B · H, Q, block, E]
                keys.index_select(1, places).view(met),  # [B · H, Q, G · block, E]
                values.index_select(1, places).view(met),
                weights.flatten(3).expand(-1, H, -1, -1).flatten(0, 1)[:, :, None],
                scale=self.scale,
            )
            parts.append(part.unflatten(0, (B, H)).flatten(2, 3))
        z = torch.cat([first, *parts, last], dim=2)
        return z.masked_fill(~keep.mT, 0.0)[:, :, :T]


@lru_cache(maxsize=256)
def draw(N: int, block: int, random: int, heads: int, seed: int, longest: int) -> Draw:
    """The blocks drawn by lot in training, by the paper's rules and seeds, so that a model goes on as it was trained.

    Args:
        N: blocks of the text. · seed: one for each layer. · longest: tokens of the longest text.
    Returns: numbers of blocks. [heads, N - 2, random]
    """
    lots = _lots(seed)
    if N * block in PAPER_LENGTHS:
        return tuple(
            _paper_rows(max(longest // block, N), block, random, lots)[: N - 2] for _ in range(heads)
        )
    rows = [[_row(i, 2 * random + 5, random, lots) for _ in range(heads)] for i in range(1, N - 1)]
    return tuple(zip(*rows, strict=True))


def _row(i: int, end: int, random: int, lots: Iterator[int]) -> tuple[int, ...]:
    """Blocks for the queries of block i, among the first `end`: none that it sees anyway, and not the last of them."""
    seen = {0, end - 1, i - 1, i, i + 1}
    seen |= {end - 2} if i == 1 else {1} if i == end - 2 else set()
    return tuple(j for j in _shuffled(range(end), lots) if j not in seen)[:random]


def _paper_rows(N: int, block: int, random: int, lots: Iterator[int]) -> tuple[tuple[int, ...], ...]:
    """Blocks for all inner blocks of queries in a text of N blocks, among those before `PAPER_REACH`.

    A text that ends there may draw its last block, which then counts twice.
    """
    reach = PAPER_REACH // block - 1 if 2 * block < PAPER_REACH else N - 1
    rows = []
    for i in range(1, N - 1):
        free = i >= N - 3  # these two may draw what they see anyway, too
        among = [j for j in range(1, min(reach, N - 2) + 1) if free or abs(j - i) > 1]
        rows.append(tuple(_shuffled(among, lots)[:random]))
    return tuple(rows)


def _shuffled(items: Sequence[int], lots: Iterator[int]) -> list[int]:
    """The items in an order drawn by lot, all orders alike. Source: Knuth 1969, section 3.4.2, algorithm P."""
    shuffled = list(items)
    for i in range(len(shuffled) - 1, 0, -1):
        bits = (1 << i.bit_length()) - 1
        j = next(lot & bits for lot in lots if lot & bits <= i)
        shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
    return shuffled


def _lots(seed: int) -> Iterator[int]:
    """Numbers of 31 bits from a Mersenne Twister, one after another."""
    twister = torch.Generator().manual_seed(seed)
    while True:
        yield from torch.empty(4096, dtype=torch.int32).random_(generator=twister).tolist()
