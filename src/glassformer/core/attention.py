"""Multi-head attention: self-attention and cross-attention.

    x ──qkv──> q, k, v ──(rotary)──> scores = q kᵀ · scale + bias ──mask, softmax──> probs ──> z = probs v ──out──>

Two paths give the same numbers. The fused kernel never forms `scores`; the explicit path does, and is taken by a layer
only when a tape listens to that layer's `scores` or `probs`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.core.checks import Count, Probability, Spec
from glassformer.core.flow import Flow, Node
from glassformer.core.masks import AttentionPattern, Mask, Packing
from glassformer.core.norms import NormSpec, make_norm
from glassformer.core.positions import rotate
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from jaxtyping import Bool, Float


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionSpec(Spec):
    """Multi-head self-attention.

    width: D, of the residual stream · heads: H · kv_heads: K, shared by H/K query heads each (None: H)
    head_width: E (None: D/H) · bias, out_bias: these parameters exist · scale: factor on q kᵀ (None: 1/√E)
    causal: a query sees no later key · window: it sees keys less than this many tokens away (None: all)
    qk_norm: of q and k, before rotary: E wide, each head by itself, or H·E wide, all heads together
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

    @property
    def E(self) -> int:
        return self.head_width or self.width // self.heads

    @property
    def K(self) -> int:
        return self.kv_heads or self.heads


@dataclass(frozen=True, kw_only=True, slots=True)
class CrossAttentionSpec(AttentionSpec):
    """Cross-attention to all of an encoder output of width `memory_width` (None: the same width)."""

    memory_width: Count | None = None

    def validate(self) -> None:
        AttentionSpec.validate(self)
        if self.causal or self.window is not None:
            raise ConfigError(
                f"CrossAttentionSpec has causal={self.causal}, window={self.window}; every query sees all of the "
                "encoder's output: leave both out"
            )


def softmax(scores: Float[Tensor, "*rest S"]) -> Float[Tensor, "*rest S"]:
    """Softmax over the keys, in at least fp32; hidden keys (-inf) get exactly 0, also where a whole row is hidden."""
    hidden = scores == -torch.inf
    wide = torch.promote_types(scores.dtype, torch.float32)
    # The softmax of a row that is -inf throughout is NaN, and so are its gradients; any finite row will do.
    scores = scores.masked_fill(hidden.all(dim=-1, keepdim=True), 0.0)
    return torch.softmax(scores, dim=-1, dtype=wide).masked_fill(hidden, 0.0).to(scores.dtype)


def scaled_dot_product_attention(
    q: Float[Tensor, "*batch T E"],
    k: Float[Tensor, "*batch S E"],
    v: Float[Tensor, "*batch S E"],
    keep: Bool[Tensor, "*#batch T S"] | None = None,
    bias: Float[Tensor, "*#batch T S"] | None = None,
    scale: float | None = None,
) -> tuple[Float[Tensor, "*batch T E"], Float[Tensor, "*batch T S"]]:
    """Scaled dot-product attention, step by step as in the paper.

        probs = softmax(q kᵀ · scale + bias, over the keys),      z = probs v

    Args:
        q, k, v: queries, keys, values. [..., T, E], [..., S, E], [..., S, E]
        keep: True = may attend. [..., T, S]; a row without any True gives zeros
        bias: added to the scores; an additive mask (0 and -inf) goes here too. [..., T, S]
        scale: 1/√E unless given.
    Returns: z [..., T, E] and probs [..., T, S], whose rows sum to 1.
    Source: Vaswani et al. 2017, section 3.2.1.
    """
    scores = attention_scores(q, k, keep, bias, q.shape[-1] ** -0.5 if scale is None else scale)
    probs = softmax(scores)
    return probs @ v, probs


def attention_scores(q: Tensor, k: Tensor, keep: Tensor | None, bias: Tensor | None, scale: float) -> Tensor:
    """q kᵀ · scale + bias, with -inf where a query may not attend. [..., T, S]"""
    scores = (q @ k.mT) * scale
    if bias is not None:
        scores = scores + bias
    return scores if keep is None else scores.masked_fill(~keep, -torch.inf)


