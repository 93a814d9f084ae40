"""Download a model with the Hub client, and verify its checksums before first use.

    complete in the cache? ──yes──> verified? ──yes──> the folder
          │ no                          │ no: quarantine
          └──────> list, choose, download, verify ── damaged twice ──> error

The download itself (locks, links, progress bar) is the client's; its files are verified here. The client starts again
with a file that an earlier call did not complete, so large files are received first, in `glassformer/partial/`, where
the next call continues them. The Hub cache names each file by the digest that the server stated, and links to it:

    models--org--name/snapshots/<commit>/model.safetensors  →  ../../blobs/<digest>

so the digest can be checked at any time, without the network: 64 hexadecimal digits are a SHA-256 (large
files), 40 a git blob's SHA-1 (small ones). Each file is hashed once; `glassformer/<commit>.json` next to `blobs/`
records size and time of verified files. A damaged file is moved to `glassformer/damaged/`.

Source: git, "Git Objects" (blob = SHA-1 of `blob <bytes>\\0` and the content); Git LFS specification (SHA-256).
"""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from glassformer.errors import DataError, GlassformerError, MissingModelError, WeightsError
from glassformer.files import blob_stores, disk_reason, file_sha256
from glassformer.files.atomic import atomic_file
from glassformer.hub.find import (
    ADAPTER_CONFIG,
    ADAPTERS,
    INDEX,
    SINGLE,
    missing_files,
    model_files,
    pickled_weights,
    similar_models,
)

LARGE = 10_000_000
"""Bytes from which a file is received so that another call can continue it."""

