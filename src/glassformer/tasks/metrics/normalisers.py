"""Text normalisers: what counts as the same text where transcripts are compared.

                "Dr. Smith's got seven grey dogs, doesn't he?"
    none        Dr. Smith's got seven grey dogs, doesn't he?
    basic       dr smiths got seven grey dogs doesnt he
    english     doctor smith has got 7 gray dogs does not he

A recogniser that writes "7" where the transcript has "seven" understood what was said; only a normaliser of the
language knows. The metric depends on it, so its name belongs to the metric.

Source: Radford et al. 2022, appendix C. What the published normaliser counts as equal is equal here, but for spellings:
those that are known are listed in english_spelling.py.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from glassformer.errors import ConfigError
from glassformer.files import safe_repr
from glassformer.tasks.metrics.english_numbers import numbers_as_digits
from glassformer.tasks.metrics.english_spelling import american
from glassformer.tasks.metrics.number_words import UKRAINIAN, NumberNames

APOSTROPHE = "\N{MODIFIER LETTER APOSTROPHE}"
"""The one that is a letter, within Ukrainian words."""

_APOSTROPHES = re.compile(r"(?<=\w)['’ʼ`´‘](?=\w)")
_WORDS = re.compile(r"[\w']+")
_REMARKS = re.compile(r"\[[^\]]*\]|\([^)]*\)")
_DIGITS = re.compile(r"\d+(?:,\d{3})+(?!\d)|\d+")
TITLES = {
    **{"mr": "mister", "mrs": "missus", "st": "saint", "dr": "doctor", "prof": "professor", "capt": "captain"},
    **{"gov": "governor", "gen": "general", "sen": "senator", "rep": "representative", "pres": "president"},
    **{"rev": "reverend", "hon": "honorable", "asst": "assistant", "assoc": "associate", "lt": "lieutenant"},
    **{"col": "colonel", "jr": "junior", "sr": "senior", "esq": "esquire"},
}
CASUAL = {
    **{"gonna": "going to", "gotta": "got to", "wanna": "want to", "i'ma": "i am going to", "imma": "i am going to"},
    **{"woulda": "would have", "coulda": "could have", "shoulda": "should have", "y'all": "you all"},
    **{"ma'am": "madam", "ain't": "aint", "won't": "will not", "can't": "can not", "cannot": "can not"},
    **{"let's": "let us"},
}
_ENGLISH_WORDS = TITLES | CASUAL
_CONTRACTIONS: list[tuple[re.Pattern[str], str]] = [
    (re.compile(pattern), form)
    for pattern, form in (
        (r"n't\b", " not"),
        (r"'re\b", " are"),
        (r"'ve\b", " have"),
        (r"'ll\b", " will"),
        (r"'m\b", " am"),
        (r"'s (?=(?:been|got|gone)\b)", " has "),
        (r"'d (?=(?:been|gone)\b)", " had "),
        (r"'s\b", " is"),
        (r"'d\b", " would"),
    )
]
_HESITATIONS = re.compile(r"\b(?:u[hm]+|h?m+|mhm|e[hr]+m?)\b")
_BETWEEN_KINDS = re.compile(r"(?<=[^\W\d_])(?=\d)|(?<=\d)(?!(?:st|nd|rd|th|s)\b)(?=[^\W\d_])")
_APART = re.compile(r"(?<=\d) (?=(?:st|nd|rd|th|%|¢)(?!\w))|(?<=[$£€¢]) (?=\d)")
_OF_NUMBERS = re.compile(r"(?<=\d)\.(?=\d)|(?<![\w.])\.(?=\d)|[$£€¢](?=\.?\d)|(?<=\d)[%¢]")
_LETTERS = str.maketrans({"æ": "ae", "œ": "oe", "ø": "o", "ß": "ss", "ł": "l", "đ": "d", "ð": "d", "þ": "th"})
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
    """Lower case without punctuation and accents; contractions, titles and casual forms written out, numbers in digits
    with their currency or %, American spelling, without hesitations and [remarks].
    """
    plain = plain_apostrophes(unicodedata.normalize("NFKC", _REMARKS.sub(" ", text)).lower())
    plain = _WORDS.sub(lambda match: _ENGLISH_WORDS.get(match[0], match[0]), _HESITATIONS.sub(" ", plain))
    for pattern, form in _CONTRACTIONS:
        plain = pattern.sub(form, plain)
    plain = _APART.sub("", re.sub(r"(?<=\d),(?=\d)", "", plain.replace("&", " and ")).replace("'", ""))
    words = _spaced(_BETWEEN_KINDS.sub(" ", plain)).split()
    return " ".join(american(word) for word in numbers_as_digits(words))


def _spaced(text: str) -> str:
    """Letters without accents, digits, and the marks of numbers; spaces in the place of all else."""
    letters = [character if unicodedata.category(character)[0] in "LN" else " " for character in text]
    for match in _OF_NUMBERS.finditer(text):
        letters[match.start()] = match[0]
    bare = unicodedata.normalize("NFKD", "".join(letters).translate(_LETTERS))
    return "".join(character for character in bare if unicodedata.category(character) != "Mn")


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
    """Digits as words; those within a word, such as `mp3`, are separated from its letters."""
    return _DIGITS.sub(lambda match: f" {names.spell(match[0].replace(',', ''))} ", text)


def _is_cyrillic(word: str) -> bool:
    """Whether all that is no look-alike, and at least one letter, is Cyrillic."""
    others = [letter for letter in word if letter not in _LATIN]
    return bool(others) and all("Ѐ" <= letter <= "ӿ" or letter == APOSTROPHE for letter in others)
