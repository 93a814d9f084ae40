"""A digest of what a result depends on: values, and functions with all they refer to.

Source: the idea of keys that cover a function and what it closes over: Lhoest et al. 2021, "Datasets: A Community
Library for Natural Language Processing", section 3.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from glassformer.errors import ConfigError


def digest_of(*things: Any) -> str:
    """The same for the same things, in any process: another as soon as one differs.

    Of a function count its code, its defaults, what it closes over, and the functions and values of its module that it
    names; of modules and classes, the name and version alone.

    Raises: ConfigError: a thing whose content cannot be seen; say what it depends on by a text instead.
    """
    digest = hashlib.sha256()
    for word in _words(things, set()):
        digest.update(len(word).to_bytes(8, "little") + word)
    return digest.hexdigest()


def _words(thing: Any, seen: set[int]) -> Iterator[bytes]:
    yield type(thing).__name__.encode()
    if thing is None or isinstance(thing, (bool, int, float, complex, str, Path)):
        yield str(thing).encode("utf-8", "surrogatepass")
    elif isinstance(thing, bytes):
        yield thing
    elif isinstance(thing, (np.ndarray, np.generic)) and not thing.dtype.hasobject:
        yield f"{thing.dtype} {thing.shape}".encode()
        yield thing.tobytes()
    elif isinstance(thing, (tuple, list)):
        for each in thing:
            yield from _words(each, seen)
        yield b"end"
    elif isinstance(thing, (set, frozenset)):
        yield from sorted(digest_of(each).encode() for each in thing)
        yield b"end"
    elif isinstance(thing, Mapping):
        yield from _words(list(thing.items()), seen)
    elif isinstance(thing, CodeType):
        # Names of variables and numbers of lines change no result.
        yield thing.co_code
        yield from _words((thing.co_consts, thing.co_names), seen)
    elif isinstance(thing, (FunctionType, MethodType, functools.partial)):
        if id(thing) not in seen:  # a function may call itself
            yield from _words(_parts(thing), seen | {id(thing)})
    elif isinstance(thing, (ModuleType, type, BuiltinFunctionType)):
        yield f"{getattr(thing, '__module__', '')} {thing.__name__} {getattr(thing, '__version__', '')}".encode()
    elif dataclasses.is_dataclass(thing):
        yield from _words([getattr(thing, field.name) for field in dataclasses.fields(thing)], seen)
    else:
        raise ConfigError(
            f"a {type(thing).__name__} does not show what it holds, so nobody can tell whether a kept result "
            "is still right; give key=, a text that says what the function depends on"
        )


def _parts(thing: Any) -> list[Any]:
    """What a function is made of."""
    if isinstance(thing, functools.partial):
        return [thing.func, thing.args, sorted(thing.keywords.items())]
    if isinstance(thing, MethodType):
        return [thing.__func__, thing.__self__]
    code = thing.__code__
    outer = [(name, thing.__globals__[name]) for name in sorted(_names(code)) if name in thing.__globals__]
    inner = [cell.cell_contents for cell in thing.__closure__ or ()]
    return [code, thing.__defaults__, thing.__kwdefaults__, inner, outer]


def _names(code: CodeType) -> set[str]:
    """The names that a function and those within it use."""
    within = (_names(each) for each in code.co_consts if isinstance(each, CodeType))
    return set(code.co_names).union(*within)
