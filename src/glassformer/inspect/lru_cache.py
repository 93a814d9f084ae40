"""LRU cache of tensors with a limit in bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from threading import Lock

from torch import Tensor


class LRUCache:
    """Least-recently-used cache: groups of tensors by key, at most `limit` bytes; thread-safe.

    Two threads that need the same missing tensor may both compute it, so that no thread waits for another's work.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.nbytes = 0
        self._tensors: OrderedDict[Hashable, tuple[Tensor, ...]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, compute: Callable[[], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """The tensors of a key, computed if they are not cached."""
        with self._lock:
            if key in self._tensors:
                self._tensors.move_to_end(key)
                return self._tensors[key]
        tensors = compute()
        with self._lock:
            if key not in self._tensors:
                self._put(key, tensors)
        return tensors

    def put(self, key: Hashable, tensors: tuple[Tensor, ...]) -> None:
        """Set the tensors of a key."""
        with self._lock:
            if key in self._tensors:
                self.nbytes -= storage_bytes(self._tensors.pop(key))
            self._put(key, tensors)

    def _put(self, key: Hashable, tensors: tuple[Tensor, ...]) -> None:
        self._tensors[key] = tensors
        self.nbytes += storage_bytes(tensors)
        while self.nbytes > self.limit and len(self._tensors) > 1:  # the newest stays, however large
            _, oldest = self._tensors.popitem(last=False)
            self.nbytes -= storage_bytes(oldest)


def storage_bytes(tensors: Iterable[Tensor]) -> int:
    """RAM of the storages of tensors: a view keeps its whole storage alive, and several views of one count it once."""
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage() for tensor in tensors}
    return sum(storage.nbytes() for storage in storages.values())
