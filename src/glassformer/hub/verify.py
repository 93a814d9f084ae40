"""Verify the checksums of downloaded files.

The Hub cache names each file by the digest that the server stated, and links to it:

    models--org--name/snapshots/<commit>/model.safetensors  →  ../../blobs/<digest>

so the digest can be checked at any time, without the network: 64 hexadecimal digits are a SHA-256 (large
files), 40 a git blob's SHA-1 (small ones). Each file is hashed once; `glassformer/<commit>.json` beside `blobs/`
records size and time of verified files. A damaged file is moved to `glassformer/damaged/`.

Source: git, "Git Objects" (blob = SHA-1 of `blob <bytes>\\0` and the content); Git LFS specification (SHA-256).
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from glassformer.errors import GlassformerError
from glassformer.files.atomic import atomic_file

_HEXADECIMAL = frozenset("0123456789abcdef")


class SnapshotRecord:
    """The record of a snapshot: its verified files, and whether its download is complete.

    Stored in a JSON file in the cache; where the cache cannot be written, files are verified every time.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._path = folder.parent.parent / "glassformer" / f"{folder.name}.json"
        self._record: dict[str, Any] = {}
        with suppress(OSError, ValueError, RecursionError):  # absent or damaged: an empty record
            record = json.loads(self._path.read_bytes())
            self._record = record if isinstance(record, dict) else {}

    def is_complete(self, *, allow_pickle: bool) -> bool:
        """Whether a download of this kind of weights was completed, and its files still exist."""
        files = self._record.get("complete_with_pickle" if allow_pickle else "complete")
        return isinstance(files, list) and all((self.folder / str(name)).is_file() for name in files)

    def damaged_files(self, names: Iterable[str], check: Callable[[Path], object] | None) -> dict[str, str]:
        """Verify the files that are not in the record.

        Returns: name → problem, of the damaged files.
        """
        verified = self._record.get("good")
        verified = verified if isinstance(verified, dict) else {}
        damaged: dict[str, str] = {}
        for name in names:
            path = self.folder / name
            fingerprint = _fingerprint(path)
            if verified.get(name) == fingerprint:
                continue
            problem = _find_problem(path, check)
            if problem is None:
                verified[name] = fingerprint
            else:
                damaged[name] = problem
                verified.pop(name, None)
        self._save(good=verified)
        return damaged

    def mark_complete(self, names: Iterable[str], *, allow_pickle: bool) -> None:
        """Record that exactly these files make the snapshot."""
        self._save(**{"complete_with_pickle" if allow_pickle else "complete": sorted(names)})

    def quarantine(self, name: str) -> None:
        """Move a damaged file out of the cache, so that it is downloaded again, and can still be examined.

        Raises: OSError: the cache cannot be written.
        """
        damaged_folder = self._path.parent / "damaged"
        damaged_folder.mkdir(parents=True, exist_ok=True)
        # Every link from the snapshot to the file itself; another process may have moved some of them already.
        links = [self.folder / name]
        while links[-1].is_symlink():
            links.append(links[-1].parent / os.readlink(links[-1]))
        for link in links:
            with suppress(FileNotFoundError):
                if link.is_symlink():
                    link.unlink()
                else:
                    os.replace(link, damaged_folder / f"{link.name}.{secrets.token_hex(4)}")

    def _save(self, **changes: Any) -> None:
        if all(self._record.get(key) == value for key, value in changes.items()) and self._path.exists():
            return
        self._record |= changes
        with suppress(OSError):  # a read-only cache: the next call verifies again
            self._path.parent.mkdir(exist_ok=True)
            with atomic_file(self._path) as stream:
                stream.write(json.dumps(self._record).encode())


def _fingerprint(path: Path) -> list[int] | None:
    """Size, modification time and inode of a file, which change when the file does."""
    try:
        status = path.stat()
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns, status.st_ino]


def _stated_digest(path: Path) -> str | None:
    """The digest that the server stated for a file of a snapshot, or None where the cache does not state it.

    Only the first link counts: it may point to another link, into a store shared by repositories with other names.
    """
    try:
        name = os.path.basename(os.readlink(path))
    except OSError:
        return None  # a file system without links: the file itself is in the snapshot
    return name if len(name) in (40, 64) and set(name) <= _HEXADECIMAL else None


def _find_problem(path: Path, check: Callable[[Path], object] | None) -> str | None:
    """The problem of a damaged file, or None."""
    stated = _stated_digest(path)
    if stated is not None:
        try:
            digest = _digest(path, stated)
        except OSError as problem:
            return f"cannot be read: {problem.strerror or problem}"
        return None if digest == stated else f"has digest {digest[:12]}…, the server stated {stated[:12]}…"
    if check is not None and path.suffix == ".safetensors":
        try:
            check(path)
        except GlassformerError as problem:
            return str(problem)
    return None


def _digest(path: Path, stated: str) -> str:
    """The digest of a file, of the same kind as `stated`."""
    with path.open("rb") as stream:
        if len(stated) == 64:
            return hashlib.file_digest(stream, "sha256").hexdigest()
        size = os.fstat(stream.fileno()).st_size
        git_blob = hashlib.sha1(b"blob %d\x00" % size, usedforsecurity=False)
        return hashlib.file_digest(stream, lambda: git_blob).hexdigest()
