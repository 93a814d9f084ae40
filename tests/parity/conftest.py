"""Checkpoints of the reference library, made once a run each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.parity.families import Row
from tests.parity.sides import Folders, make


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """(row, architecture, **changes) → a folder; read it, never write to it."""
    made: dict[str, Path] = {}

    def folder(row: Row, architecture: str, **changes: Any) -> Path:
        key = repr((row.family, architecture, changes))
        if key not in made:
            made[key] = make(row, architecture, tmp_path_factory.mktemp(architecture), **changes)
        return made[key]

    return folder


@pytest.fixture(scope="session", autouse=True)
def quiet_reference() -> None:
    import transformers

    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
