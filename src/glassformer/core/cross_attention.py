"""Multi-head cross-attention: queries from a decoder, keys and values from the output of an encoder."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from torch import Tensor, nn

from glassformer.core.attention import AttentionSpec, MultiHeadAttention
from glassformer.core.cache import KeyValueCache, check_heads
from glassformer.core.checks import Count
from glassformer.core.dot_product import prefers_unfused
from glassformer.core.flow import EncoderOutput, Flow
from glassformer.core.masks import AttentionPattern, Mask
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from jaxtyping import Float


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
        if self.rotary is not None or self.qk_norm is not None:
            raise ConfigError(
                f"CrossAttentionSpec has rotary={self.rotary}, qk_norm={self.qk_norm}; only self-attention has them: "
                "leave them out"
            )

    def make(self) -> CrossAttention:  # type: ignore[override] # no place that takes the one takes the other
        """The cross-attention that this spec describes."""
        return CrossAttention(self)


class CrossAttention(MultiHeadAttention):
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
        beams, T = q.shape[0] // k.shape[0], q.shape[2]  # rows that share one row of the memory
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

        q = self.tap(flow, "q", self.split_heads(self.q(x), self.spec.heads)[0])
        k, v = self.keys_values(memory.states) if flow.cache is None else self.cached_keys_values(memory, flow.cache)
        return q, self.tap(flow, "k", k), self.tap(flow, "v", v)

    def cached_keys_values(self, memory: EncoderOutput, cache: KeyValueCache) -> tuple[Tensor, Tensor]:
        """Keys and values of the encoder's output, computed at the first step. [N, K, S, E] each

        Raises: ConfigError: the cache holds those of another model.
        """
        k, v = cache.encoder_keys_values(self, partial(self._contiguous_keys_values, memory))
        check_heads(self, k, self.spec.K, self.spec.E)
        return k, v

    def keys_values(self, states: Float[Tensor, "N S D"]) -> tuple[Tensor, Tensor]:
        """Keys and values of the encoder's output, the same at every step of decoding. [N, K, S, E] each"""
        k, v = self.split_heads(self.kv(states), self.spec.K, self.spec.K)
        return k, v

    def _contiguous_keys_values(self, memory: EncoderOutput) -> tuple[Tensor, Tensor]:
        """The same, as steps of generation read them fastest: head after head, and as wide as the encoder's output.

        For a single query the fused kernel takes twice as long in bf16 as in fp32, products by themselves half as long.
        The copy costs what two steps save.
        """
        k, v = self.keys_values(memory.states)
        if memory.keep is not None or not prefers_unfused(k[:, :, :1], k):
            k, v = k.to(memory.states.dtype), v.to(memory.states.dtype)
        return k.contiguous(), v.contiguous()
