"""Tokenizers of files: train on corpus files and save, and compare tokenizers on corpus files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from keyword import kwlist
from pathlib import Path

from glassformer.data.corpus import Corpus
from glassformer.errors import DataError
from glassformer.files import read_text
from glassformer.text.build import TOKENIZER_FILES
from glassformer.text.coverage import TokenizerReport, TrainedTokenizer, check_tokenizers, coverage
from glassformer.text.options import CheckOptions, TokenizerOptions
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.train import train_tokenizer

MEASURED_TEXTS = 20_000  # of a corpus, which may have any number


def train_on_files(files: Sequence[Path], options: TokenizerOptions) -> TrainedTokenizer:
    """Train a tokenizer on corpus files, save it, and measure it on its corpus.

    Raises: DataError: the folder holds a tokenizer. ConfigError, DataError: see `train_tokenizer`.
    """
    folder = options.output
    if existing := [name for name in TOKENIZER_FILES if (folder / name).exists()]:
        raise DataError(f"{folder / existing[0]}: already exists; choose another folder with output=")
    column, lines = options.columns.get("text", "text"), options.kind == "characters"
    texts = Corpus(files, column, encoding=options.encoding, line_feeds=lines)
    trained = train_tokenizer(
        texts,
        kind=options.kind,
        size=options.size,
        family=options.family,
        special=options.special,
        lower=options.lower,
        strip_accents=options.strip_accents,
        min_frequency=options.min_frequency,
        like=options.like,
    )
    trained.save(folder)
    measured = coverage(trained, islice(texts, MEASURED_TEXTS))
    special = sorted(trained.special_tokens.values(), key=trained.convert_tokens_to_ids)
    ids = {token: trained.convert_tokens_to_ids(token) for token in special}
    return TrainedTokenizer(str(folder), len(trained), ids, measured)


def check_on_files(
    tokenizers: Mapping[str, Tokenizer], files: Sequence[Path], options: CheckOptions
) -> TokenizerReport:
    """Compare tokenizers, by name, on corpus files. Raises: ConfigError, DataError: see `check_tokenizers`."""
    words = word_lists(options.words)
    corpus = Corpus(files, options.columns.get("text", "text"), encoding=options.encoding)
    texts = list(islice(corpus, MEASURED_TEXTS))
    return check_tokenizers(tokenizers, texts, words, options.stem)


def word_lists(names: Iterable[str]) -> dict[str, list[str]]:
    """Words by the name of their list: the keywords of Python, or the lines of a file."""
    lists = {}
    for name in names:
        if name == "python":
            lists["Python keywords"] = list(kwlist)
        elif not Path(name).exists():
            raise DataError(f"words= {name}: there is no such file; give `python`, or a file with one word a line")
        else:
            lists[Path(name).name] = list(dict.fromkeys(read_text(Path(name), DataError).split()))
    return lists
