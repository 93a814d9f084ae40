"""`glassformer ngram train|perplexity|prune|tune`: n-gram language models."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.inputs import naming_columns
from glassformer.cli.options import Json, command
from glassformer.cli.screen import progress_of, show, show_next
from glassformer.cli.tokenizer import Files
from glassformer.data.options import ReadingOptions
from glassformer.ngram.options import NgramOptions, PruneOptions, TuningOptions, WordOptions
from glassformer.progress import progress_bar

if TYPE_CHECKING:
    from glassformer.ngram.store import NgramFile

ngram = typer.Typer(name="ngram", no_args_is_help=True, add_completion=False, help="Train n-gram language models.")

ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="N-gram model: .arpa, .arpa.gz or .ngram.")]


@ngram.command()
@command
def train(files: Files, *, options: NgramOptions, json: Json = False) -> None:
    """Train an n-gram language model: interpolated, modified Kneser-Ney smoothing.

    Each text, a line or a row, is between <s> and </s>. Memory for counting is bounded.

    Examples:
      glassformer ngram train talks.txt --order 4 --output talks.arpa
      glassformer ngram train train.csv --column text=transcript --for-speech --output words.ngram
      glassformer ngram train talks.txt --tokenizer whisper-tiny --order 5 --output tokens.ngram
    """
    from glassformer.ngram.corpus import train_on_files

    with naming_columns({"text": "text", **options.columns}), progress_bar("counting words", None, delay=1.0) as bar:
        saved = train_on_files(files, options, bar)
    _show(saved, json)


@ngram.command()
@command
def perplexity(model: ModelFile, files: Files, *, options: WordOptions, json: Json = False) -> None:
    """Measure how well an n-gram model predicts texts: perplexity, with and without unknown words.

    Example:
      glassformer ngram perplexity talks.arpa unseen.txt
    """
    from glassformer.ngram.corpus import perplexity_of_files

    with naming_columns({"text": "text", **options.columns}):
        show(perplexity_of_files(model, files, options), json)


@ngram.command()
@command
def prune(model: ModelFile, *, options: PruneOptions, json: Json = False) -> None:
    """Make an n-gram model smaller by entropy pruning, or convert it with --threshold 0.

    Example:
      glassformer ngram prune talks.arpa --threshold 1e-7 --output small.ngram
    """
    from glassformer.ngram.corpus import prune_file

    _show(prune_file(model, options), json)


@ngram.command()
@command
def tune(language_model: ModelFile, *, options: TuningOptions, reading: ReadingOptions, json: Json = False) -> None:
    """Tune alpha and beta of shallow fusion, or of rescoring, by word error rate on validation recordings.

    Each pair of weights is a search through all recordings, compared with one without the language model; with
    --rescore, one search serves all pairs. Evaluate the chosen pair on recordings that were not used here.

    Example:
      glassformer ngram tune words.ngram --model openai/whisper-tiny.en --data validation.csv --column audio=file
    """
    from glassformer.tasks.transcribe.tuning import tune_on_recordings

    with progress_of("recordings") as update:
        tuned = tune_on_recordings(language_model, options, update, reading=reading)
    show(tuned, json)


def _show(saved: NgramFile, json: bool) -> None:
    """Print what was written, and how to continue."""
    show(saved, json)
    if not json:
        show_next([f"glassformer ngram perplexity {shlex.quote(saved.file)} FILE"])
