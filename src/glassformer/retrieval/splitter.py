"""Splitter: documents to passages (chunking), at headings and sentences, to a number of the model's own tokens.

    part of a document    [ sentence one. Sentence two. Sentence three. Sentence four. ]
    passage 0               sentence one. Sentence two.
    passage 1                             Sentence two. Sentence three.              overlap: whole sentences
    passage 2                                                           Sentence four.

A passage ends where a sentence ends, near the place that makes the passages of a part about equally long; where no
sentence ends in reach it ends between two words, and within a word only where the word alone is longer than a passage.
Passages with their headings and special tokens never have more than `size` tokens.
The text is tokenised a stretch at a time, so that memory stays bounded whatever its length.
"""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby

from glassformer.errors import ConfigError
from glassformer.retrieval.document import Document
from glassformer.retrieval.options import PASSAGE_TOKENS, PassageOptions
from glassformer.retrieval.passage import Passage, with_headings
from glassformer.text.sentences import clear_sentence_starts, rules_for, sentence_spans
from glassformer.text.tokenizer import Tokenizer

STRETCH_CHARS = 1 << 14
"""A text is tokenised in stretches of this many characters, cut between words."""
BATCH_CHARS = 1 << 18
"""Stretches of so many characters are tokenised at once, on all cores."""
CHARS_PER_TOKEN = 20
"""A passage has at most this many characters for each of its tokens: an unknown word is one token of any length."""
LEAST_ROOM = 8
"""Tokens of text that a passage must have room for."""
BALANCED = 4
"""The last passages of a part are made equally long, so that no crumb is left: this many."""

LONGEST_ROW = 4_000
"""Characters of a row of a table that is cut at no sentence within it."""

_SPACE = re.compile(r"\s*")
_BETWEEN_WORDS = re.compile(r"\s(?=\S)")
_MARK = re.compile(r"[.!?…]\S{0,3}\s+")
_LINE = re.compile(r"\n\s*(?=\S)")
_MARKED_LINE = re.compile(r"\n[ \t]*(?=[-*+•|#>]\s?|\d{1,3}[.)]\s)")
"""Before an item of a list, a row of a table, a quote: such a line break is no wrapping of prose."""


def split(
    document: Document, tokenizer: Tokenizer, options: PassageOptions | None = None, *, prompt: str = ""
) -> Iterator[Passage]:
    """The passages of a document, in order; a part without text has none.

    Args:
        tokenizer: of the model that embeds the passages
        prompt: what the model puts before each; its tokens count
    Raises: ConfigError: passages that the model cannot read, or without room for text.
    """
    cutter = Cutter(tokenizer, options or PassageOptions(), prompt)
    encoded = _tokenised(document, tokenizer)
    newlines = array("i", (match.start() for match in re.finditer("\n", document.text)) if document.verbatim else ())
    for part, end in document.spans():
        headings, room = cutter.below(part.headings)
        for start, stop in cutter.spans(document.text, _TokenStarts(encoded, part.start, end), headings, room):
            yield Passage(
                text=document.text[start:stop],
                start=start,
                stop=stop,
                line=part.line and part.line + bisect_left(newlines, start) - bisect_left(newlines, part.start),
                page=bisect_right(document.pages, start),
                page_starts=tuple(page - start for page in document.pages if start < page < stop),
                verbatim=document.verbatim,
                headings=headings,
                metadata=part.metadata,
            )


# ── token positions ────────────────────────────────────────────────────────────────────────────────────────


