"""Integrations: a Glassformer model in the place where another library expects one of its own.

Each module imports the library that it is named after, and is imported by nothing else. docs/integrations.md has the
lines to write for each.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from glassformer.model import Model, load


def loaded(model: Model | str | Path, task: str, **options: Any) -> Model:
    """A model as it is given, or loaded by its name or folder for a task; options as in `load`."""
    return model if isinstance(model, Model) else load(model, task=task, **options)


def until(text: str, stop: list[str] | None) -> str:
    """A text up to the first stop string, which `generate` leaves at its end."""
    ends = [at for mark in stop or () if (at := text.find(mark)) >= 0]
    return text[: min(ends)] if ends else text
