"""Exception classes: every error that a caller can cause.

    GlassformerError
        ConfigError, DataError, WeightsError, UnsupportedError      ValueError
        UnknownOptionError   of ConfigError                         TypeError
        MissingModelError    of DataError                           FileNotFoundError
        MissingPartError     of DataError                           AttributeError
        MissingNameError     of UnsupportedError                    AttributeError
        MissingImportError   of UnsupportedError                    ImportError
        UnknownNameError     of UnsupportedError                    KeyError
        MissingExtraError                                           ImportError
        PlugInError                                                 ImportError

Each is the built-in on its right too, which is what other libraries raise there: handlers that were written for those
catch it. Each message says what is wrong, what was given, what is allowed, and what to do. The command line prints the
message alone; `--debug` adds the traceback.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from itertools import islice
from typing import Any


class GlassformerError(Exception):
    """Base class of all errors that Glassformer raises on purpose.

    exit_code: of the command line
    """

    exit_code = 2

    def __str__(self) -> str:
        """The message as it was given; a `KeyError` alone would put it in quotes."""
        return str(self.args[0]) if len(self.args) == 1 else super().__str__()


class ConfigError(GlassformerError, ValueError):
    """Invalid configuration: an option, size or shape that is wrong, or does not fit the others."""


class UnknownOptionError(ConfigError, TypeError):
    """A keyword argument that the function or class does not have."""


class WeightsError(GlassformerError, ValueError):
    """Invalid checkpoint: damaged, incomplete, unsafe, or of another model."""


class DataError(GlassformerError, ValueError):
    """Invalid data: text, ids, audio, images or files that cannot be read, or that a model cannot take."""


class MissingModelError(DataError, FileNotFoundError):
    """A model that is neither in a folder of its name nor on the Hub."""


class MissingPartError(DataError, AttributeError):
    """A part that a model's folder does not hold, such as its tokenizer; `hasattr(model, "tokenizer")` is False."""


class UnsupportedError(GlassformerError, ValueError):
    """Unsupported feature: valid, but not implemented (yet): a model family, a head, a config key."""


class GateError(GlassformerError):
    """A variant of a model that a gate refuses: it loses too much, or is too large or too slow."""

    exit_code = 4


class MissingNameError(UnsupportedError, AttributeError):
    """A name of the reference library without a counterpart; `hasattr(glassformer.hf, name)` is False."""


class MissingImportError(UnsupportedError, ModuleNotFoundError):
    """`from glassformer.hf import name` of a `MissingNameError`."""


class UnknownNameError(UnsupportedError, KeyError):
    """A task, an activation function or a factor of a study that there is not, by its name."""


class MissingExtraError(GlassformerError, ImportError):
    """Missing optional dependency; the message has the install command."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package '{package}', which is not installed; "
            f"install it with: pip install 'glassformer[{extra}]' (in a clone: pip install -e '.[{extra}]')"
        )


class PlugInError(GlassformerError, ImportError):
    """A part of another package that cannot be imported, is of the wrong kind, or is for another version."""


def import_optional(module: str, package: str, extra: str, purpose: str) -> Any:
    """A module of an optional dependency.

    Raises: MissingExtraError: it is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(package, extra, purpose) from error


def warn_caller(message: str) -> None:
    """Warn about the line that called the library: the first one outside of this package, however deep the call is."""
    package, frame, level = os.path.dirname(__file__), sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


def nearest(name: object, names: Iterable[str], count: int = 3, cutoff: float = 0.5) -> str:
    """A hint for a misspelt name, such as `; nearest: 'a', 'b'`, or an empty string.

    Args:
        cutoff: how similar they must be, from 0 to 1
    """
    if not isinstance(name, str) or len(name) > 200:  # the time of a comparison is quadratic in the length
        return ""
    matches = get_close_matches(name, islice(names, 2_000), n=count, cutoff=cutoff)
    return "; nearest: " + ", ".join(repr(match) for match in matches) if matches else ""
