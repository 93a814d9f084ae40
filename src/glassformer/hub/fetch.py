"""Fetching a model through the Hub's client, and verifying it before first use.

    complete in the cache? ──yes──> verified? ──yes──> the folder
          │ no                          │ no: put aside
          └──────> list, choose, download, verify ── damaged twice ──> error

The download itself (resuming, locks, links, progress bar) is the client's; what it fetched is not believed.
"""

from __future__ import annotations

import glob
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from glassformer.errors import DataError, WeightsError
from glassformer.hub.files import INDEX, SINGLE, lacking, pickles, wanted
from glassformer.hub.verify import Record, put_aside


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to fetch, and from where; `resolve` explains each field."""

    name: str
    revision: str
    allow_pickle: bool
    cache_folder: Path | None
    endpoint: str | None
    check: Callable[[Path], object] | None


def fetch(request: Request, *, offline: bool) -> Path:
    """The verified snapshot of a model, from the cache if it is complete there, else from the Hub.

    Raises: DataError, WeightsError: as `resolve`.
    """
    folder = _cached(request)
    if folder is not None and Record(folder).complete(allow_pickle=request.allow_pickle):
        wrong = _verify(folder, request)
        if not wrong:
            return folder
        if offline:
            raise _damaged(request, wrong, "it is put aside; fetch it again with a connection")
    if offline:
        return _offline(request, folder)
    wrong = {}
    for _ in range(2):
        folder, names = _download(request)
        wrong = _verify(folder, request, names)
        if not wrong:
            _require_whole(folder, request)
            Record(folder).mark_complete(names, allow_pickle=request.allow_pickle)
            return folder
    raise _damaged(request, wrong, "fetched twice and damaged twice; try again later, or pass a local folder")


def _cached(request: Request) -> Path | None:
    """The snapshot in the cache, whole or not; asks no network."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(
        request.name, "config.json", cache_dir=request.cache_folder, revision=request.revision
    )
    return Path(found).parent if isinstance(found, str) else None


def _offline(request: Request, folder: Path | None) -> Path:
    """What there is without a connection: also a snapshot others fetched, if it has config and weights."""
    advice = "connections are off (offline=True or HF_HUB_OFFLINE=1): fetch it once with a connection, or pass a folder"
    if folder is None:
        raise DataError(
            f"{request.name}: no folder of that name here, and revision '{request.revision}' is not in the Hub cache; "
            + advice
        )
    missing = lacking(folder, allow_pickle=request.allow_pickle)
    if missing:
        raise DataError(f"{request.name}: the Hub cache lacks {', '.join(missing[:5])}; {advice}")
    wrong = _verify(folder, request)
    if wrong:
        raise _damaged(request, wrong, "it is put aside; fetch it again with a connection")
    return folder


def _verify(folder: Path, request: Request, names: list[str] | None = None) -> dict[str, str]:
    """Check the files of a snapshot that will be used, and put the damaged ones aside."""
    if names is None:
        there = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
        names = wanted(there, allow_pickle=request.allow_pickle)
    wrong = Record(folder).damaged(names, request.check)
    for name in wrong:
        try:
            put_aside(folder / name)
        except OSError as problem:
            raise WeightsError(
                f"{folder / name}: {wrong[name]}, and cannot be moved away: {problem.strerror}; "
                "delete it, and it is fetched again"
            ) from problem
    return wrong


def _damaged(request: Request, wrong: dict[str, str], advice: str) -> WeightsError:
    name, problem = next(iter(wrong.items()))
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    return WeightsError(f"{request.name}: {name}{more} {problem}: {advice}")


def _download(request: Request) -> tuple[Path, list[str]]:
    """List the repository, choose its files, and let the client fetch those that are not in the cache.

    Returns: the snapshot, and the names of the chosen files.
    """
    from huggingface_hub import HfApi, snapshot_download

    try:
        siblings = (
            HfApi(endpoint=request.endpoint).model_info(request.name, revision=request.revision).siblings
        )
        names = [sibling.rfilename for sibling in siblings or []]
        chosen = wanted(names, allow_pickle=request.allow_pickle)
        _require_weights(request, names)
        folder = snapshot_download(
            request.name,
            revision=request.revision,
            cache_dir=request.cache_folder,
            endpoint=request.endpoint,
            allow_patterns=[glob.escape(name) for name in chosen],
        )
    except DataError:
        raise
    except (
        Exception
    ) as problem:  # the client names no closed set of errors: its own, its transport's, the system's
        raise _explained(request, problem) from problem
    return Path(folder), chosen


def _require_weights(request: Request, names: list[str]) -> None:
    """Say before the download that there is nothing to load, and why."""
    if "config.json" not in names:
        raise DataError(f"{request.name}: has no config.json, so it is no model this can load")
    if SINGLE in names or INDEX in names:
        return
    pickled = pickles(names)
    if pickled and not request.allow_pickle:
        raise DataError(
            f"{request.name}: holds only pickled weights ({pickled[0]}), not fetched because a pickle can run any "
            "code; if you trust where they come from, pass allow_pickle=True (--allow-pickle)"
        )
    if not pickled:
        raise DataError(f"{request.name}: holds no weights: looked for model.safetensors and its index")


def _require_whole(folder: Path, request: Request) -> None:
    missing = lacking(folder, allow_pickle=request.allow_pickle)
    if missing:
        raise DataError(
            f"{request.name}: the repository itself lacks {', '.join(missing[:5])}; it cannot be loaded"
        )


def _explained(request: Request, problem: Exception) -> DataError:
    """One line for what went wrong between here and the Hub."""
    from huggingface_hub import errors

    name, revision = request.name, request.revision
    if isinstance(problem, errors.GatedRepoError):
        return DataError(
            f"{name}: is gated; accept its terms on its page on the Hub, then log in: hf auth login"
        )
    if isinstance(problem, errors.RevisionNotFoundError):
        return DataError(
            f"{name}: has no revision '{revision}' on the Hub; name a branch, tag or commit it has"
        )
    if isinstance(problem, errors.RepositoryNotFoundError):
        return DataError(
            f"{name}: no folder of that name here, and no such model on the Hub (if it is private: hf auth login)"
        )
    if isinstance(problem, errors.OfflineModeIsEnabled):
        return DataError(
            f"{name}: not complete in the Hub cache, and HF_HUB_OFFLINE was set when Python started"
        )
    detail = " ".join(str(problem).split())[:200] or "no reason given"
    return DataError(
        f"{name}: could not be fetched from the Hub ({type(problem).__name__}: {detail}); "
        "check the connection and try again, or pass a local folder"
    )
