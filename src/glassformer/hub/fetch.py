"""Download a model with the Hub client, and verify its checksums before first use.

    complete in the cache? ──yes──> verified? ──yes──> the folder
          │ no                          │ no: quarantine
          └──────> list, choose, download, verify ── damaged twice ──> error

The download itself (resuming, locks, links, progress bar) is the client's; its files are verified here.
"""

from __future__ import annotations

import glob
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from glassformer.errors import DataError, WeightsError
from glassformer.hub.files import INDEX, SINGLE, missing_files, model_files, pickled_weights
from glassformer.hub.verify import SnapshotRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class HubRequest:
    """A model to download, and from where; `resolve` explains each field."""

    name: str
    revision: str
    allow_pickle: bool
    cache_folder: Path | None
    endpoint: str | None
    check: Callable[[Path], object] | None


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

    path = try_to_load_from_cache(
        request.name, "config.json", cache_dir=request.cache_folder, revision=request.revision
    )
    return Path(path).parent if isinstance(path, str) else None


def _offline_snapshot(request: HubRequest, folder: Path | None) -> Path:
    """The snapshot without a connection: also one that another tool downloaded, if it has config and weights."""
    advice = "connections are off (offline=True or HF_HUB_OFFLINE=1): fetch it once with a connection, or pass a folder"
    if folder is None:
        raise DataError(
            f"{request.name}: no folder of that name here, and revision '{request.revision}' is not in the Hub cache; "
            + advice
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
    """
    from huggingface_hub import HfApi, snapshot_download

    try:
        siblings = HfApi(endpoint=request.endpoint).model_info(request.name, revision=request.revision).siblings
        names = [sibling.rfilename for sibling in siblings or []]
        selected = model_files(names, allow_pickle=request.allow_pickle)
        _require_weights(request, names)
        folder = snapshot_download(
            request.name,
            revision=request.revision,
            cache_dir=request.cache_folder,
            endpoint=request.endpoint,
            allow_patterns=[glob.escape(name) for name in selected],
        )
    except DataError:
        raise
    # The client documents no set of errors: its own, its transport's, the system's.
    except Exception as problem:
        raise _hub_error(request, problem) from problem
    return Path(folder), selected


def _require_weights(request: HubRequest, names: list[str]) -> None:
    """Check before the download that there are weights to load.

    Raises: DataError: no config, no weights, or pickled ones alone.
    """
    if "config.json" not in names:
        raise DataError(f"{request.name}: has no config.json, so it is not a model that can be loaded")
    if SINGLE in names or INDEX in names:
        return
    pickled = pickled_weights(names)
    if pickled and not request.allow_pickle:
        raise DataError(
            f"{request.name}: holds only pickled weights ({pickled[0]}), not fetched because a pickle can run any "
            "code; if you trust where they come from, pass allow_pickle=True (--allow-pickle)"
        )
    if not pickled:
        raise DataError(f"{request.name}: holds no weights: looked for model.safetensors and its index")


def _hub_error(request: HubRequest, problem: Exception) -> DataError:
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
    return DataError(f"{request.name}: {what}")
