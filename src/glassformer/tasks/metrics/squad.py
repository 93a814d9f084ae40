"""SQuAD metrics: exact match and word F1 of answers as texts.

    said "about 6000 hours", true "6000 hours"       exact match 0      precision 2/3, recall 2/2: F1 0.8
    said "about 6000 dollars", true "6000 hours"     exact match 0      precision 1/3, recall 1/2: F1 0.4

Case, punctuation, the articles a, an, the and what white space there is do not count. Of several true answers the one
that fits best counts. "No answer" is an empty text, and fits only itself.

Source: Rajpurkar et al. 2016, "SQuAD", section 6.1.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def words_of(text: str) -> list[str]:
    """The words that count, of a text in lower case without punctuation."""
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def exact_match(predicted: str, answers: Sequence[str]) -> float:
    """1 where the words are those of an answer, else 0. Args: answers: none where there is no answer"""
    return float(any(words_of(predicted) == words_of(answer) for answer in answers or [""]))


def word_f1(predicted: str, answers: Sequence[str]) -> float:
    """F1 of the words that said and true answer share. Args: as `exact_match`"""
    return max(_overlap(words_of(predicted), words_of(answer)) for answer in answers or [""])


def _overlap(predicted: list[str], true: list[str]) -> float:
    if not predicted or not true:
        return float(predicted == true)
    shared = (Counter(predicted) & Counter(true)).total()
    return 2 * shared / (len(predicted) + len(true))
