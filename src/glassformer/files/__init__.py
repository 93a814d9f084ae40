"""Safe access to untrusted files: regular files only, no links out of a model folder, bounded sizes, strict JSON.

A model folder may come from anywhere: a name in it may be a pipe that blocks, or a symbolic link to a file
outside. Only regular files of the folder itself are opened, or those
of the Hub cache the folder belongs to, which is made of links:

    models--org--name/
        snapshots/<revision>/model.safetensors  →  ../../blobs/<digest>   (→ <cache>/blobs/<xx>/<digest>)

Python's JSON parser accepts more than the standard (`NaN`, duplicate keys) and more than RAM may hold (a few megabytes
of `[[[[`). Here the size is bounded before parsing, and every violation is an error that names the file.
`json_value` and `null_for_nan` convert values to strict JSON, for writing.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import stat
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from io import BufferedReader, FileIO
from itertools import islice
from numbers import Integral
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeGuard

from glassformer.errors import ConfigError, DataError, GlassformerError, WeightsError

MAX_FILE_BYTES = 64 << 20
"""Of files that are read as a whole: configs, indices, vocabularies. None in use comes near it."""
# Parsed values are up to 200 times larger than their text, so the count is bounded as well as the bytes.
# A file of 100,000 tensors, the most that is read, has about half as many.
MAX_JSON_VALUES = 2_000_000
MAX_UNPACKING, FREELY_UNPACKED_BYTES = 100, 64 << 20
"""Bounds of a decompression bomb: text and tables shrink 3 to 20 times, a bomb 1,000 times."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def safe_repr(text: object) -> str:
    """A value from a file, escaped and shortened for a one-line message."""
    try:
        # Python refuses to write a whole number of more than 4,300 digits.
        quoted = hex(text) if isinstance(text, int) and abs(text) > 2**1024 else repr(text).replace("\n", " ")
    except RecursionError:  # lists of lists of lists …
        quoted = f"a {type(text).__name__} that is nested too deeply"
    return quoted if len(quoted) <= 120 else quoted[:100] + f"… ({len(quoted)} characters)"


def readable_path(path: str | Path) -> str:
    """A path as text that every file can hold: a byte of it that is no UTF-8 as `\\xff`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def as_path(value: object, what: str = "path") -> Path:
    """The path that a caller gave, as text or as a `Path`. Raises: DataError: something else, or no name of a file.

    Args:
        what: the argument, for the message
    """
    name = os.fspath(value) if isinstance(value, (str, os.PathLike)) else value
    if not isinstance(name, str) or not name:
        raise DataError(f"{what} is {safe_repr(value)}; it must be a path, as text or as a pathlib.Path")
    if "\0" in name:
        raise DataError(f"{name!r}: a path cannot hold a NUL character")
    return Path(name)


def counted(number: int, noun: str) -> str:
    """A number with its noun, for messages: `1 row`, `1,200 rows`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def is_int(value: object, least: float = 0, below: float = math.inf) -> TypeGuard[int]:
    """Is a value a whole number from `least` up, and below `below`? True and False are none."""
    return isinstance(value, int) and is_number(value, least, below)


def is_number(value: object, least: float = -math.inf, below: float = math.inf) -> TypeGuard[float]:
    """Is a value a finite number from `least` up, and below `below`? True, False and NaN are none."""
    # bool is a subclass of int: JSON's true would pass for 1. No math.isfinite: it fails at integers beyond floats.
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return least <= value < below and value != -math.inf


