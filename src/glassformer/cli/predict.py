"""`glassformer predict TASK MODEL INPUT…`: inference pipelines, from texts to predictions, printed or in a file."""

from __future__ import annotations

import json as json_format
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.answers import show
from glassformer.cli.inputs import inputs
from glassformer.cli.options import (
    BEAMS,
    GENERATION,
    MAX_NEW_TOKENS,
    AllowPickle,
    Device,
    Dtype,
    ModelName,
    Offline,
    Precision,
    Revision,
)
from glassformer.cli.screen import notes, visible

if TYPE_CHECKING:
    from glassformer.tasks import Pipeline

FILL_MASK = "Masked language models"
CLASSIFICATION = "Classification and tagging"
BATCH = "Batch inference"

TaskName = Annotated[
    str,
    typer.Argument(
        help="Task: classify, tag, features, fill, summarise, translate, translation_en_to_de, generate; or its "
        "Hugging Face name: text-classification, …"
    ),
]
Input = Annotated[
    list[str],
    typer.Argument(
        help="Input texts, in quotes; files: .txt (one text per line), .jsonl, .json, .csv, .tsv, .parquet, .conll; "
        "- reads standard input, one text per line."
    ),
]
Column = Annotated[
    str, typer.Option(help="Column of the texts in a table or .jsonl file.", rich_help_panel=BATCH)
]
Pair = Annotated[
    str | None, typer.Option(help="Column of the second text of each text pair.", rich_help_panel=BATCH)
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Output file: one JSON line per text.", rich_help_panel=BATCH),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Resume: continue after the last prediction in the output file.",
        rich_help_panel=BATCH,
    ),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Overwrite the output file.", rich_help_panel=BATCH)
]
BatchSize = Annotated[int | None, typer.Option(min=1, help="Batch size, in texts.", rich_help_panel=BATCH)]
Prefix = Annotated[
    str | None,
    typer.Option(
        help="Prefix (prompt) put before each text, such as 'summarize: '.", rich_help_panel=GENERATION
    ),
]
SourceLanguage = Annotated[
    str | None,
    typer.Option("--src-lang", help="Source language code, such as de_DE.", rich_help_panel=GENERATION),
]
TargetLanguage = Annotated[
    str | None, typer.Option("--tgt-lang", help="Target language code.", rich_help_panel=GENERATION)
]
Setting = Annotated[
    list[str] | None,
    typer.Option(help="Any other option of the task or of generation, as name=value; repeatable."),
]
BestK = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Number of predictions per text or mask: the k most probable.",
        rich_help_panel=CLASSIFICATION,
    ),
]
AllScores = Annotated[
    bool,
    typer.Option(
        "--all-scores",
        help="Return the probability of every label, with bars on the screen.",
        rich_help_panel=CLASSIFICATION,
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
Threshold = Annotated[
    float | None,
    typer.Option(
        help="Decision threshold: multi-label models predict labels of at least this probability.",
        rich_help_panel=CLASSIFICATION,
    ),
]
Aggregation = Annotated[
    str | None,
    typer.Option(
        help="Aggregation strategy of tags: first (a word takes the tag of its first token), none (tag each token).",
        rich_help_panel=CLASSIFICATION,
    ),
]
Target = Annotated[
    list[str] | None,
    typer.Option(help="Restrict fill-mask predictions to this word; repeatable.", rich_help_panel=FILL_MASK),
]


def predict(
    task: TaskName,
    model: ModelName,
    input: Input,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON line per text.")] = False,
    column: Column = "text",
    pair: Pair = None,
    output: Output = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    batch_size: BatchSize = None,
    max_new_tokens: Annotated[int | None, MAX_NEW_TOKENS] = None,
    beams: Annotated[int | None, BEAMS] = None,
    prefix: Prefix = None,
    src_lang: SourceLanguage = None,
    tgt_lang: TargetLanguage = None,
    set: Setting = None,
    top_k: BestK = None,
    all_scores: AllScores = False,
    plot: Plot = False,
    threshold: Threshold = None,
    aggregation: Aggregation = None,
    target: Target = None,
    device: Device = "cpu",
    dtype: Dtype = None,
    precision: Precision = None,
    revision: Revision = None,
    allow_pickle: AllowPickle = False,
    offline: Offline = False,
) -> None:
    """Run inference for a task: text classification, NER, summarisation, translation, generation, fill-mask.

    One text shows all its predictions; several texts show the best of each, one line per text. An output file gets one
    JSON line per text, written as soon as it is predicted; --resume continues an interrupted run.

    Examples:

    [cyan]glassformer predict classify MODEL 'so glad to see you' --all-scores[/]

    [cyan]glassformer predict tag MODEL 'Jeff Dean works at Google in California.'[/]

    [cyan]glassformer predict fill MODEL 'Time [MASK] like an arrow.' --target flies --target goes[/]

    [cyan]glassformer predict summarise MODEL articles.csv --column body --output summaries.jsonl[/]

    [cyan]glassformer predict translation_en_to_de MODEL - --beams 4 < english.txt > german.txt[/]

    [cyan]glassformer predict generate MODEL 'Once upon a time' --set do_sample=true --set seed=1[/]
    """
    from glassformer.tasks import pipeline

    texts = inputs(input, column, pair)
    options: dict[str, Any] = {
        "batch_size": batch_size,
        "max_new_tokens": max_new_tokens,
        "num_beams": beams,
        "prefix": prefix,
        "src_lang": src_lang,
        "tgt_lang": tgt_lang,
        "top_k": top_k,
        "targets": target or None,
        "threshold": threshold,
        "aggregation_strategy": aggregation,
    }
    options = {name: value for name, value in options.items() if value is not None}
    options |= _all_labels(
        all_scores=all_scores, plot=plot, top_k=top_k, off_screen=json or output is not None
    )
    options |= dict(_setting(argument) for argument in set or ())
    loading = {
        "device": device,
        "dtype": dtype,
        "revision": revision,
        "allow_pickle": allow_pickle,
        "offline": offline,
    }
    done = 0 if output is None else _count_done(output, texts, resume=resume, overwrite=overwrite)
    with notes():
        pipe = pipeline(task, model, **{**loading, **options})
        if precision is not None:
            pipe.model.prepare(precision)
        if output is not None:
            _write_predictions(pipe, texts[done:], output)
        elif json:
            for text, prediction in _predictions(pipe, texts):
                typer.echo(_json_line(text, prediction))
                sys.stdout.flush()
        else:
            _print_predictions(pipe, texts, charts=plot or all_scores)


def _write_predictions(pipe: Pipeline, texts: list[Any], output: Path) -> None:
    """Append one JSON line per text to the output file."""
    with output.open("a", encoding="utf-8") as file:
        for text, prediction in _predictions(pipe, texts, bar=True):
            file.write(_json_line(text, prediction) + "\n")
            file.flush()  # an interrupt loses no finished prediction
    typer.echo(f"{len(texts):,} predictions written to {output}", err=True)


def _print_predictions(pipe: Pipeline, texts: list[Any], *, charts: bool) -> None:
    """Of one text all predictions; of several a line each, or all with bar charts."""
    for text, prediction in _predictions(pipe, texts):
        if len(texts) == 1:
            show(prediction)
        elif charts:
            typer.echo(visible(text if isinstance(text, str) else " | ".join(text.values())))
            show(prediction)
            typer.echo()
        else:
            typer.echo(visible(pipe.in_words(prediction)))
        sys.stdout.flush()


def _predictions(pipe: Pipeline, texts: list[Any], *, bar: bool = False) -> Iterator[tuple[Any, Any]]:
    """Each text with its prediction; with a progress bar where predictions do not go to the terminal."""
    from glassformer.tasks.pipelines import with_bar

    predictions = pipe(iter(texts))
    if sys.stderr.isatty() and (bar or not sys.stdout.isatty()):
        predictions = with_bar(predictions, len(texts), pipe.task)
    return zip(texts, predictions, strict=True)


def _all_labels(*, all_scores: bool, plot: bool, top_k: int | None, off_screen: bool) -> dict[str, None]:
    """The option of the task for the scores of all labels, where they are asked for.

    Raises: ConfigError: options that contradict each other.
    """
    from glassformer.errors import ConfigError

    if all_scores and top_k is not None:
        raise ConfigError(f"--all-scores and --top-k {top_k} were both given; give one of them")
    if plot and off_screen:
        raise ConfigError("--plot draws on the screen; leave it out beside --json and --output")
    return {"top_k": None} if all_scores or (plot and top_k is None) else {}


def _setting(argument: str) -> tuple[str, Any]:
    """Parse "num_beams=4" into ("num_beams", 4); a value that is not JSON is a string."""
    from glassformer.errors import ConfigError

    name, sign, value = argument.partition("=")
    if not (name and sign):
        raise ConfigError(f"--set is {argument!r}; it must be name=value, such as --set num_beams=4")
    try:
        return name, json_format.loads(value)
    except ValueError:
        return name, value


def _count_done(output: Path, texts: list[Any], *, resume: bool, overwrite: bool) -> int:
    """Count the predictions that the output file already has; an incomplete last line is cut off.

    Raises: DataError: the file exists without --resume or --overwrite, or it belongs to other texts.
    """
    from glassformer.errors import ConfigError, DataError

    if resume and overwrite:
        raise ConfigError("--resume keeps the output file and --overwrite does not; give one of them")
    if output.is_dir() or not output.absolute().parent.is_dir():
        raise DataError(f"{output}: cannot be written; name a file in a folder that exists")
    if not output.exists() or overwrite:
        output.write_bytes(b"")  # fails now, before the work, where writing is not allowed
        return 0
    if not resume:
        raise DataError(
            f"{output}: already exists; --resume continues after its last line, --overwrite replaces it"
        )
    content = output.read_bytes()
    complete = content[: content.rfind(b"\n") + 1]
    try:
        predicted = [json_format.loads(line)["text"] for line in complete.decode("utf-8").split("\n")[:-1]]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{output}: is not a file of predictions; --overwrite replaces it") from error
    if predicted != texts[: len(predicted)]:
        raise DataError(
            f"{output}: holds predictions for other texts; name another file, or give --overwrite"
        )
    if len(complete) < len(content):
        os.truncate(output, len(complete))
    return len(predicted)


def _json_line(text: Any, prediction: Any) -> str:
    def plain(value: Any) -> Any:
        if hasattr(value, "tolist"):  # vectors
            return value.tolist()
        return [plain(item) for item in value] if isinstance(value, list) else dict(value)

    return json_format.dumps({"text": text, "results": plain(prediction)}, ensure_ascii=False)
