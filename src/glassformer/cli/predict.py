"""`glassformer predict TASK MODEL INPUT…`: inference pipelines, from texts to predictions, printed or in a file."""

from __future__ import annotations

import json as json_format
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.inputs import check_files, inputs, role_inputs
from glassformer.cli.options import (
    ModelName,
    Only,
    Options,
    columns_of,
    command,
    option,
    pairs_of,
)
from glassformer.cli.screen import notes, say, show_tables, visible
from glassformer.errors import ConfigError, DataError
from glassformer.files import error_reason
from glassformer.files.schema import given as given_options
from glassformer.generation.options import LENGTH, GenerationOptions
from glassformer.loading import InferenceLoading
from glassformer.progress import spinner

if TYPE_CHECKING:
    from glassformer.tasks import Pipeline
    from glassformer.tasks.results import Label

FILL_MASK = "Masked language models"
CLASSIFICATION = "Classification and tagging"
BATCH = "Batch inference"
MAX_TEXT = 200
"""Characters of a text next to its label."""

TaskName = Annotated[
    str,
    typer.Argument(
        help="Task: classify, tag, answer, features, fill, summarise, translate, translation_en_to_de, generate, "
        "transcribe, pedals; or its Hugging Face name: text-classification, …"
    ),
]
Input = Annotated[
    list[str],
    typer.Argument(
        help="Input texts, in quotes; files: .txt (one text per line), .jsonl, .json, .csv, .tsv, .parquet, .conll; "
        "- reads standard input, one text per line. Of tasks of pictures and sounds: their files. Of answer: question "
        "and context, each in quotes or as a file, or a table with these columns."
    ),
]


@dataclass(frozen=True, kw_only=True)
class FileOptions(Options):
    """From files to a file."""

    json: bool = option(False, "Print one JSON line per text.")
    column: list[str] | None = option(
        None,
        "Column mapping of a table or .jsonl file, role=column: text=body, text_pair=title; repeatable.",
        "--column",
        "-c",
        panel=BATCH,
    )
    output: Path | None = option(None, "Output file: one JSON line per text.", "--output", "-o", panel=BATCH)
    resume: bool = option(False, "Resume: continue after the last prediction in the output file.", panel=BATCH)
    overwrite: bool = option(False, "Overwrite the output file.", panel=BATCH)

    def columns(self, roles: Sequence[str]) -> dict[str, str]:
        """The column of each of these roles that is named."""
        return columns_of(self.column, roles)


@dataclass(frozen=True, kw_only=True)
class PredictOptions(Options):
    """Options of the pipeline: batch size, lengths and what else its task takes."""

    batch_size: int | None = option(None, "Batch size, in texts.", min=1, panel=BATCH)
    prefix: str | None = option(None, "Prefix (prompt) put before each text, such as 'summarize: '.", panel=LENGTH)
    src_lang: str | None = option(None, "Source language code, such as de_DE.", panel=LENGTH)
    tgt_lang: str | None = option(None, "Target language code.", panel=LENGTH)
    set: list[str] | None = option(None, "Any other option of the task or of generation, as name=value; repeatable.")
    top_k: int | None = option(
        None, "Number of predictions per text or mask: the k most probable.", min=1, panel=CLASSIFICATION
    )
    all_scores: bool = option(
        False, "Return the probability of every label, with bars on the screen.", panel=CLASSIFICATION
    )
    plot: bool = option(
        False, "Bar chart of the probabilities: of all labels, or of the best --top-k.", panel=CLASSIFICATION
    )
    threshold: float | None = option(
        None,
        "Decision threshold: multi-label models predict labels of at least this probability.",
        panel=CLASSIFICATION,
    )
    aggregation: str | None = option(
        None,
        "Aggregation strategy of tags: first (a word takes the tag of its first token), none (tag each token).",
        key="aggregation_strategy",
        panel=CLASSIFICATION,
    )
    target: list[str] | None = option(
        None, "Restrict fill-mask predictions to this word; repeatable.", key="targets", panel=FILL_MASK
    )

    def given(self) -> dict[str, Any]:
        """The options that were given. Raises: ConfigError: options that contradict each other."""
        from glassformer.cli.options import value_of

        if self.all_scores and self.top_k is not None:
            raise ConfigError(f"--all-scores and --top-k {self.top_k} were both given; give one of them")
        options = super().given()
        settings, all_scores, plot = (options.pop(name, None) for name in ("set", "all_scores", "plot"))
        if all_scores or (plot and self.top_k is None):
            options["top_k"] = None
        return options | {name: value_of(text) for name, text in pairs_of(settings, "--set").items()}


