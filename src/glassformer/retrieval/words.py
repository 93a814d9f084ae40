"""Terms of texts for full-text search: lower case, stems of a language, bigrams of scripts without spaces.

    terms("The lighthouses were built.", "en")      the  lighthous  were  built
    terms("灯台は1874年", "ja")                      灯台  台は  は  1874  年

Both sides of a search are made of the same terms, so FTS5 of SQLite only has to split at spaces. A run of a script
without spaces ends with its last character alone, so that a query of one character, which becomes a prefix, finds it
anywhere.

Source of the stems: Porter 2001, "Snowball: a language for stemming algorithms", by PyStemmer.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from importlib.metadata import version
from typing import Any

from glassformer.errors import ConfigError, import_optional, nearest

NO_STEMS = "none"

LANGUAGES = {
    **{"ar": "arabic", "hy": "armenian", "eu": "basque", "ca": "catalan", "da": "danish", "nl": "dutch"},
    **{"en": "english", "fi": "finnish", "fr": "french", "de": "german", "el": "greek", "hi": "hindi"},
    **{"hu": "hungarian", "id": "indonesian", "ga": "irish", "it": "italian", "lt": "lithuanian", "ne": "nepali"},
    **{"no": "norwegian", "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian", "es": "spanish"},
    **{"sv": "swedish", "ta": "tamil", "tr": "turkish", "yi": "yiddish"},
}
"""Languages with stems → Snowball's names; words of others are compared as they are."""

_WITHOUT_SPACES = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_WITHOUT_SPACES += "\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
"""Thai, Lao, Burmese, Khmer, Japanese and Chinese."""


_ASCII_WORDS = re.compile("[a-z0-9]+(?:'[a-z0-9]+)*")


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Words, which combining marks and apostrophes do not end; and runs of scripts with and without spaces."""
    letters, start = "", None
    for code in range(0x10000):  # one set of these is a table of bits, which a set with later characters is not
        if (unicodedata.category(chr(code))[0] in "LMN") != (start is not None):
            if start is not None:
                letters += f"{chr(start)}-{chr(code - 1)}"
            start = code if start is None else None
    word = f"(?:[{letters}]+|[^\\W_\0-\uffff])+"
    return re.compile(f"{word}(?:'{word})*"), re.compile(f"[{_WITHOUT_SPACES}]+|[^{_WITHOUT_SPACES}]+")


@cache
def _without_spaces() -> re.Pattern[str]:
    return re.compile(f"[{_WITHOUT_SPACES}]")


def is_without_spaces(text: str) -> bool:
    """Whether a text has a character of a script without spaces."""
    return _without_spaces().search(text) is not None


@cache
def stemmer(language: str) -> Any:
    """PyStemmer's stemmer of a language; None = words are compared as they are.

    Raises: ConfigError: no code of a language. MissingExtraError: PyStemmer is not installed.
    """
    if language == NO_STEMS or (language not in LANGUAGES and re.fullmatch("[a-z]{2,3}", language)):
        return None
    if language not in LANGUAGES:
        raise ConfigError(
            f"language is {language!r}{nearest(language, LANGUAGES)}; it must be a code such as en or de, or {NO_STEMS}"
        )
    return import_optional("Stemmer", "PyStemmer", "documents", "search by word stems").Stemmer(LANGUAGES[language])


def stemmer_version(language: str) -> str:
    """Of PyStemmer; "" = words of the language are compared as they are. Raises: as `stemmer`."""
    return "" if stemmer(language) is None else version("PyStemmer")


def terms(text: str, language: str) -> list[str]:
    """The terms of a text, as they are indexed."""
    return list(_terms(text, language, query=False))


def query_terms(text: str, language: str) -> list[str]:
    """The distinct terms of a query; one that ends with `*` stands for all terms that begin with it."""
    return list(dict.fromkeys(_terms(text, language, query=True)))


def _terms(text: str, language: str, *, query: bool) -> Iterator[str]:
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    split = (_ASCII_WORDS if folded.isascii() else _patterns()[0]).findall(folded)
    stems = stemmer(language)
    for stem in split if stems is None else stems.stemWords(split):
        if stem.isascii():
            yield stem.replace("'", "")  # FTS5's tokenizer would split there
            continue
        for run in _patterns()[1].findall(stem.replace("'", "")):
            if not is_without_spaces(run):
                yield run
                continue
            yield from (run[i : i + 2] for i in range(len(run) - 1))
            if not query:
                yield run[-1]
            elif len(run) == 1:
                yield f"{run}*"


@lru_cache(maxsize=65_536)  # texts have few different words
def _terms_of_word(word: str, language: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(terms(word, language)))


def term_places(text: str, language: str, wanted: Sequence[str]) -> dict[str, list[tuple[int, int]]]:
    """The first and last character of each word of a text that a term of a question stands for, for each term."""
    places: dict[str, list[tuple[int, int]]] = {term: [] for term in wanted}
    prefixes = [(term, term[:-1]) for term in places if term.endswith("*")]
    for word in _patterns()[0].finditer(text.replace("’", "'")):
        if is_without_spaces(word[0]):
            for term in places:
                for part in re.finditer(re.escape(term.removesuffix("*")), word[0], re.IGNORECASE):
                    places[term].append((word.start() + part.start(), word.start() + part.end()))
            continue
        own = _terms_of_word(word[0], language)
        stands_for = [term for term in own if term in places]
        stands_for += [term for term, prefix in prefixes if any(x.startswith(prefix) for x in own)]
        for term in stands_for:
            places[term].append(word.span())
    return places


def match_expression(listed: list[str]) -> str:
    """The expression of FTS5 that matches any of these terms; every term is quoted, so that no word is an operator."""
    return " OR ".join(f'"{term[:-1]}"*' if term.endswith("*") else f'"{term}"' for term in listed)
