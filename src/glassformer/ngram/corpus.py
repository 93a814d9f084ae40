"""N-gram models of files: train on corpus files, measure perplexity on them, and prune a model file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from glassformer.data.corpus import Corpus
from glassformer.errors import DataError
from glassformer.files.atomic import check_output
from glassformer.ngram.counts import Progress
from glassformer.ngram.kneser_ney import train_ngram
from glassformer.ngram.model import Perplexity
from glassformer.ngram.options import NgramOptions, PruneOptions, WordOptions
from glassformer.ngram.prune import pruned
from glassformer.ngram.store import NgramFile, load_ngram, save_ngram
from glassformer.ngram.words import speech_words

SUFFIXES = (".arpa", ".ngram")


class Words:
    """The words of each text of several files, streamed from disk at each iteration."""

    def __init__(self, files: Sequence[Path], options: WordOptions) -> None:
        self._texts = Corpus(files, options.columns.get("text", "text"), encoding=options.encoding)
        self._lower = options.lower
        self._split: Callable[[str], list[str]] = speech_words if options.for_speech else str.split
        if options.tokenizer is not None:
            from glassformer.text import Tokenizer

            self._split = Tokenizer.from_folder(Path(options.tokenizer)).tokenize

    def __iter__(self) -> Iterator[list[str]]:
        for text in self._texts:
            if words := self._split(text.lower() if self._lower else text):
                yield words


def train_on_files(files: Sequence[Path], options: NgramOptions, progress: Progress = lambda words: None) -> NgramFile:
    """Train an n-gram model on corpus files, and save it.

    Args:
        progress: called with how many words more were read
    Raises: DataError: no text, or an output that is no file of a model; see `train_ngram`.
    """
    output = check_output(options.output, "the n-gram model", *SUFFIXES)
    model = train_ngram(
        Words(files, options),
        options.order,
        min_count=options.min_count,
        max_words=options.max_words,
        memory_bytes=int(options.memory * 2**30),
        progress=progress,
    )
    return save_ngram(model, output)


def perplexity_of_files(model: Path, files: Sequence[Path], options: WordOptions) -> Perplexity:
    """Perplexity of a saved model on corpus files. Raises: DataError, WeightsError: see `load_ngram`."""
    return load_ngram(model).perplexity(Words(files, options))


def prune_file(model: Path, options: PruneOptions) -> NgramFile:
    """Prune a saved model into another file. Raises: DataError: the output is the model itself."""
    output = check_output(options.output, "the n-gram model", *SUFFIXES)
    if output.exists() and output.samefile(model):
        raise DataError(f"{output}: is the model itself; give another output=")
    return save_ngram(pruned(load_ngram(model), options.threshold), output)
