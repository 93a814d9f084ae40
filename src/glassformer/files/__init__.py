"""Safe access to untrusted files: regular files only, no links out of a model folder.

A model folder may come from anywhere: a name in it may be a pipe that blocks, or a symbolic link to a file
outside. Only regular files of the folder itself are opened, or those
of the Hub cache the folder belongs to, which is made of links:

    models--org--name/
        snapshots/<revision>/model.safetensors  →  ../../blobs/<digest>   (→ <cache>/blobs/<xx>/<digest>)
"""

from __future__ import annotations

import os
import stat
from io import BufferedReader
from pathlib import Path

from glassformer.errors import GlassformerError, WeightsError


def safe_repr(text: object) -> str:
    """A value from a file, escaped and shortened for a one-line message."""
    quoted = repr(text)
    return quoted if len(quoted) <= 120 else quoted[:100] + f"… ({len(quoted)} characters)"


def open_regular_file(path: Path, error: type[GlassformerError] = WeightsError) -> tuple[BufferedReader, int]:
    """Open a regular file for reading in binary mode.

    Returns: the stream and the file's size in bytes.

    Raises: `error`: it cannot be opened, or is a folder, a pipe or a device.
    """
    try:
        # O_NONBLOCK: opening a pipe that nobody writes to would otherwise wait for ever.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (OSError, ValueError) as problem:
        raise error(f"{path}: cannot be opened: {error_reason(problem)}") from problem
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise error(f"{path}: is not a regular file")
    return open(handle, "rb"), status.st_size


def error_reason(problem: BaseException) -> str:
    """The message of an exception, without the file name that an OSError carries."""
    return getattr(problem, "strerror", None) or str(problem) or type(problem).__name__


def check_link(folder: Path, path: Path) -> None:
    """Refuse a symbolic link that leads out of `folder` and of the Hub cache that the folder is part of.

    Raises: WeightsError: where the link leads, and what to do.
    """
    try:
        real, root = path.resolve(), folder.resolve()
    except (OSError, RuntimeError) as problem:  # RuntimeError: a loop of links, before Python 3.13
        raise WeightsError(f"{path}: cannot be opened: {error_reason(problem)}") from problem
    if any(allowed in real.parents for allowed in (root, *_blob_stores(root))):
        return
    raise WeightsError(
        f"{path}: is a link that leads out of the model's folder, to {real}; copy the file into the folder"
    )


def _blob_stores(folder: Path) -> list[Path]:
    """The blob folders that links of a Hub snapshot may lead to: its repository's, and the cache's shared one."""
    for snapshots in folder.parents:
        repository = snapshots.parent
        if snapshots.name == "snapshots" and repository.name.startswith("models--"):
            return [repository / "blobs", repository.parent / "blobs"]
    return []
