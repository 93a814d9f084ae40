"""Tasks by their names: a name is checked without torch, and a class is imported where it is used."""

from __future__ import annotations

from typing import Any

from glassformer.errors import ConfigError, nearest
from glassformer.files import safe_repr
from glassformer.files.lazy import imported
from glassformer.plugins import Registry
from glassformer.task_names import TASK_ALIASES, TRAINED


def _is_task(name: str, part: Any) -> bool:
    return isinstance(part, type) and issubclass(part, imported("glassformer.tasks.base:Task"))


TASKS: Registry[type[Any]] = Registry("tasks", TRAINED, fits=_is_task, must="a subclass of glassformer.tasks.base.Task")
"""Name, as in `glassformer train --task`, → class, imported on first use; those of plug-ins too."""


def task_name(name: str) -> str:
    """The name that `TASKS` has for a task, of it or of Hugging Face's: "text-classification" is "classify"."""
    theirs = {TASK_ALIASES[task]: task for task in TASKS if task in TASK_ALIASES}
    return name if name in TASKS else theirs.get(TASK_ALIASES.get(name, name), name)


def known_task(name: str) -> str:
    """The same, of a task that there is. Raises: ConfigError: there is no such task."""
    own = task_name(name)
    if own not in TASKS:
        raise ConfigError(f"task is {safe_repr(name)}{nearest(own, TASKS)}; allowed: {', '.join(TASKS)}")
    return own


def task_class(name: str) -> type[Any]:
    """The class of a task, by its name here or in Hugging Face transformers. Raises: ConfigError: there is none."""
    return TASKS[known_task(name)]