def check_count(name: str, value: object, least: int = 1) -> None:
    """Raises: ConfigError: an argument that is no whole number, or below `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ConfigError(f"{name} is {safe_repr(value)}; it must be a whole number from {least} up")


def open_regular_file(path: Path, error: type[GlassformerError] = WeightsError) -> tuple[BufferedReader, int]:
    """Open a regular file for reading in binary mode.

    Returns: the stream and the file's size in bytes.

    Raises: `error`: it cannot be opened, or is a folder, a pipe or a device.
    """
    try:
        # O_NONBLOCK: opening a pipe without a writer would otherwise wait for ever.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (OSError, ValueError) as problem:
        hint = nearest_path(path) if isinstance(problem, FileNotFoundError) else ""
        raise error(f"{path}: cannot be opened: {error_reason(problem)}{hint}") from problem
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        folder = ", but a folder" if stat.S_ISDIR(status.st_mode) else ""
        raise error(f"{path}: is not a regular file{folder}")
    return open(handle, "rb"), status.st_size


def append_handle(path: Path) -> int:
    """Open a file that an earlier process may have left, to read it, cut it and append to it; made where it is missing.

    A folder that came from elsewhere may hold a link in its place: what it leads to is never changed.

    Returns: a handle, for `open(handle, "a+b")`.
    Raises: OSError: as the system refuses; a symbolic link, or no regular file.
    """
    if path.is_symlink():
        raise OSError(errno.ELOOP, "is a symbolic link, and what it leads to is not changed; remove the link")
    # O_NOFOLLOW: a link that takes its place meanwhile. O_NONBLOCK: as in `open_regular_file`.
    flags = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | flags, 0o666)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "is not a regular file; remove it")
    return handle


def drop_cut_line(stream: FileIO, size: int | None = None) -> int:
    """Truncate a file of lines behind its last whole one: a kill, or a full disk, may have cut the next.

    Args:
        size: look at so many bytes of it, and drop the rest; None = all
    Returns: its size in bytes then.
    """
    size = stream.seek(0, os.SEEK_END) if size is None else size
    whole, start = 0, size
    while start and not whole:
        start, end = max(start - 65_536, 0), start
        stream.seek(start)
        whole = stream.read(end - start).rfind(b"\n") + 1
    stream.truncate(start + whole)
    return start + whole


def nearest_path(path: Path, fits: Callable[[Path], bool] = Path.exists) -> str:
    """A hint for a path that does not exist: `; nearest: 'runs/mood'`, of the names next to it, or an empty string.

    Args:
        fits: whether a path may be what was meant; so a model is not suggested where a table is missing
    """
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry in islice(entries, 2_000) if entry.name != path.name]  # a broken link
    except (OSError, ValueError):
        return ""
    matches = map(path.with_name, get_close_matches(path.name[:200], names, n=20, cutoff=0.7))
    listed = [safe_repr(str(match)) for match in islice(filter(fits, matches), 3)]
    return f"; nearest: {', '.join(listed)}" if listed else ""


def refuse_repeated(paths: Iterable[str | Path], error: type[GlassformerError]) -> None:
    """Refuse a list of files or folders that names one twice, by whatever path: `a.csv`, `./a.csv`, a link to it.

    Raises: `error`: both paths.
    """
    seen: dict[object, str | Path] = {}
    for path in paths:
        try:
            status = os.stat(path)
            identity: object = (status.st_dev, status.st_ino)
        except (OSError, ValueError):  # not there: its reader raises the error
            identity = str(path)
        if identity in seen:
            first = seen[identity]
            again = "is given twice" if str(first) == str(path) else f"and {path} are the same {_kind_of(path)}"
            raise error(f"{first} {again}; give it once")
        seen[identity] = path


def _kind_of(path: str | Path) -> str:
    return "folder" if os.path.isdir(path) else "file"


def error_reason(problem: BaseException) -> str:
    """The message of an exception, without the file name that an OSError carries."""
    return getattr(problem, "strerror", None) or str(problem) or type(problem).__name__


REFUSALS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO}


def disk_reason(problem: BaseException | None) -> str | None:
    """What the disk refused, such as for want of space, where an exception comes of that; None = of something else."""
    while problem is not None:
        number = problem.errno if isinstance(problem, OSError) else None
        # The errors of libraries in Rust are texts.
        if number is None and (stated := re.search(r"\(os error (\d{1,3})\)", str(problem))):
            number = int(stated[1])
        denied = isinstance(problem, PermissionError) and problem.filename is not None  # else it is of a connection
        if denied or number in REFUSALS:
            return os.strerror(number or errno.EACCES)
        problem = problem.__cause__ or (None if problem.__suppress_context__ else problem.__context__)
    return None


def max_unpacked_bytes(path: Path) -> int:
    """How many bytes an archive may unpack to: 64 MB, or 100 times its size. Text and tables shrink 3 to 20 times."""
    return max(FREELY_UNPACKED_BYTES, MAX_UNPACKING * path.stat().st_size)


def check_links(folder: Path, error: type[GlassformerError]) -> None:
    """Refuse a config, vocabulary or template of a model folder that is a link out of it; see `check_link`."""
    suffixes = (".json", ".txt", ".model", ".spm", ".jinja")
    for path in (*(path for path in folder.glob("*") if path.suffix in suffixes), *folder.glob("*/config.json")):
        if path.is_symlink() or path.parent.is_symlink():
            check_link(folder, path, error)


def check_link(folder: Path, path: Path, error: type[GlassformerError] = WeightsError) -> None:
    """Refuse a symbolic link that leads out of `folder` and of the Hub cache that the folder is part of.

    Raises: `error`: where the link leads, and what to do.
    """
    try:
        real, root = path.resolve(), folder.resolve()
    except (OSError, RuntimeError) as problem:  # RuntimeError: a loop of links, before Python 3.13
        raise error(f"{path}: cannot be opened: {error_reason(problem)}") from problem
    if any(allowed in real.parents for allowed in (root, *blob_stores(root))):
        return
    raise error(f"{path}: is a link that leads out of the model's folder, to {real}; copy the file into the folder")


def blob_stores(folder: Path) -> list[Path]:
    """The blob folders that links of a Hub snapshot may lead to: its repository's, and the cache's shared one."""
    for snapshots in folder.parents:
        repository = snapshots.parent
        if snapshots.name == "snapshots" and repository.name.startswith("models--"):
            return [repository / "blobs", repository.parent / "blobs"]
    return []


def read_bytes(path: Path, error: type[GlassformerError] = WeightsError, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """The content of a regular file. Raises: `error`: missing, unreadable, or larger than `max_bytes`."""
    stream, file_bytes = open_regular_file(path, error)
    with stream:
        try:
            # One byte more than allowed: the file may grow between its size and the read.
            data = b"" if file_bytes > max_bytes else stream.read(max_bytes + 1)
        except OSError as problem:
            raise error(f"{path}: cannot be read: {error_reason(problem)}") from problem
    if max(file_bytes, len(data)) > max_bytes:
        raise error(f"{path}: has {file_bytes} bytes; a file of this kind may have {max_bytes}")
    return data


def file_sha256(file: Path | BinaryIO, *more: bytes) -> str:
    """SHA-256 of a file in hexadecimal, as `sha256sum` prints it, read in blocks.

    Args:
        file: a path, or a file open for reading in binary mode, from where it is
        more: bytes hashed after it
    Raises: OSError: it cannot be read.
    """
    if isinstance(file, Path):
        with file.open("rb") as stream:
            return file_sha256(stream, *more)
    digest = hashlib.file_digest(file, "sha256")  # type: ignore[arg-type]
    for part in more:
        digest.update(part)
    return digest.hexdigest()


def read_text(path: Path, error: type[GlassformerError] = WeightsError) -> str:
    """The content of a UTF-8 file, line ends as they are. Raises: `error`: as `read_bytes`, or it is not UTF-8."""
    return _decode(read_bytes(path, error), str(path), error)


def read_lines(path: Path, error: type[GlassformerError] = WeightsError) -> list[str]:
    """The lines of a UTF-8 file, split at line feeds alone: vocabularies hold other line separators as entries."""
    lines = read_text(path, error).replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _decode(data: bytes, where: str, error: type[GlassformerError]) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise error(f"{where} is not UTF-8 text ({problem.reason} at byte {problem.start})") from None


# ── strict JSON ──────────────────────────────────────────────────────────────────────────────────────────


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object with these keys and values. Raises: ValueError: a duplicate key, with its name."""
    value = dict(pairs)
    if len(value) < len(pairs):
        earlier: set[str] = set()
        duplicate = next(key for key, _ in pairs if key in earlier or earlier.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"duplicate key {safe_repr(duplicate)}; which one counts is undefined")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number; null is how JSON writes a missing one")


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"the number {safe_repr(number)} is too large")
    return value


