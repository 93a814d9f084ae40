"""CoNLL format: a token and its tags a line, a blank line after each sentence.

    Vinken   NNP   B-PER        read_rows("train.conll")      {"tokens": ["Vinken", "joins"], "tags": ["B-PER", "O"]}
    joins    VBZ   O            … fields={"tokens": 0, "pos": 1, "tags": -1}

Source: Tjong Kim Sang and De Meulder 2003, "Introduction to the CoNLL-2003 shared task", section 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from glassformer.data.formats import Format, ParsedRow, parsed_row
from glassformer.data.lines import LineReader
from glassformer.data.plain_text import strip_newline
from glassformer.errors import ConfigError

DOCUMENT_BOUNDARY = "-DOCSTART-"


def _default_fields() -> dict[str, int]:
    return {"tokens": 0, "tags": -1}


@dataclass(frozen=True)
class Sentences(Format):
    """CoNLL sentences: each row holds lists, one value a token. Fields are separated by tabs, else by spaces.

    Args:
        fields: column → index of its field in a line; -1 = the last · comment: prefix of comment lines
    """

    fields: Mapping[str, int] = field(default_factory=_default_fields)
    comment: str | None = None

    def __post_init__(self) -> None:
        if not self.fields or not all(isinstance(index, int) for index in self.fields.values()):
            raise ConfigError(f"fields is {self.fields!r}; it must say column: number of the field, from 0")

    def rows(self, lines: LineReader, header: Any) -> Iterator[ParsedRow]:
        lines.begin_row()
        row: dict[str, Any] = {}
        width = 0
        for line in lines:
            text = strip_newline(line)
            if not text.strip() or text.startswith(DOCUMENT_BOUNDARY):
                if row:
                    yield parsed_row(lines, row)
                row = {}
                lines.begin_row()
                continue
            if self.comment and text.startswith(self.comment):
                continue
            values = text.split("\t") if "\t" in text else text.split()
            if not row:
                row, width = {name: [] for name in self.fields}, len(values)
            lines.row_line, first_line = lines.lines_read, lines.row_line  # errors name the line of the token
            if len(values) != width:
                lines.fail(f"has {len(values)} fields, and the sentence has {width} before it")
            for name, index in self.fields.items():
                if not -width <= index < width:
                    lines.fail(f"has {width} fields, and {name!r} should be number {index} (from 0)")
                if not values[index].strip():
                    lines.fail(f"has nothing as {name!r}; a token and its tag may not be blank")
                row[name].append(values[index])
            lines.row_line = first_line
        if row:
            yield parsed_row(lines, row)
