"""Upload a model folder to the Hub."""

from __future__ import annotations

from pathlib import Path

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
    """Upload the files of a folder to a repository, which is made where it does not exist.

    Args: name: `org/name` · private: of a new repository · token: None = the one that `hf auth login` has stored
    Returns: the address of the commit.
    Raises: DataError: connections are off, or the Hub refused, and what to do.
    """
    if connections_off():
        raise DataError(f"{name}: connections are off (HF_HUB_OFFLINE=1); save_pretrained(folder) writes it here")
    from huggingface_hub import HfApi

    api = HfApi(token=token)
    try:
        api.create_repo(name, private=private, exist_ok=True)
        commit = api.upload_folder(repo_id=name, folder_path=folder, commit_message=message, revision=revision)
    except Exception as problem:  # of the client, of the network, of the Hub: all of them are the user's to mend
        detail = " ".join(str(problem).split())[:200] or "no reason given"
        raise DataError(
            f"{safe_repr(name)} could not be uploaded to the Hub ({type(problem).__name__}: {detail}); log in with a "
            "token that may write: hf auth login"
        ) from problem
    return str(getattr(commit, "commit_url", commit))
