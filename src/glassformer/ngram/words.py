"""Words of speech: the words of a text as speech recognition looks them up in a language model."""

from __future__ import annotations

import string

MARKS = string.punctuation + "“”‘’«»„…–—¿¡。，、？！"
"""Punctuation around words, which models of words do not know."""
BREAKS = frozenset(MARKS) - frozenset("'’")
"""Marks that end a word as a space does. Else "7.9.9.9" would be one word, which never ends and so costs nothing."""


def speech_words(text: str) -> list[str]:
    """The words of a text as speech recognition looks them up: lower case, no punctuation but apostrophes within."""
    parts = "".join(" " if letter in BREAKS else letter for letter in text.lower()).split()
    return [spelled for part in parts if (spelled := part.strip(MARKS))]
