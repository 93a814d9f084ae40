"""Opening the files of a folder nobody vouches for.

A model folder may have been unpacked from anywhere: a name in it may be a pipe that never answers, or a
link to a file that is none of the model's. Only regular files of the folder itself are opened, or those
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


def shown(text: object) -> str:
    """A name from a file, safe and short enough to stand in a one-line message."""
    quoted = repr(text)
    return quoted if len(quoted) <= 120 else quoted[:100] + f"… ({len(quoted)} characters)"


def open_regular(path: Path, error: type[GlassformerError] = WeightsError) -> tuple[BufferedReader, int]:
    """Open a regular file for reading.

    Returns: the stream and the file's size in bytes.

    Raises: `error`: it cannot be opened, or is a folder, a pipe or a device.
    """
    try:
        # O_NONBLOCK: opening a pipe that nobody writes to would otherwise wait for ever.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (OSError, ValueError) as problem:
        raise error(f"{path}: cannot be opened: {reason(problem)}") from problem
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise error(f"{path}: is not a regular file")
    return open(handle, "rb"), status.st_size


def reason(problem: BaseException) -> str:
    """Why the system refused, in its own words and without the file name."""
    return getattr(problem, "strerror", None) or str(problem) or type(problem).__name__


def check_link(folder: Path, path: Path) -> None:
    """Refuse a link that leads out of `folder` and of the Hub cache that the folder is part of.

    Raises: WeightsError: where the link leads, and what to do.
    """
    try:
        real, home = path.resolve(), folder.resolve()
    except (OSError, RuntimeError) as problem:  # RuntimeError: links in a circle, before Python 3.13
        raise WeightsError(f"{path}: cannot be opened: {reason(problem)}") from problem
    if any(place in real.parents for place in (home, *_blob_stores(home))):
        return
    raise WeightsError(
        f"{path}: is a link that leads out of the model's folder, to {real}; copy the file into the folder"
    )


def _blob_stores(folder: Path) -> list[Path]:
    """Where the links of a Hub snapshot may lead: its repository's blobs, and the cache's shared ones."""
    for snapshots in folder.parents:
        repository = snapshots.parent
        if snapshots.name == "snapshots" and repository.name.startswith("models--"):
            return [repository / "blobs", repository.parent / "blobs"]
    return []
