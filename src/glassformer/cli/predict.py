"""`glassformer predict TASK MODEL INPUT…`: a task, from texts to answers, on the screen or into a file."""

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
from glassformer.cli.options import AllowPickle, Device, Dtype, ModelName, Offline, Packed, Revision
from glassformer.cli.screen import notes, visible

if TYPE_CHECKING:
    from glassformer.tasks import Pipeline

WRITING = "Writing"
FILLING = "Filling gaps"
JUDGING = "Classes and tags"
FILES = "Many texts"


def predict(
    task: Annotated[
        str,
        typer.Argument(
            help="classify, tag, features, fill, summarise, translate, translation_en_to_de, generate; or by Hugging "
            "Face's name: text-classification, …"
        ),
    ],
    model: ModelName,
    input: Annotated[
        list[str],
        typer.Argument(
            help="Texts, in quotes; files: a text a line, or .jsonl, .json, .csv, .tsv, .parquet, .conll; - reads "
            "standard input, a text a line."
        ),
    ],
    json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each text.")] = False,
    column: Annotated[
        str, typer.Option(help="Which column of a table or .jsonl holds the texts.", rich_help_panel=FILES)
    ] = "text",
    pair: Annotated[
        str | None,
        typer.Option(help="Which column holds the second text of each pair.", rich_help_panel=FILES),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Write a line of JSON for each text there.", rich_help_panel=FILES
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on where the file of answers ends.", rich_help_panel=FILES),
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the file of answers.", rich_help_panel=FILES)
    ] = False,
    batch_size: Annotated[
        int | None,
        typer.Option(min=1, help="How many texts go through the model together.", rich_help_panel=FILES),
    ] = None,
    max_new_tokens: Annotated[
        int | None, typer.Option("--max-new-tokens", "-n", min=1, help="At most.", rich_help_panel=WRITING)
    ] = None,
    beams: Annotated[
        int | None, typer.Option(min=1, help="How many beams are searched.", rich_help_panel=WRITING)
    ] = None,
    prefix: Annotated[
        str | None,
        typer.Option(help="What stands before each text: 'summarize: '.", rich_help_panel=WRITING),
    ] = None,
    src_lang: Annotated[
        str | None, typer.Option(help="The language of the texts: de_DE.", rich_help_panel=WRITING)
    ] = None,
    tgt_lang: Annotated[
        str | None, typer.Option(help="The language of the answers.", rich_help_panel=WRITING)
    ] = None,
    set: Annotated[
        list[str] | None,
        typer.Option(
            help="Any other option of the task, or of generate, as name=value; may be given again.",
        ),
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(min=1, help="How many labels of a text, or words for a gap.", rich_help_panel=JUDGING),
    ] = None,
    all_scores: Annotated[
        bool,
        typer.Option("--all-scores", help="All labels, with bars on the screen.", rich_help_panel=JUDGING),
    ] = False,
    plot: Annotated[
        bool,
        typer.Option(
            "--plot", help="Draw the scores: of all labels, or of the best --top-k.", rich_help_panel=JUDGING
        ),
    ] = False,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="From which probability on a label holds, where several may.", rich_help_panel=JUDGING
        ),
    ] = None,
    aggregation: Annotated[
        str | None,
        typer.Option(
            help="first: a word has the tag of its first token; none: each token has its own.",
            rich_help_panel=JUDGING,
        ),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(help="A word that is allowed; may be given again.", rich_help_panel=FILLING),
    ] = None,
    device: Device = "cpu",
    dtype: Dtype = None,
    precision: Packed = None,
    revision: Revision = None,
    allow_pickle: AllowPickle = False,
    offline: Offline = False,
) -> None:
    """Put a model to a task: classes, names, summaries, translations, continued texts, filled gaps.

    One text shows all its answers, several the first of each, a line a text. In a file each text has a line of JSON,
    written as soon as it is answered; --resume goes on after a run that was stopped.

    Examples:

    [cyan]glassformer predict classify MODEL 'so glad to see you' --all-scores[/]

    [cyan]glassformer predict tag MODEL 'Jeff Dean works at Google in California.'[/]

    [cyan]glassformer predict fill MODEL 'Time [MASK] like an arrow.' --target flies --target goes[/]

    [cyan]glassformer predict summarise MODEL articles.csv --column body --output summaries.jsonl[/]

    [cyan]glassformer predict translation_en_to_de MODEL - --beams 4 < english.txt > german.txt[/]

    [cyan]glassformer predict generate MODEL 'Once upon a time' --set do_sample=true --set seed=1[/]
    """
    from glassformer.tasks import pipeline

    found = inputs(input, column, pair)
    options = {
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
    asked: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    asked |= _scores(all_scores=all_scores, plot=plot, top_k=top_k, elsewhere=json or output is not None)
    loading = {
        "device": device,
        "dtype": dtype,
        "revision": revision,
        "allow_pickle": allow_pickle,
        "offline": offline,
    }
    done = 0 if output is None else _finished(output, found, resume=resume, overwrite=overwrite)
    with notes():
        pipe = pipeline(task, model, **{**loading, **asked, **dict(_setting(given) for given in set or ())})
        if precision is not None:
            pipe.model.prepare(precision)
        answers = _answers(pipe, found[done:], bar=output is not None or not sys.stdout.isatty())
        if output is not None:
            with output.open("a", encoding="utf-8") as file:
                for text, answer in zip(found[done:], answers, strict=True):
                    file.write(_line(text, answer) + "\n")
                    file.flush()  # what is answered is kept, whatever comes
            typer.echo(f"{len(found) - done:,} texts answered, in {output}", err=True)
            return
        for text, answer in zip(found, answers, strict=True):
            if json:
                typer.echo(_line(text, answer))
            elif len(found) == 1:
                show(answer)
            elif plot or all_scores:
                typer.echo(visible(text if isinstance(text, str) else " | ".join(text.values())))
                show(answer)
                typer.echo()
            else:
                typer.echo(visible(pipe.in_words(answer)))
            sys.stdout.flush()


# ------------------------------------------------------------------------------------------------- what is asked for


def _scores(*, all_scores: bool, plot: bool, top_k: int | None, elsewhere: bool) -> dict[str, None]:
    """What the task is told where all scores are asked for.

    Raises: ConfigError: options that contradict each other.
    """
    from glassformer.errors import ConfigError

    if all_scores and top_k is not None:
        raise ConfigError(f"--all-scores and --top-k {top_k} were both given; give one of them")
    if plot and elsewhere:
        raise ConfigError("--plot draws on the screen; leave it out beside --json and --output")
    return {"top_k": None} if all_scores or (plot and top_k is None) else {}


def _setting(given: str) -> tuple[str, Any]:
    """ "num_beams=4" → ("num_beams", 4); what is no JSON is a text."""
    from glassformer.errors import ConfigError

    name, sign, value = given.partition("=")
    if not (name and sign):
        raise ConfigError(f"--set is {given!r}; it must be name=value, such as --set num_beams=4")
    try:
        return name, json_format.loads(value)
    except ValueError:
        return name, value


# ----------------------------------------------------------------------------------------------------- where it goes


def _finished(output: Path, texts: list[Any], *, resume: bool, overwrite: bool) -> int:
    """How many of these texts have their answer in the file already; a line that was cut off is taken out.

    Raises: DataError: the file is there and nobody said what to do with it, or it belongs to other texts.
    """
    from glassformer.errors import ConfigError, DataError

    if resume and overwrite:
        raise ConfigError("--resume keeps what is there and --overwrite does not; give one of them")
    if output.is_dir() or not output.absolute().parent.is_dir():
        raise DataError(f"{output}: cannot be written there; name a file in a folder that exists")
    if not output.exists() or overwrite:
        output.write_bytes(b"")  # also shows now, before the work, whether this is allowed
        return 0
    if not resume:
        raise DataError(
            f"{output}: is there already; --resume goes on where it ends, --overwrite replaces it"
        )
    content = output.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    try:
        answered = [json_format.loads(line)["text"] for line in whole.decode("utf-8").split("\n")[:-1]]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{output}: is no file of answers; --overwrite replaces it") from error
    if answered != texts[: len(answered)]:
        raise DataError(f"{output}: holds answers to other texts; name another file, or give --overwrite")
    if len(whole) < len(content):
        os.truncate(output, len(whole))
    return len(answered)


def _answers(pipe: Pipeline, texts: list[Any], *, bar: bool) -> Iterator[Any]:
    from glassformer.tasks.pipeline import with_bar

    answers = pipe(iter(texts))
    return with_bar(answers, len(texts), pipe.task) if bar and sys.stderr.isatty() else iter(answers)


def _line(text: Any, answer: Any) -> str:
    def plain(value: Any) -> Any:
        if hasattr(value, "tolist"):  # vectors
            return value.tolist()
        return [plain(each) for each in value] if isinstance(value, list) else dict(value)

    return json_format.dumps({"text": text, "results": plain(answer)}, ensure_ascii=False)
