"""Tasks that deal in sound give something to listen to; the others say which do."""

from __future__ import annotations

import pytest

from glassformer.errors import UnsupportedError
from glassformer.tasks.base import Task
from glassformer.tasks.registry import TASKS, task_class


def test_a_task_without_sound_names_those_that_have_it() -> None:
    silent = object.__new__(task_class("classify"))
    with pytest.raises(UnsupportedError, match="the task classify gives nothing to listen to") as refused:
        silent.listen([])  # type: ignore[arg-type]
    can = [name for name in TASKS if task_class(name).listen is not Task.listen]
    assert {"reconstruct", "pedals"} <= set(can) and str(refused.value).endswith(", ".join(can))
