"""Split a text into words, to which tags are given, whatever the tokenizer makes of them.

    Dr. O'Neil's 3.5-litre car (a Fiat).      Dr . O'Neil 's 3.5-litre car ( a Fiat ) .
    我在 Google 工作                            我 在 Google 工 作

White space and punctuation separate words; a dot, an apostrophe or a hyphen *within* a word belongs to it, as it does
in the corpora that taggers are trained on; an English 's is a word of its own. Scripts that put no space between words
(Chinese, Japanese, Thai, …) fall into characters, and `joined` puts together those that the tokenizer reads as one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")
"""How the names of letters begin whose scripts put no space between words. Source: the Unicode Character Database."""

WITHIN = "-.'’‐‑_&@·"
BETWEEN_DIGITS = ",:/"

# Of the kinds below: a character of an unspaced script with its marks; a word; anything else that is no space.
_WORD = re.compile(r"um*|[wd](?:[wdm]|j(?=[wd])|(?<=d)n(?=d))*|[^ ]")
_POSSESSIVE = re.compile(r"(?<=\w)['’]s\Z", re.IGNORECASE)


class Word(NamedTuple):
    """Where a word stands in its text, in characters; and whether its script puts no space between words."""

    start: int
    end: int
    unspaced: bool = False


class _Kinds(dict[int, str]):
    """Of each character, as many as are met: a letter for what it does to words."""

    def __missing__(self, code: int) -> str:
        self[code] = spans = _kind(chr(code))
        return spans


def _kind(character: str) -> str:
    category = unicodedata.category(character)
    if character.isspace() or category in ("Cc", "Zs", "Zl", "Zp"):
        return " "
    if character in WITHIN:
        return "j"
    if character in BETWEEN_DIGITS:
        return "n"
    if category[0] == "M" or category == "Cf":  # marks above and below letters; joiners that are not seen
        return "m"
    if category == "Nd":
        return "d"
    if category[0] in "LN":
        return "u" if unicodedata.name(character, "").startswith(UNSPACED) else "w"
    return "p"


_KINDS = _Kinds()


def words_in(text: str) -> list[Word]:
    """The words of a text, in order; none within another, no white space in any."""
    spans: list[Word] = []
    kinds = text.translate(_KINDS)
    for match in _WORD.finditer(kinds):
        start, end = match.span()
        if owned := _POSSESSIVE.search(text, start, end):
            spans.append(Word(start, owned.start()))
            start = owned.start()
        spans.append(Word(start, end, kinds[start] == "u"))
    return spans


def joined(words: Sequence[Word], owners: Sequence[int]) -> tuple[list[Word], list[int]]:
    """Characters of an unspaced script of which no token is the first go with the one before.

    Args: owners: the word of each token, -1 for none
    Returns: fewer words, and the owners among them.
    """
    first = set(owners)
    spans: list[Word] = []
    number: dict[int, int] = {-1: -1}
    for index, word in zip(count(), words, strict=False):
        before = spans[-1] if spans else None
        goes_on = word.unspaced and index not in first
        if goes_on and before is not None and before.unspaced and before.end == word.start:
            spans[-1] = before._replace(end=word.end)
        else:
            spans.append(word)
        number[index] = len(spans) - 1
    return spans, [number[owner] for owner in owners]
