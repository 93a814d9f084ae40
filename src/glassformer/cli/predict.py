"""`glassformer predict --task TASK MODEL TEXT…`: a task, from texts to answers, on the screen or into a file."""

from __future__ import annotations

import json as json_format
import os
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.screen import visible

if TYPE_CHECKING:
    from glassformer.tasks import Pipeline

WRITING = "Writing"
FILLING = "Filling gaps"
FILES = "Many texts"
LOADING = "Loading"

STDIN = "standard input"
NO_LIMIT = 1 << 40  # bytes of a text: who asks by hand knows how long it is


def predict(
    model: Annotated[str, typer.Argument(help="A model folder, or a name on the Hugging Face Hub.")],
    texts: Annotated[
        list[str] | None, typer.Argument(help="Texts, in quotes; - reads standard input, a text a line.")
    ] = None,
    task: Annotated[
        str,
        typer.Option(
            "--task",
            "-t",
            help="text-generation, text2text-generation, summarization, translation, translation_en_to_de, fill-mask.",
            show_default=False,
        ),
    ] = "",
    json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each text.")] = False,
    input: Annotated[
        Path | None,
        typer.Option(
            "--input",
            "-i",
            help="A file: a text a line, or .jsonl, .json, .csv, .tsv, .parquet.",
            rich_help_panel=FILES,
        ),
    ] = None,
    column: Annotated[
        str, typer.Option(help="Which column of a table or .jsonl holds the texts.", rich_help_panel=FILES)
    ] = "text",
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
        int, typer.Option(min=1, help="How many texts go through the model together.", rich_help_panel=FILES)
    ] = 8,
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
            help="Any option of generate, as name=value; may be given again: --set do_sample=true.",
            rich_help_panel=WRITING,
        ),
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(min=1, help="How many words for each gap.", rich_help_panel=FILLING)
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(help="A word that is allowed; may be given again.", rich_help_panel=FILLING),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, mps, or auto.", rich_help_panel=LOADING)] = "cpu",
    dtype: Annotated[
        str | None,
        typer.Option(help="Such as bfloat16. Default: the checkpoint's.", rich_help_panel=LOADING),
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(
            help="fp16, bf16 or int8: packed weights, faster and a little different.", rich_help_panel=LOADING
        ),
    ] = None,
    revision: Annotated[
        str | None, typer.Option(help="A branch, tag or commit on the Hub.", rich_help_panel=LOADING)
    ] = None,
    allow_pickle: Annotated[
        bool,
        typer.Option("--allow-pickle", help="Also read old .bin and .pt files.", rich_help_panel=LOADING),
    ] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Never open a connection.", rich_help_panel=LOADING)
    ] = False,
) -> None:
    """Put a model to a task: summaries, translations, continued texts, filled gaps.

    One text shows all its answers, several the first of each, a line a text. In a file each text has a line of JSON,
    written as soon as it is answered; --resume goes on after a run that was stopped.

    Examples:

    [cyan]glassformer predict --task fill-mask MODEL 'Time [MASK] like an arrow.' --target flies --target goes[/]

    [cyan]glassformer predict --task summarization MODEL --input articles.txt --output summaries.jsonl[/]

    [cyan]glassformer predict --task translation_en_to_de MODEL - --beams 4 < english.txt > german.txt[/]

    [cyan]glassformer predict --task text-generation MODEL 'Once upon a time' --set do_sample=true --set seed=1[/]
    """
    from glassformer.errors import ConfigError
    from glassformer.tasks import pipeline

    if not task:
        raise ConfigError("--task is missing; say what is to be done, such as --task fill-mask (see --help)")
    found = _texts(texts or [], input, column)
    done = 0 if output is None else _finished(output, found, resume=resume, overwrite=overwrite)
    options = {
        "max_new_tokens": max_new_tokens,
        "num_beams": beams,
        "prefix": prefix,
        "src_lang": src_lang,
        "tgt_lang": tgt_lang,
        "top_k": top_k,
        "targets": target or None,
        **dict(_setting(given) for given in set or ()),
    }
    pipe = pipeline(
        task,
        model,
        device=device,
        dtype=dtype,
        revision=revision,
        allow_pickle=allow_pickle,
        offline=offline,
        batch_size=batch_size,
        **{name: value for name, value in options.items() if value is not None},
    )
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
        elif len(found) > 1:
            typer.echo(visible(_first(answer)))
        else:
            _show(answer)
        sys.stdout.flush()


