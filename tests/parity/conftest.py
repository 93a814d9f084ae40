"""Checkpoints of the reference library, made once a run each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

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


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what is marked
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """fp32 tells most; fp64, that a difference is rounding: of one network, and of one family, once."""
    for item in items:
        given = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        row = given.get("row")
        if not isinstance(row, Row) or given.get("dtype") is not torch.float64:
            continue
        if row.repeats or given.get("architecture", row.main) != row.main:
            item.add_marker(pytest.mark.soak)


@pytest.fixture(scope="session", autouse=True)
def quiet_reference() -> None:
    import transformers

    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
