"""The tasks by name: what `glassformer train --task` and `task:` of a configuration take."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from glassformer.deprecation import warn_former_attribute
from glassformer.errors import ConfigError, UnsupportedError, nearest
from glassformer.files import safe_repr
from glassformer.tasks.base import Task

TASKS: dict[str, str | type[Task]] = {
    "classify": "classify.task.Classify",
    "tag": "tag.task.Tag",
    "answer": "span.task.Answer",
    "generate": "causal.task.Causal",
    "instruct": "causal.instruct.Answers",
    "fill": "masked.task.Masked",
    "translate": "seq2seq.translate.Translate",
    "summarise": "seq2seq.summarise.Summarise",
    "next-sentence": "pretrain.NextSentence",
    "pre-train": "pretrain.PreTraining",
    "denoise": "seq2seq.denoise.Denoising",
    "gap-sentences": "seq2seq.denoise.GapSentences",
    "span-corruption": "seq2seq.denoise.SpanCorruption",
}
"""Name → a class, or the module below `glassformer.tasks` and the class in it, which is imported on first use."""


def task_class(name: str) -> type[Task]:
    """The class of a task.

    Raises: ConfigError: there is no such task.
    """
    if name not in TASKS:
        raise ConfigError(f"task is {safe_repr(name)}{nearest(name, TASKS)}; allowed: {', '.join(TASKS)}")
    entry = TASKS[name]
    if isinstance(entry, str):
        module, _, class_name = entry.rpartition(".")
        entry = TASKS[name] = getattr(import_module(f"glassformer.tasks.{module}"), class_name)
    assert not isinstance(entry, str)
    return entry


def register(name: str, task: type[Task]) -> None:
    """Add a task of your own, so that it can be named like the others.

    Raises: ConfigError: the name is taken by another class.
    """
    if name in TASKS and task_class(name) is not task:
        raise ConfigError(f"there is a task {name!r} already; choose another name")
    TASKS[name] = task


def judge_of(name: str, task: Task, **options: Any) -> Task:
    """Deprecated: `task.for_evaluation(**options)`."""
    warn_former_attribute("judge_of(name, task, …)", "task.for_evaluation(…)")
    return task.for_evaluation(**options)


def check_evaluates(name: str) -> None:
    """Raises: UnsupportedError: a task without an evaluation, or one that there is not."""
    if name not in TASKS or task_class(name).EVALUATION is None:
        able = [other for other in TASKS if task_class(other).EVALUATION is not None]
        raise UnsupportedError(
            f"the task {safe_repr(name)} cannot be evaluated{nearest(name, able)}; those that can: {', '.join(able)}"
        )
