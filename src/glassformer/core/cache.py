"""Key-value cache: keys and values of earlier tokens, so that each new token costs one row of work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from jaxtyping import Float


class KeyValueCache:
    """Key-value cache of each attention layer, preallocated and grown in blocks of tokens.

        buffer   [B, K, capacity, E]   capacity = length rounded up to whole blocks
        in use   [B, K, length, E]     a view; new tokens are written behind it in place

    A cross-attention layer's keys and values come from the encoder output, which does not change: they are computed
    once. For inference: keys are written in place, so gradients do not flow through more than one call. A cache serves
    one batch and one encoder output from beginning to end.

    Args:
        block_tokens: by how many tokens a buffer grows at a time.
    """

    def __init__(self, block_tokens: int = 256) -> None:
        self.block_tokens = block_tokens
        self.length = 0
        self._buffers: dict[nn.Module, tuple[Tensor, Tensor]] = {}
        self._encoder_buffers: dict[nn.Module, tuple[Tensor, Tensor]] = {}

    def get_seq_length(self, layer_index: int = 0) -> int:
        """The number of tokens in the cache, by the reference library's name."""
        return self.length

    def extend(
        self, layer: nn.Module, k: Float[Tensor, "B K T E"], v: Float[Tensor, "B K T E"]
    ) -> tuple[Float[Tensor, "B K S E"], Float[Tensor, "B K S E"]]:
        """Append T new tokens to this layer's keys and values; returns those of all S = length + T tokens.

        Raises: ConfigError: the batch has another number of texts than the cache.
        """
        total = self.length + k.shape[2]
        buffers = self.reserve(layer, k, v, k.shape[2])
        for buffer, new in zip(buffers, (k, v), strict=True):
            buffer[:, :, self.length : total] = new
        return buffers[0][:, :, :total], buffers[1][:, :, :total]

    def reserve(
        self, layer: nn.Module, k: Float[Tensor, "B K #T E"], v: Float[Tensor, "B K #T E"], tokens: int
    ) -> tuple[Float[Tensor, "B K capacity E"], Float[Tensor, "B K capacity E"]]:
        """This layer's buffers, with room for more tokens; k and v give the shape and dtype of new ones.

        Raises: ConfigError: the batch has another number of texts than the cache.
        """
        buffers, total = self._buffers.get(layer), self.length + tokens
        if buffers is not None and buffers[0].shape[0] != k.shape[0]:
            raise ConfigError(f"the cache holds {len(buffers[0])} texts, the batch {len(k)}; make one cache a batch")
        if buffers is None or buffers[0].shape[2] < total:
            buffers = (
                self._grown(buffers and buffers[0], k, total),
                self._grown(buffers and buffers[1], v, total),
            )
            self._buffers[layer] = buffers
        return buffers

    def _grown(self, old: Tensor | None, like: Tensor, total: int) -> Tensor:
        capacity = -(-total // self.block_tokens) * self.block_tokens
        B, K, _, E = like.shape
        grown = like.new_empty(B, K, capacity, E)  # not zeros: nothing reads beyond `length`
        if old is not None:
            grown[:, :, : self.length] = old[:, :, : self.length]
        return grown

    def encoder_keys_values(
        self, layer: nn.Module, compute: Callable[[], tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor]:
        """This cross-attention layer's keys and values of the encoder output, computed at the first call."""
        if layer not in self._encoder_buffers:
            self._encoder_buffers[layer] = compute()
        return self._encoder_buffers[layer]

    def reorder_rows(self, rows: Tensor, sources: Tensor | None = None) -> None:
        """Select rows of the batch, in this order (beam search); a row may come several times, or not at all. [B']

        Args:
            sources: rows of the encoder output to select; None = leave them as they are. [N']
        """

        def selected(buffer: Tensor) -> Tensor:
            used = buffer[:, :, : self.length][rows]
            return self._grown(used, used, self.length)

        self._buffers = {layer: (selected(k), selected(v)) for layer, (k, v) in self._buffers.items()}
        if sources is not None:
            self._encoder_buffers = {layer: (k[sources], v[sources]) for layer, (k, v) in self._encoder_buffers.items()}

    def copy_rows(self, targets: Tensor, rows: Tensor, start: int = 0) -> None:
        """Overwrite the rows `targets` by copies of `rows`, from token `start` on, in place. [n] each

        Cheaper than `reorder_rows`; for targets that equal their new rows before `start`, and in the encoder output.
        """
        for buffer in (buffer for pair in self._buffers.values() for buffer in pair):
            used = buffer[:, :, start : self.length]
            used.index_copy_(0, targets, used[rows])

    def advance(self, tokens: int) -> None:
        """Count `tokens` that all layers have appended; a stack calls it at the end of its pass."""
        self.length += tokens

    def drop_last(self, tokens: int) -> None:
        """Drop the newest `tokens` of each text (rollback); new tokens are written over them.

        Raises: ConfigError: the cache does not hold so many.
        """
        if not 0 <= tokens <= self.length:
            raise ConfigError(
                f"{tokens} tokens cannot be dropped from a cache of {self.length}; drop from 0 to {self.length}"
            )
        self.length -= tokens

    @property
    def nbytes(self) -> int:
        """Size of all buffers in bytes."""
        return sum(t.nbytes for pair in (*self._buffers.values(), *self._encoder_buffers.values()) for t in pair)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.length} tokens, {len(self._buffers)} layers, {self.nbytes / 1e6:.1f} MB)"


class FunctionalCache(KeyValueCache):
    """Key-value cache that writes nothing in place: keys and values in, those of the new tokens concatenated, out.

        [B, K, length, E]  +  [B, K, T, E]  ──cat──>  [B, K, length + T, E]

    For programs of `torch.export`, and for gradients through several calls. Slower than `KeyValueCache`, since each
    call copies all earlier keys.

    Args:
        past: layer → keys and values so far, [B, K, length, E] each; empty = none
        encoder: cross-attention layer → keys and values of the encoder output, [B, K, S, E] each
    """

    def __init__(
        self,
        past: Mapping[nn.Module, tuple[Tensor, Tensor]] | None = None,
        encoder: Mapping[nn.Module, tuple[Tensor, Tensor]] | None = None,
    ) -> None:
        super().__init__(block_tokens=1)  # no room for tokens that are yet to come
        self._buffers = dict(past or {})
        self._encoder_buffers = dict(encoder or {})
        self.length = next((k.shape[2] for k, _ in self._buffers.values()), 0)

    def extend(self, layer: nn.Module, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        past = self._buffers.get(layer)
        if past is not None:
            k, v = (
                torch.cat([old[:, :, : self.length].to(new.dtype), new], 2)
                for old, new in zip(past, (k, v), strict=True)
            )
        self._buffers[layer] = k, v
        return k, v

    def keys_values(self, layer: nn.Module) -> tuple[Tensor, Tensor]:
        """A self-attention layer's keys and values of all tokens. [B, K, length, E] each"""
        return self._buffers[layer]
