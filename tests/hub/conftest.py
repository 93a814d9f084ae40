"""A Hub on this machine, for tests of what is downloaded."""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Iterator

import pytest

from tests.hub.hub_server import HubServer, Repository, Serve


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Starts servers; the client's pauses between its own retries are left out."""
    constants = importlib.import_module("huggingface_hub.constants")
    client = importlib.import_module("huggingface_hub.utils")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.3)
    monkeypatch.setattr(constants, "HF_HUB_ETAG_TIMEOUT", 1)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    client.disable_progress_bars()
    logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)
    servers: list[HubServer] = []

    def start(served: Repository) -> HubServer:
        servers.append(HubServer(served))
        return servers[-1]

    yield start
    for server in servers:
        server.close()
    client.enable_progress_bars()
