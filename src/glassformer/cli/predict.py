"""`glassformer predict TASK MODEL INPUT…`: inference pipelines, from texts to predictions, printed or in a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.inputs import check_files, inputs, role_inputs
from glassformer.cli.options import ModelName, Only, command
from glassformer.cli.screen import notes, say, show_tables, visible
from glassformer.data.options import ReadingOptions
from glassformer.errors import ConfigError
from glassformer.files.schema import given
from glassformer.generation.options import GenerationOptions
from glassformer.loading import InferenceLoading
from glassformer.progress import spinner
from glassformer.task_names import ANSWERED, SHORT, beginning
from glassformer.tasks.pipeline_options import CLASSIFICATION, PipelineOptions, PredictionFileOptions

if TYPE_CHECKING:
    from glassformer.tasks import Pipeline

TaskName = Annotated[
    str,
    typer.Argument(
        help=f"Task: {', '.join(SHORT)}; or its Hugging Face name: {beginning(ANSWERED, 2)}, translation_en_to_de."
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


Plot = Annotated[
    bool,
    typer.Option(
        "--plot",
        help="Bar chart of the probabilities: of all labels, or of the best --top-k.",
        rich_help_panel=CLASSIFICATION,
    ),
]


@command
def predict(
    task: TaskName,
    model: ModelName,
    input: Input,
    batch: PredictionFileOptions,
    reading: ReadingOptions,
    options: PipelineOptions,
    generation: Annotated[GenerationOptions, Only(["max_new_tokens", "num_beams"])],
    loading: InferenceLoading,
    plot: Plot = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON line per text.")] = False,
) -> None:
    """Run inference for a task: text, image and audio classification, NER, summarisation, translation, transcription.

    One text shows all its predictions; several texts show the best of each, one line per text. An output file gets one
    JSON line per text, written as soon as it is predicted; --resume continues an interrupted run.

    Examples:
      glassformer predict classify MODEL 'so glad to see you' --all-scores
      glassformer predict tag MODEL 'Jeff Dean works at Google in California.'
      glassformer predict fill MODEL 'Time [MASK] like an arrow.' --target flies --target goes
      glassformer predict answer MODEL 'Who wrote Emma?' 'Emma is a novel by Jane Austen.'
      glassformer predict table-question-answering MODEL 'which city had the games in 1900?' games.csv
      glassformer predict passage-reading MODEL 'Who wrote Emma?' passages.json
      glassformer predict summarise MODEL articles.csv --column text=body --output summaries.jsonl
      glassformer predict translation_en_to_de MODEL - --beams 4 < english.txt > german.txt
    """
    with spinner("starting"):
        from glassformer.tasks import pipeline
        from glassformer.tasks.prediction_lines import PredictionLines, json_line

    texts = _read(task, input, batch, reading.keywords())
    if plot and (json or batch.output is not None):
        raise ConfigError("--plot draws on the screen; leave --json and --output out")
    file = None if batch.output is None else PredictionLines(batch.output, texts, batch)
    charts = plot or options.all_scores
    if plot and options.top_k is None:
        options = replace(options, all_scores=True)
    with notes():
        with spinner("loading the model"):
            pipe = pipeline(task, model, **{**given(loading), **options.keywords(), **given(generation)})
        if file is not None:
            say(f"{file.write(_answers(pipe, file.missing, bar=True)):,} predictions written to {file.path}", err=True)
            return
        for text, answer in zip(texts, _answers(pipe, texts), strict=True):
            if json:
                typer.echo(json_line(text, answer))
            else:
                _print(pipe, text, answer, alone=len(texts) == 1, charts=charts)
            sys.stdout.flush()


def _read(task: str, given: Sequence[str], batch: PredictionFileOptions, format: Mapping[str, Any]) -> list[Any]:
    """The inputs of a task: texts, files of pictures or sounds, or what has several parts, such as a question."""
    from glassformer.tasks.pipeline_registry import input_roles, reads_media

    if reads_media(task):
        check_files(given)
        return list(given)
    if roles := input_roles(task):
        columns = {role: role for role in roles} | batch.columns_of(roles)
        return role_inputs(given, roles, columns, format)
    return inputs(given, batch.columns_of(("text", "text_pair")), format)


def _answers(pipe: Pipeline, texts: list[Any], *, bar: bool = False) -> Iterator[Any]:
    """The answer to each text; with a progress bar where answers do not go to the terminal."""
    from glassformer.progress import with_bar

    answers: Iterator[Any] = pipe(iter(texts))
    shown = sys.stderr.isatty() and (bar or not sys.stdout.isatty())
    return with_bar(answers, pipe.task, len(texts), delay=1.0) if shown else answers


def _print(pipe: Pipeline, text: Any, answer: Any, *, alone: bool, charts: bool) -> None:
    """Of one text all results; of several a line each, with label, score and text, or the text and a bar chart."""
    from glassformer.tasks.results import best_labels, input_line

    line = visible(input_line(text))
    names = (pipe.model.config.get("id2label") or {}).values()
    width = max((len(visible(str(name))) for name in names), default=8)
    if alone:
        _print_results(pipe, answer)
    elif charts:
        typer.echo(line)
        _print_results(pipe, answer)
        typer.echo()
    elif not pipe.EMPTY and (labels := best_labels(answer)):  # a chain of pedals is one answer
        cells = ", ".join(f"{visible(label.label):{width}}{label.score:8.2%}" for label in labels)
        typer.echo(cells + "  " + line)
    elif isinstance(text, dict) or pipe.EMPTY:
        typer.echo(f"{visible(pipe.in_words(answer) or pipe.EMPTY):{width}}  {line}")
    else:
        typer.echo(visible(pipe.in_words(answer)))


def _print_results(pipe: Pipeline, answer: Any) -> None:
    """All results for one text: a table where they have probabilities; a text keeps its line breaks."""
    from glassformer.tasks.results import Result, Results, results_of

    if hasattr(answer, "shape"):
        say(f"{' × '.join(map(str, answer.shape))} numbers; --json or --output gives them")
        return
    results = results_of(answer)
    if not results:
        typer.echo(pipe.EMPTY or "no prediction", err=not pipe.EMPTY)
    elif all(isinstance(result, Results) or result.SHARES for result in results):  # of several masks a list each
        show_tables(results.tables())
    else:
        say("\n".join(result.text for result in results if isinstance(result, Result)))
