"""Glassformer: a readable PyTorch library of transformer models.

    model = glassformer.load("all-MiniLM-L6-v2")
    vectors = model.encode(["time flies like an arrow", "fruit flies like a banana"])

    fill = glassformer.pipeline("fill-mask", "bert-base-uncased")
    fill("Time flies like an [MASK].")

Importing this package costs milliseconds: torch is imported when the first name that needs it is used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from glassformer.errors import (
    ConfigError,
    DataError,
    GlassformerError,
    MissingExtraError,
    UnsupportedError,
    WeightsError,
)
from glassformer.version import __version__

if TYPE_CHECKING:
    from glassformer.core import Flow, Tape
    from glassformer.evaluation.compare.compare import compare
    from glassformer.model import Model, load
    from glassformer.tasks.pipeline_registry import pipeline
    from glassformer.text.train import train_tokenizer

__all__ = [
    "ConfigError",
    "DataError",
    "Flow",
    "GlassformerError",
    "MissingExtraError",
    "Model",
    "Tape",
    "UnsupportedError",
    "WeightsError",
    "__version__",
    "compare",
    "load",
    "pipeline",
    "train_tokenizer",
]

# Lazy imports: name → its module, imported on first use
_LAZY = {
    "Flow": "glassformer.core",
    "Model": "glassformer.model",
    "Tape": "glassformer.core",
    "compare": "glassformer.evaluation.compare.compare",
    "load": "glassformer.model",
    "pipeline": "glassformer.tasks.pipeline_registry",
    "train_tokenizer": "glassformer.text.train",
}


class Package(ModuleType):
    """A package that is pickled by its name, as where functions go to other processes.

    dill, by which `datasets` does so, copies what a package of an editable install holds, and not all of it can be.
    """

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return import_module, (self.__name__,)


sys.modules[__name__].__class__ = Package


# Hidden from type checkers: with a module-level __getattr__, they would accept every misspelt name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _LAZY:
            raise AttributeError(f"module 'glassformer' has no attribute {name!r}; it has: {', '.join(__all__)}")
        value = getattr(import_module(_LAZY[name]), name)
        globals()[name] = value  # cached, so that __getattr__ runs once per name
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