# --------------------------------------------------------------------------------------------------- what is answered


def _texts(given: list[str], file: Path | None, column: str) -> list[Any]:
    """The texts of the command line, of standard input, or of a file.

    Raises: DataError: none, or from two places, or a file that is not what its name says.
    """
    from glassformer.errors import DataError

    if bool(given) == (file is not None):
        raise DataError("give texts on the command line, or --input FILE, or - for standard input")
    if file is None and given != ["-"]:
        return list(given)
    found = list(_rows_of(file, column) if file is not None and _is_table(file) else _lines_of(file, column))
    if not found:
        raise DataError(f"{file or STDIN} is empty; give at least one text")
    return found


def _is_table(file: Path) -> bool:
    """Whether rows with columns lie in it; a file of JSON lines may also hold texts, a line each."""
    from glassformer.data.kinds import ENDINGS, ending

    return ENDINGS.get(ending(file)) in ("csv", "tsv", "json", "parquet")


def _rows_of(file: Path, column: str) -> Iterator[Any]:
    """A column of a table."""
    from glassformer.data.rows import read_rows

    rows = read_rows(file, columns=(column,), limit=NO_LIMIT)
    return (_text(row[column], rows.where(number)) for number, row in enumerate(rows))


def _lines_of(file: Path | None, column: str) -> Iterator[Any]:
    """The lines of a file or of standard input; of JSON, the text or conversation of each."""
    from glassformer.data.lines import Lines
    from glassformer.data.records import json_values
    from glassformer.data.schema import missing
    from glassformer.data.texts import bare
    from glassformer.errors import DataError
    from glassformer.files import reason

    name = STDIN if file is None else str(file)
    try:
        stream = sys.stdin.buffer if file is None else file.open("rb")
    except OSError as error:
        raise DataError(f"{name}: cannot be read: {reason(error)}; give a text file") from error
    with nullcontext() if file is None else stream:
        lines = Lines(stream, name, limit=NO_LIMIT)
        if file is None or file.suffix != ".jsonl":
            yield from map(bare, lines)
            return
        for value in json_values(lines):
            where = f"{name}: line {lines.line}"
            if isinstance(value, dict) and column not in value:
                raise DataError(f"{where}: {missing(column, value)}; say --column")
            yield _text(value[column] if isinstance(value, dict) else value, where)


def _text(value: Any, where: str) -> Any:
    """A text, or a conversation. Raises: DataError: something else."""
    from glassformer.errors import DataError

    if not isinstance(value, (str, list)):
        raise DataError(f"{where} holds {value!r:.60}; it must be a text, or a conversation")
    return value


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
    from glassformer.tasks.base import with_bar

    answers = pipe(iter(texts))
    return with_bar(answers, len(texts), pipe.task) if bar and sys.stderr.isatty() else iter(answers)


def _line(text: Any, answer: Any) -> str:
    def plain(value: Any) -> Any:
        return [plain(each) for each in value] if isinstance(value, list) else dict(value)

    return json_format.dumps({"text": text, "results": plain(answer)}, ensure_ascii=False)


def _first(answer: Any) -> str:
    from glassformer.tasks.base import first_text

    return first_text(answer)


def _show(answer: Any) -> None:
    """All answers to one text: a line each, the lines of a text kept; of a gap, the words and their probability."""
    from glassformer.tasks.results import Filling

    for result in answer:
        if isinstance(result, list):  # one of several gaps
            _show(result)
            typer.echo()
        elif isinstance(result, Filling):
            typer.echo(f"{result.score:7.2%}  {visible(result.token_str):12}  {visible(result.sequence)}")
        else:
            typer.echo("\n".join(visible(line) for line in result.text.split("\n")))
