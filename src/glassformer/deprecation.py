"""Deprecated names: modules and names that moved still import for one release, with a `DeprecationWarning`.

    from glassformer.judging.evaluate import evaluate      works, and warns: use glassformer.evaluation.evaluate
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import warnings
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

REMOVED_IN = "the next release"

MODULES: Mapping[str, str] = {
    "judging.evaluate": "evaluation.evaluate",
    "judging.judge": "tasks.evaluator",
    "judging.runs": "evaluation.runs",
    "judging.records": "tasks.predictions",
    "judging.mistakes.errors": "evaluation.error_analysis.errors",
    "judging.mistakes.confusion": "evaluation.error_analysis.confusion",
    "judging.comparing.seeds": "evaluation.compare.seeds",
    "judging.book.reproduce": "evaluation.book.reproduce",
    "judging.studies.results": "studies.results",
    "judging.baselines.features": "tasks.classify.feature_classifier",
    "evaluation.bleu": "tasks.metrics.bleu",
    "evaluation.classes": "tasks.metrics.classes",
    "evaluation.entities": "tasks.metrics.entities",
    "evaluation.intervals": "tasks.metrics.intervals",
    "evaluation.rouge": "tasks.metrics.rouge",
    "evaluation.speech": "tasks.metrics.speech",
    "evaluation.squad": "tasks.metrics.squad",
    "training.objectives.causal": "tasks.causal.task",
    "training.objectives.classify": "tasks.classify.task",
    "training.objectives.labels": "tasks.classify.labels",
    "training.objectives.masked": "tasks.masked.task",
    "training.objectives.sequence": "tasks.seq2seq.task",
    "tasks.prompts": "tasks.generate.prompts",
    "tasks.lead": "tasks.generate.lead",
    "tasks.long": "tasks.generate.long",
    "tasks.compare": "tasks.generate.compare",
    "tasks.rows": "tasks.generate.rows",
}
"""Former module → where it stands now, both below `glassformer`."""

NAMES: Mapping[str, Mapping[str, str]] = {}
"""Module, as it is called now → former name → name now, for what the documentation has shown."""


class DeprecatedModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules under their former names."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        name = fullname.removeprefix("glassformer.")
        if name == fullname or not any(old == name or old.startswith(f"{name}.") for old in MODULES):
            return None
        return importlib.util.spec_from_loader(fullname, self, is_package=name not in MODULES)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__.removeprefix("glassformer.")
        if name in MODULES:
            now = f"glassformer.{MODULES[name]}"
            warnings.warn(
                f"{module.__name__} is deprecated and goes in {REMOVED_IN}; use {now}",
                DeprecationWarning,
                stacklevel=2,
            )
            module.__dict__["__getattr__"] = lambda attribute: _attribute(now, attribute)


def _attribute(module: str, name: str) -> Any:
    there = importlib.import_module(module)
    return getattr(there, NAMES.get(module.removeprefix("glassformer."), {}).get(name, name))


def former_names(module: str) -> Any:
    """The `__getattr__` of a module whose documented names changed; it warns and gives the name of today.

    Raises: AttributeError: a name that the module never had.
    """
    known = NAMES.get(module.removeprefix("glassformer."), {})

    def lookup(name: str) -> Any:
        if name not in known:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(
            f"{module}.{name} is deprecated and goes in {REMOVED_IN}; use {known[name]}",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(importlib.import_module(module), known[name])

    return lookup


def install() -> None:
    """Let former module names be imported; once a process."""
    if not any(isinstance(finder, DeprecatedModules) for finder in sys.meta_path):
        sys.meta_path.append(DeprecatedModules())