class _Attention(Node):
    """Base class of self- and cross-attention: softmax of the scores, weighted sum of the values, output projection."""

    TAPS = ("q", "k", "v", "scores", "probs", "z", "out")

    def __init__(self, spec: AttentionSpec) -> None:
        super().__init__()
        self.spec = spec
        self.pattern = AttentionPattern(spec.causal, spec.window)
        self.scale = spec.E**-0.5 if spec.scale is None else spec.scale
        self.out = nn.Linear(spec.heads * spec.E, spec.width, bias=spec.out_bias)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None, flow: Flow) -> Tensor:
        """z = softmax(q kᵀ · scale + bias) v by the fused kernel, or step by step under a tape. [B, H, T, E]"""
        q = q.to(k.dtype)  # a cache may hold keys of a narrower dtype than these queries
        if self.wants(flow, "scores", "probs"):
            return self._explicit(q, k, v, mask, bias, flow)
        keep = mask.keep
        if bias is not None:  # the kernel takes one additive mask; hidden keys become -inf in it
            dense = mask.dense(q.shape[2], k.shape[2], q.device)
            keep = bias.to(q.dtype) if dense is None else bias.to(q.dtype).masked_fill(~dense, -torch.inf)
        return F.scaled_dot_product_attention(
            q, k, v, keep,
            dropout_p=self.spec.dropout if self.training else 0.0,
            is_causal=mask.is_causal and bias is None,
            scale=self.scale,
            enable_gqa=k.shape[1] != q.shape[1],
        )  # fmt: skip

    def _explicit(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None, flow: Flow) -> Tensor:
        group_size = q.shape[1] // k.shape[1]  # query heads that share one key/value head
        k, v = k.repeat_interleave(group_size, dim=1), v.repeat_interleave(group_size, dim=1)  # [B, H, S, E]
        keep = mask.dense(q.shape[2], k.shape[2], q.device)
        scores = self.tap(flow, "scores", attention_scores(q, k, keep, bias, self.scale))  # [B, H, T, S]
        probs = self.tap(flow, "probs", softmax(scores))  # [B, H, T, S]
        return F.dropout(probs, self.spec.dropout, self.training) @ v

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


