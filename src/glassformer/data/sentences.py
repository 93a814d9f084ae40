"""CoNLL: a token a line with its tags, a blank line behind each sentence.

    Vinken   NNP   B-PER        read_rows("train.conll")      {"tokens": ["Vinken", "joins"], "tags": ["B-PER", "O"]}
    joins    VBZ   O            … fields={"tokens": 0, "pos": 1, "tags": -1}

Source: Tjong Kim Sang and De Meulder 2003, "Introduction to the CoNLL-2003 shared task", section 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from glassformer.data.formats import Format, Found, found
from glassformer.data.lines import Lines
from glassformer.data.texts import bare
from glassformer.errors import ConfigError

BORDER = "-DOCSTART-"


def _usual() -> dict[str, int]:
    return {"tokens": 0, "tags": -1}


@dataclass(frozen=True)
class Sentences(Format):
    """Rows of lists, one value a token. Fields are told apart by tabs where a line has one, and else by spaces.

    Args:
        fields: column → which field of a line; -1 = the last · comment: what a line that is none begins with
    """

    fields: Mapping[str, int] = field(default_factory=_usual)
    comment: str | None = None

    def __post_init__(self) -> None:
        if not self.fields or not all(isinstance(place, int) for place in self.fields.values()):
            raise ConfigError(f"fields is {self.fields!r}; it must say column: number of the field, from 0")

    def rows(self, lines: Lines, head: Any) -> Iterator[Found]:
        lines.begin()
        row: dict[str, Any] = {}
        width = 0
        for line in lines:
            text = bare(line)
            if not text.strip() or text.startswith(BORDER):
                if row:
                    yield found(lines, row)
                row = {}
                lines.begin()
                continue
            if self.comment and text.startswith(self.comment):
                continue
            values = text.split("\t") if "\t" in text else text.split()
            if not row:
                row, width = {name: [] for name in self.fields}, len(values)
            lines.line, begun = lines.number, lines.line
            if len(values) != width:
                lines.refuse(f"has {len(values)} fields, and the sentence has {width} before it")
            for name, place in self.fields.items():
                if not -width <= place < width:
                    lines.refuse(f"has {width} fields, and {name!r} should be number {place} (from 0)")
                if not values[place].strip():
                    lines.refuse(f"has nothing as {name!r}; a token and its tag may not be blank")
                row[name].append(values[place])
            lines.line = begun
        if row:
            yield found(lines, row)
