"""Uploading a model: what the Hub's client is given, and errors that say what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import huggingface_hub
import pytest

from glassformer import load
from glassformer.errors import DataError
from tests.e2e.tiny_models import make_folder


class Client:
    """Stands for the Hub's client."""

    calls: ClassVar[list[Any]] = []

    def __init__(self, token: Any = None) -> None:
        self.calls.append(token)

    def create_repo(self, name: str, **options: Any) -> None:
        if name == "no/way":
            raise PermissionError("403 forbidden")
        self.calls.append((name, options))

    def upload_folder(self, *, repo_id: str, folder_path: Path, **options: Any) -> str:
        self.calls.append(sorted(path.name for path in folder_path.iterdir()))
        return f"https://hub/{repo_id}"


def test_push(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub, "HfApi", Client)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    model = load(make_folder(tmp_path, "bert"))
    assert model.push_to_hub("me/mine", private=True, token="secret") == "https://hub/me/mine"
    token, made, files = Client.calls
    assert token == "secret" and made == ("me/mine", {"private": True, "exist_ok": True})
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(files)
    with pytest.raises(DataError, match=r"'no/way' could not be uploaded.*403 forbidden.*hf auth login"):
        model.push_to_hub("no/way")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(DataError, match="connections are off"):
        model.push_to_hub("me/mine")
