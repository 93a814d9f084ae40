"""`glassformer generate MODEL PROMPT`: text generation, streamed as tokens arrive."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.inputs import standard_input
from glassformer.cli.options import (
    BEAM_SEARCH,
    BEAMS,
    GENERATION,
    MAX_NEW_TOKENS,
    SAMPLING,
    AllowPickle,
    Device,
    Dtype,
    Json,
    ModelName,
    Offline,
    Precision,
    Revision,
    Sample,
    SamplingSeed,
    Temperature,
    TopK,
    TopP,
)
from glassformer.cli.screen import notes, plain_table, print_json, visible, visible_lines

if TYPE_CHECKING:
    from glassformer.generation.decoding import Generated
    from glassformer.model import Model
    from glassformer.text import Tokenizer

CONTRASTIVE = "Contrastive search"
SPECULATIVE = "Speculative decoding: the same text, faster"
RULES = "Logits processors"
CONSTRAINTS = "Constrained decoding"

Stop = Annotated[
    list[str] | None,
    typer.Option(help="Stop string: end when the text holds it; repeatable.", rich_help_panel=GENERATION),
]
Answers = Annotated[
    int,
    typer.Option(
        help="Number of returned sequences, of several beams or samples.", rich_help_panel=GENERATION
    ),
]
Truncate = Annotated[
    bool,
    typer.Option(
        "--truncate",
        help="Truncate a prompt that is too long, instead of an error.",
        rich_help_panel=GENERATION,
    ),
]
MinP = Annotated[
    float | None,
    typer.Option(
        help="Min-p sampling: from tokens at least this fraction as likely as the most likely one.",
        rich_help_panel=SAMPLING,
    ),
]
TypicalP = Annotated[
    float | None,
    typer.Option(
        help="Locally typical sampling: from tokens whose surprisal is closest to the entropy, up to mass p.",
        rich_help_panel=SAMPLING,
    ),
]
LengthPenalty = Annotated[
    float | None,
    typer.Option(help="Length penalty: above 0 favours long answers.", rich_help_panel=BEAM_SEARCH),
]
EarlyStopping = Annotated[
    bool,
    typer.Option(
        "--early-stopping",
        help="Early stopping: end once there are as many finished beams as the beam width.",
        rich_help_panel=BEAM_SEARCH,
    ),
]
PenaltyAlpha = Annotated[
    float | None,
    typer.Option(
        help="Degeneration penalty, 0 to 1: how much to avoid similarity with the text so far; needs --top-k.",
        rich_help_panel=CONTRASTIVE,
    ),
]
Lookup = Annotated[
    int | None,
    typer.Option(
        help="Prompt lookup decoding: propose this many tokens at a time, copied from the text so far.",
        rich_help_panel=SPECULATIVE,
    ),
]
Draft = Annotated[
    str | None,
    typer.Option(help="Draft model: a smaller model that proposes tokens.", rich_help_panel=SPECULATIVE),
]
DraftTokens = Annotated[
    int | None, typer.Option(help="Number of tokens the draft model proposes.", rich_help_panel=SPECULATIVE)
]
RepetitionPenalty = Annotated[
    float | None,
    typer.Option(
        help="Repetition penalty: above 1 makes tokens of the text so far less likely.",
        rich_help_panel=RULES,
    ),
]
NoRepeatNgramSize = Annotated[
    int | None, typer.Option(help="N-gram blocking: never repeat n tokens in a row.", rich_help_panel=RULES)
]
BadWord = Annotated[
    list[str] | None,
    typer.Option(help="Bad word: a text never to generate; repeatable.", rich_help_panel=RULES),
]
MinNewTokens = Annotated[
    int | None,
    typer.Option(help="Minimum number of new tokens: no end of text before.", rich_help_panel=RULES),
]
Regex = Annotated[
    str | None,
    typer.Option(help="Regular expression that the whole answer matches.", rich_help_panel=CONSTRAINTS),
]
JsonSchema = Annotated[
    str | None,
    typer.Option(
        help="JSON schema that the answer conforms to: a file, or {…}.", rich_help_panel=CONSTRAINTS
    ),
]
Choice = Annotated[
    list[str] | None,
    typer.Option(help="One of the allowed answers; give it several times.", rich_help_panel=CONSTRAINTS),
]


def generate(
    model: ModelName,
    prompt: Annotated[str, typer.Argument(help="Prompt, in quotes; - reads standard input.")],
    max_new_tokens: Annotated[int, MAX_NEW_TOKENS] = 40,
    stop: Stop = None,
    top: Annotated[int, typer.Option(min=0, help="Show the N most likely tokens at each step.")] = 0,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Show each step live: the token distribution and the chosen token."),
    ] = False,
    json: Json = False,
    sample: Sample = False,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    min_p: MinP = None,
    typical_p: TypicalP = None,
    seed: SamplingSeed = None,
    beams: Annotated[int, BEAMS] = 1,
    length_penalty: LengthPenalty = None,
    early_stopping: EarlyStopping = False,
    penalty_alpha: PenaltyAlpha = None,
    lookup: Lookup = None,
    draft: Draft = None,
    draft_tokens: DraftTokens = None,
    answers: Answers = 1,
    repetition_penalty: RepetitionPenalty = None,
    no_repeat_ngram_size: NoRepeatNgramSize = None,
    bad_word: BadWord = None,
    min_new_tokens: MinNewTokens = None,
    regex: Regex = None,
    json_schema: JsonSchema = None,
    choice: Choice = None,
    truncate: Truncate = False,
    device: Device = "cpu",
    dtype: Dtype = None,
    precision: Precision = None,
    revision: Revision = None,
    allow_pickle: AllowPickle = False,
    offline: Offline = False,
) -> None:
    """Generate text: continue a prompt, or answer it with an encoder-decoder, streamed as tokens arrive.

    Greedy decoding by default; sampling, beam search, contrastive search and constraints by option.

    Examples:

    [cyan]glassformer generate MODEL 'Once upon a time'[/]

    [cyan]glassformer generate MODEL 'Once upon a time' --top-p 0.9 --seed 1[/]  sampled, and reproducible

    [cyan]glassformer generate MODEL 'Once upon a time' --top 5[/]  the 5 most likely tokens at each step

    [cyan]glassformer generate MODEL 'Tom was' --regex ' [0-9]+ years old\\.'[/]  what matches, and nothing else

    [cyan]glassformer generate MODEL 'A person: ' --json-schema person.json[/]

    [cyan]glassformer generate MODEL 'Once upon a time' --watch --top-k 50[/]  each step, live

    [cyan]glassformer generate MODEL - --beams 4 -n 60 < article.txt[/]  a summary or translation

    [cyan]glassformer generate MODEL 'Once upon a time' --penalty-alpha 0.6 --top-k 4[/]  contrastive search

    [cyan]glassformer generate MODEL 'Once upon a time' --draft SMALLER[/]  speculative decoding
    """
    shape = {
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "typical_p": typical_p,
    }
    # Contrastive search takes top_k too, so there it is no sign that sampling is meant.
    shaped = penalty_alpha is None and any(value is not None for value in (*shape.values(), seed))
    options: dict[str, Any] = {
        "max_new_tokens": max_new_tokens,
        "stop_strings": stop or None,
        "do_sample": sample or shaped,
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
        "json_schema": None if json_schema is None else _read_schema(json_schema),
        "choices": choice or None,
        "truncation": truncate or None,
    }
    if watch and (json or top):
        from glassformer.errors import ConfigError

        raise ConfigError("--watch shows the most likely tokens itself; leave --top and --json out")
    text = standard_input() if prompt == "-" else prompt
    loading = {"dtype": dtype, "device": device, "allow_pickle": allow_pickle, "offline": offline}
    loaded = _load(model, revision, draft, precision, loading, options)
    with notes():
        if watch:
            from glassformer.cli.watch import watch as show_choices

            show_choices(loaded, text, options)
        elif json or top or beams > 1 or answers > 1:
            _print_all(loaded, text, options, top=top, json=json)
        else:
            _print_stream(loaded, text, options)


def _load(
    model: str,
    revision: str | None,
    draft: str | None,
    precision: str | None,
    loading: Mapping[str, Any],
    options: dict[str, Any],
) -> Model:
    """The model in its precision; a draft model goes into the options."""
    from glassformer.model import load

    loaded = [load(model, revision=revision, **loading)]
    if draft is not None:
        loaded.append(load(draft, **loading))
        options["assistant_model"] = loaded[-1]
    if precision is not None:
        for each in loaded:
            each.prepare(precision)
    return loaded[0]


def _print_all(model: Model, text: str, options: Mapping[str, Any], *, top: int, json: bool) -> None:
    """Generate all answers, then print them; after Ctrl-C, what was generated until then."""
    from glassformer.generation.decoding import Interrupted

    try:
        generated = model.generate(text, **options, top=top, return_scores=True)
    except Interrupted as interrupt:
        _show(text, interrupt.partial, model.tokenizer, json=json)
        raise
    _show(text, generated, model.tokenizer, json=json)


def _print_stream(model: Model, text: str, options: Mapping[str, Any]) -> None:
    """Print each piece of text as soon as it is generated; it stays on the screen after Ctrl-C."""
    pieces = model.stream(text, **options)
    try:
        for piece in pieces:
            typer.echo(visible_lines(piece), nl=False)
            sys.stdout.flush()
    finally:
        typer.echo()


def _show(prompt: str, generated: Generated, tokenizer: Tokenizer, *, json: bool) -> None:
    """All answers, with scores if there are several, and with their steps if alternatives were asked for."""
    if json:
        print_json(_report(prompt, generated, tokenizer))
        return
    assert generated.texts is not None and generated.scores is not None  # both were requested
    for row, answer in enumerate(generated.texts):
        if len(generated.texts) > 1:
            typer.secho(f"answer {row + 1}, score {generated.scores[row]:.3f}", fg="cyan")
        typer.echo(visible_lines(answer))
        if generated.top_ids is not None and generated.top_ids.shape[-1]:
            _show_steps(row, generated, tokenizer)


def _read_schema(text: str) -> Any:
    """A JSON schema: the text itself, or the content of the file of this name."""
    from glassformer.errors import ConfigError
    from glassformer.files.strict_json import read_json_object

    return text if text.lstrip().startswith("{") else read_json_object(Path(text), ConfigError)


def _report(prompt: str, generated: Generated, tokenizer: Tokenizer) -> dict[str, Any]:
    """Prompt, answers and steps, for JSON."""
    assert generated.texts is not None and generated.scores is not None  # both were requested
    return {
        "prompt": prompt,
        "answers": [
            {
                "text": text,
                "score": score,
                "ended_by": reason,
                "ids": ids,
                **_speculation(row, generated),
                **({} if generated.logprobs is None else {"steps": _steps(row, generated, tokenizer)}),
            }
            for row, (text, score, reason, ids) in enumerate(
                zip(
                    generated.texts,
                    generated.scores.tolist(),
                    generated.reasons,
                    generated.new_ids.tolist(),
                    strict=True,
                )
            )
        ],
    }


def _speculation(row: int, generated: Generated) -> dict[str, int]:
    """Of speculative decoding: how many tokens were proposed, and how many of them accepted."""
    if generated.proposed is None or generated.accepted is None:
        return {}
    return {"proposed": int(generated.proposed[row]), "accepted": int(generated.accepted[row])}


def _steps(row: int, generated: Generated, tokenizer: Tokenizer) -> list[dict[str, Any]]:
    """The tokens of a row, each with its probability and the most likely alternatives."""
    assert generated.logprobs is not None and generated.active is not None
    # Beam search has no alternatives: it does not choose one token from one distribution.
    none: list[list[Any]] = [[]] * generated.logprobs.shape[1]
    return [
        {
            "id": token,
            "token": _token(tokenizer, token),
            "probability": probability,
            "likeliest": [
                {"id": other, "token": _token(tokenizer, other), "probability": share}
                for other, share in zip(others, shares, strict=True)
            ],
        }
        for token, probability, others, shares, active in zip(
            generated.new_ids[row].tolist(),
            generated.logprobs[row].exp().tolist(),
            none if generated.top_ids is None else generated.top_ids[row].tolist(),
            none if generated.top_logprobs is None else generated.top_logprobs[row].exp().tolist(),
            generated.active[row].tolist(),
            strict=True,
        )
        if active
    ]


def _show_steps(row: int, generated: Generated, tokenizer: Tokenizer) -> None:
    """A table with one line per step: the chosen token, and the most likely ones."""
    from rich.console import Console
    from rich.text import Text

    steps = _steps(row, generated, tokenizer)
    table = plain_table()
    table.add_column("step", justify="right")
    table.add_column("chosen")
    for number in range(generated.top_ids.shape[-1] if generated.top_ids is not None else 0):
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


def _token(tokenizer: Tokenizer, token_id: int) -> str:
    """The vocabulary entry of an id, with its marker of a space; the id itself if it has none."""
    return tokenizer.engine.id_to_token(token_id) or f"#{token_id}"
