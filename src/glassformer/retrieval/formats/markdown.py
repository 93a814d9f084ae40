"""Markdown: sections below their headings, as the file has them, with front matter as metadata.

---                   metadata {"author": "Ann"}, title "Orchard"
title: Orchard
author: Ann
---
# Apples              part ("Apples",), line 5
They are green.
## Storage            part ("Apples", "Storage"), line 7
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from glassformer.errors import DataError, import_optional
from glassformer.files import is_number
from glassformer.files.yaml_text import parse_yaml
from glassformer.retrieval.document import Document, Heading, sections

MAX_PARSED = 2_000_000
"""Characters of Markdown that are parsed, which takes about a second for a million; of more, the rest is one part."""
MAX_HEADING = 300
"""Characters of a heading that are read."""

_FRONT = re.compile(r"---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_LINE_START = re.compile(r"^", re.MULTILINE)


def markdown_document(text: str) -> Document:
    """A document with a part for each heading. Raises: DataError: there is no text."""
    metadata, notes, begin = front_matter(text)
    parser = import_optional("markdown_it", "markdown-it-py", "documents", "Markdown").MarkdownIt("commonmark")
    if len(text) > MAX_PARSED:
        notes += (f"headings after the first {MAX_PARSED:,} characters were not looked for",)
    headings = _headings(parser, text[begin:MAX_PARSED])
    starts = [match.start() for match in _LINE_START.finditer(text, begin)]  # by the line ends that the parser counts
    first_line = text.count("\n", 0, begin) + 1
    parts = sections(text, (Heading(starts[x], level, name, first_line + x) for x, level, name in headings),
                     begin=begin, line=first_line)  # fmt: skip
    title = metadata.pop("title", None) or next((name for _, level, name in headings if level == 1), "")
    # Front matter is no text of the document; its characters belong to no part.
    return Document(text, parts, (), str(title), metadata, notes, verbatim=True)


def front_matter(text: str) -> tuple[dict[str, Any], tuple[str, ...], int]:
    """The metadata at the beginning of a text, what of it could not be read, and where the text itself begins."""
    block = _FRONT.match(text)
    if block is None:
        return {}, (), 0
    try:
        values = parse_yaml(block[1], "front matter", DataError)
    except DataError as problem:
        return {}, (f"{problem}; it is read as text",), 0
    if not isinstance(values, Mapping):
        return {}, (), 0  # a rule, and text below it
    return {str(name): plain(value) for name, value in values.items() if value is not None}, (), block.end()


def plain(value: Any) -> str | int | float | bool:
    """A value of YAML as a text or a number: a list of tags as `a, b`."""
    if isinstance(value, (str, bool)) or is_number(value):
        return value
    if isinstance(value, list):
        return ", ".join(str(plain(item)) for item in value)
    return str(value)


def _headings(parser: Any, text: str) -> list[tuple[int, int, str]]:
    """The line, level and text of each heading; of what is within lines, that of headings alone is parsed."""
    tokens: list[Any] = []
    parser.block.parse(text.replace("\0", "\ufffd"), parser, {}, tokens)
    return [
        (token.map[0], int(token.tag[1]), _inline(parser, inline.content))
        for token, inline in pairwise(tokens)
        if token.type == "heading_open" and not token.level
    ]


def _inline(parser: Any, source: str) -> str:
    """The text of a heading without its marks: `**Big** [apples](a.md)` is "Big apples"."""
    (block,) = parser.parseInline(source[:MAX_HEADING])
    return " ".join("".join(token.content for token in block.children if token.type != "html_inline").split())
