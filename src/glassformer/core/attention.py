"""Multi-head self-attention, and what it shares with cross-attention.

    x ──qkv──> q, k, v ──(rotary)──> scores = q kᵀ · scale + bias ──mask, softmax──> probs ──> z = probs v ──out──>

Two paths give the same numbers. The fused kernel never forms `scores`; the explicit path does, and is taken by a layer
when a tape listens to that layer's `scores` or `probs`, and, a few queries at a time, when its scores have a soft cap,
which the kernel lacks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from glassformer.core.checks import Count, Positive, Probability, Spec
from glassformer.core.dot_product import (
    attention_scores,
    matmul_by_group,
    prefers_unfused,
    softmax,
    unfused_attention,
)
from glassformer.core.flow import Flow, Node
from glassformer.core.local_attention import local_attention
from glassformer.core.masks import AttentionPattern, Mask, Packing
from glassformer.core.norms import HeadNorms, LayerNormSpec, NormSpec, make_norm
from glassformer.core.rotary import Rotary, RotarySpec, rotate
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from jaxtyping import Float

SCORES_AT_ONCE = {"cpu": 2**20, "cuda": 2**25}
"""How many scores with a soft cap exist at a time: on a CPU 4 MB in fp32, which its cache holds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionSpec(Spec):
    """Multi-head self-attention.

    width: D, of the residual stream
    heads: H
    kv_heads: K, shared by H/K query heads each (None: H)
    head_width: E (None: D/H)
    bias, out_bias: these parameters exist
    scale: factor on q kᵀ (None: 1/√E)
    causal: a query sees no later key
    window: it sees keys less than this many tokens away (None: all)
    qk_norm: of q and k, before rotary: E wide, each head by itself, or H·E wide, all heads together
    qk_norm_per_head: each head's layer norms, E wide, have weights of their own
    rotary: rotary position embedding of q and k (None: no positions here)
    score_cap: soft cap of the scores, cap · tanh(scores / cap), before bias and mask (None: no cap)
    """

    width: Count
    heads: Count
    kv_heads: Count | None = None
    head_width: Count | None = None
    bias: bool = True
    out_bias: bool = True
    scale: float | None = None
    dropout: Probability = 0.0
    causal: bool = False
    window: Count | None = None
    qk_norm: NormSpec | None = None
    qk_norm_per_head: bool = False
    rotary: RotarySpec | None = None
    score_cap: Positive | None = None

    KIND: ClassVar[str] = ""
    """What a family's own attention is, in a word; empty for that of the core."""

    def validate(self) -> None:
        if self.head_width is None and self.width % self.heads:
            raise ConfigError(
                f"width {self.width} is not a multiple of heads {self.heads}; set head_width or change one of them "
                "(config.json: hidden_size, num_attention_heads)"
            )
        if self.heads % self.K:
            raise ConfigError(
                f"heads {self.heads} is not a multiple of kv_heads {self.K}; each key/value head serves the same "
                "number of query heads (config.json: num_attention_heads, num_key_value_heads)"
            )
        if self.qk_norm is not None and self.qk_norm.width not in (self.E, self.heads * self.E):
            raise ConfigError(
                f"AttentionSpec.qk_norm has width {self.qk_norm.width}; it must be that of a head, {self.E}, or of all "
                f"heads, {self.heads * self.E}"
            )
        if self.qk_norm_per_head and not (
            isinstance(self.qk_norm, LayerNormSpec) and self.qk_norm.width == self.E and not self.qk_norm.bias
        ):
            raise ConfigError(
                "AttentionSpec.qk_norm_per_head goes with a LayerNormSpec without bias, as wide as a head, "
                f"{self.E}; qk_norm is {self.qk_norm}"
            )
        if self.rotary is not None and self.rotary.width > self.E:
            raise ConfigError(
                f"RotarySpec.width {self.rotary.width} is larger than the head width {self.E}; it must be at most that"
            )

    def make(self) -> Attention:
        """The self-attention that this spec describes; the spec of another kind of attention makes that."""
        return Attention(self)

    @property
    def E(self) -> int:
        return self.head_width or self.width // self.heads

    @property
    def K(self) -> int:
        return self.kv_heads or self.heads


