"""Text normalisers: what counts as the same text where transcripts are compared.

                "Dr. Smith's got 7 dogs, doesn't he?"
    none        Dr. Smith's got 7 dogs, doesn't he?
    basic       dr smiths got 7 dogs doesnt he
    english     doctor smiths got seven dogs does not he

A recogniser that writes "7" where the transcript has "seven" understood what was said; only a normaliser of the
language knows. The figure depends on it, so its name belongs to the figure. British and American spellings stay two
words.

Source: Radford et al. 2022, appendix C, whose normaliser is far longer; numbers go the other way there, into digits.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from glassformer.errors import ConfigError
from glassformer.files import safe_repr
from glassformer.tasks.metrics.number_words import ENGLISH, UKRAINIAN, NumberNames

APOSTROPHE = "\N{MODIFIER LETTER APOSTROPHE}"
"""The one that is a letter, within Ukrainian words."""

_APOSTROPHES = re.compile(r"(?<=\w)['’ʼ`´‘](?=\w)")
_REMARKS = re.compile(r"\[[^\]]*\]|\([^)]*\)")
_DIGITS = re.compile(r"\d+(?:,\d{3})+(?!\d)|\d+")
_DECIMAL = re.compile(r"(\d)\.(\d+)")
_ENGLISH_FORMS: list[tuple[re.Pattern[str], str]] = [
    (re.compile(pattern), form)
    for pattern, form in (
        (r"\bwon't\b", "will not"),
        (r"\bcan't\b", "can not"),
        (r"\bcannot\b", "can not"),
        (r"\blet's\b", "let us"),
        (r"n't\b", " not"),
        (r"'re\b", " are"),
        (r"'ve\b", " have"),
        (r"'ll\b", " will"),
        (r"'m\b", " am"),
        (r"\bmr\b\.?", "mister"),
        (r"\bmrs\b\.?", "missus"),
        (r"\bdr\b\.?(?=\s)", "doctor"),
        (r"\b(?:u[hm]+|hm+|mhm|e[hr]+m?)\b", " "),
        (r"%", " percent "),
        (r"&", " and "),
    )
]
_AFTER_HUNDRED = re.compile(
    rf"\b(hundred|thousand|million) and (?=(?:{'|'.join(ENGLISH.below_20 + ENGLISH.tens[2:])})\b)"
)
_LATIN, _CYRILLIC = "aceiopxy", "асеіорху"
_LOOKALIKES = str.maketrans(_LATIN, _CYRILLIC)
_STRESS = "\N{COMBINING ACUTE ACCENT}"


def as_it_is(text: str) -> str:
    """Case and punctuation count: "The" is another word than "the"."""
    return " ".join(text.split())


def basic(text: str) -> str:
    """Lower case, without punctuation; what a hyphen or dash joins becomes two words."""
    lower = unicodedata.normalize("NFKC", text).lower()
    kinds = ((letter, unicodedata.category(letter)) for letter in lower)
    return " ".join("".join(" " if k == "Pd" else c for c, k in kinds if k == "Pd" or k[0] != "P").split())


def plain_apostrophes(text: str) -> str:
    """The apostrophes within words as the one that keyboards have."""
    return _APOSTROPHES.sub("'", text)


def letters_of(text: str) -> str:
    """As `basic`, with the apostrophes within words: what a recogniser of letters learns to write."""
    return basic(_APOSTROPHES.sub(APOSTROPHE, text)).replace(APOSTROPHE, "'")


def english(text: str) -> str:
    """As `basic`; contractions and titles written out, numbers in words, without hesitations and [remarks]."""
    plain = plain_apostrophes(unicodedata.normalize("NFKC", _REMARKS.sub(" ", text)).lower())
    for pattern, form in _ENGLISH_FORMS:
        plain = pattern.sub(form, plain)
    plain = _DECIMAL.sub(lambda match: f"{match[1]} point {' '.join(match[2])}", plain)
    return _AFTER_HUNDRED.sub(r"\1 ", basic(_in_words(plain, ENGLISH)))


def ukrainian(text: str) -> str:
    """As `basic`; one apostrophe, a letter, no stress marks, numbers in words, Latin look-alikes as Cyrillic."""
    composed = unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).replace(_STRESS, "")).lower()
    words = basic(_in_words(_APOSTROPHES.sub(APOSTROPHE, composed), UKRAINIAN)).split()
    return " ".join(word.translate(_LOOKALIKES) if _is_cyrillic(word) else word for word in words)


NORMALISERS: dict[str, Callable[[str], str]] = {
    "none": as_it_is,
    "basic": basic,
    "english": english,
    "ukrainian": ukrainian,
}


def normaliser_of(name: str) -> Callable[[str], str]:
    """A text normaliser by its name. Raises: ConfigError: there is none of this name."""
    if name not in NORMALISERS:
        raise ConfigError(f"normaliser is {safe_repr(name)}; allowed: {', '.join(map(repr, NORMALISERS))}")
    return NORMALISERS[name]


def _in_words(text: str, names: NumberNames) -> str:
    """Digits as words; those within a word, such as `mp3`, stand beside its letters."""
    return _DIGITS.sub(lambda match: f" {names.spell(match[0].replace(',', ''))} ", text)


def _is_cyrillic(word: str) -> bool:
    """Whether all that is no look-alike, and at least one letter, is Cyrillic."""
    others = [letter for letter in word if letter not in _LATIN]
    return bool(others) and all("Ѐ" <= letter <= "ӿ" or letter == APOSTROPHE for letter in others)
