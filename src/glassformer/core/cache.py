"""Keys and values of tokens already seen, so that each new token costs one row of work."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import Tensor, nn

from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from jaxtyping import Float


class KeyValueCache:
    """The keys and values of each attention layer, preallocated and grown in blocks of tokens.

        room     [B, K, capacity, E]   capacity = length rounded up to whole blocks
        in use   [B, K, length, E]     a view; new tokens are written behind it in place

    A cross-attention layer's keys and values come from a memory that does not change: they are computed once.

    For inference: keys are written in place, so gradients do not flow through more than one call. A cache serves one
    batch and one memory from beginning to end.

    Args:
        block_tokens: how many tokens of room are added at a time.
    """

    def __init__(self, block_tokens: int = 256) -> None:
        self.block_tokens = block_tokens
        self.length = 0
        self._room: dict[nn.Module, tuple[Tensor, Tensor]] = {}
        self._memory: dict[nn.Module, tuple[Tensor, Tensor]] = {}

    def extend(
        self, layer: nn.Module, k: Float[Tensor, "B K T E"], v: Float[Tensor, "B K T E"]
    ) -> tuple[Float[Tensor, "B K S E"], Float[Tensor, "B K S E"]]:
        """Write T new tokens behind the old ones of this layer; answer with all S = length + T.

        Raises: ConfigError: the batch has another number of texts than the cache.
        """
        total = self.length + k.shape[2]
        room = self._room.get(layer)
        if room is not None and len(room[0]) != len(k):
            raise ConfigError(
                f"the cache holds {len(room[0])} texts, the batch {len(k)}; make one cache a batch"
            )
        if room is None or room[0].shape[2] < total:
            room = (self._grown(room and room[0], k, total), self._grown(room and room[1], v, total))
            self._room[layer] = room
        for buffer, new in zip(room, (k, v), strict=True):
            buffer[:, :, self.length : total] = new
        return room[0][:, :, :total], room[1][:, :, :total]

    def _grown(self, old: Tensor | None, like: Tensor, total: int) -> Tensor:
        capacity = -(-total // self.block_tokens) * self.block_tokens
        B, K, _, E = like.shape
        grown = like.new_empty(B, K, capacity, E)  # nobody reads behind what is written
        if old is not None:
            grown[:, :, : self.length] = old[:, :, : self.length]
        return grown

    def memory(self, layer: nn.Module, compute: Callable[[], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """This cross-attention layer's keys and values of the memory, computed at the first call."""
        if layer not in self._memory:
            self._memory[layer] = compute()
        return self._memory[layer]

    def pick(self, rows: Tensor, sources: Tensor | None = None) -> None:
        """Become these rows of the batch, in this order; one may be there several times, or not at all. [B']

        Args:
            sources: and these rows of the memory; None = all as they lie. [N']
        """

        def picked(room: Tensor) -> Tensor:
            used = room[:, :, : self.length][rows]
            return self._grown(used, used, self.length)

        self._room = {layer: (picked(k), picked(v)) for layer, (k, v) in self._room.items()}
        if sources is not None:
            self._memory = {layer: (k[sources], v[sources]) for layer, (k, v) in self._memory.items()}

    def overwrite(self, places: Tensor, rows: Tensor, start: int = 0) -> None:
        """These rows of the batch become copies of those, from token `start` on; all else stays where it is. [n] each

        For places that agree with their new rows before `start`, and in the memory.
        """
        for room in (room for pair in self._room.values() for room in pair):
            used = room[:, :, start : self.length]
            used.index_copy_(0, places, used[rows])

    def advance(self, tokens: int) -> None:
        """All layers have written `tokens` more; a stack says so at the end of its pass."""
        self.length += tokens

    def drop(self, tokens: int) -> None:
        """Forget the newest `tokens` of each text; what comes next is written over them.

        Raises: ConfigError: the cache does not hold so many.
        """
        if not 0 <= tokens <= self.length:
            raise ConfigError(
                f"{tokens} tokens cannot be dropped from a cache of {self.length}; drop from 0 to {self.length}"
            )
        self.length -= tokens

    @property
    def bytes(self) -> int:
        """The memory that keys and values take."""
        return sum(t.nbytes for pair in (*self._room.values(), *self._memory.values()) for t in pair)

    def __repr__(self) -> str:
        return f"KeyValueCache({self.length} tokens, {len(self._room)} layers, {self.bytes / 1e6:.1f} MB)"
