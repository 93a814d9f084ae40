"""Block-sparse attention (BigBird): the cost grows with the length of a text, not with its square.

    keys, in blocks         0 1 2 3 4 5 6 7 8 9
    queries, in blocks  0   x x x x x x x x x x      global: the first and the last block see all, and are seen by all
                        1   x x x . . o . . . x
                        2   x x x x . . o . . x      x  sliding window: the block itself and its neighbours
                        3   x . x x x . . . . x      o  random blocks, different ones in each head and layer
                        4   x o . x x x . . . x
                        …
                        9   x x x x x x x x x x

Each block of queries is multiplied with the few blocks of keys that it sees alone: nothing of size T × S is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.core.attention import Attention, AttentionSpec
from glassformer.core.checks import Count, NonNegativeInt
from glassformer.core.dot_product import attention_scores, softmax
from glassformer.core.flow import Flow
from glassformer.core.masks import AttentionPattern, Mask
from glassformer.errors import ConfigError
from glassformer.models.big_bird.random_blocks import random_blocks

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockSparseAttentionSpec(AttentionSpec):
    """Block-sparse attention (BigBird).

    block: tokens in a block
    random: random blocks of each query block
    seed: of these, another for every layer
    longest: tokens of the longest text, whose random blocks the lengths of the paper share
    """

    block: Count = 64
    random: NonNegativeInt = 3
    seed: NonNegativeInt = 0
    longest: Count = 4096

    KIND = "blocks"

    def validate(self) -> None:
        AttentionSpec.validate(self)
        if self.causal or self.window is not None or self.heads != self.K:
            raise ConfigError(
                f"BlockSparseAttentionSpec has causal={self.causal}, window={self.window}, kv_heads={self.kv_heads}; "
                "its blocks choose the keys, and each head has its own random blocks: leave them out"
            )
        if self.score_cap is not None:
            raise ConfigError(
                f"BlockSparseAttentionSpec has score_cap={self.score_cap}; the fused kernel, which computes its "
                "scores, has no soft cap: leave it out"
            )

    def make(self) -> BlockSparseAttention:
        return BlockSparseAttention(self)


GATHERED_NUMBERS = 2**22
"""How many numbers of gathered keys exist at a time: 16 MB in fp32."""


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """Key blocks of each query block, but for the first and the last query block, which see all.

    blocks: indices of key blocks. [H, N - 2, G]
    multiplicity: how often each counts in the softmax; 0 = not at all. [H, N - 2, G]

    H is 1 where all heads have the same plan.
    """

    blocks: Tensor
    multiplicity: Tensor

    @staticmethod
    def fixed(N: int) -> BlockPlan:
        """Part of every plan for N blocks: the first block, the window of three, the last block."""
        own = torch.arange(1, N - 1)
        first, last = torch.zeros_like(own), torch.full_like(own, N - 1)
        blocks = torch.stack([first, own - 1, own, own + 1, last], dim=-1)  # [N - 2, 5]
        multiplicity = torch.ones_like(blocks)
        # This neighbour is the first block, or the last, which is there already.
        multiplicity[0, 1] = multiplicity[-1, 3] = 0
        return BlockPlan(blocks[None], multiplicity[None])

    def count_first_block(self, more: int) -> BlockPlan:
        """A plan in which the first block counts this many times more."""
        first, others = self.multiplicity[..., :1], self.multiplicity[..., 1:]
        return BlockPlan(self.blocks, torch.cat([first + more, others], dim=-1))

    def with_random_blocks(self, random: Tensor) -> BlockPlan:
        """A plan with random blocks of each head besides. random [H, N - 2, R]"""
        blocks, multiplicity = (x.expand(len(random), -1, -1) for x in (self.blocks, self.multiplicity))
        once = torch.ones_like(random)
        return BlockPlan(torch.cat([blocks, random], dim=-1), torch.cat([multiplicity, once], dim=-1))

    def block_multiplicity(self) -> Int[Tensor, "H N N"]:
        """How often each key block counts for each query block."""
        H, inner, _ = self.blocks.shape
        counts = torch.ones(H, inner + 2, inner + 2, dtype=torch.long)
        counts[:, 1:-1] = 0
        counts[:, 1:-1].scatter_add_(-1, self.blocks, self.multiplicity)
        return counts


@dataclass(frozen=True, slots=True)
class BlockSparsePattern(AttentionPattern):
    """Block-sparse attention pattern in evaluation, the same in all heads; short texts get full attention.

    In evaluation the first block takes the place of every random block. Its keys then count `random` times more, as if
    they stood in the text so often: log(1 + random) is added to their scores.
    """

    block: int = 64
    random: int = 3

    @property
    def mask_pattern(self) -> AttentionPattern:
        return AttentionPattern()  # the layer gathers its keys itself; only padding needs a mask

    def is_dense(self, tokens: int) -> bool:
        """Whether a text is so short that it gets full attention: too short for twice the random blocks."""
        return tokens <= (5 + 2 * self.random) * self.block

    def blocks_of(self, tokens: int) -> int:
        """Number of blocks in a text; the last may be shorter."""
        return -(-tokens // self.block)

    def plan(self, tokens: int) -> BlockPlan:
        """The key blocks of each query block in evaluation."""
        return BlockPlan.fixed(self.blocks_of(tokens)).count_first_block(self.random)

    def rows(self, query_positions: Int[Tensor, R], S: int) -> Bool[Tensor, "R S"]:
        return self._key_multiplicity(query_positions, S) > 0

    def bias(self, query_positions: Int[Tensor, R], S: int) -> Float[Tensor, "R S"] | None:
        if self.is_dense(S):
            return None
        return self._key_multiplicity(query_positions, S).clamp(min=1).double().log()

    def is_distance_based(self, tokens: int) -> bool:
        return self.is_dense(tokens)

    def attended_pairs(self, tokens: int) -> int:
        if self.is_dense(tokens):
            return tokens**2
        N = self.blocks_of(tokens)
        sizes = torch.full((N,), self.block)
        sizes[-1] = tokens - (N - 1) * self.block
        return int(sizes @ self.plan(tokens).block_multiplicity()[0].clamp(max=1) @ sizes)

    def _key_multiplicity(self, query_positions: Tensor, S: int) -> Tensor:
        """How often each key counts for these queries. [R, S]"""
        if self.is_dense(S):
            return torch.ones(query_positions.shape[0], S, dtype=torch.long, device=query_positions.device)
        counts = self.plan(S).block_multiplicity()[0].to(query_positions.device)
        return counts[query_positions // self.block].repeat_interleave(self.block, dim=-1)[:, :S]

    def __str__(self) -> str:
        return f"blocks of {self.block}, {self.random} random"


class BlockSparseAttention(Attention):
    """Block-sparse self-attention: each block of queries sees a few blocks of keys.

        s = q kᵀ · scale;   probs_ij = t_ij exp(s_ij) / Σ_j t_ij exp(s_ij);   z = probs v

    t_ij says how often j's block counts for i's: mostly 0. A text of up to 5 + 2 · `random` blocks gets full attention.
    Padding attends to nothing. Where a tape listens to `scores` or `probs` all T × S of them are made, as s + log t.

    Args:
        x: the residual stream after the norm. [B, T, D]
        flow: as for `Attention`, without a cache and a bias; `keep` is [B, 1, S]. Blocks are counted from the row's
            beginning, padding included, and each packed text has its own.
    Returns: what is added to the residual stream. [B, T, D]
    Raises: ConfigError: a cache, a bias, or a `keep` that is not the same for all queries.
    Taps: as for `Attention`
    Source: Zaheer et al. 2020, section 2 and appendix D.
    Differs: the paper has random blocks in training and after it. The reference library has them in training alone, by
    the paper's seeds, and takes the first block in their place in evaluation; so does this. Attention dropout is
    applied in short texts only.
    """

    spec: BlockSparseAttentionSpec
    pattern: BlockSparsePattern

    def __init__(self, spec: BlockSparseAttentionSpec) -> None:
        super().__init__(spec)
        self.pattern = BlockSparsePattern(block=spec.block, random=spec.random)

    def saves_more(self, tokens: int) -> tuple[int, int]:
        """What the backward pass needs besides q, k and v: see `glassformer.inspect.ram`.

        The k and v of all blocks that a token's block attends to, and a number each: the first, the last, three
        neighbouring and some random blocks.
        """
        if self.pattern.is_dense(tokens):
            return 0, 0
        blocks = 5 + self.spec.random
        return (2 * blocks + 2) * self.spec.heads * self.spec.E + blocks * self.spec.heads, 0

    def plan(self, tokens: int) -> BlockPlan:
        """The key blocks of each query block in this mode, training or evaluation."""
        if not self.training:
            return self.pattern.plan(tokens)
        spec, N = self.spec, self.pattern.blocks_of(tokens)
        random = random_blocks(N, spec.block, spec.random, spec.heads, spec.seed, spec.longest)
        return BlockPlan.fixed(N).with_random_blocks(torch.tensor(random, dtype=torch.long))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None, flow: Flow) -> Tensor:
        T, S = q.shape[2], k.shape[2]
        if T != S or bias is not None:
            raise ConfigError(
                "block-sparse attention goes with neither cache nor bias; it sees a whole text, at no distance"
            )
        packing = flow.packing  # packed texts of equal length come here as a batch, so S is the length of each
        lengths = (S,) if packing is None or packing.tokens != S else packing.lengths
        if all(map(self.pattern.is_dense, lengths)):
            return super().attend(q, k, v, mask, bias, flow)
        if flow.keep is not None and flow.keep.shape[1] != 1:
            raise ConfigError(
                f"keep has shape {list(flow.keep.shape)}; block-sparse attention hides a key from all queries equally: "
                f"[{q.shape[0]}, 1, {S}]"
            )
        if self.wants(flow, "scores", "probs"):
            return self._dense(q, k, v, mask, lengths, flow)
        return self._sparse(q, k, v, mask.keep)

    def _dense(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, lengths: Sequence[int], flow: Flow) -> Tensor:
        """All scores of texts that lie end to end, with the hidden ones -inf, for a tape. [B, H, T, E]"""
        multiplicity = self._key_multiplicity(lengths).to(q.device)
        keep = multiplicity > 0
        if mask.keep is not None:
            keep = keep & mask.keep & mask.keep.mT  # [B, H, T, S]
        bias = multiplicity.clamp(min=1).double().log().to(q.dtype)
        scores = self.tap(flow, "scores", attention_scores(q, k, keep, bias, self.scale))  # [B, H, T, S]
        return self.tap(flow, "probs", softmax(scores)) @ v

    def _key_multiplicity(self, lengths: Sequence[int]) -> Tensor:
        """How often each key counts for each query of texts that lie end to end. [H, T, T]"""
        multiplicity = torch.zeros(self.spec.heads, sum(lengths), sum(lengths), dtype=torch.long)
        end = 0
        for length in lengths:
            start, end = end, end + length
            own: Tensor = torch.ones(1, 1, 1, dtype=torch.long)
            if not self.pattern.is_dense(length):
                counts, block = self.plan(length).block_multiplicity(), self.spec.block
                own = counts.repeat_interleave(block, dim=1).repeat_interleave(block, dim=2)
            multiplicity[:, start:end, start:end] = own[:, :length, :length]
        return multiplicity

    def _sparse(self, q: Tensor, k: Tensor, v: Tensor, keep: Tensor | None) -> Tensor:
        """The fused kernel for each query block, on gathered key blocks. [B, H, T, E]"""
        (B, H, T, E), block = q.shape, self.spec.block
        if keep is None:
            keep = torch.ones(1, 1, 1, T, dtype=torch.bool, device=q.device)
        N = self.pattern.blocks_of(T)
        padded = torch.compiler.is_exporting() or N * block != T
        if padded:
            q, k, v = (F.pad(x, (0, 0, 0, N * block - T)) for x in (q, k, v))
            keep = F.pad(keep, (0, N * block - T))  # pads with False
        ends = torch.cat([q[:, :, :block], q[:, :, -block:]], dim=2)
        first, last = F.scaled_dot_product_attention(ends, k, v, keep, scale=self.scale).chunk(2, dim=2)

        plan = self.plan(T)
        blocks = plan.blocks.to(q.device)  # [H or 1, N - 2, G]
        log_multiplicity = plan.multiplicity.double().log().to(q)[..., None]  # -inf where a block counts 0 times
        visible = keep.expand(B, 1, 1, -1).unflatten(-1, (N, block))[:, 0, 0]  # [B, N, block]
        queries = q.unflatten(2, (N, block))[:, :, 1:-1]  # [B, H, N - 2, block, E]
        keys, values = (x.unflatten(2, (N, block)).flatten(1, 2) for x in (k, v))  # [B, H · N, block, E]
        heads = torch.arange(H, device=q.device)[:, None, None]
        if torch.is_grad_enabled() or torch.compiler.is_exporting():
            # The backward pass needs all gathered keys anyway, and would allocate a whole table of them per chunk. The
            # graph of an exported program has no loop.
            chunks = [slice(None)]
        else:
            count = max(1, GATHERED_NUMBERS // (B * H * E * block * blocks.shape[-1]))
            chunks = [slice(start, start + count) for start in range(0, N - 2, count)]
        parts = []
        for some in chunks:
            gathered = blocks[:, some]  # [H or 1, Q, G]
            bias = log_multiplicity[:, some].masked_fill(~visible[:, gathered], -torch.inf)
            indices, shape = (gathered + heads * N).flatten(), (B * H, gathered.shape[1], -1, E)
            part = F.scaled_dot_product_attention(
                queries[:, :, some].flatten(0, 1),  # [B · H, Q, block, E]
                keys.index_select(1, indices).view(shape),  # [B · H, Q, G · block, E]
                values.index_select(1, indices).view(shape),
                bias.flatten(3).expand(-1, H, -1, -1).flatten(0, 1)[:, :, None],  # from [B, H or 1, Q, G, block]
                scale=self.scale,
            )
            parts.append(part.unflatten(0, (B, H)).flatten(2, 3))
        z = torch.cat([first, *parts, last], dim=2)
        z = z.masked_fill(~keep.mT, 0.0)
        # Not a slice: whether that is contiguous depends on T, which is free in an exported program.
        return z.index_select(2, torch.arange(T, device=z.device)) if padded else z
