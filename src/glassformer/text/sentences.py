"""Sentence splitting (sentence boundary detection), by the rules of `pysbd` for 23 languages.

    "The U.S. are a country. The U.N. is an organization."
     └──────────────────────┘└─────────────────────────┘     spans touch, so nothing is lost

A line break always ends a sentence; `unwrapped` takes out those that wrap a paragraph to a width. The rules are regular
expressions, whose time grows faster than the text, so a line is read through a sliding window; what is near its right
edge is read again in the next window.

Source: Sadvilkar and Neumann, PySBD: Pragmatic Sentence Boundary Disambiguation (2020).
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

from glassformer.errors import ConfigError, DataError, nearest

WINDOW = 1_000
"""How many characters the rules see at once."""

MARGIN = 250
"""A start this near to the window's end is read again: it may be within brackets that close behind the window."""

SHORTEST_WRAP = 40
"""Characters of a line, at least, of a text that is wrapped to a width; verses and lists have shorter ones."""

_LINE = re.compile(r"[^\r\n]+")
_ITEM = re.compile(r"\s*([-*+•|#>]|\d{1,3}[.)]\s)")


def sentence_spans(text: str, language: str = "en") -> list[tuple[int, int]]:
    """Start and end of each sentence in the text, with the white space that follows it.

    The first begins at 0, each begins where the one before ends, and the last ends with the text, whatever it holds.

    Args:
        language: a code of two letters, such as "en" or "de".
    Raises: DataError: no text. ConfigError: a language without rules.
    """
    if not isinstance(text, str):
        raise DataError(f"the text must be a string, got {type(text).__name__}: {text!r:.60}")
    segmenter = _segmenter(language)
    starts: list[int] = []
    for line in _LINE.finditer(text):
        if not line[0].isspace():
            starts.append(line.start())
            starts += _line_starts(segmenter, text, *line.span())
    return list(pairwise([0, *starts[1:], len(text)])) if text else []


def unwrapped(text: str) -> str:
    """A text of the same length with a space for each line break that wraps a paragraph to a width.

    Such a break stands where the next word would have made the line as long as the longest one of the text, or within a
    sentence before a line that is indented below it, as in an item of a list. Items and rows of tables stay.
    """
    lines = text.splitlines(keepends=True)
    width = max(map(len, lines), default=0)
    joined = [
        re.sub(r"[\r\n]", " ", line) if _is_wrapped(line, after, width) else line for line, after in pairwise(lines)
    ]
    return "".join([*joined, *lines[-1:]])


def _is_wrapped(line: str, after: str, width: int) -> bool:
    word = after.split(maxsplit=1)[:1]
    if width < SHORTEST_WRAP or not word or not line.strip() or "|" in line or _ITEM.match(after):
        return False
    hangs = _indentation(after) > _indentation(line) and word[0][0].islower() and line.rstrip()[-1] not in ".!?:;{"
    return hangs or len(line) + len(word[0]) >= width


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def split_labelled(
    texts: Sequence[str], labels: Sequence[str] | None = None, language: str = "en"
) -> tuple[list[str], list[str] | None]:
    """The sentences of several texts; with the label of its text for each, where there are labels."""
    sentences = [split_sentences(text, language) for text in texts]
    flat = [sentence for some in sentences for sentence in some]
    if labels is None:
        return flat, None
    return flat, [label for label, some in zip(labels, sentences, strict=True) for _ in some]


def split_sentences(text: str, language: str = "en") -> list[str]:
    """The sentences of a text, without the white space around them; none of a blank text.

    Args, Raises: as `sentence_spans`.
    """
    sentences = (text[start:end].strip() for start, end in sentence_spans(text, language))
    return [sentence for sentence in sentences if sentence]


_CLEAR_END = re.compile(
    r"""(?P<mark>[.!?…؟۔।]+)["'”’»)\]*_`]*\s+(?=\S)"""  # a mark, and white space
    r"""|[。！？]+["'”’」』）]*\s*(?=\S)"""  # scripts without spaces
    r"""|\n[ \t\r]*\n\s*(?=\S)"""  # a blank line
)
_WORD_BEFORE = re.compile(r"[^\s\"“”‘«»()\[\]]*\Z")
_OPENING = "\"'“‘«»([*_`¿¡"


def clear_sentence_starts(text: str, start: int, stop: int, language: str = "en") -> list[int]:
    """Where sentences begin beyond doubt in `text[start + 1 : stop + 1]`, in order, without reading the rest.

    That is behind a blank line, and behind a mark that no abbreviation, initial, number or lower-case word makes
    doubtful. It takes a hundredth of the time of `sentence_spans`, whose rules settle what is in doubt: those find more
    sentences, and other ones only within quotes and brackets.

    Args:
        language: as in `sentence_spans`.
    """
    abbreviations = _abbreviations(language)
    return [
        match.end()
        for match in _CLEAR_END.finditer(text, start, min(stop + 1, len(text)))
        if match["mark"] is None or _is_clear(text, match.start(), match.end(), match["mark"], abbreviations)
    ]


def _is_clear(text: str, mark_at: int, next_at: int, mark: str, abbreviations: frozenset[str]) -> bool:
    """Whether a mark ends a sentence, and is not of an abbreviation, an initial, a number or a quoted question."""
    following = text[next_at : next_at + 4].lstrip(_OPENING)[:1]
    if not following.isalpha() or following.islower():
        return False
    if mark[-1] not in ".…":
        return True
    before = _WORD_BEFORE.search(text[max(mark_at - 40, 0) : mark_at])
    word = before[0] if before else ""
    if not word:  # a bracket or a quote ends there
        return True
    if "." in word or len(word) < 2 or word.lower() in abbreviations:
        return False
    return len(word) > 2 or not word.isdigit()


def _line_starts(segmenter: Any, text: str, begin: int, end: int) -> Iterator[int]:
    """Where the second and later sentences of a line, `text[begin:end]`, start, in order."""
    while True:
        window = text[begin : min(begin + WINDOW, end)]
        last = begin + len(window) == end
        limit = len(window) if last else len(window) - MARGIN
        starts = [start for start in _sentence_starts(segmenter, window) if start < limit]
        yield from (begin + start for start in starts[1:])  # the first is that of the window itself
        if last:
            return
        # The next window starts at the last sentence; within a very long sentence, half a window on.
        begin += max(starts[-1] if starts else 0, WINDOW // 2)


def _sentence_starts(segmenter: Any, window: str) -> Iterator[int]:
    """Where sentences start by the rules; one whose text the rules changed is not located, and joins its neighbour."""
    position = 0
    for sentence in map(str.strip, segmenter.processor(window).process()):
        start = window.find(sentence, position)
        if sentence and start >= 0:
            yield start
            position = start + len(sentence)


@cache
def _segmenter(language: str) -> Any:
    with warnings.catch_warnings():  # its source has invalid escapes, of which newer Pythons warn on import
        warnings.simplefilter("ignore")
        import pysbd
        from pysbd.languages import LANGUAGE_CODES
    if language not in LANGUAGE_CODES:
        raise ConfigError(
            f"there are no rules for sentences of the language {language!r}{nearest(language, LANGUAGE_CODES)}; "
            f"allowed: {', '.join(sorted(LANGUAGE_CODES))}"
        )
    return pysbd.Segmenter(language=language)


@cache
def _abbreviations(language: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _segmenter(language).language_module.Abbreviation.ABBREVIATIONS)


def rules_for(language: str) -> str:
    """The language by whose rules texts of a language are split: itself, or English where it has none."""
    try:
        _segmenter(language)
    except ConfigError:
        return "en"
    return language