STRICT: dict[str, Any] = {
    "object_pairs_hook": _unique_keys,
    "parse_constant": _refuse_constant,
    "parse_float": _finite,
}
"""Options of Python's JSON decoder that refuse what RFC 8259 does not define: duplicate keys, NaN, infinities."""


def check_surrogates(text: str, value: Any) -> None:
    """Raises: ValueError: half of a surrogate pair in JSON, which is not a character.

    Args:
        value: of the text
    """
    if _SURROGATE.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as problem:
            half = problem.object[problem.start]
            raise ValueError(f"a lone surrogate, {half!r}: half of a surrogate pair is no character") from None


def parse_json_object(
    data: bytes, where: str, error: type[GlassformerError] = WeightsError, *, strict: bool = True
) -> dict[str, Any]:
    """Parse one JSON object, strictly.

    Args:
        data: UTF-8 text, already bounded in size by the caller.
        where: what the text is, for messages: `model.safetensors: header`.
        error: the class of error to raise.
        strict: False allows duplicate keys and `NaN`, as other readers of a tokenizer's files do.

    Returns: the object; keys are unique, numbers finite.

    Raises: `error`: not UTF-8, not JSON, not an object, a duplicate key, `NaN`, half of a surrogate pair, nested too
        deeply, or too many values.

    Source: RFC 8259; section 4 leaves duplicate keys undefined, and section 8.2 half of a pair, hence refused.
    """
    values = data.count(b",") + data.count(b"[") + data.count(b"{")
    if values > MAX_JSON_VALUES:
        raise error(f"{where} holds about {values} JSON values; at most {MAX_JSON_VALUES} are read")
    text = _decode(data, where, error)
    try:
        value = json.loads(text, **(STRICT if strict else {}))
        check_surrogates(text, value)
    except RecursionError:
        raise error(f"{where} is nested too deeply to be read") from None
    except ValueError as problem:  # a JSONDecodeError, ours, or a number of more digits than Python converts
        raise error(f"{where} is not valid JSON: {problem}") from None
    if not isinstance(value, dict):
        raise error(f"{where} must be a JSON object, got {type(value).__name__}")
    return value


