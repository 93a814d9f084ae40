"""What is worth keeping between two looks, within a limit of memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from threading import Lock

from torch import Tensor


class Kept:
    """Groups of tensors by key; when they take more than `limit` bytes, those not looked at for longest are let go.

    Several threads may ask at once. Two that ask for the same new tensor may both compute it: that costs a moment, and
    nobody ever waits for another's work.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.nbytes = 0
        self._tensors: OrderedDict[Hashable, tuple[Tensor, ...]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """The tensors of a key, made now if they are not there."""
        with self._lock:
            if key in self._tensors:
                self._tensors.move_to_end(key)
                return self._tensors[key]
        made = make()
        with self._lock:
            if key not in self._tensors:
                self._put(key, made)
        return made

    def put(self, key: Hashable, made: tuple[Tensor, ...]) -> None:
        """Keep these tensors under a key, instead of those that were there."""
        with self._lock:
            if key in self._tensors:
                self.nbytes -= held_bytes(self._tensors.pop(key))
            self._put(key, made)

    def _put(self, key: Hashable, made: tuple[Tensor, ...]) -> None:
        self._tensors[key] = made
        self.nbytes += held_bytes(made)
        while self.nbytes > self.limit and len(self._tensors) > 1:
            _, oldest = self._tensors.popitem(last=False)
            self.nbytes -= held_bytes(oldest)


def held_bytes(tensors: Iterable[Tensor]) -> int:
    """The memory that tensors keep alive: a view keeps all of what it is a view of, and two views keep it once."""
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage() for tensor in tensors}
    return sum(storage.nbytes() for storage in storages.values())
