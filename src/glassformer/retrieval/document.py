"""Documents: the text of a file, and where its parts and pages begin.

# Apples              part 0: from character 0, headings ("Apples",), line 1
They are green.
## Storage            part 1: from character 26, headings ("Apples", "Storage"), line 3
Keep them cool.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from glassformer.errors import DataError


class DocumentPart(NamedTuple):
    """A stretch of a document that no passage crosses: a section under a heading, a row of a table, a function.

    start: its first character; parts touch, and the last ends with the text
    headings: those above it, the outermost first
    line: of the file, from 1; 0 = the format has none
    metadata: what is known of this part alone, such as the columns of a row
    """

    start: int
    headings: tuple[str, ...] = ()
    line: int = 0
    metadata: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Document:
    """The text of a file in the order in which a person reads it. Raises: DataError: there is none.

    text: of text, Markdown and source code as the decoded file has it; of other formats as it was extracted
    parts: they cover the text; at least one
    pages: the character at which each page begins; none = the format has no pages
    title: of the document; "" = it has none
    metadata: of front matter, or of the properties of a PDF or DOCX
    notes: what of the file could not be read, a sentence each
    verbatim: whether the text is that of the file, so that its line breaks count lines of the file
    """

    text: str
    parts: tuple[DocumentPart, ...]
    pages: tuple[int, ...] = ()
    title: str = ""
    metadata: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    verbatim: bool = False

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise DataError("it holds no text")

    def spans(self) -> Iterator[tuple[DocumentPart, int]]:
        """Each part, with the character at which it ends."""
        ends = [*(part.start for part in self.parts[1:]), len(self.text)]
        return zip(self.parts, ends, strict=True)


def plain_text(text: str, notes: tuple[str, ...] = ()) -> Document:
    """A document of one part, as the file has it."""
    return Document(text, (DocumentPart(0, line=1),), notes=notes, verbatim=True)


class Heading(NamedTuple):
    """A heading of a text: its first character, how deep it is, 1 the outermost, and its line in the file; 0 = none."""

    start: int
    level: int
    name: str
    line: int = 0


def sections(text: str, headings: Iterable[Heading], *, begin: int = 0, line: int = 0) -> tuple[DocumentPart, ...]:
    """A part for each heading of a text, and one for what is before the first, if that is more than white space.

    Args:
        begin, line: where the text itself begins, such as behind front matter
    """
    parts, path = [DocumentPart(begin, line=line)], list[Heading]()
    for heading in headings:
        path = [*(above for above in path if above.level < heading.level), heading]
        if not text[parts[-1].start : heading.start].strip():
            parts.pop()
        parts.append(DocumentPart(heading.start, tuple(above.name for above in path), heading.line))
    return joined_headings(text, parts)


MARKS = 12
"""Characters around a heading in its line, such as `###`, or of the line below it."""


def joined_headings(text: str, parts: Sequence[DocumentPart]) -> tuple[DocumentPart, ...]:
    """The parts of a text, without those that hold a heading alone, above deeper ones: these begin there instead."""
    joined: list[DocumentPart] = []
    start: DocumentPart | None = None  # the first of the headings above the next part
    for part, following in zip(parts, [*parts[1:], None], strict=True):
        start = start or part
        if following is not None and _is_bare(text[part.start : following.start], part, following):
            continue
        joined.append(part._replace(start=start.start, line=start.line))
        start = None
    return tuple(joined)


def _is_bare(text: str, part: DocumentPart, following: DocumentPart) -> bool:
    path = part.headings
    if not path or len(following.headings) <= len(path) or following.headings[: len(path)] != path:
        return False
    return len("".join(text.split())) <= len("".join(path[-1].split())) + MARKS