def read_json_object(
    path: Path,
    error: type[GlassformerError] = WeightsError,
    max_bytes: int = MAX_FILE_BYTES,
    *,
    strict: bool = True,
    optional: bool = False,
) -> dict[str, Any]:
    """Read and parse a JSON file, with or without a byte-order mark, with the strictness of `parse_json_object`.

    Args:
        error: the class of error to raise: `ConfigError` for a config.
        max_bytes: the largest file that is read.
        optional: an absent file is an empty object.

    Raises: `error`: missing, unreadable, too large, or not a strict JSON object.
    """
    if optional and not path.exists():
        return {}
    data = read_bytes(path, error, max_bytes).removeprefix(BOM_UTF8)
    return parse_json_object(data, str(path), error, strict=strict)


def json_value(value: Any) -> Any:
    """Convert a value for strict JSON: "nan" for NaN, lists for arrays, strings for other objects."""
    if isinstance(value, Mapping):
        return {str(name): json_value(x) for name, x in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(x) for x in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(float(value))
    if value is None or isinstance(value, str | int | float):
        return value
    if hasattr(value, "tolist"):  # a numpy or torch scalar or array
        return json_value(value.tolist())
    return str(value)  # a path, a dtype


def null_for_nan(value: Any) -> Any:
    """A value for strict JSON, which has no NaN and no infinity: they become None."""
    if isinstance(value, Mapping):
        return {str(name): null_for_nan(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [null_for_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def nan_from_null(value: Any) -> Any:
    """What `null_for_nan` wrote, with the value of a confidence interval as NaN again."""
    if isinstance(value, Mapping):
        was_nan = set(value) == {"value", "low", "high"} and value["value"] is None
        return {name: math.nan if was_nan and name == "value" else nan_from_null(item) for name, item in value.items()}
    return [nan_from_null(item) for item in value] if isinstance(value, list) else value
