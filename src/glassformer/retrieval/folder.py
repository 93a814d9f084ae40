"""Files of a folder: which are read, which are not and why, and whether one has changed.

    notes/tower.md     FolderFile("notes/tower.md", …)
    notes/all -> ..    Skipped("notes/all", "it is a link to a folder, and links to folders are not followed")
    .git/              left out: names that begin with a dot, what .gitignore names, and what `exclude` matches

No link is followed out of the folder, and links to folders are not followed at all, so that no circle is walked.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from glassformer.errors import DataError, import_optional
from glassformer.files import error_reason, open_regular_file, read_text, readable_path
from glassformer.retrieval.options import DocumentOptions

IGNORE_FILE = ".gitignore"


class FolderFile(NamedTuple):
    """A file to read.

    name: relative to the folder, with "/"; a byte of it that is no UTF-8 as `\\xff`
    path: by which it is opened, whatever its name
    """

    name: str
    path: Path


class Skipped(NamedTuple):
    """A file or folder that is not read.

    reason: why, as a sentence that begins with "it"
    unknown: the system refused to say what is there, so that its documents may be as they were
    """

    name: str
    reason: str
    unknown: bool = False


def walk(folder: Path, options: DocumentOptions | None = None) -> Iterator[FolderFile | Skipped]:
    """The files of a folder and of those in it, sorted by name, and what is not read; what is excluded is in neither.

    Raises: DataError: no folder, or patterns that are none. MissingExtraError: patterns without pathspec.
    """
    options = options or DocumentOptions()
    if not folder.is_dir():
        raise DataError(f"{folder}: {'is not a folder' if folder.exists() else 'there is no such folder'}")
    root = folder.resolve()
    excluded = [_Rules(list(options.exclude), "exclude")] if options.exclude else []
    # A stack, as folders may be nested deeper than Python calls functions.
    open_folders: list[tuple[tuple[str, ...], Iterator[os.DirEntry[str]], list[_Rules]]] = []
    enter: tuple[tuple[str, ...], list[_Rules]] | None = ((), [])
    while enter or open_folders:
        if enter:
            inside, rules = enter
            entries, problems = _listed(folder.joinpath(*inside), inside, rules, options)
            open_folders.append((inside, iter(entries), rules))
            yield from problems
        inside, remaining, rules = open_folders[-1]
        enter, entry = None, next(remaining, None)
        if entry is None:
            open_folders.pop()
            continue
        place, is_folder = (*inside, entry.name), entry.is_dir(follow_symlinks=False)
        if _is_left_out("/".join(place), is_folder, excluded, rules):
            continue
        if is_folder:
            enter = place, list(rules)
        else:
            yield _file(root, folder.joinpath(*place), place, options)


def content_hash(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal. Raises: DataError: it cannot be read."""
    stream, _ = open_regular_file(path, DataError)
    with stream:
        try:
            return hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as problem:
            raise DataError(f"{path}: cannot be read: {error_reason(problem)}") from problem


class _Rules:
    """Patterns by the rules of .gitignore, relative to a folder: the last that matches decides."""

    def __init__(self, lines: list[str], where: str, folder: str = "") -> None:
        pathspec = import_optional("pathspec", "pathspec", "documents", "leaving files out by patterns")
        try:
            self._spec: Any = pathspec.GitIgnoreSpec.from_lines(lines)
        except ValueError as problem:
            raise DataError(f"{where}: {problem}") from problem
        self._folder = folder

    def leaves_out(self, name: str, is_folder: bool) -> bool | None:
        """Whether a name relative to the root is left out; None = no pattern matches."""
        include = self._spec.check_file(name.removeprefix(self._folder) + "/" * is_folder).include
        return None if include is None else bool(include)


def _listed(
    path: Path, inside: tuple[str, ...], rules: list[_Rules], options: DocumentOptions
) -> tuple[list[os.DirEntry[str]], list[Skipped]]:
    """What is in a folder, sorted, and what of it cannot be used; its .gitignore is added to the rules."""
    try:
        with os.scandir(path) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
    except OSError as problem:
        return [], [Skipped(_name(inside), f"it cannot be listed: {error_reason(problem)}", unknown=True)]
    problems = []
    if options.gitignore and any(entry.name == IGNORE_FILE for entry in listed):
        try:
            lines = read_text(path / IGNORE_FILE, DataError).splitlines()
            rules.append(_Rules(lines, str(path / IGNORE_FILE), "".join(f"{part}/" for part in inside)))
        except DataError as problem:
            problems = [Skipped(_name((*inside, IGNORE_FILE)), f"its patterns cannot be used: {problem}")]
    return [entry for entry in listed if options.hidden or not entry.name.startswith(".")], problems


def _is_left_out(name: str, is_folder: bool, excluded: list[_Rules], rules: list[_Rules]) -> bool:
    """Whether the caller excludes a name, which no .gitignore takes back, or the last .gitignore that matches does."""
    if any(rule.leaves_out(name, is_folder) for rule in excluded):
        return True
    return next(
        (decision for rule in reversed(rules) if (decision := rule.leaves_out(name, is_folder)) is not None), False
    )


def _file(root: Path, path: Path, place: tuple[str, ...], options: DocumentOptions) -> FolderFile | Skipped:
    name = _name(place)
    try:
        if path.is_symlink() and (reason := _link_problem(root, path)):
            return Skipped(name, reason)
        status = path.stat()
    except FileNotFoundError:  # it went since its folder was listed
        return Skipped(name, "it is not there any more")
    except OSError as problem:
        return Skipped(name, f"it cannot be opened: {error_reason(problem)}", unknown=True)
    if not stat.S_ISREG(status.st_mode):
        return Skipped(name, "it is no regular file, but a pipe, a socket or a device")
    if status.st_size > options.max_bytes:
        return Skipped(name, f"it has {status.st_size:,} bytes, and the limit is {options.max_bytes:,}")
    if name != "/".join(place) and os.path.lexists(root / name):
        return Skipped(name, "its name is not UTF-8, and another file is named as it would be written; rename it")
    return FolderFile(name, path)


def _link_problem(root: Path, path: Path) -> str:
    """Why a symbolic link is not followed; "" = it leads to a file of the folder. Raises: OSError."""
    try:
        target = path.resolve(strict=True)
    except FileNotFoundError:
        return "it is a link to a file that is not there"
    except (OSError, RuntimeError) as problem:  # RuntimeError: before Python 3.13
        if isinstance(problem, OSError) and problem.errno != errno.ELOOP:
            raise
        return "it is a link that leads back to itself"
    if target.is_dir():
        return "it is a link to a folder, and links to folders are not followed"
    return "" if root in target.parents else "it is a link that leads out of the folder"


def _name(place: tuple[str, ...]) -> str:
    return readable_path("/".join(place)) or "."
