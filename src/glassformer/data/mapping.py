"""Map a function over rows in batches, with a cache on disk.

rows ──1,000 at a time──> function ──examples──> store     key: rows' fingerprint · function and its arguments

Source: the idea of keys that cover a function and what it closes over: Lhoest et al. 2021, "Datasets: A Community
Library for Natural Language Processing", section 3.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import hashlib
import importlib.util
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from glassformer.data.sequence import Row, RowSequence
from glassformer.data.store import ExampleStore
from glassformer.errors import ConfigError, DataError
from glassformer.files import check_count, safe_repr
from glassformer.progress import progress_bar

Function = Callable[[list[Row]], Iterable[Mapping[str, Any]]]

PROGRESS_DELAY = 1.0  # seconds until a progress bar appears


def map_rows(
    rows: RowSequence,
    function: Function,
    *,
    batch: int = 1_000,
    cache: Path | None = None,
    key: str | None = None,
) -> ExampleStore:
    """Apply a function to batches of rows and store the examples that it returns.

        map_rows(rows, lambda batch: [{"input_ids": ids} for ids in encode([row["text"] for row in batch])])

    Args:
        function: a batch of rows → examples, any number of them
        batch: batch size in rows
        cache: cache folder; None = in memory
        key: cache key of the function; None = a hash of the function itself, see `digest_of`
    Raises: ConfigError: the function cannot be hashed, and there is no key. DataError: no example, or something else
        than examples; disk full.
    """
    check_count("batch", batch)
    examples = _examples(rows, function, batch)
    if cache is None:
        return ExampleStore.make(examples)
    if key is None:
        function_key = digest_of(function)
    else:
        name = getattr(function, "__qualname__", type(function).__name__)
        function_key = f"{getattr(function, '__module__', '')}.{name} {key}"
    return ExampleStore.make(examples, cache, f"{rows.fingerprint} {batch} {function_key}")


def _examples(rows: RowSequence, function: Function, batch: int) -> Iterator[Mapping[str, Any]]:
    stream = iter(rows)
    with progress_bar("rows", len(rows), delay=PROGRESS_DELAY) as advance:
        while chunk := list(islice(stream, batch)):
            made = function(chunk)
            if isinstance(made, (Mapping, str)) or not isinstance(made, Iterable):
                raise DataError(
                    f"the function makes {safe_repr(made)} of a batch of {len(chunk):,} rows; it must return a list of "
                    "examples, each a dict of names and arrays or numbers"
                )
            yield from made
            advance(len(chunk))


def digest_of(*values: Any) -> str:
    """A SHA-256 digest of values and functions; equal content has equal digests, in any process.

    Of a function count its code, its defaults, what it closes over, and the functions and values of its module that it
    names. Of modules and classes count the files that they are written in, and those of the modules that these import,
    as do those that a function imports itself; of installed packages, the name and version alone.

    Raises: ConfigError: an object whose content cannot be hashed; give a text key instead.
    """
    digest = hashlib.sha256()
    for chunk in _chunks(values, set()):
        digest.update(len(chunk).to_bytes(8, "little") + chunk)
    return digest.hexdigest()


def _chunks(value: Any, visited: set[int | Path]) -> Iterator[bytes]:
    yield type(value).__name__.encode()
    if value is None or isinstance(value, (bool, int, float, complex, str, Path)):
        yield str(value).encode("utf-8", "surrogatepass")
    elif isinstance(value, bytes):
        yield value
    elif isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
        yield f"{value.dtype} {value.shape}".encode()
        yield value.tobytes()
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _chunks(item, visited)
        yield b"end"
    elif isinstance(value, (set, frozenset)):
        yield from sorted(digest_of(item).encode() for item in value)
        yield b"end"
    elif isinstance(value, Mapping):
        yield from _chunks(list(value.items()), visited)
    elif isinstance(value, CodeType):
        # Variable names and line numbers change no result.
        yield value.co_code
        yield from _chunks((value.co_consts, value.co_names), visited)
    elif isinstance(value, (FunctionType, MethodType, functools.partial)):
        if id(value) not in visited:  # a function may be recursive
            yield from _chunks(_function_parts(value), visited | {id(value)})
        if isinstance(value, FunctionType):
            for file, package in _imported_files(value.__code__, value.__globals__.get("__package__")):
                yield from _file_chunks(file, package, visited)
    elif isinstance(value, (ModuleType, type)) and (path := _own_file(_module_name(value))) is not None:
        yield from _file_chunks(path, getattr(sys.modules.get(_module_name(value)), "__package__", None), visited)
        yield value.__name__.encode()
    elif isinstance(value, (ModuleType, type, BuiltinFunctionType)):
        yield f"{getattr(value, '__module__', '')} {value.__name__} {getattr(value, '__version__', '')}".encode()
    elif dataclasses.is_dataclass(value):
        yield from _chunks([getattr(value, field.name) for field in dataclasses.fields(value)], visited)
    else:
        raise ConfigError(
            f"a {type(value).__name__} does not show what it holds, so it is unknown whether a cached result "
            "is still valid; give key=, a text that says what the function depends on"
        )


def _file_chunks(file: Path, package: str | None, visited: set[int | Path]) -> Iterator[bytes]:
    """The source of a module, and of the modules that it imports, anywhere in it."""
    remaining = [(file, package)]
    while remaining:
        file, package = remaining.pop()
        if file in visited:  # modules may import each other
            continue
        visited.add(file)
        source = file.read_bytes()
        yield source
        with suppress(SyntaxError, ValueError):  # edited since it was imported: its text tells that
            remaining += _imported_files(compile(source, file, "exec", dont_inherit=True), package)


def _imported_files(code: CodeType, package: str | None) -> Iterator[tuple[Path, str]]:
    """The files of the user's modules that a code object and its inner functions import, and their packages.

    Args:
        package: that of the code
    """
    # A module of more than 256 names has an EXTENDED_ARG in front of the steps that use the later ones.
    steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
    for number, step in enumerate(steps):
        if step.opname != "IMPORT_NAME":
            continue
        level, members = steps[number - 2].argval, steps[number - 1].argval or ()
        try:
            name = importlib.util.resolve_name("." * level + step.argval, package)
        except ImportError:  # of nothing: the function fails, too
            continue
        for module in (name, *(f"{name}.{member}" for member in members)):
            if (file := _own_file(module)) is not None:
                yield file, module if file.name == "__init__.py" else module.rpartition(".")[0]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _imported_files(constant, package)


def _module_name(value: ModuleType | type) -> str:
    return value.__name__ if isinstance(value, ModuleType) else value.__module__


def _own_file(name: str) -> Path | None:
    """The file of a module, loaded or not, if it is the user's own; None for what is installed, and what is none."""
    top = name.partition(".")[0]
    if top == __name__.partition(".")[0]:
        return None  # this package, by its version wherever it is installed
    # The file of an installed package is not asked for by its whole name, which would import the package.
    for part in dict.fromkeys((top, name)):
        module = sys.modules.get(part)
        try:
            spec = importlib.util.find_spec(part) if module is None else None
        except (ImportError, ValueError, AttributeError):  # a member that is no module
            return None
        file = getattr(module, "__file__", None) if spec is None else spec.origin
        installed = (sysconfig.get_paths()[scheme] for scheme in ("stdlib", "purelib", "platlib"))
        if file is not None and any(Path(file).is_relative_to(folder) for folder in installed):
            return None
    return Path(file) if file is not None and file.endswith(".py") and Path(file).is_file() else None


def _function_parts(value: Any) -> list[Any]:
    """The code, arguments and referenced values of a function."""
    if isinstance(value, functools.partial):
        return [value.func, value.args, sorted(value.keywords.items())]
    if isinstance(value, MethodType):
        return [value.__func__, value.__self__]
    code = value.__code__
    globals_used = [(name, value.__globals__[name]) for name in sorted(_names(code)) if name in value.__globals__]
    closure = [cell.cell_contents for cell in value.__closure__ or ()]
    return [code, value.__defaults__, value.__kwdefaults__, closure, globals_used]


def _names(code: CodeType) -> set[str]:
    """The names that a function and its inner functions refer to."""
    within = (_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*within)