PARTIAL = Path("glassformer", "partial")
"""Folder of a repository in the cache for files that are not complete, by their digests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HubRequest:
    """A model to download, and from where; `resolve` explains each field."""

    name: str
    revision: str
    allow_pickle: bool
    cache_folder: Path | None
    endpoint: str | None
    check: Callable[[Path], object] | None
    token: str | bool | None = None


def fetch(request: HubRequest, *, offline: bool) -> Path:
    """The verified snapshot of a model, from the cache if it is complete there, else from the Hub.

    Raises: DataError, WeightsError: as `resolve`.
    """
    folder = _cached_snapshot(request)
    if offline:
        return _offline_snapshot(request, folder)
    complete = folder is not None and SnapshotRecord(folder).is_complete(allow_pickle=request.allow_pickle)
    if folder is not None and complete and not _verify(folder, request):
        return folder
    for _ in range(2):
        folder, names = _download(request)
        damaged = _verify(folder, request, names)
        if damaged:
            continue
        if missing := missing_files(folder, allow_pickle=request.allow_pickle):
            listed = ", ".join(missing[:5])
            raise DataError(f"{request.name}: the repository itself lacks {listed}; it cannot be loaded")
        SnapshotRecord(folder).mark_complete(names, allow_pickle=request.allow_pickle)
        return folder
    raise _damaged_error(request, damaged, "fetched twice and damaged twice; try again later, or pass a local folder")


def _cached_snapshot(request: HubRequest) -> Path | None:
    """The snapshot in the cache, complete or not; makes no request."""
    from huggingface_hub import try_to_load_from_cache

    for name in ("config.json", ADAPTER_CONFIG):
        path = try_to_load_from_cache(request.name, name, cache_dir=request.cache_folder, revision=request.revision)
        if isinstance(path, str):
            return Path(path).parent
    return None


def _offline_snapshot(request: HubRequest, folder: Path | None) -> Path:
    """The snapshot without a connection: also one that another tool downloaded, if it has config and weights."""
    advice = "connections are off (offline=True or HF_HUB_OFFLINE=1): fetch it once with a connection, or pass a folder"
    if folder is None:
        raise MissingModelError(
            f"{request.name}: no folder of that name here, and revision '{request.revision}' is not in the Hub cache; "
            + advice
            + similar_models(request.name)
        )
    if missing := missing_files(folder, allow_pickle=request.allow_pickle):
        raise DataError(f"{request.name}: the Hub cache lacks {', '.join(missing[:5])}; {advice}")
    if damaged := _verify(folder, request):
        raise _damaged_error(request, damaged, "it is quarantined; fetch it again with a connection")
    return folder


def _verify(folder: Path, request: HubRequest, names: list[str] | None = None) -> dict[str, str]:
    """Verify the files of a snapshot that are used, and quarantine the damaged ones. Returns: name → problem"""
    if names is None:
        present = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
        names = model_files(present, allow_pickle=request.allow_pickle)
    record = SnapshotRecord(folder)
    damaged = record.damaged_files(names, request.check)
    for name in damaged:
        try:
            record.quarantine(name)
        except OSError as problem:
            raise WeightsError(
                f"{folder / name}: {damaged[name]}, and cannot be moved away: {problem.strerror}; "
                "delete it, and it is fetched again"
            ) from problem
    return damaged


def _damaged_error(request: HubRequest, damaged: dict[str, str], advice: str) -> WeightsError:
    name, problem = next(iter(damaged.items()))
    more = f" (and {len(damaged) - 1} more)" if len(damaged) > 1 else ""
    return WeightsError(f"{request.name}: {name}{more} {problem}: {advice}")


def _download(request: HubRequest) -> tuple[Path, list[str]]:
    """List the repository, select its files, and download those that are not in the cache.

    Returns: the snapshot, and the names of the selected files.
    Raises: DataError: no model, no connection, no space.
    """
    from huggingface_hub import HfApi, snapshot_download

    commit, wanted = None, dict[str, int]()
    try:
        api = HfApi(endpoint=request.endpoint, token=request.token)
        info = api.model_info(request.name, revision=request.revision, files_metadata=True)
        sizes = {sibling.rfilename: sibling.size or 0 for sibling in info.siblings or []}
        names = list(sizes)
        selected = model_files(names, allow_pickle=request.allow_pickle)
        _require_weights(request, names)
        commit, wanted = info.sha, {name: sizes[name] for name in selected}
        missing = _missing(request, commit, wanted)
        _check_space(request, missing)
        _receive_large(request, str(commit), missing)
        folder = snapshot_download(
            request.name,
            revision=request.revision,
            cache_dir=request.cache_folder,
            endpoint=request.endpoint,
            token=request.token,
            allow_patterns=[glob.escape(name) for name in selected],
        )
    except DataError:
        raise
    # The client documents no set of errors: its own, its transport's, the system's.
    except Exception as problem:
        if (reason := disk_reason(problem)) is not None:
            name = next(iter(_missing(request, commit, wanted)), "the download")
            raise _disk_error(request, f"{name} cannot be written: {reason}") from problem
        raise _hub_error(request, problem) from problem
    return Path(folder), selected


def _missing(request: HubRequest, commit: str | None, sizes: Mapping[str, int]) -> dict[str, int]:
    """Of the files of a snapshot, those that are not in the cache, with their sizes; the largest first."""
    from huggingface_hub import try_to_load_from_cache

    def is_cached(name: str) -> bool:
        path = try_to_load_from_cache(request.name, name, cache_dir=request.cache_folder, revision=commit)
        return isinstance(path, str) and Path(path).is_file()

    return {name: sizes[name] for name in sorted(sizes, key=lambda name: -sizes[name]) if not is_cached(name)}


def _receive_large(request: HubRequest, commit: str, missing: Mapping[str, int]) -> None:
    """Receive large files into the cache, from where an earlier call has stopped.

    A file that is wrong in the end is found by `_verify`, and fetched whole.
    """
    from huggingface_hub import file_download, get_hf_file_metadata, hf_hub_url
    from huggingface_hub.utils import WeakFileLock, build_hf_headers  # type: ignore[attr-defined]

    folder = _repository_folder(request)
    for name in (name for name, size in missing.items() if size >= LARGE):
        url = hf_hub_url(request.name, name, revision=commit, endpoint=request.endpoint)
        stated = get_hf_file_metadata(url, token=request.token, endpoint=request.endpoint)
        by_xet = stated.xet_file_data is not None and file_download.is_xet_available()  # type: ignore[attr-defined]
        if stated.etag is None or stated.size is None or by_xet:  # Xet has a transport and a cache of its own
            continue
        headers = build_hf_headers(token=request.token)
        if urlsplit(stated.location).netloc != urlsplit(url).netloc:
            headers.pop("authorization", None)  # of the Hub, not of the store that it leads to
        blob, partial = folder / "blobs" / stated.etag, folder / PARTIAL / stated.etag
        blob.parent.mkdir(parents=True, exist_ok=True)
        partial.parent.mkdir(parents=True, exist_ok=True)
        with WeakFileLock(partial.with_suffix(".lock")):
            if blob.exists():
                continue
            if partial.exists() and partial.stat().st_size > stated.size:
                partial.unlink()
            with partial.open("ab") as stream:
                options: dict[str, Any] = {"headers": headers, "expected_size": stated.size, "displayed_filename": name}
                file_download.http_get(stated.location, stream, resume_size=stream.tell(), **options)
            os.replace(partial, blob)


def _received(request: HubRequest) -> int:
    """Bytes that earlier calls have received of files that are not complete."""
    return sum(path.stat().st_size for path in (_repository_folder(request) / PARTIAL).glob("*") if path.is_file())


def _repository_folder(request: HubRequest) -> Path:
    from huggingface_hub.file_download import repo_folder_name

    return _cache_folder(request) / repo_folder_name(repo_id=request.name, repo_type="model")


def _check_space(request: HubRequest, missing: Mapping[str, int]) -> None:
    """Check before a download that it fits."""
    folder, needed = _cache_folder(request), sum(missing.values()) - _received(request)
    existing = next(path for path in (folder, *folder.absolute().parents) if path.is_dir())
    free = shutil.disk_usage(existing).free
    if needed > free:
        raise _disk_error(
            request,
            f"{next(iter(missing))} does not fit: the download takes {needed:,} bytes, {free:,} are free "
            "(no space left)",
        )


def _disk_error(request: HubRequest, what: str) -> DataError:
    return DataError(
        f"{request.name}: {what}; the cache is {_cache_folder(request)}: free disk space, or name another one "
        "(HF_HOME); whole files in it are kept, and fetched no second time"
    )


def _cache_folder(request: HubRequest) -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE) if request.cache_folder is None else request.cache_folder


def _require_weights(request: HubRequest, names: list[str]) -> None:
    """Check before the download that there are weights to load.

    Raises: DataError: no config, no weights, or pickled ones alone.
    """
    if "config.json" not in names and ADAPTER_CONFIG not in names:
        raise DataError(f"{request.name}: has no config.json, so it is not a model that can be loaded")
    if SINGLE in names or INDEX in names or {ADAPTER_CONFIG, ADAPTERS} <= set(names):
        return
    pickled = pickled_weights(names)
    if pickled and not request.allow_pickle:
        raise DataError(
            f"{request.name}: holds only pickled weights ({pickled[0]}), not fetched because a pickle can run any "
            "code; if you trust where they come from, pass allow_pickle=True (--allow-pickle)"
        )
    if not pickled:
        raise DataError(f"{request.name}: holds no weights: looked for model.safetensors and its index")


def _hub_error(request: HubRequest, problem: Exception) -> MissingModelError:
    """The error of a failed request, with its remedy."""
    from huggingface_hub import errors

    if isinstance(problem, errors.GatedRepoError):
        what = "is gated; accept its terms on its page on the Hub, then log in: hf auth login"
    elif isinstance(problem, errors.RevisionNotFoundError):
        what = f"has no revision '{request.revision}' on the Hub; name a branch, tag or commit it has"
    elif isinstance(problem, errors.RepositoryNotFoundError):
        what = "no folder of that name here, and no such model on the Hub (if it is private: hf auth login)"
    elif isinstance(problem, errors.OfflineModeIsEnabled):
        what = "not complete in the Hub cache, and HF_HUB_OFFLINE was set when Python started"
    else:
        detail = " ".join(str(problem).split())[:200] or "no reason given"
        what = (
            f"could not be fetched from the Hub ({type(problem).__name__}: {detail}); "
            "check the connection and try again, or pass a local folder"
        )
    return MissingModelError(f"{request.name}: {what}{similar_models(request.name)}")


MAX_LINKS = 40  # as Linux follows; a loop ends
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

        A link may lead anywhere. Only what lies in the cache is moved or removed: of a file elsewhere only the link.
        Raises: OSError: the cache cannot be written, or the file's folder is a link out of it.
        """
        if not self._is_in_cache(self.folder / name):
            raise OSError(errno.ELOOP, "its folder is a link out of the cache, and what is there is not changed")
        damaged_folder = self._path.parent / "damaged"
        damaged_folder.mkdir(parents=True, exist_ok=True)
        # Every link from the snapshot to the file itself; another process may have moved some of them already.
        links = [self.folder / name]
        while links[-1].is_symlink() and len(links) < MAX_LINKS:
            links.append(links[-1].parent / os.readlink(links[-1]))
        for link in filter(self._is_in_cache, links):
            with suppress(FileNotFoundError):
                if link.is_symlink():
                    link.unlink()
                else:
                    os.replace(link, damaged_folder / f"{link.name}.{secrets.token_hex(4)}")

    def _is_in_cache(self, path: Path) -> bool:
        """Whether a file, or a link itself, lies in the snapshot or where its links may lead (`files.check_link`)."""
        folder = path.parent.resolve()
        snapshot = self.folder.parent.resolve() / self.folder.name  # itself it may be a link to any folder of the user
        stores = [snapshot, *blob_stores(snapshot)]
        return any(folder == store or store in folder.parents for store in stores)

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
            return file_sha256(stream)
        size = os.fstat(stream.fileno()).st_size
        git_blob = hashlib.sha1(b"blob %d\x00" % size, usedforsecurity=False)
        return hashlib.file_digest(stream, lambda: git_blob).hexdigest()
