"""Whether the files of a snapshot are what the server said they are.

The Hub cache names each file by the digest the server stated, and links to it:

    models--org--name/snapshots/<commit>/model.safetensors  →  ../../blobs/<digest>

so the digest can be checked at any time, without the network: 64 hexadecimal digits are a SHA-256 (large
files), 40 a git blob's SHA-1 (small ones). Each file is read through once; `glassformer/<commit>.json` beside
`blobs/` remembers size and time of what was found good. A file that is not is moved to `glassformer/damaged/`.

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

_HEXADECIMAL = frozenset("0123456789abcdef")
_CHUNK_BYTES = 1 << 20


class Record:
    """What is known of one snapshot: which files were found good, and whether it is all there.

    Kept in the cache, in a file of our own; where the cache cannot be written, files are checked each time.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._path = _own_folder(folder) / f"{folder.name}.json"
        self._known: dict[str, Any] = {}
        with suppress(OSError, ValueError, RecursionError):  # absent or damaged: nothing is known
            known = json.loads(self._path.read_bytes())
            self._known = known if isinstance(known, dict) else {}

    def complete(self, *, allow_pickle: bool) -> bool:
        """Whether a fetch ran to its end, for this kind of weights, and none of its files has gone since."""
        files = self._known.get("complete_with_pickle" if allow_pickle else "complete")
        return isinstance(files, list) and all((self.folder / str(name)).is_file() for name in files)

    def damaged(self, names: Iterable[str], check: Callable[[Path], object] | None) -> dict[str, str]:
        """Check files not yet known to be good.

        Returns: name → what is wrong, of the damaged ones.
        """
        good = self._known.get("good")
        good = good if isinstance(good, dict) else {}
        wrong: dict[str, str] = {}
        for name in names:
            path = self.folder / name
            mark = _mark(path)
            if good.get(name) == mark:
                continue
            problem = _problem(path, check)
            if problem is None:
                good[name] = mark
            else:
                wrong[name] = problem
                good.pop(name, None)
        self._save(good=good)
        return wrong

    def mark_complete(self, names: Iterable[str], *, allow_pickle: bool) -> None:
        """Remember that all these files, and no others, make the snapshot."""
        self._save(**{"complete_with_pickle" if allow_pickle else "complete": sorted(names)})

    def _save(self, **changes: Any) -> None:
        if all(self._known.get(key) == value for key, value in changes.items()) and self._path.exists():
            return
        self._known |= changes
        partial = self._path.with_name(f".{self._path.name}.{secrets.token_hex(4)}.partial")
        with suppress(OSError):  # a cache that cannot be written: the next call checks again
            self._path.parent.mkdir(exist_ok=True)
            partial.write_text(json.dumps(self._known))
            os.replace(partial, self._path)


def _own_folder(snapshot: Path) -> Path:
    return snapshot.parent.parent / "glassformer"


def _mark(path: Path) -> list[int] | None:
    """What changes when a file does: size, time and place on the disk."""
    try:
        status = path.stat()
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns, status.st_ino]


def stated_digest(path: Path) -> str | None:
    """The digest the server stated for a file of a snapshot, or None where the cache does not tell.

    Only the first link counts: it may lead on, to a store shared by repositories, under a name of another kind.
    """
    try:
        name = os.path.basename(os.readlink(path))
    except OSError:
        return None  # a system without links: the file itself is in the snapshot
    return name if len(name) in (40, 64) and set(name) <= _HEXADECIMAL else None


def _problem(path: Path, check: Callable[[Path], object] | None) -> str | None:
    """What is wrong with a file, or None."""
    stated = stated_digest(path)
    if stated is not None:
        try:
            found = _digest(path, stated)
        except OSError as problem:
            return f"cannot be read: {problem.strerror or problem}"
        return None if found == stated else f"has digest {found[:12]}…, the server stated {stated[:12]}…"
    if check is not None and path.suffix == ".safetensors":
        from glassformer.errors import GlassformerError

        try:
            check(path)
        except GlassformerError as problem:
            return str(problem)
    return None


def _digest(path: Path, stated: str) -> str:
    """The digest of a file, of the kind that `stated` is."""
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        digest = (
            hashlib.sha256()
            if len(stated) == 64
            else hashlib.sha1(b"blob %d\x00" % size, usedforsecurity=False)
        )
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def put_aside(path: Path) -> None:
    """Take a damaged file out of the cache, so that it is fetched again; it is kept, for whoever wonders.

    Raises: OSError: the cache cannot be written.
    """
    aside = _own_folder(_snapshot_of(path)) / "damaged"
    aside.mkdir(parents=True, exist_ok=True)
    # From the snapshot's link to the file itself; another process may be at it, and have moved some already.
    places = [path]
    while places[-1].is_symlink():
        places.append(places[-1].parent / os.readlink(places[-1]))
    for place in places:
        with suppress(FileNotFoundError):
            if place.is_symlink():
                place.unlink()
            else:
                os.replace(place, aside / f"{place.name}.{secrets.token_hex(4)}")


def _snapshot_of(path: Path) -> Path:
    for parent in path.parents:
        if parent.parent.name == "snapshots":
            return parent
    return path.parent