class MultiHeadAttention(Node):
    """Base class of self- and cross-attention: softmax of the scores, weighted sum of the values, output projection."""

    TAPS = ("q", "k", "v", "scores", "probs", "z", "out")

    def __init__(self, spec: AttentionSpec) -> None:
        super().__init__()
        self.spec = spec
        self.pattern = AttentionPattern(spec.causal, spec.window)
        self.scale = spec.E**-0.5 if spec.scale is None else spec.scale
        self.out = nn.Linear(spec.heads * spec.E, spec.width, bias=spec.out_bias)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None, flow: Flow) -> Tensor:
        """z = softmax(scores) v by the fused kernel, or step by step under a tape or a soft cap. [B, H, T, E]"""
        q = q.to(k.dtype)  # a cache may hold keys of a narrower dtype than these queries
        capped = self.spec.score_cap is not None
        # The number of parts depends on the sizes, which are free in an exported program.
        if self.wants(flow, "scores", "probs") or (capped and torch.compiler.is_exporting()):
            return self._explicit(q, k, v, mask.dense(q.shape[2], k.shape[2], q.device), bias, flow)
        if capped:
            return self._in_parts(q, k, v, mask, bias)
        keep, training = mask.keep, self.training or torch.is_grad_enabled() or torch.compiler.is_exporting()
        plain = keep is None and bias is None and not (mask.is_causal or training)
        if plain and q.dtype == torch.bfloat16 and prefers_unfused(q, k):
            return unfused_attention(q, k, v, self.scale)
        if bias is not None:  # the kernel takes one additive mask; hidden keys become -inf in it
            dense = mask.dense(q.shape[2], k.shape[2], q.device)
            keep = bias.to(q.dtype) if dense is None else bias.to(q.dtype).masked_fill(~dense, -torch.inf)
        T = q.shape[2]
        if T == 1 and q.dtype == torch.bfloat16 and q.device.type == "cpu" and not torch.compiler.is_exporting():
            q = q.expand(-1, -1, 2, -1)  # the kernel takes half as long for two queries as for one
        z = F.scaled_dot_product_attention(
            q, k, v, keep,
            dropout_p=self.spec.dropout if self.training else 0.0,
            is_causal=mask.is_causal and bias is None,
            scale=self.scale,
            enable_gqa=bool(k.shape[1] != q.shape[1]),  # a tensor under torch.jit.trace
        )  # fmt: skip
        return z[:, :, :T]

    def _explicit(
        self, q: Tensor, k: Tensor, v: Tensor, keep: Tensor | None, bias: Tensor | None, flow: Flow
    ) -> Tensor:
        scores = attention_scores(q, k, keep, bias, self.scale, self.spec.score_cap)
        probs = self.tap(flow, "probs", softmax(self.tap(flow, "scores", scores)))  # [B, H, T, S]
        return matmul_by_group(F.dropout(probs, self.spec.dropout, self.training), v)

    def _in_parts(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None) -> Tensor:
        """The explicit path, a few queries at a time, so that no T × S scores are stored, nor kept for gradients."""
        (B, H, T, _), S = q.shape, k.shape[2]
        keep, parts = mask.dense(T, S, q.device), []
        count = max(1, SCORES_AT_ONCE.get(q.device.type, 2**20) // (B * H * S))
        for start in range(0, T, count):
            rows = slice(start, start + count)
            seen = slice(start + count if mask.is_causal else S)  # there is nothing later to see
            part = (
                q[:, :, rows], k[:, :, seen], v[:, :, seen],
                keep if keep is None else (keep if keep.shape[2] == 1 else keep[:, :, rows])[..., seen],
                None if bias is None else bias[:, :, rows, seen],
                Flow(),
            )  # fmt: skip
            if torch.is_grad_enabled():  # the backward pass computes the scores of each part once more
                parts.append(checkpoint(self._explicit, *part, use_reentrant=False))
            else:
                parts.append(self._explicit(*part))
        return torch.cat(parts, dim=2) if len(parts) > 1 else parts[0]

    def merge_heads(self, z: Tensor, flow: Flow) -> Tensor:
        """Concatenate the heads and project back to the residual stream. [B, T, D]"""
        z = self.tap(flow, "z", z)  # [B, H, T, E]
        return self.tap(flow, "out", self.out(z.transpose(1, 2).flatten(2)))

    def split_heads(self, x: Tensor, *counts: int) -> tuple[Tensor, ...]:
        """[B, T, Σ counts · E] → [B, count, T, E] for each count."""
        E = self.spec.E
        # Split first, transpose then: the backward pass joins the gradients by a single copy.
        parts = x.split([count * E for count in counts], dim=-1)
        return tuple(part.unflatten(-1, (count, E)).transpose(1, 2) for part, count in zip(parts, counts, strict=True))


class Attention(MultiHeadAttention):
    """Multi-head self-attention, also grouped-query and multi-query.

        q, k, v = x W_qkv, cut into heads;   probs = softmax(q kᵀ · scale + bias, over S);   out = [z₁ … z_H] W_out

    Args:
        x: the residual stream after the norm. [B, T, D]
        flow: `keep` [B, T or 1, S] bool, True = may attend; `rotations` turn q and k; `bias` [1, H, T, S] is added to
            the scores (see `score_bias`); `cache` is extended by T keys; `packing` keeps several texts in the row
            apart, whose `bias` is that of the longest.
    Returns: what is added to the residual stream. [B, T, D]
    Raises: ConfigError: `keep` does not broadcast to [B, T, S], or comes together with `packing`.
    Taps: q [B H T E] · k v [B K T E], after rotary · scores probs [B H T S] · z [B H T E] · out [B T D]
    Source: Vaswani et al. 2017, section 3.2; grouped keys: Ainslie et al. 2023, section 2.2; norms of q and k: Henry et
    al. 2020, "Query-key normalization", Dehghani et al. 2023, section 2; with weights of each head's own: Bellagente et
    al. 2024, "Stable LM 2 1.6B", and the released code of the 12B model.
    Differs: the paper has no bias on q, k, v; BERT and GPT-2 have, Llama has not. One product gives q, k and v: the
    rows of `qkv.weight` are W_q, W_k, W_v, head after head.
    """

    def __init__(self, spec: AttentionSpec) -> None:
        super().__init__(spec)
        self.qkv = nn.Linear(spec.width, (spec.heads + 2 * spec.K) * spec.E, bias=spec.bias)
        self.q_norm: nn.Module | None = None
        self.k_norm: nn.Module | None = None
        if spec.qk_norm_per_head and isinstance(spec.qk_norm, LayerNormSpec):
            self.q_norm, self.k_norm = HeadNorms(spec.qk_norm, spec.heads), HeadNorms(spec.qk_norm, spec.K)
        elif spec.qk_norm is not None:
            share = spec.K if spec.qk_norm.width > spec.E else spec.heads  # there are fewer keys to norm together
            self.q_norm = make_norm(spec.qk_norm)
            self.k_norm = make_norm(replace(spec.qk_norm, width=spec.qk_norm.width * share // spec.heads))
        self.rotary = Rotary(spec.rotary) if spec.rotary else None

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Float[Tensor, "B T D"]:
        q, k, v = self.project(x, flow)
        if flow.cache is not None:
            k, v = flow.cache.extend(self, k, v)
        if flow.packing is None:
            z = self._attend_rows(q, k, v, flow)
        else:
            z = self._attend_packed(q, k, v, flow.packing, flow)
        return self.merge_heads(z, flow)

    def project(self, x: Tensor, flow: Flow) -> tuple[Tensor, Tensor, Tensor]:
        """q [B, H, T, E], k and v [B, K, T, E] of these tokens, q and k normed and rotated by their positions."""
        q, k, v = self.queries_keys_values(x)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self._norm_heads(q, self.q_norm), self._norm_heads(k, self.k_norm)
        if self.rotary is not None:
            rotation = (flow.rotations or {}).get(self.rotary.spec)
            if rotation is None:  # this layer runs outside a stack, which makes its rotations once for all layers
                rotation = self.rotary(flow.token_positions(x), x.dtype, flow.packing)
            q, k = rotate(q, rotation), rotate(k, rotation)
        return self.tap(flow, "q", q), self.tap(flow, "k", k), self.tap(flow, "v", v)

    def queries_keys_values(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q [B, H, T, E], k and v [B, K, T, E] of vectors, as the layer's weights give them."""
        q, k, v = self.split_heads(self.qkv(x), self.spec.heads, self.spec.K, self.spec.K)
        return q, k, v

    def score_bias(self, q: Tensor, k: Tensor, flow: Flow, positions: Tensor | None = None) -> Tensor | None:
        """What is added to the scores of q [B, H, T, E] and k [B, K, S, E]: here `flow.bias`. [B or 1, H, T, S]

        Args:
            positions: of packed tokens, each in its own text [T]; None: of one text, whose last query is at the last
                key.
        """
        if flow.bias is None:
            return None
        if positions is not None:
            return flow.bias[:, :, positions[:, None], positions[None, :]]
        return flow.bias[:, :, : q.shape[2], : k.shape[2]]

    def _norm_heads(self, x: Float[Tensor, "B N T E"], norm: nn.Module) -> Float[Tensor, "B N T E"]:
        """Norm q or k, each head by itself or all heads of a token together."""
        assert self.spec.qk_norm is not None
        if self.spec.qk_norm.width == self.spec.E:
            normed: Tensor = norm(x)
            return normed
        joined: Tensor = norm(x.transpose(1, 2).flatten(2))  # [B, T, N · E]
        heads: Tensor = joined.unflatten(-1, (x.shape[1], -1))
        return heads.transpose(1, 2)

    def _attend_rows(self, q: Tensor, k: Tensor, v: Tensor, flow: Flow) -> Tensor:
        """Attention of a batch in which each row is one text. [B, H, T, E]"""
        return self._attend_texts(q, k, v, flow.keep, (flow.masks or {}).get(self.pattern), flow)

    def _attend_texts(
        self, q: Tensor, k: Tensor, v: Tensor, keep: Tensor | None, mask: Mask | None, flow: Flow
    ) -> Tensor:
        """Attention of one text in each row, under the mask that the stack has made for all its layers, if any."""
        bias = self.score_bias(q, k, flow)
        local = self.pattern.is_local(q.shape[2])
        if local and bias is None and not self.wants(flow, "scores", "probs"):
            attend = partial(self.attend, bias=None, flow=flow)
            return local_attention(attend, q, k, v, self.pattern, keep)
        if mask is None:
            mask = Mask.combine(self.pattern, keep, q.shape[2], k.shape[2], q.device)
        return self.attend(q, k, v, mask, bias, flow)

    def _attend_packed(self, q: Tensor, k: Tensor, v: Tensor, packing: Packing, flow: Flow) -> Tensor:
        """Attention of one row in which several texts lie end to end. [1, H, T, E]"""
        T = q.shape[2]
        if flow.keep is not None or flow.cache is not None:
            raise ConfigError("packing goes with neither keep nor cache; a packed row has no padding and no past")
        if (q.shape[0], T) != (1, packing.tokens):
            raise ConfigError(
                f"packing holds {packing.tokens} tokens in one row, x is {q.shape[0]} × {T}; they must be equal"
            )
        if self.wants(flow, "scores", "probs"):
            return self._attend_block_diagonal(q, k, v, packing, flow)
        groups = [(texts, length) for _, texts, length in packing.groups()]
        # One split and one cat, not a slice for each group: the backward pass of a slice fills a whole row with zeros.
        sizes = [texts * length for texts, length in groups]
        split = [t.squeeze(0).split(sizes, dim=1) if len(sizes) > 1 else (t.squeeze(0),) for t in (q, k, v)]
        parts = []
        for (texts, length), *rows in zip(groups, *split, strict=True):
            # [H, texts · length, E] → [texts, H, length, E]
            group_q, group_k, group_v = (t.unflatten(1, (texts, length)).transpose(0, 1) for t in rows)
            part = self._attend_texts(group_q, group_k, group_v, None, None, flow)
            parts.append(part.transpose(1, 2).flatten(0, 1))  # [texts · length, H, E]
        return (torch.cat(parts) if len(parts) > 1 else parts[0]).transpose(0, 1)[None]

    def _attend_block_diagonal(self, q: Tensor, k: Tensor, v: Tensor, packing: Packing, flow: Flow) -> Tensor:
        """The same under the block-diagonal mask: scores of the whole row, for a tape that listens to them."""
        mask = Mask.combine(self.pattern, packing.keep(q.device), q.shape[2], k.shape[2], q.device)
        # The bias of tokens of different texts is arbitrary: the mask hides it.
        bias = self.score_bias(q, k, flow, packing.positions(q.device)[0])
        return self.attend(q, k, v, mask, bias, flow)