class Attention(_Attention):
    """Multi-head self-attention, also grouped-query and multi-query.

        q, k, v = x W_qkv, cut into heads;   probs = softmax(q kᵀ · scale + bias, over S);   out = [z₁ … z_H] W_out

    Args:
        x: the residual stream after the norm. [B, T, D]
        flow: `keep` [B, T or 1, S] bool, True = may attend; `rotation` turns q and k; `bias` [1, H, T, S] is added to
            the scores; `cache` is extended by T keys; `packing` keeps several texts in the row apart, whose `bias` is
            that of the longest.
    Returns: what is added to the residual stream. [B, T, D]
    Raises: ConfigError: `keep` does not broadcast to [B, T, S], or comes together with `packing`.
    Taps: q [B H T E] · k v [B K T E], after rotary · scores probs [B H T S] · z [B H T E] · out [B T D]
    Source: Vaswani et al. 2017, section 3.2; grouped keys: Ainslie et al. 2023, section 2.2; norms of q and k: Henry et
    al. 2020, "Query-key normalization", Dehghani et al. 2023, section 2.
    Differs: the paper has no bias on q, k, v; BERT and GPT-2 have, Llama has not. One product gives q, k and v: the
    rows of `qkv.weight` are W_q, W_k, W_v, head after head.
    """

    def __init__(self, spec: AttentionSpec) -> None:
        super().__init__(spec)
        self.qkv = nn.Linear(spec.width, (spec.heads + 2 * spec.K) * spec.E, bias=spec.bias)
        self.q_norm = self.k_norm = None
        if spec.qk_norm is not None:
            share = spec.K if spec.qk_norm.width > spec.E else spec.heads  # there are fewer keys to norm together
            self.q_norm = make_norm(spec.qk_norm)
            self.k_norm = make_norm(replace(spec.qk_norm, width=spec.qk_norm.width * share // spec.heads))

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
        H, K = self.spec.heads, self.spec.K
        q, k, v = self.split_heads(self.qkv(x), H, K, K)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self._norm_heads(q, self.q_norm), self._norm_heads(k, self.k_norm)
        if flow.rotation is not None:
            q, k = rotate(q, flow.rotation), rotate(k, flow.rotation)
        return self.tap(flow, "q", q), self.tap(flow, "k", k), self.tap(flow, "v", v)

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
        mask = (flow.masks or {}).get(self.pattern)
        if mask is None:  # this layer runs outside a stack, which makes its masks once for all layers
            mask = Mask.combine(self.pattern, flow.keep, q.shape[2], k.shape[2], q.device)
        return self.attend(q, k, v, mask, flow.bias, flow)

    def _attend_packed(self, q: Tensor, k: Tensor, v: Tensor, packing: Packing, flow: Flow) -> Tensor:
        """Attention of one row in which several texts lie end to end. [1, H, T, E]"""
        T = q.shape[2]
        if flow.keep is not None or flow.cache is not None:
            raise ConfigError("packing goes with neither keep nor cache; a packed row has no padding and no past")
        if (len(q), T) != (1, packing.tokens):
            raise ConfigError(
                f"packing holds {packing.tokens} tokens in one row, x is {len(q)} × {T}; they must be equal"
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
            group = [t.unflatten(1, (texts, length)).transpose(0, 1) for t in rows]
            mask = Mask.combine(self.pattern, None, length, length, q.device)
            bias = None if flow.bias is None else flow.bias[:, :, :length, :length]
            part = self.attend(group[0], group[1], group[2], mask, bias, flow)
            parts.append(part.transpose(1, 2).flatten(0, 1))  # [texts · length, H, E]
        return (torch.cat(parts) if len(parts) > 1 else parts[0]).transpose(0, 1)[None]

    def _attend_block_diagonal(self, q: Tensor, k: Tensor, v: Tensor, packing: Packing, flow: Flow) -> Tensor:
        """The same under the block-diagonal mask: scores of the whole row, for a tape that listens to them."""
        mask = Mask.combine(self.pattern, packing.keep(q.device), q.shape[2], k.shape[2], q.device)
        bias = flow.bias
        if bias is not None:  # that of tokens of different texts is arbitrary: the mask hides it
            positions = packing.positions(q.device)[0]
            bias = bias[:, :, positions[:, None], positions[None, :]]
        return self.attend(q, k, v, mask, bias, flow)


class CrossAttention(_Attention):
    """Cross-attention: queries from the decoder's stream, keys and values from the encoder's output (the memory).

        q = x W_q;   k, v = memory W_kv;   probs [T, S] is a rectangle: T decoder positions by S memory positions

    Args:
        x: the decoder's residual stream after the norm. [B, T, D]
        flow: `memory` with states [N, S, D] and keep [N, 1, S]; with a `cache` its keys and values are computed once.
            N is B, or divides it: then B / N neighbouring rows share a row of the memory (beam search).
    Returns: what is added to the residual stream. [B, T, D]
    Raises: ConfigError: the flow carries no memory.
    Taps: q [B H T E] · k v [N K S E] · scores probs [N H B/N·T S] · z [B H T E] · out [B T D]
    Source: Vaswani et al. 2017, section 3.2.3. Each block has its own W_kv of the same memory.
    """

    def __init__(self, spec: CrossAttentionSpec) -> None:
        super().__init__(spec)
        self.q = nn.Linear(spec.width, spec.heads * spec.E, bias=spec.bias)
        self.kv = nn.Linear(spec.memory_width or spec.width, 2 * spec.K * spec.E, bias=spec.bias)

    def forward(self, x: Float[Tensor, "B T D"], flow: Flow) -> Float[Tensor, "B T D"]:
        q, k, v = self.project(x, flow)
        keep = None if flow.memory is None else flow.memory.keep
        beams, T = len(q) // len(k), q.shape[2]  # rows that share one row of the memory
        if beams > 1:  # as if they were one text of beams · T positions: no mask has to keep them apart
            q = q.unflatten(0, (-1, beams)).transpose(1, 2).flatten(2, 3)  # [N, H, beams · T, E]
        mask = Mask.combine(AttentionPattern(), keep, q.shape[2], k.shape[2], q.device)
        z = self.attend(q, k, v, mask, None, flow)
        if beams > 1:
            z = z.unflatten(2, (beams, T)).transpose(1, 2).flatten(0, 1)  # [B, H, T, E]
        return self.merge_heads(z, flow)

    def project(self, x: Tensor, flow: Flow) -> tuple[Tensor, Tensor, Tensor]:
        """q [B, H, T, E] of the decoder's tokens, k and v [N, K, S, E] of the memory."""
        memory = flow.memory
        if memory is None:
            raise ConfigError("cross-attention needs flow.memory, the encoder's output; got None")

        def keys_and_values() -> tuple[Tensor, Tensor]:
            k, v = self.split_heads(self.kv(memory.states), self.spec.K, self.spec.K)  # [N, K, S, E] each
            return k, v

        q = self.tap(flow, "q", self.split_heads(self.q(x), self.spec.heads)[0])
        k, v = flow.cache.encoder_keys_values(self, keys_and_values) if flow.cache is not None else keys_and_values()
        return q, self.tap(flow, "k", k), self.tap(flow, "v", v)
