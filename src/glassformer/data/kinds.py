"""In which format a file is: by the end of its name, or because it was said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from glassformer.data.formats import Format
from glassformer.data.records import JsonLines, JsonList
from glassformer.data.sentences import Sentences
from glassformer.data.tables import Table
from glassformer.data.texts import PlainText
from glassformer.errors import ConfigError, DataError, nearest

TABS: dict[str, Any] = {"delimiter": "\t", "quotes": False}

KINDS: dict[str, tuple[type[Format], dict[str, Any]]] = {
    "csv": (Table, {}),
    "tsv": (Table, TABS),
    "jsonl": (JsonLines, {}),
    "json": (JsonList, {}),
    "conll": (Sentences, {}),
    "text": (PlainText, {}),
}
"""The kinds of files of lines, and what is said of each unless the caller does."""

ENDINGS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
    ".conll": "conll",
    ".conllu": "conll",
    ".bio": "conll",
    ".iob": "conll",
    ".txt": "text",
}
"""The ends of names that are known, each perhaps with .gz behind it."""


def ending(path: Path) -> str:
    """The end of a file's name that says what it holds, in small letters: `.csv`, of `Train.CSV.gz` too."""
    bare = Path(path.stem) if path.suffix.lower() == ".gz" else path
    return bare.suffix.lower()


def kind_of_file(path: Path, kind: str | None = None) -> str:
    """What a file holds. Raises: ConfigError: an unknown kind. DataError: a name that does not say."""
    known = [*KINDS, "parquet", "audio"]
    if kind is not None:
        if kind not in known:
            raise ConfigError(f"kind is {kind!r}{nearest(kind, known)}; it is one of: {', '.join(known)}")
        return kind
    found = ENDINGS.get(ending(path))
    if found is None:
        raise DataError(
            f"{path}: its name does not say what it holds; it should end in {', '.join(ENDINGS)} "
            f"(or .gz behind it), or give kind=: {', '.join(known)}"
        )
    return found


def format_of(kind: str, options: Mapping[str, Any]) -> Format:
    """The format of a kind of file. Raises: ConfigError: an option that it does not have."""
    if kind not in KINDS:
        no_options(kind, options)
        raise ConfigError(f"{kind} is no format of lines; those are: {', '.join(KINDS)}")
    made, usual = KINDS[kind]
    known = [each.name for each in fields(made)]  # type: ignore[arg-type]
    for name in options:
        if name not in known:
            has = f"it has: {', '.join(known)}" if known else "it has none"
            raise ConfigError(f"{name!r} is no option of {kind}{nearest(name, known)}; {has}")
        if isinstance(getattr(made, name, None), bool) and not isinstance(options[name], bool):
            raise ConfigError(f"{name} is {options[name]!r}; it must be true or false")
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    return made(**{**usual, **given})


def no_options(what: str, options: Mapping[str, Any]) -> None:
    """Raises: ConfigError: options where there are none to give."""
    if options:
        raise ConfigError(f"{next(iter(options))!r} is no option of {what}, which has none")
