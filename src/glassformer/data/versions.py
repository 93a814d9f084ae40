"""Versions of a data set: a folder for each, with its files, a card, and checksums that anyone can verify.

    emotions/1.0.0/   train.csv  test.csv  README.md     the files, and the data card
                      version.json                       version, and of each file its rows, bytes and SHA-256
                      SHA256SUMS                         digests of all of them, as `sha256sum --check` reads them

A version is written once and never changed: what is new gets a new number. The folder has its name only when it is
complete.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, DataError
from glassformer.files import file_sha256, read_json_object, read_lines, readable_path, safe_repr
from glassformer.files.atomic import disk_errors, remove_folder, removed_on_failure, write_json, write_text
from glassformer.files.schema import parse

CARD, FACTS, SUMS = "README.md", "version.json", "SHA256SUMS"
REMEDY = "take an intact copy, or make a new version"
VERSION = re.compile(r"\d+(\.\d+){0,2}([-+][0-9A-Za-z.-]+)?")


@dataclass(frozen=True)
class FileFacts:
    """A file of a version.

    bytes: its size
    sha256: of its content, in hexadecimal
    """

    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class VersionFacts:
    """What `version.json` holds.

    files: name → its facts
    """

    version: str
    files: Mapping[str, FileFacts]


def write_version(root: Path, version: str, rows: Mapping[Path, int], card: str) -> Path:
    """Write a version of a data set from its files; its folder.

    Args:
        root: of the data set, a folder for each version
        rows: file → its number of rows
        card: Markdown
    Raises: ConfigError: a version that is none. DataError: it exists, files of one name, or the disk refuses.
    """
    if not VERSION.fullmatch(version):
        raise ConfigError(f"version is {safe_repr(version)}; it must be numbers such as 1.0.0, or 2.1-draft")
    names = [file.name for file in rows]
    if taken := [name for name in names if names.count(name) > 1 or name in (CARD, FACTS, SUMS)]:
        raise DataError(f"two files of a version would be called {taken[0]!r}; rename one")
    if unwritable := [name for name in names if name != readable_path(name)]:
        raise DataError(f"{unwritable[0]!r} is no UTF-8, so no list of files can name it; rename the file")
    folder, unfinished = root / version, root / f".{version}.unfinished"
    if folder.exists():
        raise DataError(f"{folder}: exists already, and a version never changes; give the new one another number")
    with disk_errors(folder, DataError):
        remove_folder(unfinished)
        unfinished.mkdir(parents=True)
        with removed_on_failure(unfinished):
            facts = {}
            for file, count in rows.items():
                shutil.copyfile(file, unfinished / file.name)
                copied = unfinished / file.name
                facts[file.name] = {"rows": count, "bytes": copied.stat().st_size, "sha256": file_sha256(copied)}
            write_text(unfinished / CARD, card)
            write_json(unfinished / FACTS, {"version": version, "files": facts}, DataError)
            lines = "".join(f"{file_sha256(unfinished / name)}  {name}\n" for name in (*facts, CARD, FACTS))
            (unfinished / SUMS).write_text(lines, encoding="utf-8")
            unfinished.rename(folder)
    return folder


def verify_version(folder: Path) -> dict[str, Any]:
    """The facts of a version whose files are those that it was made of.

    Raises: DataError: no version, a file that is missing, that was changed, or that does not belong to it.
    """
    if not (folder / FACTS).is_file() or not (folder / SUMS).is_file():
        raise DataError(
            f"{folder}: holds no version of a data set ({FACTS}, {SUMS}); make one: glassformer data version"
        )
    sums = [line.split("  ", 1) for line in read_lines(folder / SUMS, DataError)]
    if any(len(line) != 2 for line in sums):
        raise DataError(f"{folder / SUMS}: is damaged: a line is a digest, two spaces, and a file name; {REMEDY}")
    wrong = []
    for digest, name in sums:
        path = folder / name
        if Path(name).name != name or not path.is_file():
            wrong.append(f"{name} is missing")
        elif file_sha256(path) != digest:
            wrong.append(f"{name} was changed")
    summed = {name for _, name in sums}
    files = {path.name for path in folder.iterdir()} - {SUMS}
    # The facts are part of a version: without a digest, its rows and its number could be edited.
    wrong += [f"{FACTS} is not in {SUMS}"] if FACTS not in summed else []
    wrong += [f"{name} does not belong to it" for name in sorted(files - summed - {FACTS})]
    if wrong:
        raise DataError(f"{folder}: {'; '.join(wrong)}; {REMEDY}")
    return _facts(folder / FACTS, summed)


def _facts(path: Path, summed: Set[str]) -> dict[str, Any]:
    """What `version.json` says. Raises: DataError: something else than `write_version` writes, or other files."""
    facts = read_json_object(path, DataError)
    try:
        named = set(parse(VersionFacts, facts).files)
    except ConfigError as problem:
        raise DataError(f"{path}: {problem}; {REMEDY}") from None
    if other := sorted(named - summed):
        raise DataError(f"{path.parent}: {safe_repr(other[0])} is not in {SUMS}; {REMEDY}")
    return facts


def newest_version(root: Path) -> str | None:
    """The highest version of a data set; None where there is none."""
    versions = [path.name for path in root.iterdir() if VERSION.fullmatch(path.name)] if root.is_dir() else []
    return max(versions, key=lambda name: [int(number) for number in re.findall(r"\d+", name)], default=None)
