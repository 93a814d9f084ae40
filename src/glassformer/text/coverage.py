"""Quality of a tokenizer on texts: coverage, fertility, compression, and which words it keeps whole.

    coverage      tokens a word, characters a token, unknown tokens
    split_words   words that are several tokens: keywords of a language, the most frequent words of a corpus
    longest_run   how many equal white-space characters are one token: indented code is long without it
    word_coverage how much of a corpus a vocabulary of its n most frequent words (or stems) covers

Stemming (fly, flies, flying → fli) makes a vocabulary of words smaller, and loses what the endings say.

Source: Rust et al. 2021, "How Good is Your Tokenizer?", section 3 (fertility); Porter 1980 (stemming).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from glassformer.errors import ConfigError, DataError, import_optional, nearest
from glassformer.files import counted
from glassformer.reports.report import Record, Report
from glassformer.reports.table import Table
from glassformer.text.tokenizer import Tokenizer

BATCH_SIZE = 1_000  # texts passed to the engine together
LONGEST_RUN = 64  # of equal white-space characters, that is looked for
WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
COVERAGE_KEYS = (
    *("texts", "words", "characters", "tokens", "unknown"),
    *("tokens_per_word", "characters_per_token", "unknown_share"),
)


@dataclass(frozen=True, slots=True)
class Coverage(Record, keys=COVERAGE_KEYS):
    """How well a vocabulary covers texts: counts of texts, words, characters, tokens, and unknown tokens among them."""

    texts: int
    words: int
    characters: int
    tokens: int
    unknown: int

    @property
    def tokens_per_word(self) -> float:
        """Tokens per word (fertility): 1 where every word is a token; words are split at white space."""
        return self.tokens / max(self.words, 1)

    @property
    def characters_per_token(self) -> float:
        """Characters per token (compression): the higher, the more text fits into a context."""
        return self.characters / max(self.tokens, 1)

    @property
    def unknown_share(self) -> float:
        """The share of unknown tokens."""
        return self.unknown / max(self.tokens, 1)


def coverage(tokenizer: Tokenizer, texts: Iterable[str]) -> Coverage:
    """Count the words, characters, tokens and unknown tokens of texts, without the special tokens around them."""
    counts = [0, 0, 0, 0, 0]
    # GPT-2's files name the end-of-text token as unknown token too, but byte-level BPE has none.
    unknown = None if tokenizer.unk_token == tokenizer.eos_token else tokenizer.unk_token_id
    for batch in batches(texts):
        rows = tokenizer(batch, add_special_tokens=False)["input_ids"]
        counts[0] += len(batch)
        counts[1] += sum(len(text.split()) for text in batch)
        counts[2] += sum(map(len, batch))
        counts[3] += sum(map(len, rows))
        counts[4] += 0 if unknown is None else sum(row.count(unknown) for row in rows)
    return Coverage(*counts)


def split_words(tokenizer: Tokenizer, words: Iterable[str]) -> list[str]:
    """The words that are no single token, neither at the beginning of a text nor after a space."""

    def is_whole(word: str) -> bool:
        ids = [tokenizer.encode(text, add_special_tokens=False) for text in (word, f" {word}")]
        return any(len(row) == 1 and row[0] != tokenizer.unk_token_id for row in ids)

    return [word for word in words if not is_whole(word)]


def longest_run(tokenizer: Tokenizer, character: str = " ") -> int:
    """The length of the longest run of a white-space character that is one token; 0 = none is."""
    for length in range(LONGEST_RUN, 0, -1):
        ids = tokenizer.encode(character * length, add_special_tokens=False)
        if len(ids) == 1 and ids[0] != tokenizer.unk_token_id:
            return length
    return 0


def word_counts(texts: Iterable[str]) -> Counter[str]:
    """How often each word occurs: letters and digits, as they are written."""
    return Counter(word for text in texts for word in WORD.findall(text))


def merged_counts(counts: Counter[str], form: Callable[[str], str]) -> Counter[str]:
    """The counts of words that have one form, such as lower case or their stem, as one."""
    merged: Counter[str] = Counter()
    for word, count in counts.items():
        merged[form(word)] += count
    return merged


def frequent_words(counts: Counter[str], number: int) -> list[str]:
    """The most frequent words; equally frequent ones in the order of the alphabet."""
    return sorted(counts, key=lambda word: (-counts[word], word))[:number]


def word_coverage(counts: Counter[str], sizes: Sequence[int]) -> list[float]:
    """The share of the running words that a vocabulary of the n most frequent ones knows, for each n of `sizes`."""
    total = max(counts.total(), 1)
    return [sum(counts[word] for word in frequent_words(counts, size)) / total for size in sizes]


def batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """The texts in lists of `BATCH_SIZE`."""
    stream = iter(texts)
    while batch := list(islice(stream, BATCH_SIZE)):
        yield batch


# ── the report ───────────────────────────────────────────────────────────────────────────────────────────

FREQUENT = 200
"""How many of the most frequent words of the texts are looked at."""

VOCABULARY_SIZES = (100, 1_000, 5_000, 20_000)
"""From function words to a large recogniser's lexicon."""
SHOWN_WORDS = 12
"""Of a list of words in pieces: one line of a terminal."""


@dataclass(frozen=True, slots=True)
class TokenizerQuality:
    """What one tokenizer makes of texts.

    tokens: size of its vocabulary
    space_run, tab_run: longest run of spaces, of tabs, that is one token
    split: list of words → those that are several tokens
    """

    name: str
    tokens: int
    coverage: Coverage
    space_run: int
    tab_run: int
    split: dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class WordVocabulary:
    """How much of the texts a vocabulary of whole words knows.

    different: number of different words
    known: size of a vocabulary → the share of the running words that it knows
    """

    different: int
    known: dict[int, float]


