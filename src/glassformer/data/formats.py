"""Data formats: how rows of a kind of file, folder or made-up set are opened; a plug-in adds one of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Self, get_type_hints

from glassformer.data.lines import Format, LineFile, OnBadRows
from glassformer.data.sequence import RowSource
from glassformer.errors import ConfigError, nearest
from glassformer.files import safe_repr
from glassformer.files.schema import convert

PLAIN_TYPES = (bool, str, str | None, int | None, OnBadRows)
"""Types of options that are checked for every format; formats check those of other types themselves."""


@dataclass(frozen=True, kw_only=True)
class DataFormat:
    """A kind of data, as `read_rows(path, kind=NAME)` reads it.

    open: path and options of the format → source of rows. Raises: DataError: the path cannot be read. ConfigError: an
        unknown option
    extensions: of files that are read so without `kind`, such as ".csv"; each may be followed by .gz
    any_path: `open` also takes folders, patterns, and names of nothing on disk, such as a set that is made up
    """

    open: Callable[[Path, Mapping[str, Any]], RowSource]
    extensions: tuple[str, ...] = ()
    any_path: bool = False

    @classmethod
    def of_lines(cls, name: str, lines: type[Format], *extensions: str, **defaults: Any) -> Self:
        """A format of text files, whose options are the fields of a dataclass.

        Args:
            name: as in `kind`, for messages
            defaults: of these options, where they are not those of the class
        """
        return cls(open=partial(_line_source, name, lines, defaults), extensions=extensions)


def _line_source(
    name: str, lines: type[Format], defaults: Mapping[str, Any], path: Path, options: Mapping[str, Any]
) -> RowSource:
    return LineFile(path, format_of(name, lines, options, **defaults))


def format_of(kind: str, cls: type[Format], options: Mapping[str, Any], **defaults: Any) -> Format:
    """Make a line-based format from its options. Raises: ConfigError: an unknown option, or a value of another type."""
    known, hints = [field.name for field in fields(cls)], get_type_hints(cls)  # type: ignore[arg-type]
    for name in options:
        if name not in known:
            has = f"it has: {', '.join(known)}" if known else "it has none"
            raise ConfigError(f"{safe_repr(name)} is no option of {kind}{nearest(name, known)}; {has}")
        if hints[name] in PLAIN_TYPES:
            convert(hints[name], options[name], name)
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    return cls(**{**defaults, **values})
