r"""ARPA files: n-gram models as text, the form that all toolkits read.

    \data\                        how many n-grams of each length there are
    ngram 1=5
    ngram 2=4

    \1-grams:                     log10 P <tab> the words <tab> log10 of the back-off weight, where there is one
    -99	<s>	-0.30103
    -0.8	the	-0.2
    …
    \end\

Reading allocates for the lines that are there, not for those that the head claims.
"""

from __future__ import annotations

import io
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np

from glassformer.data.lines import open_decompressed
from glassformer.errors import DataError
from glassformer.files import error_reason, safe_repr
from glassformer.files.atomic import atomic_file, disk_errors
from glassformer.ngram.counts import MAX_WORD_BYTES, SPECIAL, check_word
from glassformer.ngram.kneser_ney import NEVER
from glassformer.ngram.model import NgramModel
from glassformer.ngram.tables import linked

LN10 = math.log(10)
MAX_ORDER = 20  # bounds the length of a line, and with it what a damaged file makes of one
MAX_LINE = MAX_ORDER * (MAX_WORD_BYTES + 1) + 100
WRITE_CHUNK = 1 << 16  # n-grams whose texts are in memory at a time


def write_arpa(model: NgramModel, path: Path) -> None:
    """Write a model as an ARPA file, atomically. Raises: DataError: the disk refuses."""
    words = np.array(model.words, dtype=object)
    with disk_errors(path, DataError), atomic_file(path) as binary:
        text = io.TextIOWrapper(binary, encoding="utf-8", newline="\n", write_through=False)
        text.write("\\data\\\n" + "".join(f"ngram {n}={len(table)}\n" for n, table in enumerate(model.tables, 1)))
        for n, table in enumerate(model.tables, 1):
            text.write(f"\n\\{n}-grams:\n")
            for start in range(0, len(table), WRITE_CHUNK):
                places = np.arange(start, min(start + WRITE_CHUNK, len(table)))
                lines = zip(
                    (table.log_probs[places].astype(np.float64) / LN10).tolist(),
                    words[model.word_ids(n, places)].tolist(),
                    (table.backoffs[places].astype(np.float64) / LN10).tolist(),
                    strict=True,
                )
                if n < model.order:
                    text.writelines(f"{p:.7g}\t{' '.join(ngram)}\t{backoff:.7g}\n" for p, ngram, backoff in lines)
                else:
                    text.writelines(f"{p:.7g}\t{' '.join(ngram)}\n" for p, ngram, _ in lines)
        text.write("\n\\end\\\n")
        text.flush()
        text.detach()


@dataclass
class _Section:
    """The n-grams of one length, as read.

    ids: of all their words, one n-gram after another
    """

    ids: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    backoffs: list[float] = field(default_factory=list)


def read_arpa(path: Path) -> NgramModel:
    """Read an ARPA file, also a compressed one (`.gz`).

    Words of no text, `<s>` and the like, are added where a file has none. n-grams whose beginning or end the file
    has left out, as some toolkits do when they prune, get it with the probability that backing off gives.

    Raises: DataError: the file ends too early, or has a line that is no n-gram: which, and what is wrong with it.
    """
    try:
        with open_decompressed(path) as binary:
            lines = _Lines(path, io.TextIOWrapper(binary, encoding="utf-8", errors="strict", newline="\n"))
            sizes = _head(lines)
            words: dict[str, int] = {word: number for number, word in enumerate(SPECIAL)}
            sections = [_read_section(lines, n, size, words) for n, size in enumerate(sizes, 1)]
            lines.expect("\\end\\")
    except (OSError, UnicodeDecodeError, EOFError) as problem:
        raise DataError(f"{path}: cannot be read as an ARPA file: {error_reason(problem)}") from problem
    ngrams = [
        (
            np.array(section.ids, dtype=np.int64).reshape(-1, n),
            np.array(section.log_probs),
            np.array(section.backoffs),
        )
        for n, section in enumerate(sections, 1)
    ]
    ngrams[0] = _with_every_word(path, len(words), *ngrams[0])
    return NgramModel(list(words), linked(str(path), ngrams))


