"""Upload a folder to the Hub: a model, or a version of a data set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from glassformer.errors import DataError
from glassformer.files import safe_repr
from glassformer.hub.find import connections_off


def push_folder(
    folder: Path,
    name: str,
    *,
    private: bool | None = None,
    token: str | bool | None = None,
    message: str = "Upload model",
    revision: str | None = None,
) -> str:
    """Upload the files of a model's folder to a repository, which is made where it does not exist.

    Args: name: `org/name` · private: of a new repository · token: None = the one that `hf auth login` has stored
    Returns: the address of the commit.
    Raises: DataError: connections are off, or the Hub refused, and what to do.
    """
    with _uploading(name, "save_pretrained(folder) writes it here"):
        api = _api(token)
        api.create_repo(name, private=private, exist_ok=True)
        commit = api.upload_folder(repo_id=name, folder_path=folder, commit_message=message, revision=revision)
    return str(getattr(commit, "commit_url", commit))


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
    """Raises: DataError: connections are off, or the Hub refused. here: where it is without a connection"""
    if connections_off():
        raise DataError(f"{name}: connections are off (HF_HUB_OFFLINE=1); {here}")
    try:
        yield
    except Exception as problem:  # of the client, of the network, of the Hub: all are errors of the upload
        detail = " ".join(str(problem).split())[:200] or "no reason given"
        raise DataError(
            f"{safe_repr(name)} could not be uploaded to the Hub ({type(problem).__name__}: {detail}); log in with a "
            "token that may write: hf auth login"
        ) from problem