def _tokenised(document: Document, tokenizer: Tokenizer) -> Iterator[tuple[int, list[int]]]:
    """The stretches of all parts, in order, tokenised in batches: the end of each, and where its tokens start."""
    text = document.text
    stretches = (span for part, end in document.spans() for span in _stretches(text, part.start, end))
    for _, group in groupby(stretches, lambda span: span[0] // BATCH_CHARS):
        batch = list(group)
        rows = tokenizer([text[start:end] for start, end in batch], add_special_tokens=False).rows
        for (start, end), row in zip(batch, rows, strict=True):
            yield end, [start + begin for begin, _ in row.offsets]


def _stretches(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while end - start > STRETCH_CHARS:
        limit = start + STRETCH_CHARS
        spaces = [text.rfind(space, start + STRETCH_CHARS // 2, limit) for space in "\n "]
        cut = next((at for at in spaces if at > 0), limit)
        yield start, cut
        start = cut
    yield start, end


@dataclass
class _TokenStarts:
    """Where the tokens of a part start, loaded as far as they are needed.

    loaded: the character up to which they are
    starts: from the first that is needed
    """

    stretches: Iterator[tuple[int, list[int]]]
    loaded: int
    end: int
    starts: list[int] = field(default_factory=list)

    def need(self, start: int, count: int) -> None:
        """Drop the tokens before a character, and load `count`, or all that there are."""
        while len(self.starts) - (passed := bisect_left(self.starts, start)) < count and self.loaded < self.end:
            self.loaded, starts = next(self.stretches)
            self.starts += starts
        del self.starts[:passed]

    @property
    def complete(self) -> bool:
        return self.loaded >= self.end


# ── where passages begin and end ───────────────────────────────────────────────────────────────────────────


class Cutter:
    """Cuts parts into passages for one tokenizer.

    Raises: ConfigError: passages that the model cannot read, or without room for text.
    """

    def __init__(self, tokenizer: Tokenizer, options: PassageOptions, prompt: str) -> None:
        limit = tokenizer.model_max_length
        self.size = options.size or min(PASSAGE_TOKENS, limit or PASSAGE_TOKENS)
        if limit is not None and self.size > limit:
            raise ConfigError(
                f"size={self.size} is more than the {limit} tokens that the model reads at once; give {limit} or less"
            )
        self._tokenizer, self._prompt, self._overlap = tokenizer, prompt, options.overlap
        self._language = rules_for(options.language)
        self._room = self.size - self._count("")
        if self._room < LEAST_ROOM:
            raise ConfigError(
                f"size={self.size} leaves {self._room} tokens for text, next to special tokens and the prompt; "
                f"give at least {self.size - self._room + LEAST_ROOM}"
            )
        self._exact = self._is_exact()
        self.below = lru_cache(1_000)(self._below)

    def _below(self, headings: tuple[str, ...]) -> tuple[tuple[str, ...], int]:
        """The innermost headings that take at most half of a passage, and how many tokens they leave for text."""
        for first in range(len(headings)):
            taken = self._count(with_headings(headings[first:], "")) - self._count("")
            if taken <= self._room // 2:
                return headings[first:], self._room - taken
        return (), self._room

    def spans(self, text: str, tokens: _TokenStarts, headings: tuple[str, ...], room: int) -> Iterator[tuple[int, int]]:
        """Where each passage of a part starts and stops, without white space around it."""
        start, stop, end = tokens.loaded, tokens.loaded, tokens.end
        while (rest := _skip_space(text, stop, end)) < end:
            start, before = min(_skip_space(text, start, end), rest), stop
            stop, clean = self._stop(text, start, max(before, start), tokens, room, headings)
            if not clean and start < before:  # the overlap is worth less than a whole sentence
                without = self._stop(text, rest, rest, tokens, room, headings)
                if without[1] or stop <= rest:
                    start, (stop, clean) = rest, without
            yield start, start + len(text[start:stop].rstrip())
            start = self._overlapping(text, start, stop, clean, tokens, room)

    def _stop(
        self, text: str, start: int, after: int, tokens: _TokenStarts, room: int, headings: tuple[str, ...]
    ) -> tuple[int, bool]:
        """Where a passage that begins at `start` stops, behind `after`; and whether a sentence or line ends there."""
        while True:
            stop, clean = self._cut(text, start, after, tokens, room)
            excess = 0 if self._exact else self._count(with_headings(headings, text[start:stop].rstrip())) - self.size
            if excess <= 0 or room <= 1:
                return stop, clean
            room = max(room - excess, 1)

    def _cut(self, text: str, start: int, after: int, tokens: _TokenStarts, room: int) -> tuple[int, bool]:
        tokens.need(start, BALANCED * room + 1)
        starts, count = tokens.starts, len(tokens.starts)
        furthest = min(start + CHARS_PER_TOKEN * room, tokens.end)
        if tokens.complete and count <= room and furthest == tokens.end:
            return tokens.end, True
        if count > room:
            furthest = min(furthest, starts[room])
        furthest = max(furthest, start + 1)
        target, shared = furthest, min(self._overlap, room // 2)
        if tokens.complete and count > room:
            passages = math.ceil((count - shared) / (room - shared))
            if passages <= BALANCED:
                target = min(furthest, starts[min(room, math.ceil((count - shared) / passages) + shared)])
        for places in (self._clear, _lines, self._in_doubt):
            if cuts := [cut for cut in places(text, start, furthest) if after < cut <= furthest]:
                return min(cuts, key=lambda cut: abs(cut - target)), True
        return _word_cut(text, max(start, after), furthest, starts[:room]), False

    def _overlapping(self, text: str, start: int, stop: int, clean: bool, tokens: _TokenStarts, room: int) -> int:
        """Where the next passage begins: with the sentences of the last tokens of this one."""
        shared = min(self._overlap, room // 2)
        last = bisect_left(tokens.starts, stop)
        if not shared or last <= shared:
            return stop
        first = tokens.starts[last - shared]
        if first <= start:
            return stop
        for places in (self._clear, _lines):
            if cuts := [cut for cut in places(text, max(start, first - 8), stop - 1) if first <= cut < stop]:
                return min(cuts)
        if clean:
            return stop
        word = _BETWEEN_WORDS.search(text, first - 1, stop)
        return word.end() if word else stop

    def _clear(self, text: str, start: int, stop: int) -> list[int]:
        """Where a sentence, an item of a list or a row begins without doubt; within a row, no sentence does."""
        sentences = clear_sentence_starts(text, start, stop, self._language)
        marked = [match.end() for match in _MARKED_LINE.finditer(text, start, min(stop + 2, len(text)))]
        return [at for at in sentences if not _is_within_row(text, at)] + marked

    def _in_doubt(self, text: str, start: int, stop: int) -> list[int]:
        """Where a sentence begins by the rules of its language, which take their time."""
        followed = (text[match.end() : match.end() + 1] for match in _MARK.finditer(text, start, stop))
        if all(char.islower() for char in followed):
            return []
        return [start + begin for begin, _ in sentence_spans(text[start : stop + 1], self._language)[1:]]

    def _count(self, text: str) -> int:
        return len(self._tokenizer.batch_ids([self._prompt + text], None)[0][0])

    def _is_exact(self) -> bool:
        """Whether words have the same tokens wherever they are, so that those of a passage need not be counted again.

        So it is where white space ends words and is no part of a token: WordPiece. In byte-level BPE, a word at the
        beginning of a text is another token than one behind a space.
        """
        words = ["internationalization", "Grüße", "(a+b)", "x1y2", "the", "electroencephalography"]
        alone = sum(self._count(word) - self._count("") for word in words)
        return all(self._count(space.join(words)) - self._count("") == alone for space in (" ", "\n", " \n\t "))


def _lines(text: str, start: int, stop: int) -> list[int]:
    return [match.end() for match in _LINE.finditer(text, start, min(stop + 1, len(text)))]


def _is_within_row(text: str, place: int) -> bool:
    """Whether a place is behind the first character of a line that begins with a bar."""
    line = text.rfind("\n", max(place - LONGEST_ROW, 0), place) + 1
    return (line > 0 or place <= LONGEST_ROW) and line < place and text.startswith("|", line)


def _skip_space(text: str, start: int, end: int) -> int:
    match = _SPACE.match(text, start, end)
    return match.end() if match else start


def _word_cut(text: str, after: int, furthest: int, starts: list[int]) -> int:
    """The last place to cut where no sentence ends: before a word, else before a token that begins none."""
    for at in range(furthest, after, -1):
        if text[at - 1].isspace():
            return at
    for at in reversed(starts[-64:]):
        # Between the characters of scripts without spaces, which are in no case and hold no digits.
        if after < at <= furthest and not (_joins(text[at - 1]) and _joins(text[at])):
            return at
    return furthest


def _joins(char: str) -> bool:
    """Whether a character is of a word that is written in one: of an alphabet, or a digit."""
    return char.isalnum() and char < "\u3000"
