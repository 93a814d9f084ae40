from __future__ import annotations

import os

import pytest


@pytest.fixture
def no_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flushing takes most of the time of a save, and matters when the power goes; a kill leaves what was written.

    What is flushed, and when, has a test of its own (test_checkpoints.py).
    """
    monkeypatch.setattr(os, "fsync", lambda handle: None)
