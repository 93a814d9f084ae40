"""Imports at first use, by name: lazy packages, and "module:object". Options are read without torch."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any


def imported(reference: str) -> Any:
    """What "module:object" names."""
    module, _, attribute = reference.partition(":")
    return getattr(import_module(module), attribute)


class LazyPackage(ModuleType):
    """The class of a package whose `_LAZY` says in which module each of its names is.

    _LAZY = {"sizes": "glassformer.inspect.sizes"}
    sys.modules[__name__].__class__ = LazyPackage
    """

    _LAZY: dict[str, str]

    def __getattr__(self, name: str) -> Any:
        if name not in self._LAZY:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = getattr(import_module(self._LAZY[name]), name)
        super().__setattr__(name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        # An import of a module sets it in its package, also where the name is that of a function, such as `sizes`.
        if not (isinstance(value, ModuleType) and name in self._LAZY):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._LAZY})
