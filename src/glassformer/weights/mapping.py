"""Memory-map tensors of files side by side: q, k and v, which a file stores apart, as one tensor without a copy.

    file      … k k │ … o o o o … │ q q q q │ … v v │ …
    memory    q q q q k k v v          each page is a private (copy-on-write) page of the file

Only whole pages can be placed, so a part must begin as far into a page as the one before it ends. Large matrices mostly
do: their sizes are multiples of a page, which shifts all of them by the same number of bytes, that of the header.

On 64-bit Linux alone; elsewhere `map_together` returns None, and what calls it copies.
Source: mmap(2), MAP_FIXED.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, PAGESIZE, PROT_READ, PROT_WRITE, mmap
from typing import Any

SUPPORTED = sys.platform == "linux" and sys.maxsize > 2**32
MAP_FIXED = 0x10  # at this very address; Python's module has no name for it
MIN_BYTES = 2**20
"""What is smaller is copied: a mapping costs some page faults and an entry in the process's table."""


def map_together(parts: Sequence[tuple[int, int, int]]) -> memoryview | None:
    """Map parts of files one behind the other, as writable private memory.

    Args:
        parts: an open file's number, an offset in it, and a size in bytes, within the file. The file may be closed
            afterwards.
    Returns: the bytes; the mapping lives as long as a view of them. None where it cannot be done.
    """
    total, shift = sum(size for _, _, size in parts), parts[0][1] % PAGESIZE
    if not SUPPORTED or total < MIN_BYTES or not _fit_pages(parts, shift):
        return None
    # Python's mapping reserves the addresses, and gives all of them back in the end.
    reserved = mmap(-1, shift + total + PAGESIZE, MAP_PRIVATE | MAP_ANONYMOUS)
    memory = memoryview(reserved)
    address = ctypes.addressof(ctypes.c_char.from_buffer(reserved))
    place = _system_mmap()
    end = shift
    for file, offset, size in parts:
        page = end - end % PAGESIZE
        before = bytes(memory[page:end])  # the end of the part before, which shares this page
        length = end + size - page
        protection, kind = PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED
        if place(address + page, length, protection, kind, file, offset - (end - page)) != address + page:
            return None  # no memory, or too many mappings
        if end > shift:
            memory[page:end] = before
        end += size
    return memory[shift:end]


def _fit_pages(parts: Sequence[tuple[int, int, int]], shift: int) -> bool:
    """Whether each part begins as far into a page as the part before it ends."""
    end = shift
    for _, offset, size in parts:
        if offset % PAGESIZE != end % PAGESIZE:
            return False
        end += size
    return True


def _system_mmap() -> Callable[..., int | None]:
    """mmap(2), since Python's own cannot be told an address."""
    place: Any = ctypes.CDLL(None).mmap
    place.restype = ctypes.c_void_p
    place.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long
    ]  # fmt: skip
    call: Callable[..., int | None] = place
    return call
