"""Upload a folder to the Hub: a model, or a version of a data set."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from glassformer.errors import DataError
from glassformer.files import as_path, check_link, safe_repr
from glassformer.files.schema import Doc, Schema
from glassformer.hub.find import CONFIG, connections_off, resolve

LOG_IN = "log in with a token that may write: hf auth login"
UNREACHABLE = frozenset(["ConnectionError", "TransportError"])
"""Base classes of errors of the connection, by name: which HTTP library the client uses depends on its version."""


@dataclass(frozen=True, kw_only=True)
class UploadOptions(Schema):
    """How a repository is made, and what is uploaded to it."""

    private: Annotated[bool, Doc("Make a new repository private.")] = False
    revision: Annotated[str | None, Doc("Branch to upload to. Default: main.")] = None
    dry_run: Annotated[bool, Doc("List the files, and upload nothing.")] = False


def push_saved(save: Callable[[Path], object], name: str, **options: Any) -> str:
    """Upload what a function writes to a folder; options, Returns, Raises: as of `push_folder`."""
    with TemporaryDirectory() as folder:
        save(Path(folder))
        return push_folder(Path(folder), name, **options)


def push_folder(
    folder: Path,
    name: str,
    *,
    private: bool | None = None,
    token: str | bool | None = None,
    message: str = "Upload model",
    revision: str | None = None,
    files: list[str] | None = None,
    here: str = "save_pretrained(folder) writes it here",
) -> str:
    """Upload the files of a model's folder to a repository, which is made where it does not exist.

    Args:
        name: `org/name`
        private: of a new repository
        token: None = the one that `hf auth login` has stored
        files: those to upload; None = all
        here: where the model is without a connection, for the error
    Returns: the address of the commit.
    Raises: DataError: connections are off, or the Hub refused, and what to do.
    """
    chosen = None if files is None else [glob.escape(file) for file in files]  # the client takes patterns
    with _uploading(name, here):
        api = _api(token)
        api.create_repo(name, private=private, exist_ok=True)
        about = {"commit_message": message, "revision": revision, "allow_patterns": chosen}
        commit = api.upload_folder(repo_id=name, folder_path=folder, **about)
    return str(getattr(commit, "commit_url", commit))


def files_to_push(folder: str | Path) -> dict[str, int]:
    """The files of a model's folder, or of a run's model, that an upload would send, and their sizes in bytes.

    Hidden files, and folders that begin with a dot or hold checkpoints of a training, are none of the model's.

    Args:
        folder: on this machine
    Raises: DataError: no such folder, no model with weights in safetensors, or a link that leads out of it.
    """
    if not as_path(folder, "folder").is_dir():
        raise DataError(f"{folder}: no such folder; give the folder of a model, or of a run")
    folder = resolve(folder)
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    names = [(path, path.relative_to(folder)) for path in paths]
    sizes = {}
    for path, name in names:
        if not any(part.startswith((".", "checkpoint")) for part in name.parts):
            check_link(folder, path, DataError)
            sizes[name.as_posix()] = path.stat().st_size
    if CONFIG not in sizes or not any(name.endswith(".safetensors") for name in sizes):
        raise DataError(
            f"{folder}: holds no {CONFIG} with weights in safetensors; model.save_pretrained(…) writes both"
        )
    return sizes


def push_model(folder: str | Path, name: str, *, private: bool | None = None, revision: str | None = None) -> str:
    """Upload a model's folder, or a run's model: card, config, tokenizer, weights and metrics, nothing else.

    Returns: the address of the commit.
    Raises: DataError: as `files_to_push` and `push_folder`.
    """
    files = list(files_to_push(folder))
    folder = resolve(folder)
    return push_folder(folder, name, private=private, revision=revision, files=files, here=f"{folder} holds it")


def push_data_set(folder: Path, name: str, *, version: str, private: bool | None = None) -> str:
    """Upload a version of a data set, and tag the repository with it. Returns, raises: as `push_folder`."""
    with _uploading(name, f"{folder} holds it"):
        api = _api(None)
        api.create_repo(name, private=private, exist_ok=True, repo_type="dataset")
        commit = api.upload_folder(
            repo_id=name, folder_path=folder, commit_message=f"Version {version}", repo_type="dataset"
        )
        api.create_tag(name, tag=version, repo_type="dataset")
    return str(getattr(commit, "commit_url", commit))


def _api(token: str | bool | None) -> Any:
    from huggingface_hub import HfApi

    return HfApi(token=token)


@contextmanager
def _uploading(name: str, here: str) -> Iterator[None]:
    """Raises: DataError: connections are off, or the Hub refused.

    Args:
        here: where it is without a connection
    """
    if connections_off():
        raise DataError(f"{name}: connections are off (HF_HUB_OFFLINE=1); {here}")
    try:
        yield
    except Exception as problem:  # of the client, of the network, of the Hub: all are errors of the upload
        detail = " ".join(str(problem).split())[:200] or "no reason given"
        kinds = {kind.__name__ for kind in type(problem).__mro__}
        cure = LOG_IN if UNREACHABLE.isdisjoint(kinds) else f"the Hub was not reached: {here}, so try again later"
        raise DataError(
            f"{safe_repr(name)} could not be uploaded to the Hub ({type(problem).__name__}: {detail}); {cure}"
        ) from problem
