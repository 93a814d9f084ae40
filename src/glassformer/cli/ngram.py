"""`glassformer ngram train|perplexity|prune|tune`: n-gram language models."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.options import Json, Options, columns_of, command, option
from glassformer.cli.screen import show, show_next
from glassformer.cli.tokenizer import Corpus, Files
from glassformer.errors import ConfigError, DataError
from glassformer.files.atomic import check_output
from glassformer.progress import progress_bar

if TYPE_CHECKING:
    from glassformer.ngram.store import NgramFile

ngram = typer.Typer(name="ngram", no_args_is_help=True, add_completion=False, help="Train n-gram language models.")

SUFFIXES = (".arpa", ".ngram")
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="N-gram model: .arpa, .arpa.gz or .ngram.")]


@dataclass(frozen=True, kw_only=True)
class WordOptions(Options):
    """What the words of a text are."""

    column: list[str] | None = option(
        None, "Column mapping of files with columns, role=column: text=body.", "--column", "-c"
    )
    lower: bool = option(False, "Lowercase the texts.")
    for_speech: bool = option(
        False, "Words in lower case without punctuation, as speech recognition looks them up.", "--for-speech"
    )
    tokenizer: str | None = option(
        None, "Model whose tokenizer splits the texts; for fusion with this model. Default: white space splits."
    )


@dataclass(frozen=True, kw_only=True)
class NgramOptions(WordOptions):
    """What n-gram model is trained."""

    output: Path = option(..., "Output file: .arpa (text) or .ngram (compact).", "--output", "-o")
    order: int = option(3, "Words of the longest n-grams.", "--order", "-n", min=1, max=20)
    min_count: int = option(1, "Words that are rarer become <unk>.", min=1)
    max_words: int | None = option(None, "Vocabulary size: the most frequent words stay.", min=1)
    memory: float = option(1.0, "Memory for counting, in GiB; what does not fit is sorted on disk.", min=0.01)


class Words:
    """The words of each text of several files, streamed from disk at each iteration."""

    def __init__(self, files: Sequence[Path], options: WordOptions) -> None:
        self._texts = Corpus(files, options.column)
        self._lower = options.lower
        self._split: Callable[[str], list[str]] = str.split
        if options.for_speech and options.tokenizer is not None:
            raise ConfigError("--for-speech makes words, and --tokenizer tokens; give one of the two")
        if options.for_speech:
            from glassformer.speech.word_fusion import words_of

            self._split = words_of
        if options.tokenizer is not None:
            from glassformer.hub import resolve
            from glassformer.text import Tokenizer

            self._split = Tokenizer.from_folder(resolve(options.tokenizer)).tokenize

    def __iter__(self) -> Iterator[list[str]]:
        for text in self._texts:
            if words := self._split(text.lower() if self._lower else text):
                yield words


@ngram.command()
@command
def train(files: Files, *, options: NgramOptions, json: Json = False) -> None:
    """Train an n-gram language model: interpolated, modified Kneser-Ney smoothing.

    Each text, a line or a row, stands between <s> and </s>. Memory for counting is bounded.

    Examples:

    [cyan]glassformer ngram train talks.txt --order 4 --output talks.arpa[/]

    [cyan]glassformer ngram train train.csv --column text=transcript --for-speech --output words.ngram[/]

    [cyan]glassformer ngram train talks.txt --tokenizer whisper-tiny --order 5 --output tokens.ngram[/]
    """
    from glassformer.ngram.kneser_ney import train_ngram
    from glassformer.ngram.store import save_ngram

    output = check_output(options.output, "the n-gram model", *SUFFIXES)
    with progress_bar("counting words", None, delay=1.0) as progress:
        model = train_ngram(
            Words(files, options),
            options.order,
            min_count=options.min_count,
            max_words=options.max_words,
            memory_bytes=int(options.memory * 2**30),
            progress=progress,
        )
    _saved(save_ngram(model, output), json)


@ngram.command()
@command
def perplexity(model: ModelFile, files: Files, *, options: WordOptions, json: Json = False) -> None:
    """Measure how well an n-gram model predicts texts: perplexity, with and without unknown words.

    Example:

    [cyan]glassformer ngram perplexity talks.arpa unseen.txt[/]
    """
    from glassformer.ngram.store import load_ngram

    show(load_ngram(model).perplexity(Words(files, options)), json)


@dataclass(frozen=True, kw_only=True)
class PruneOptions(Options):
    """How much is pruned."""

    output: Path = option(..., "Output file: .arpa (text) or .ngram (compact).", "--output", "-o")
    threshold: float = option(1e-7, "n-grams that raise the perplexity by a smaller share are left out.", min=0)


@ngram.command()
@command
def prune(model: ModelFile, *, options: PruneOptions, json: Json = False) -> None:
    """Make an n-gram model smaller by entropy pruning, or convert it with --threshold 0.

    Example:

    [cyan]glassformer ngram prune talks.arpa --threshold 1e-7 --output small.ngram[/]
    """
    from glassformer.ngram.prune import pruned
    from glassformer.ngram.store import load_ngram, save_ngram

    output = check_output(options.output, "the n-gram model", *SUFFIXES)
    if output.exists() and output.samefile(model):
        raise DataError(f"{output}: is the model itself; give another --output")
    smaller = pruned(load_ngram(model), options.threshold)
    _saved(save_ngram(smaller, output), json)


@dataclass(frozen=True, kw_only=True)
class TuningOptions(Options):
    """What is searched for weights of the language model."""

    model: str = option(..., "Speech recognition model: folder, or name on the Hub.", "--model", "-m")
    data: Path = option(..., "Table of validation recordings and their transcripts, or its folder.", "--data", "-d")
    column: list[str] | None = option(None, "Column mapping, role=column: audio=path, text=sentence.", "--column", "-c")
    folder: str | None = option(None, "Folder of the recordings. Default: that of the table.")
    language: str | None = option(None, "Language of the recordings, for a multilingual model.")
    alpha: list[float] | None = option(None, "Weight to try; repeatable. Default: 0.1, 0.3, 0.6, 1.")
    beta: list[float] | None = option(None, "Bonus for a word to try; repeatable. Default: 0, 0.5, 1.")
    beams: int = option(5, "Beam width.", min=1)
    rescore: bool = option(False, "Rescore the texts of the beam search, in the place of shallow fusion.")


@ngram.command()
@command
def tune(language_model: ModelFile, *, options: TuningOptions, json: Json = False) -> None:
    """Tune alpha and beta of shallow fusion, or of rescoring, by word error rate on validation recordings.

    Each pair of weights is a search through all recordings, beside one without the language model; with --rescore, one
    search serves all pairs. Judge the chosen pair on recordings that were not used here.

    Example:

    [cyan]glassformer ngram tune words.ngram --model openai/whisper-tiny.en --data validation.csv --column audio=file[/]
    """
    from glassformer.data.rows import read_rows
    from glassformer.model import load
    from glassformer.tasks.transcribe.task import Transcribe
    from glassformer.tasks.transcribe.tuning import ALPHAS, BETAS, FusionTuning, tune_fusion, weight_pairs

    rows = read_rows(options.data)
    model = load(options.model, task=Transcribe.HEAD, dtype="float32")
    columns = columns_of(options.column, list(Transcribe.COLUMNS))
    task = Transcribe(model, columns=columns, language=options.language, folder=options.folder)
    alphas, betas = tuple(options.alpha or ALPHAS), tuple(options.beta or BETAS)
    search: dict[str, Any] = {"alphas": alphas, "betas": betas, "beams": options.beams, "rescore": options.rescore}
    searches = 1 if options.rescore else len(weight_pairs(alphas, betas))
    with progress_bar("recordings", len(rows) * searches) as advance:
        scores = list(tune_fusion(task, rows, str(language_model), **search, progress=advance))
    show(FusionTuning(scores, len(rows), options.rescore), json)


def _saved(saved: NgramFile, json: bool) -> None:
    """Print what was written, and how to continue."""
    show(saved, json)
    if not json:
        show_next([f"glassformer ngram perplexity {shlex.quote(saved.file)} FILE"])
