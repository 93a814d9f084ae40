"""Key-value cache: keys and values of earlier tokens, so that each new token costs one row of work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from jaxtyping import Float


class _Filled(NamedTuple):
    """Keys and values of one layer [B, K, capacity, E], of which the first `tokens` are written.

    own: whether they are buffers of the cache, which it may write to; else the layer's own tensors
    """

    k: Tensor
    v: Tensor
    tokens: int
    own: bool = True


class KeyValueCache:
    """Key-value cache of each attention layer, preallocated and grown in blocks of tokens.

        buffer   [B, K, capacity, E]   capacity = length rounded up to whole blocks
        in use   [B, K, length, E]     a view; new tokens are written behind it in place

    A cross-attention layer's keys and values come from the encoder output, which does not change: they are computed
    once. For inference: keys are written in place, so gradients do not flow through more than one call. A cache serves
    one batch and one encoder output from beginning to end.

    Layers are known by their place in the network, as in the reference library: a copy of the model, or the same
    folder loaded again, continues the cache. A layer outside a network has no place, and is known by itself.

    Args:
        block_tokens: by how many tokens a buffer grows at a time.
        lazy: keep the tensors of the first call themselves, and make buffers at the second; for calls that are mostly
            not continued.
    """

    def __init__(self, block_tokens: int = 256, *, lazy: bool = False) -> None:
        self.block_tokens = block_tokens
        self._lazy = lazy
        self._length = 0
        self._buffers: dict[Place, _Filled] = {}
        self._encoder_buffers: dict[Place, tuple[Tensor, Tensor]] = {}

    @property
    def length(self) -> int:
        """The number of tokens in the cache; set it to a smaller one to drop the newest tokens.

        Raises: ConfigError: set to less than 0, or to more than it is.
        """
        return self._length

    @length.setter
    def length(self, tokens: int) -> None:
        if not (isinstance(tokens, int) and 0 <= tokens <= self._length):
            raise ConfigError(
                f"length is {str(tokens)[:40]}; a cache of {self._length} tokens can be cut to 0 to {self._length}"
            )
        self.drop_last(self._length - tokens)

    def get_seq_length(self, layer_index: int = 0) -> int:
        """The number of tokens in the cache, by the reference library's name."""
        return self.length

    def extend(
        self, layer: nn.Module, k: Float[Tensor, "B K T E"], v: Float[Tensor, "B K T E"]
    ) -> tuple[Float[Tensor, "B K S E"], Float[Tensor, "B K S E"]]:
        """Append T new tokens to this layer's keys and values; returns those of all S = length + T tokens.

        Raises: as `reserve`.
        """
        place, total = _place(layer), self.length + k.shape[2]
        if self._lazy and not self.length:
            self._buffers[place] = _Filled(k, v, total, own=False)
            return k, v
        buffers = self.reserve(layer, k, v, k.shape[2])
        if buffers[0].dtype != k.dtype and not torch.is_autocast_enabled(k.device.type):
            raise ConfigError(
                f"the cache holds {buffers[0].dtype} for {_name(layer)}, which makes {k.dtype}: it was filled by "
                "another model; make one cache a model"
            )
        for buffer, new in zip(buffers, (k, v), strict=True):
            buffer[:, :, self.length : total] = new
        return buffers[0][:, :, :total], buffers[1][:, :, :total]

    def reserve(
        self, layer: nn.Module, k: Float[Tensor, "B K #T E"], v: Float[Tensor, "B K #T E"], tokens: int
    ) -> tuple[Float[Tensor, "B K capacity E"], Float[Tensor, "B K capacity E"]]:
        """This layer's buffers, with room for more tokens; k and v give the shape and dtype of new ones.

        The caller writes the keys and values of these tokens before the cache advances.

        Raises: ConfigError: another number of texts than the cache has, or a layer whose earlier tokens it does not
            hold, or of another shape: it was filled by another model.
        """
        place, total = _place(layer), self.length + tokens
        filled = self._buffers.get(place)
        self._check(layer, filled, k)
        if filled is None or filled.k.shape[2] < total or not _is_writable(filled):
            filled = _Filled(
                self._grown(filled and filled.k, k, total), self._grown(filled and filled.v, v, total), total
            )
        self._buffers[place] = _Filled(filled.k, filled.v, total)
        return filled.k, filled.v

    def _check(self, layer: nn.Module, filled: _Filled | None, k: Tensor) -> None:
        """Refuse keys that do not continue those of their layer."""
        if torch.compiler.is_compiling():  # an exported program's sizes are free, and must stay so
            return
        if filled is not None and filled.k.shape[0] != k.shape[0]:
            raise ConfigError(f"the cache holds {len(filled.k)} texts, the batch {len(k)}; make one cache a batch")
        held = 0 if filled is None else filled.tokens
        if held < self.length:
            raise ConfigError(
                f"the cache holds {self.length} tokens, but {held} of {_name(layer)}: it was filled by another model; "
                "make one cache a model"
            )
        if filled is not None:
            check_heads(layer, filled.k, k.shape[1], k.shape[3])

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
        place = _place(layer)
        if place not in self._encoder_buffers:
            self._encoder_buffers[place] = compute()
        return self._encoder_buffers[place]

    def reorder_rows(self, rows: Tensor, sources: Tensor | None = None) -> None:
        """Select rows of the batch, in this order (beam search); a row may come several times, or not at all. [B']

        Args:
            sources: rows of the encoder output to select; None = leave them as they are. [N']
        """

        def selected(buffer: Tensor) -> Tensor:
            used = buffer[:, :, : self.length][rows]
            return self._grown(used, used, self.length)

        self._buffers = {
            at: _Filled(selected(each.k), selected(each.v), self.length) for at, each in self._buffers.items()
        }
        if sources is not None:
            self._encoder_buffers = {at: (k[sources], v[sources]) for at, (k, v) in self._encoder_buffers.items()}

    def copy_rows(self, targets: Tensor, rows: Tensor, start: int = 0) -> None:
        """Overwrite the rows `targets` by copies of `rows`, from token `start` on, in place. [n] each

        Cheaper than `reorder_rows`; for targets that equal their new rows before `start`, and in the encoder output.
        """
        for at, filled in self._buffers.items():
            if not filled.own:
                filled = _Filled(filled.k.clone(), filled.v.clone(), filled.tokens)
                self._buffers[at] = filled
            for buffer in (filled.k, filled.v):
                used = buffer[:, :, start : self.length]
                used.index_copy_(0, targets, used[rows])

    def advance(self, tokens: int) -> None:
        """Count `tokens` that all layers have appended; a stack calls it at the end of its pass."""
        self._length += tokens

    def drop_last(self, tokens: int) -> None:
        """Drop the newest `tokens` of each text (rollback); new tokens are written over them.

        Raises: ConfigError: the cache does not hold this many.
        """
        if not 0 <= tokens <= self.length:
            raise ConfigError(
                f"{tokens} tokens cannot be dropped from a cache of {self.length}; drop from 0 to {self.length}"
            )
        self._length -= tokens
        self._buffers = {at: each._replace(tokens=min(each.tokens, self.length)) for at, each in self._buffers.items()}

    @property
    def nbytes(self) -> int:
        """Size of all buffers in bytes."""
        pairs = (*(filled[:2] for filled in self._buffers.values()), *self._encoder_buffers.values())
        return sum(buffer.nbytes for pair in pairs for buffer in pair)

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
        self._buffers = {_place(layer): _Filled(k, v, k.shape[2]) for layer, (k, v) in (past or {}).items()}
        self._encoder_buffers = {_place(layer): pair for layer, pair in (encoder or {}).items()}
        self._length = next((filled.tokens for filled in self._buffers.values()), 0)

    def extend(self, layer: nn.Module, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        place = _place(layer)
        past = self._buffers.get(place)
        self._check(layer, past, k)
        if past is not None:
            k, v = (
                torch.cat([old[:, :, : self.length].to(new.dtype), new], 2)
                for old, new in zip(past[:2], (k, v), strict=True)
            )
        self._buffers[place] = _Filled(k, v, k.shape[2])
        return k, v

    def keys_values(self, layer: nn.Module) -> tuple[Tensor, Tensor]:
        """A self-attention layer's keys and values of all tokens. [B, K, length, E] each"""
        filled = self._buffers[_place(layer)]
        return filled.k, filled.v


def _is_writable(filled: _Filled) -> bool:
    """Whether new tokens may be written into the buffers: those made in inference mode are closed outside it."""
    return filled.own and (torch.is_inference_mode_enabled() or not filled.k.is_inference())


Place = str | nn.Module
"""A layer's place in its network, as the path of its node; a layer outside a network is its own place."""


def _place(layer: nn.Module) -> Place:
    return getattr(layer, "path", "") or layer


def _name(layer: nn.Module) -> str:
    return str(getattr(layer, "path", "") or type(layer).__name__)


def check_heads(layer: nn.Module, k: Tensor, heads: int, width: int) -> None:
    """Refuse cached keys of another number of heads, or of another width of a head.

    Raises: ConfigError: the keys are another model's.
    """
    if (k.shape[1], k.shape[3]) != (heads, width):
        raise ConfigError(
            f"the cache holds keys of {k.shape[1]} heads of {k.shape[3]} numbers for {_name(layer)}, which has {heads} "
            f"of {width}: it was filled by another model; make one cache a model"
        )
