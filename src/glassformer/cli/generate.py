"""`glassformer generate MODEL PROMPT`: what a model writes, as it writes it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.options import AllowPickle, Device, Dtype, Json, ModelName, Offline, Packed, Revision
from glassformer.cli.screen import notes, visible

if TYPE_CHECKING:
    from glassformer.generation.sample import Generated
    from glassformer.model import Model
    from glassformer.text import Tokenizer

SAMPLING = "Sampling"
BEAMS = "Beam search"
CONTRAST = "Contrastive search"
SPECULATION = "The same, faster"
RULES = "Rules"
CONSTRAINTS = "Constraints"


def generate(
    model: ModelName,
    prompt: Annotated[str, typer.Argument(help="The text, in quotes; - reads standard input.")],
    max_new_tokens: Annotated[
        int, typer.Option("--max-new-tokens", "-n", min=1, help="How many at most.")
    ] = 40,
    stop: Annotated[list[str] | None, typer.Option(help="A text that ends it; may be given again.")] = None,
    top: Annotated[int, typer.Option(min=0, help="Show so many of the likeliest tokens at each step.")] = 0,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show the choice at each step: what else could have come.")
    ] = False,
    json: Json = False,
    sample: Annotated[
        bool,
        typer.Option("--sample", help="Draw tokens; any option below does so too.", rich_help_panel=SAMPLING),
    ] = False,
    temperature: Annotated[
        float | None,
        typer.Option(help="Below 1 the likely becomes likelier, above 1 less so.", rich_help_panel=SAMPLING),
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="From the k likeliest.", rich_help_panel=SAMPLING)] = None,
    top_p: Annotated[
        float | None,
        typer.Option(help="From the likeliest that reach p together.", rich_help_panel=SAMPLING),
    ] = None,
    min_p: Annotated[
        float | None,
        typer.Option(
            help="From those at least as likely as this share of the likeliest.", rich_help_panel=SAMPLING
        ),
    ] = None,
    typical_p: Annotated[
        float | None,
        typer.Option(help="From those about as surprising as expected.", rich_help_panel=SAMPLING),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="The same draws each time.", rich_help_panel=SAMPLING)
    ] = None,
    beams: Annotated[int, typer.Option(help="How many beams are searched.", rich_help_panel=BEAMS)] = 1,
    length_penalty: Annotated[
        float | None, typer.Option(help="Above 0 favours long answers.", rich_help_panel=BEAMS)
    ] = None,
    early_stopping: Annotated[
        bool, typer.Option("--early-stopping", help="Stop once enough beams ended.", rich_help_panel=BEAMS)
    ] = False,
    penalty_alpha: Annotated[
        float | None,
        typer.Option(
            help="0 to 1: how unlike the text before; with --top-k candidates.", rich_help_panel=CONTRAST
        ),
    ] = None,
    lookup: Annotated[
        int | None,
        typer.Option(help="Guess so many tokens at a time from the text.", rich_help_panel=SPECULATION),
    ] = None,
    draft: Annotated[
        str | None, typer.Option(help="A smaller model that guesses.", rich_help_panel=SPECULATION)
    ] = None,
    draft_tokens: Annotated[
        int | None, typer.Option(help="How many it guesses at a time.", rich_help_panel=SPECULATION)
    ] = None,
    answers: Annotated[int, typer.Option(help="How many, of several beams or draws.")] = 1,
    repetition_penalty: Annotated[
        float | None,
        typer.Option(help="Above 1 makes what was said less likely.", rich_help_panel=RULES),
    ] = None,
    no_repeat_ngram_size: Annotated[
        int | None, typer.Option(help="No run of so many tokens twice.", rich_help_panel=RULES)
    ] = None,
    bad_word: Annotated[
        list[str] | None,
        typer.Option(help="A text never to write; may be given again.", rich_help_panel=RULES),
    ] = None,
    min_new_tokens: Annotated[
        int | None, typer.Option(help="No end before so many tokens.", rich_help_panel=RULES)
    ] = None,
    regex: Annotated[
        str | None,
        typer.Option(help="Write what matches this expression, as a whole.", rich_help_panel=CONSTRAINTS),
    ] = None,
    json_schema: Annotated[
        str | None,
        typer.Option(help="Write JSON that this schema allows: a file, or {…}.", rich_help_panel=CONSTRAINTS),
    ] = None,
    choice: Annotated[
        list[str] | None,
        typer.Option(help="Write one of these; to be given several times.", rich_help_panel=CONSTRAINTS),
    ] = None,
    truncate: Annotated[
        bool, typer.Option("--truncate", help="Cut a prompt that is too long, instead of refusing it.")
    ] = False,
    device: Device = "cpu",
    dtype: Dtype = None,
    precision: Packed = None,
    revision: Revision = None,
    allow_pickle: AllowPickle = False,
    offline: Offline = False,
) -> None:
    """Continue a text, or answer it, and show the words as they come.

    It takes the likeliest token each time, unless asked to sample or to search with beams.

    Examples:

    [cyan]glassformer generate MODEL 'Once upon a time'[/]

    [cyan]glassformer generate MODEL 'Once upon a time' --top-p 0.9 --seed 1[/]  drawn, and repeatable

    [cyan]glassformer generate MODEL 'Once upon a time' --top 5[/]  the five likeliest tokens at each step

    [cyan]glassformer generate MODEL 'Tom was' --regex ' [0-9]+ years old\\.'[/]  what matches, and nothing else

    [cyan]glassformer generate MODEL 'A person: ' --json-schema person.json[/]

    [cyan]glassformer generate MODEL 'Once upon a time' --watch --top-k 50[/]  each choice, while it is made

    [cyan]glassformer generate MODEL - --beams 4 -n 60 < article.txt[/]  a summary or translation

    [cyan]glassformer generate MODEL 'Once upon a time' --penalty-alpha 0.6 --top-k 4[/]  without repeating itself

    [cyan]glassformer generate MODEL 'Once upon a time' --draft SMALLER[/]  the same text, sooner
    """
    from glassformer.generation.sample import Interrupted
    from glassformer.model import load

    shape = {
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "typical_p": typical_p,
    }
    options: dict[str, Any] = {
        "max_new_tokens": max_new_tokens,
        "stop_strings": stop or None,
        "do_sample": sample
        or (penalty_alpha is None and any(value is not None for value in (*shape.values(), seed))),
        **shape,
        "seed": seed,
        "num_beams": beams,
        "length_penalty": length_penalty,
        "early_stopping": early_stopping or None,
        "penalty_alpha": penalty_alpha,
        "prompt_lookup_num_tokens": lookup,
        "num_assistant_tokens": draft_tokens,
        "num_return_sequences": answers,
        "repetition_penalty": repetition_penalty,
        "no_repeat_ngram_size": no_repeat_ngram_size,
        "bad_words": bad_word or None,
        "min_new_tokens": min_new_tokens,
        "regex": regex,
        "json_schema": None if json_schema is None else _schema(json_schema),
        "choices": choice or None,
        "truncation": truncate or None,
    }
    if watch and (json or top):
        from glassformer.errors import ConfigError

        raise ConfigError("--watch shows the likeliest tokens itself; leave --top and --json out")
    text = _standard_input() if prompt == "-" else prompt
    loading: dict[str, Any] = {
        "dtype": dtype,
        "device": device,
        "allow_pickle": allow_pickle,
        "offline": offline,
    }
    loaded = load(model, revision=revision, **loading)
    if draft is not None:
        options["assistant_model"] = load(draft, **loading)
    if precision is not None:
        for each in (loaded, options.get("assistant_model", loaded)):
            each.prepare(precision)
    if watch:
        from glassformer.cli.watch import watch as show_choices

        with notes():
            show_choices(loaded, text, options)
        return
    with notes():
        if not (json or top or beams > 1 or answers > 1):
            _stream(loaded, text, options)
            return
        try:
            found = loaded.generate(text, **options, top=top, return_scores=True)
        except Interrupted as interrupt:  # what was written is shown before it ends
            _show(text, interrupt.partial, loaded.tokenizer, json=json)
            raise
    _show(text, found, loaded.tokenizer, json=json)


def _show(prompt: str, found: Generated, tokenizer: Tokenizer, *, json: bool) -> None:
    """All answers, with their scores where there are several, and their steps where alternatives were asked for."""
    if json:
        import json as json_format

        typer.echo(json_format.dumps(_report(prompt, found, tokenizer), ensure_ascii=False, indent=2))
        return
    assert found.texts is not None and found.scores is not None  # both were asked for
    for row, answer in enumerate(found.texts):
        if len(found.texts) > 1:
            typer.secho(f"answer {row + 1}, score {found.scores[row]:.3f}", fg="cyan")
        typer.echo(_shown(answer))
        if found.top_ids is not None and found.top_ids.shape[-1]:
            _show_steps(row, found, tokenizer)


def _schema(text: str) -> Any:
    """A JSON schema: the text itself, or what stands in the file of this name."""
    from glassformer.errors import ConfigError
    from glassformer.files.strict_json import read_object

    return text if text.lstrip().startswith("{") else read_object(Path(text), ConfigError)


def _standard_input() -> str:
    """Raises: DataError: what stands there is no text."""
    from glassformer.errors import DataError

    try:
        return sys.stdin.buffer.read().decode("utf-8-sig").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise DataError("standard input is not UTF-8 text; save it as UTF-8") from error


def _stream(model: Model, text: str, options: dict[str, Any]) -> None:
    """Each piece as soon as it is there; what was written stays when Ctrl-C comes."""
    pieces = model.stream(text, **options)
    try:
        for piece in pieces:
            typer.echo(_shown(piece), nl=False)
            sys.stdout.flush()
    finally:
        typer.echo()


def _shown(text: str) -> str:
    """The text with its lines, and nothing in it that could steer the terminal."""
    return "\n".join(visible(line) for line in text.split("\n"))


def _report(prompt: str, found: Generated, tokenizer: Tokenizer) -> dict[str, Any]:
    """All that is known, for programs."""
    assert found.texts is not None and found.scores is not None  # both were asked for
    return {
        "prompt": prompt,
        "answers": [
            {
                "text": text,
                "score": score,
                "ended_by": reason,
                "ids": ids,
                **_guessed(row, found),
                **({} if found.logprobs is None else {"steps": _steps(row, found, tokenizer)}),
            }
            for row, (text, score, reason, ids) in enumerate(
                zip(found.texts, found.scores.tolist(), found.reasons, found.new_ids.tolist(), strict=True)
            )
        ],
    }


def _guessed(row: int, found: Generated) -> dict[str, int]:
    """How many tokens were guessed, and how many of the guesses came true."""
    if found.proposed is None or found.accepted is None:
        return {}
    return {"proposed": int(found.proposed[row]), "accepted": int(found.accepted[row])}


def _steps(row: int, found: Generated, tokenizer: Tokenizer) -> list[dict[str, Any]]:
    """The tokens of a row, each with its probability, and the likeliest beside it."""
    assert found.logprobs is not None and found.spoken is not None
    none: list[list[Any]] = [[]] * found.logprobs.shape[1]  # of a beam search: it has no one choice at a step
    return [
        {
            "id": token,
            "token": _named(tokenizer, token),
            "probability": probability,
            "likeliest": [
                {"id": other, "token": _named(tokenizer, other), "probability": share}
                for other, share in zip(others, shares, strict=True)
            ],
        }
        for token, probability, others, shares, said in zip(
            found.new_ids[row].tolist(),
            found.logprobs[row].exp().tolist(),
            none if found.top_ids is None else found.top_ids[row].tolist(),
            none if found.top_logprobs is None else found.top_logprobs[row].exp().tolist(),
            found.spoken[row].tolist(),
            strict=True,
        )
        if said
    ]


def _show_steps(row: int, found: Generated, tokenizer: Tokenizer) -> None:
    """One line a step: what was chosen, and what could have been."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    steps = _steps(row, found, tokenizer)
    table = Table(box=None, header_style="bold cyan", pad_edge=False)
    table.add_column("step", justify="right")
    table.add_column("chosen")
    for number in range(found.top_ids.shape[-1] if found.top_ids is not None else 0):
        table.add_column(f"choice {number + 1}")
    for number, step in enumerate(steps, start=1):
        chosen = visible(step["token"])
        if all(other["id"] != step["id"] for other in step["likeliest"]):
            chosen += f" {step['probability']:.1%}"
        cells = [
            Text(
                f"{visible(other['token'])} {other['probability']:.1%}",
                style="bold" if other["id"] == step["id"] else "",
            )
            for other in step["likeliest"]
        ]
        table.add_row(str(number), Text(chosen), *cells)
    console = Console(highlight=False)
    console.print()
    console.print(table)


def _named(tokenizer: Tokenizer, number: int) -> str:
    """The vocabulary entry, in which a space before a word is seen; its number where there is none."""
    return tokenizer.engine.id_to_token(number) or f"#{number}"
