"""The C library's allocator: freed memory that stays with the process."""

from __future__ import annotations

import ctypes
import sys

TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD, MMAP_MAX = -1, -2, -3, -4  # malloc.h of the GNU C library
GROWTH = 64 << 20  # bytes that are taken from the system at once
PIECE, REUSED = 32 << 20, 256 << 20  # bytes of one tensor, and of all that batches leave to the next, at most
_returns_nothing = False


def keep_freed_memory() -> bool:
    """Let this process keep what it frees, for good; False where the C library is another, and nothing changes.

    A training step, or an encoder, allocates and frees the same large tensors over and over. The C library gives large
    pieces back to the system at once, and the system clears each page when it is touched again: on a CPU a fifth
    of a step's time, and a tenth of Whisper's in fp32.
    Source: mallopt(3), M_MMAP_MAX and M_TRIM_THRESHOLD.
    """
    global _returns_nothing
    done = _set((MMAP_MAX, 0), (TRIM_THRESHOLD, 2**31 - 1), (TOP_PAD, GROWTH))
    _returns_nothing = _returns_nothing or done
    return done


def keep_memory_of_batches() -> bool:
    """Let this process keep up to `REUSED` bytes of what it frees in pieces of up to `PIECE`; False where it cannot.

    The tensors of a batch reuse the memory of the batch before, and larger ones still go back to the system. What
    `keep_freed_memory` keeps stays kept.
    """
    return _returns_nothing or _set((MMAP_THRESHOLD, PIECE), (TRIM_THRESHOLD, REUSED))


def _set(*settings: tuple[int, int]) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):  # another library's mallopt may mean something else
        return False
    return all(library.mallopt(name, value) == 1 for name, value in settings)
