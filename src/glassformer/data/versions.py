"""Versions of a data set: a folder for each, with its files, a card, and checksums that anyone can verify.

    emotions/1.0.0/   train.csv  test.csv  README.md     the files, and the data card
                      version.json                       version, and of each file its rows, bytes and SHA-256
                      SHA256SUMS                         the same digests, as `sha256sum --check` reads them

A version is written once and never changed: what is new gets a new number. The folder has its name only when it is
complete.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, DataError
from glassformer.files import file_sha256, read_json_object, safe_repr
from glassformer.files.atomic import disk_errors, remove_folder, write_json

CARD, FACTS, SUMS = "README.md", "version.json", "SHA256SUMS"
VERSION = re.compile(r"\d+(\.\d+){0,2}([-+][0-9A-Za-z.-]+)?")


def write_version(root: Path, version: str, rows: Mapping[Path, int], card: str) -> Path:
    """Write a version of a data set from its files; its folder.

    Args: root: of the data set, a folder for each version · rows: file → its number of rows · card: Markdown
    Raises: ConfigError: a version that is none. DataError: it exists, files of one name, or the disk refuses.
    """
    if not VERSION.fullmatch(version):
        raise ConfigError(f"version is {safe_repr(version)}; it must be numbers such as 1.0.0, or 2.1-draft")
    names = [file.name for file in rows]
    if taken := [name for name in names if names.count(name) > 1 or name in (CARD, FACTS, SUMS)]:
        raise DataError(f"two files of a version would be called {taken[0]!r}; rename one")
    folder, unfinished = root / version, root / f".{version}.unfinished"
    if folder.exists():
        raise DataError(f"{folder}: exists already, and a version never changes; give the new one another number")
    with disk_errors(folder, DataError):
        remove_folder(unfinished)
        unfinished.mkdir(parents=True)
        facts = {}
        for file, count in rows.items():
            shutil.copyfile(file, unfinished / file.name)
            copied = unfinished / file.name
            facts[file.name] = {"rows": count, "bytes": copied.stat().st_size, "sha256": file_sha256(copied)}
        (unfinished / CARD).write_text(card, encoding="utf-8")
        write_json(unfinished / FACTS, {"version": version, "files": facts}, DataError)
        sums = {**{name: fact["sha256"] for name, fact in facts.items()}, CARD: file_sha256(unfinished / CARD)}
        lines = "".join(f"{digest}  {name}\n" for name, digest in sums.items())
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
    facts = read_json_object(folder / FACTS, DataError)
    sums = [line.split("  ", 1) for line in (folder / SUMS).read_text("utf-8").splitlines()]
    wrong = []
    for digest, name in (line for line in sums if len(line) == 2):
        path = folder / name
        if Path(name).name != name or not path.is_file():
            wrong.append(f"{name} is missing")
        elif file_sha256(path) != digest:
            wrong.append(f"{name} was changed")
    named = {name for _, *rest in sums for name in rest}
    wrong += [f"{name} is not in {SUMS}" for name in facts.get("files", {}) if name not in named]
    more = sorted(path.name for path in folder.iterdir() if path.name not in {*named, FACTS, SUMS})
    wrong += [f"{name} does not belong to it" for name in more]
    if wrong or any(len(line) != 2 for line in sums):
        raise DataError(f"{folder}: {'; '.join(wrong) or f'{SUMS} is damaged'}; take an intact copy, or a new version")
    return facts


def newest_version(root: Path) -> str | None:
    """The highest version of a data set; None where there is none."""
    versions = [path.name for path in root.iterdir() if VERSION.fullmatch(path.name)] if root.is_dir() else []
    return max(versions, key=lambda name: [int(number) for number in re.findall(r"\d+", name)], default=None)