class _Lines:
    """The lines of a file that are not empty, with their numbers."""

    def __init__(self, path: Path, file: IO[str]) -> None:
        self.path, self._file, self.number = path, file, 0

    def next(self, awaited: str = "before \\end\\; it is not complete") -> str:
        while True:
            self.number += 1
            line = self._file.readline(MAX_LINE)
            if not line:
                raise DataError(f"{self.path}: ends at line {self.number}, {awaited}")
            if len(line) >= MAX_LINE:
                raise self.error(line, f"longer than {MAX_LINE:,} characters")
            if line.strip():
                return line.strip()

    def expect(self, wanted: str) -> None:
        if (line := self.next()) != wanted:
            raise self.error(line, f"expected {wanted}")

    def error(self, line: str, what: str) -> DataError:
        return DataError(f"{self.path}: line {self.number}: {safe_repr(line[:60])}: {what}")


def _head(lines: _Lines) -> list[int]:
    r"""The claimed number of n-grams of each length; text before `\data\` is a comment."""
    while lines.next("before \\data\\; it is no ARPA file") != "\\data\\":
        if lines.number > 10_000:
            raise DataError(f"{lines.path}: no line \\data\\ in the first 10,000; it is no ARPA file")
    sizes: list[int] = []
    while (line := lines.next()) != "\\1-grams:":
        name, _, size = line.removeprefix("ngram").strip().partition("=")
        if not line.startswith("ngram") or name.strip() != str(len(sizes) + 1) or not size.strip().isdecimal():
            raise lines.error(line, f"expected 'ngram {len(sizes) + 1}=' and how many there are, or \\1-grams:")
        sizes.append(int(size.strip()[:20]))
        if len(sizes) > MAX_ORDER:
            raise lines.error(line, f"n-grams of more than {MAX_ORDER} words are not supported")
    if not sizes:
        raise lines.error(line, "the head says of no length how many n-grams there are")
    return sizes


def _read_section(lines: _Lines, n: int, size: int, words: dict[str, int]) -> _Section:
    """The n-grams of one length; those of one word are the vocabulary."""
    if n > 1:
        lines.expect(f"\\{n}-grams:")
    section = _Section()
    for _ in range(size):
        line = lines.next()
        parts = line.split()
        if line.startswith("\\") and len(parts) == 1:
            raise lines.error(line, f"{size:,} {n}-grams were announced, and {len(section.log_probs):,} are here")
        if len(parts) not in (n + 1, n + 2):
            raise lines.error(line, f"expected log10 P, {n} words, and a back-off weight or none")
        section.log_probs.append(_number(lines, line, parts[0], at_most=1e-3))
        section.backoffs.append(_number(lines, line, parts[n + 1]) if len(parts) == n + 2 else 0.0)
        if n == 1:
            word = check_word("<unk>" if parts[1] == "<UNK>" else parts[1])
            section.ids.append(words.setdefault(word, len(words)))
        else:
            for word in parts[1 : n + 1]:
                number = words.get("<unk>" if word == "<UNK>" else word)
                if number is None:
                    raise lines.error(line, f"{safe_repr(word[:40])} is not among the 1-grams")
                section.ids.append(number)
    return section


def _number(lines: _Lines, line: str, text: str, at_most: float = 1e3) -> float:
    """A logarithm to base 10, as a natural one."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if text.lower() in ("-inf", "-infinity"):
        return float(NEVER)
    if not -1e4 <= value <= at_most:
        raise lines.error(line, f"{safe_repr(text[:20])} is no logarithm of a probability or weight")
    return max(value * LN10, float(NEVER))


def _with_every_word(
    path: Path, words: int, ids: np.ndarray, log_probs: np.ndarray, backoffs: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The 1-grams by id; a special word that the file does not have is never predicted."""
    if len(np.unique(ids)) != len(ids):
        raise DataError(f"{path}: a word is there twice among the 1-grams")
    all_log_probs, all_backoffs = np.full(words, NEVER), np.zeros(words)
    all_log_probs[ids[:, 0]], all_backoffs[ids[:, 0]] = log_probs, backoffs
    return np.arange(words)[:, None], all_log_probs, all_backoffs
