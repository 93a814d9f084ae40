"""Pickled files are read in the process of the test where a test is not about the child that reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.errors import WeightsError
from glassformer.weights import pickled


def convert_here(source: Path, target: Path) -> None:
    """What the child process does, with its messages, in this one: a child that imports torch takes seconds."""
    try:
        pickled._convert_in_child(source, target)
    except Exception as problem:
        reason = str(problem) if isinstance(problem, WeightsError) else pickled._explain(problem)
        raise WeightsError(f"{source}: {' '.join(reason.split())}") from problem


@pytest.fixture
def without_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.weights.read.convert", convert_here)