@command
def predict(
    task: TaskName,
    model: ModelName,
    input: Input,
    batch: FileOptions,
    prediction: PredictOptions,
    generation: Annotated[GenerationOptions, Only(["max_new_tokens", "num_beams"])],
    loading: InferenceLoading,
) -> None:
    """Run inference for a task: text, image and audio classification, NER, summarisation, translation, transcription.

    One text shows all its predictions; several texts show the best of each, one line per text. An output file gets one
    JSON line per text, written as soon as it is predicted; --resume continues an interrupted run.

    Examples:

    [cyan]glassformer predict classify MODEL 'so glad to see you' --all-scores[/]

    [cyan]glassformer predict tag MODEL 'Jeff Dean works at Google in California.'[/]

    [cyan]glassformer predict fill MODEL 'Time [MASK] like an arrow.' --target flies --target goes[/]

    [cyan]glassformer predict answer MODEL 'Who wrote Emma?' 'Emma is a novel by Jane Austen.'[/]

    [cyan]glassformer predict table-question-answering MODEL 'which city had the games in 1900?' games.csv[/]

    [cyan]glassformer predict passage-reading MODEL 'Who wrote Emma?' passages.json[/]

    [cyan]glassformer predict summarise MODEL articles.csv --column text=body --output summaries.jsonl[/]

    [cyan]glassformer predict translation_en_to_de MODEL - --beams 4 < english.txt > german.txt[/]

    [cyan]glassformer predict pedals package:glassformer/checkpoints/guitar_pedals riff.wav[/]
    """
    with spinner("starting"):
        from glassformer.tasks import pipeline

    texts = _read(task, input, batch)
    options = {**prediction.given(), **given_options(generation)}
    if prediction.plot and (batch.json or batch.output is not None):
        raise ConfigError("--plot draws on the screen; leave it out with --json and --output")
    done = 0 if batch.output is None else _count_done(batch.output, texts, batch)
    with notes():
        with spinner("loading the model"):
            pipe = pipeline(task, model, **{**given_options(loading), **options})
        if batch.output is not None:
            _write_predictions(pipe, texts[done:], batch.output)
        elif batch.json:
            for text, predicted in _predictions(pipe, texts):
                typer.echo(_json_line(text, predicted))
                sys.stdout.flush()
        else:
            _print_predictions(pipe, texts, charts=prediction.plot or prediction.all_scores)


def _read(task: str, given: Sequence[str], batch: FileOptions) -> list[Any]:
    """The inputs of a task: texts, files of pictures or sounds, or what has several parts, such as a question."""
    from glassformer.tasks.pipeline_registry import input_roles, reads_media

    if reads_media(task):
        check_files(given)
        return list(given)
    if roles := input_roles(task):
        columns = {role: role for role in roles} | batch.columns(list(roles))
        return role_inputs(given, roles, columns)
    return inputs(given, batch.columns(("text", "text_pair")))


def _write_predictions(pipe: Pipeline, texts: list[Any], output: Path) -> None:
    """Append one JSON line per text to the output file.

    Raises: DataError: the disk is full.
    """
    try:
        with output.open("a", encoding="utf-8") as file:
            for text, prediction in _predictions(pipe, texts, bar=True):
                file.write(_json_line(text, prediction) + "\n")
                file.flush()  # an interrupt loses no finished prediction
    except OSError as problem:
        if problem.filename is not None:  # a file that was to be read; writing names none
            raise
        reason = f"cannot be written: {error_reason(problem)}; --resume continues after the last prediction in it"
        raise DataError(f"{output}: {reason}") from problem
    say(f"{len(texts):,} predictions written to {output}", err=True)