@dataclass(frozen=True, slots=True, repr=False)
class TokenizerReport(Report, kind="tokenizer-comparison"):
    """How tokenizers suit texts, and what a vocabulary of words would know of them.

    word_lists: name → its words
    vocabularies: of "words", and of "stems" where they are counted
    """

    tokenizers: list[TokenizerQuality]
    word_lists: dict[str, list[str]]
    vocabularies: dict[str, WordVocabulary]

    @property
    def heading(self) -> str:
        return _read(self.tokenizers[0].coverage)

    def tables(self) -> list[Table]:
        """A row a measure, a column a tokenizer."""
        rows: dict[str, list[str]] = {
            "vocabulary, tokens": [f"{each.tokens:,}" for each in self.tokenizers],
            "characters a token": [f"{each.coverage.characters_per_token:.2f}" for each in self.tokenizers],
            "tokens a word": [f"{each.coverage.tokens_per_word:.2f}" for each in self.tokenizers],
            "unknown tokens": [f"{each.coverage.unknown_share:.2%}" for each in self.tokenizers],
            "spaces in one token, up to": [str(each.space_run) for each in self.tokenizers],
            "tabs in one token, up to": [str(each.tab_run) for each in self.tokenizers],
        }
        for name, words in self.word_lists.items():
            rows[f"{name}: in pieces"] = [f"{len(each.split[name])} of {len(words)}" for each in self.tokenizers]
        names = [each.name for each in self.tokenizers]
        return [Table(["", *names], [[name, *cells] for name, cells in rows.items()], longest=300)]

    def remarks(self) -> Iterator[str]:
        """Words in pieces, and vocabularies of words."""
        for each in self.tokenizers:
            for name, words in each.split.items():
                if words:
                    more = " …" * (len(words) > SHOWN_WORDS)
                    yield f"{each.name}, {name} in pieces: {' '.join(words[:SHOWN_WORDS])}{more}"
        for name, vocabulary in self.vocabularies.items():
            smaller = {size: share for size, share in vocabulary.known.items() if size < vocabulary.different}
            known = ", ".join(f"{size:,} {share:.1%}" for size, share in smaller.items())
            yield f"{vocabulary.different:,} different {name}" + (
                f"; the most frequent cover, of the text: {known}" if known else ""
            )


@dataclass(frozen=True, slots=True, repr=False)
class TrainedTokenizer(Report, kind="trained-tokenizer"):
    """A tokenizer that was trained and saved.

    folder: where it is
    tokens: size of its vocabulary
    special: special token → id
    coverage: of texts of its corpus
    """

    folder: str
    tokens: int
    special: dict[str, int]
    coverage: Coverage

    def tables(self) -> list[Table]:
        """Size, tokens a word, and unknown tokens."""
        measured = self.coverage
        cells = [f"{self.tokens:,}", f"{measured.tokens_per_word:.3f}", f"{measured.unknown_share:.3%}"]
        return [
            Table(["saved in", "tokens", "tokens a word", "unknown tokens"], [[self.folder, *cells]], longest=1_000)
        ]

    def remarks(self) -> Iterator[str]:
        """Special tokens, and what the numbers were measured on."""
        yield "special tokens: " + " ".join(f"{token} {number}" for token, number in self.special.items())
        yield f"measured on {_read(self.coverage)}"


def _read(of: Coverage) -> str:
    return f"{counted(of.texts, 'text')}, {counted(of.words, 'word')}, {counted(of.characters, 'character')}"


def check_tokenizers(
    tokenizers: Mapping[str, Tokenizer],
    texts: Sequence[str],
    words: Mapping[str, Sequence[str]] | None = None,
    stem: str | None = None,
) -> TokenizerReport:
    """Compare tokenizers on texts.

    Args:
        tokenizers: by name
        words: lists of words that should be one token each; the most frequent ones of the texts are always looked at
        stem: a language of the Snowball stemmers, to count stems in addition to words

    Raises: DataError: no text. ConfigError: a language without a stemmer. MissingExtraError: no stemmers.
    """
    if not texts or not any(text.strip() for text in texts):
        raise DataError("there is no text to check the tokenizer on; give files with some")
    written = word_counts(texts)
    counts = {"words": merged_counts(written, str.lower)}
    if stem is not None:
        counts["stems"] = merged_counts(counts["words"], stemmer(stem))
    lists = {
        "frequent words": frequent_words(written, FREQUENT),
        **{k: list(v) for k, v in (words or {}).items()},
    }
    return TokenizerReport(
        [
            TokenizerQuality(
                name,
                len(tokenizer),
                coverage(tokenizer, texts),
                longest_run(tokenizer),
                longest_run(tokenizer, "\t"),
                {which: split_words(tokenizer, wanted) for which, wanted in lists.items()},
            )
            for name, tokenizer in tokenizers.items()
        ],
        lists,
        {
            name: WordVocabulary(
                len(each), dict(zip(VOCABULARY_SIZES, word_coverage(each, VOCABULARY_SIZES), strict=True))
            )
            for name, each in counts.items()
        },
    )


def stemmer(language: str) -> Callable[[str], str]:
    """The Snowball stemmer of a language; "porter" is the first one, for English.

    Raises: ConfigError: there is none. MissingExtraError: the package with the stemmers is not installed.
    """
    snowball = import_optional("nltk.stem.snowball", "nltk", "evaluate", "stemming").SnowballStemmer
    if language not in snowball.languages:
        raise ConfigError(
            f"there is no stemmer for {language!r}{nearest(language, snowball.languages)}; "
            f"there are {', '.join(snowball.languages)}"
        )
    stem: Callable[[str], str] = snowball(language).stem
    return stem
