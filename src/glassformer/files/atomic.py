"""Atomic file writes: readers see the old file or the new one, never a part.

write next to (.NAME.3f9a.partial) → fsync → rename over the old name → fsync of the folder
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from glassformer.errors import ConfigError, DataError, GlassformerError, WeightsError
from glassformer.files import as_path, error_reason


def write_json(path: Path, value: Any, error: type[GlassformerError] = WeightsError) -> None:
    """Write `value` to `path` as indented JSON, atomically: the old file or the new one, never a part.

    Args:
        path: such as `folder / "config.json"`; the folder is made where it is missing.
        value: what JSON can hold; `NaN` and infinities are not JSON.

    Raises:
        ConfigError: `value` is not JSON.
        `error`: the disk refuses; the old file is intact.
    """
    try:
        text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        data = text.encode("utf-8")
    except (TypeError, ValueError, RecursionError) as problem:
        raise ConfigError(f"{path}: cannot be written as JSON: {problem}") from problem
    with disk_errors(path, error):
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as stream:
            stream.write(data)


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Atomic write: a stream whose bytes become the file `path` when the block ends, and are removed if it fails.

    Raises: OSError: as the system refuses; `path` is as it was then.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        with open(partial, "xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, path)
    except BaseException as problem:
        with suppress(FileNotFoundError):  # what failed may be its creation
            partial.unlink()
        if isinstance(problem, OSError) and problem.filename is None:  # a full disk does not say of which file
            if problem.errno is None:  # NumPy's of a short write, which does not say why
                problem.errno, problem.strerror = errno.ENOSPC, f"{os.strerror(errno.ENOSPC)} ({problem})"
            problem.filename = str(path)
        raise
    flush_folder(path.parent)


@contextmanager
def new_file(path: Path, encoding: str = "utf-8") -> Iterator[TextIO]:
    """A text file that must not be there yet, its line ends as written; it is removed if the block fails.

    Raises: FileExistsError: it is there. OSError: as the system refuses.
    """
    with path.open("x", encoding=encoding, newline="") as stream:
        try:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def remove_folder(folder: Path) -> None:
    """Remove a folder that a process which has ended may have left; of a link only the link itself.

    Raises: OSError: something of it cannot be removed.
    """
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)


@contextmanager
def removed_on_failure(folder: Path) -> Iterator[None]:
    """Remove a folder that the block fills, if the block fails."""
    try:
        yield
    except BaseException:
        remove_folder(folder)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text in UTF-8, atomically; half of a surrogate pair, as in names that are no UTF-8, as `\\udcff`.

    Raises: OSError: as the system refuses; `path` is as it was then.
    """
    with atomic_file(path) as stream:
        stream.write(text.encode("utf-8", "backslashreplace"))


def flush_folder(folder: Path) -> None:
    """Flush a folder (fsync), so that renames and removals in it survive a power loss; POSIX only."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def disk_errors(
    path: Path | str,
    error: type[GlassformerError] = WeightsError,
    what: str = "",
    remains: str = "no file is left half-written",
) -> Iterator[None]:
    """Raise errors of the operating system while files are written as `error`, with the path.

    Args:
        what: is written, such as "the page"
        remains: on the disk after an error; the default holds for atomic files alone
    """
    try:
        yield
    except OSError as problem:
        reason = f"cannot be written: {error_reason(problem)}; {remains}"
        raise error(f"{path}: {what} {reason}" if what else f"{path}: {reason}") from problem


def check_output(path: str | Path, what: str, *suffixes: str) -> Path:
    """Validate the path of an output file, before the work rather than after it.

    Args:
        what: is saved there, such as "the page"
        suffixes: one of which the name must have; none = any
    Returns: the path, with ~ expanded.
    Raises: DataError: not a valid name, no such folder, or no permission to write.
    """
    if "\0" in str(path):
        raise DataError(f"{str(path)!r}: cannot be the name of a file: it holds a NUL character")
    target = as_path(path).expanduser()
    if suffixes and target.suffix.lower() not in suffixes:
        raise DataError(f"{what} is to be saved as {str(path)!r}; its name must end in {' or '.join(suffixes)}")
    try:
        folder = target.absolute().parent
        if target.is_dir():
            example = target / f"{what.split()[-1]}{suffixes[0] if suffixes else ''}"
            raise DataError(f"{target}: is a folder; name a file in it, such as {example}")
        if not folder.is_dir():
            raise DataError(f"{folder}: no such folder to save {target.name} in; make it first")
    except OSError as error:  # a name too long
        raise DataError(f"{str(path)[:200]!r}: cannot be the name of a file: {error}") from error
    if not os.access(folder, os.W_OK):
        raise DataError(f"{folder}: this folder cannot be written to; choose another folder for {target.name}")
    return target