def _print_predictions(pipe: Pipeline, texts: list[Any], *, charts: bool) -> None:
    """Of one text all predictions; of several a line each, with the label, its score and the text, or bar charts."""
    config = pipe.model.config
    width = max((len(visible(str(name))) for name in (config.get("id2label") or {}).values()), default=8)
    for text, prediction in _predictions(pipe, texts):
        if len(texts) == 1 and pipe.EMPTY and not prediction:
            typer.echo(pipe.EMPTY)
        elif len(texts) == 1:
            _print_prediction(prediction)
        elif charts:
            typer.echo(visible(_in_a_line(text)))
            _print_prediction(prediction)
            typer.echo()
        elif not pipe.EMPTY and (labels := _labels_in(prediction)):  # a chain of pedals is one answer
            cells = ", ".join(f"{visible(label.label):{width}}{label.score:8.2%}" for label in labels)
            typer.echo(f"{cells}  {visible(_in_a_line(text))}")
        elif isinstance(text, dict) or pipe.EMPTY:
            words = pipe.in_words(prediction) or pipe.EMPTY
            typer.echo(f"{visible(words):{width}}  {visible(_in_a_line(text))}")
        else:
            typer.echo(visible(pipe.in_words(prediction)))
        sys.stdout.flush()


def _labels_in(prediction: Any) -> list[Label]:
    """The labels of a prediction: the best of ranked ones, or all that hold; none of a prediction of another kind."""
    from glassformer.tasks.results import Label, RankedLabels

    if isinstance(prediction, RankedLabels):
        return [Label(prediction.labels[0], prediction.scores[0])]
    listed = prediction if isinstance(prediction, list) else [prediction]
    return [label for label in listed if isinstance(label, Label)]


def _in_a_line(text: Any) -> str:
    """A text, or the texts of a row, in one line."""
    from glassformer.data.sequence import shorten

    parts = text.values() if isinstance(text, dict) else [text]
    return shorten(" | ".join(" ".join(str(part).split()) for part in parts), MAX_TEXT)


def _predictions(pipe: Pipeline, texts: list[Any], *, bar: bool = False) -> Iterator[tuple[Any, Any]]:
    """Each text with its prediction; with a progress bar where predictions do not go to the terminal."""
    from glassformer.progress import with_bar

    predictions = pipe(iter(texts))
    if sys.stderr.isatty() and (bar or not sys.stdout.isatty()):
        predictions = with_bar(predictions, pipe.task, len(texts), delay=1.0)
    return zip(texts, predictions, strict=True)


def _count_done(output: Path, texts: list[Any], batch: FileOptions) -> int:
    """Count the predictions that the output file already has; an incomplete last line is cut off.

    Raises: DataError: the file exists without --resume or --overwrite, or it belongs to other texts.
    """
    if batch.resume and batch.overwrite:
        raise ConfigError("--resume keeps the output file and --overwrite does not; give one of them")
    if output.is_dir() or not output.absolute().parent.is_dir():
        raise DataError(f"{output}: cannot be written; name a file in a folder that exists")
    if not output.exists() or batch.overwrite:
        output.write_bytes(b"")  # fails now, before the work, where writing is not allowed
        return 0
    if not batch.resume:
        raise DataError(f"{output}: already exists; --resume continues after its last line, --overwrite replaces it")
    content = output.read_bytes()
    complete = content[: content.rfind(b"\n") + 1]
    try:
        predicted = [json_format.loads(line)["text"] for line in complete.decode("utf-8").split("\n")[:-1]]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{output}: is not a file of predictions; --overwrite replaces it") from error
    if predicted != texts[: len(predicted)]:
        raise DataError(f"{output}: holds predictions for other texts; name another file, or give --overwrite")
    if len(complete) < len(content):
        os.truncate(output, len(complete))
    return len(predicted)


def _json_line(text: Any, prediction: Any) -> str:
    def plain(value: Any) -> Any:
        if hasattr(value, "tolist"):  # vectors
            return value.tolist()
        return [plain(item) for item in value] if isinstance(value, list) else dict(value)

    return json_format.dumps({"text": text, "results": plain(prediction)}, ensure_ascii=False)


def _print_prediction(prediction: Any) -> None:
    """Print all predictions for one text: a table where they have probabilities; a text keeps its line breaks."""
    from glassformer.tasks.results import Label, RankedLabels, Result, Results

    if hasattr(prediction, "shape"):
        say(f"{' × '.join(map(str, prediction.shape))} numbers; --json or --output gives them")
        return
    if isinstance(prediction, RankedLabels):
        prediction = [Label(*pair) for pair in zip(prediction.labels, prediction.scores, strict=True)]
    results = Results(prediction if isinstance(prediction, list) else [prediction])
    if not results:
        typer.echo("no prediction", err=True)
    elif all(isinstance(result, Results) or result.SHARES for result in results):  # of several masks a list each
        show_tables(results.tables())
    else:
        say("\n".join(result.text for result in results if isinstance(result, Result)))
