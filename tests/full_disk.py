"""A full disk, by the limit of a file's size."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def full_disk(limit: int) -> Iterator[None]:
    """No file may have more bytes than `limit`; POSIX alone.

    Nor are compiled modules written: Python takes a short write for a whole one, and each later import of a module that
    is first imported here would end in an EOFError.
    """
    import resource

    size, compiled = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, size[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, size)
        sys.dont_write_bytecode = compiled
