"""Where sentences begin and end, by the rules of `pysbd` for 23 languages.

    "The U.S. are a country. The U.N. is an organization."
     └──────────────────────┘└─────────────────────────┘     spans touch, so nothing is lost

A line's end always ends a sentence. The rules are regular expressions, whose time grows faster than the text, so a
line is read through a window that moves on; what stands at its right edge is looked at again from the next one.

Source: Sadvilkar and Neumann, PySBD: Pragmatic Sentence Boundary Disambiguation (2020).
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

from glassformer.errors import ConfigError, DataError, nearest

WINDOW = 1_000
"""Characters that the rules see at once."""

EDGE = 250
"""A beginning this near to the window's end is not believed: it may stand in brackets that close behind it."""

_LINE = re.compile(r"[^\r\n]+")


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
            starts += _starts_within(segmenter, text, *line.span())
    return list(pairwise([0, *starts[1:], len(text)])) if text else []


def split_sentences(text: str, language: str = "en") -> list[str]:
    """The sentences of a text, without the white space around them; none of a blank text.

    Args, Raises: as `sentence_spans`.
    """
    pieces = (text[start:end].strip() for start, end in sentence_spans(text, language))
    return [piece for piece in pieces if piece]


def _starts_within(segmenter: Any, text: str, begin: int, end: int) -> Iterator[int]:
    """Where further sentences begin in a line, `text[begin:end]`, in order."""
    while True:
        window = text[begin : min(begin + WINDOW, end)]
        last = begin + len(window) == end
        found = [place for place in _starts(segmenter, window) if last or place < len(window) - EDGE]
        yield from (begin + place for place in found[1:])  # the first is the window's own beginning
        if last:
            return
        # On from the last beginning that was found; through a sentence without end by half a window.
        begin += max(found[-1] if found else 0, WINDOW // 2)


def _starts(segmenter: Any, window: str) -> Iterator[int]:
    """Where the rules say that sentences begin; one that they changed is not found, and stays with its neighbour."""
    read = 0
    for sentence in segmenter.processor(window).process():
        wanted = sentence.strip()
        place = window.find(wanted, read)
        if wanted and place >= 0:
            yield place
            read = place + len(wanted)


@cache
def _segmenter(language: str) -> Any:
    with warnings.catch_warnings():  # its source has escapes that newer Pythons warn of when they compile it
        warnings.simplefilter("ignore")
        import pysbd
        from pysbd.languages import LANGUAGE_CODES
    if language not in LANGUAGE_CODES:
        raise ConfigError(
            f"there are no rules for sentences of the language {language!r}{nearest(language, LANGUAGE_CODES)}; "
            f"allowed: {', '.join(sorted(LANGUAGE_CODES))}"
        )
    return pysbd.Segmenter(language=language)
