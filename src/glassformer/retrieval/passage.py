"""Passages: the parts of documents that a search finds, with the place of each in its file."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from glassformer.files.schema import Schema

HEADING_SEPARATOR = " › "


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A part of a document, short enough for a model to read.

    start, stop: its characters in the document
    line: of the file, in which it begins, from 1; 0 = the format has no lines
    page: on which it begins, from 1; 0 = the format has no pages
    page_starts: characters of its text at which further pages begin
    verbatim: whether the text is that of the file, so that its line breaks are the file's
    headings: above it, the outermost first
    metadata: such as the columns of a row
    """

    text: str
    start: int
    stop: int
    line: int = 0
    page: int = 0
    page_starts: tuple[int, ...] = ()
    verbatim: bool = False
    headings: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def embedded(self) -> str:
        """What a model reads of it: the headings above it, which often name what the text calls "it", then the text."""
        return with_headings(self.headings, self.text)


def with_headings(above: Sequence[str], text: str) -> str:
    """A text below the headings above it, the outermost first."""
    if above and text.lstrip("#= ").startswith(above[-1]):  # it begins with its own heading
        above = above[:-1]
    return f"{HEADING_SEPARATOR.join(above)}\n{text}" if above else text


@dataclass(frozen=True, kw_only=True)
class WordScore(Schema):
    """What a word of a question adds to the BM25 score of a passage.

    word: as the question has it
    term: as it is indexed: lower case, a stem
    passages: how many passages of the store have it
    idf: inverse document frequency
    count: how often this passage has it, its headings included
    score: what it adds
    places: first and last character in the text of the passage, of each word that it stands for
    """

    word: str
    term: str
    passages: int
    idf: float
    count: int
    score: float
    places: list[list[int]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class PassageMatch(Schema):
    """A passage that a search found.

    id: of the passage in its store
    score: by which it is ranked
    scores: of each method that found it: "bm25", "dense", "fusion", "late", "rerank"
    ranks: by each of them, from 1
    words: of the question that it has, the best first; the sum of their scores is that of BM25
    file: its name in the folder; also: other files of the same content
    number: of the passage in its document, from 1, where that has several, and neither lines nor pages; else 0
    title: of the document
    start, stop, line, page, page_starts, verbatim, headings, metadata: as in `Passage`
    """

    id: int
    score: float
    scores: Mapping[str, float] = field(default_factory=dict)
    ranks: Mapping[str, int] = field(default_factory=dict)
    words: list[WordScore] = field(default_factory=list)
    file: str
    also: list[str] = field(default_factory=list)
    number: int = 0
    title: str = ""
    text: str
    start: int
    stop: int
    line: int = 0
    page: int = 0
    page_starts: list[int] = field(default_factory=list)
    verbatim: bool = False
    headings: list[str] = field(default_factory=list)
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """Where it begins: `notes/tower.md:12`, `report.pdf, page 3`, `page.html, passage 2`."""
        return self.place_of(0)

    def line_of(self, character: int) -> int:
        """The line of the file in which a character of its text is; 0 = the format has no lines."""
        return self.line and self.line + (self.text.count("\n", 0, character) if self.verbatim else 0)

    def page_of(self, character: int) -> int:
        """The page on which a character of its text is; 0 = the format has no pages."""
        return self.page and self.page + bisect_right(self.page_starts, character)

    def place_of(self, character: int) -> str:
        """Where a character of its text is: the line or page of the file, as `place`."""
        if self.page:
            return f"{self.file}, page {self.page_of(character)}"
        if self.line:
            return f"{self.file}:{self.line_of(character)}"
        return f"{self.file}, passage {self.number}" if self.number else self.file
