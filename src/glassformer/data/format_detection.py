"""File format detection, by the file extension or the option `kind`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from glassformer.data.conll import Sentences
from glassformer.data.formats import Format
from glassformer.data.json_rows import JsonLines, JsonList
from glassformer.data.plain_text import PlainText
from glassformer.data.tables import Table
from glassformer.errors import ConfigError, DataError, nearest

TSV_OPTIONS: dict[str, Any] = {"delimiter": "\t", "quotes": False}

LINE_FORMATS: dict[str, tuple[type[Format], dict[str, Any]]] = {
    "csv": (Table, {}),
    "tsv": (Table, TSV_OPTIONS),
    "jsonl": (JsonLines, {}),
    "json": (JsonList, {}),
    "conll": (Sentences, {}),
    "text": (PlainText, {}),
}
"""Line-based formats and the default options of each."""

EXTENSIONS = {
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
"""File extension → format; each may be followed by .gz."""


def data_extension(path: Path) -> str:
    """The file extension in lower case without .gz: `.csv`, of `Train.CSV.gz` too."""
    inner = Path(path.stem) if path.suffix.lower() == ".gz" else path
    return inner.suffix.lower()


def detect_format(path: Path, kind: str | None = None) -> str:
    """The format of a file. Raises: ConfigError: an unknown kind. DataError: an unknown extension."""
    known = [*LINE_FORMATS, "parquet", "audio"]
    if kind is not None:
        if kind not in known:
            raise ConfigError(f"kind is {kind!r}{nearest(kind, known)}; it is one of: {', '.join(known)}")
        return kind
    format = EXTENSIONS.get(data_extension(path))
    if format is None:
        raise DataError(
            f"{path}: its name does not say what it holds; it should end in {', '.join(EXTENSIONS)} "
            f"(or .gz behind it), or give kind=: {', '.join(known)}"
        )
    return format


def make_format(kind: str, options: Mapping[str, Any]) -> Format:
    """Make a format from its options. Raises: ConfigError: an unknown option."""
    if kind not in LINE_FORMATS:
        refuse_options(kind, options)
        raise ConfigError(f"{kind} is no format of lines; those are: {', '.join(LINE_FORMATS)}")
    cls, defaults = LINE_FORMATS[kind]
    known = [field.name for field in fields(cls)]  # type: ignore[arg-type]
    for name in options:
        if name not in known:
            has = f"it has: {', '.join(known)}" if known else "it has none"
            raise ConfigError(f"{name!r} is no option of {kind}{nearest(name, known)}; {has}")
        if isinstance(getattr(cls, name, None), bool) and not isinstance(options[name], bool):
            raise ConfigError(f"{name} is {options[name]!r}; it must be true or false")
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    return cls(**{**defaults, **values})


def refuse_options(what: str, options: Mapping[str, Any]) -> None:
    """Raises: ConfigError: any option, as this source takes none."""
    if options:
        raise ConfigError(f"{next(iter(options))!r} is no option of {what}, which has none")
