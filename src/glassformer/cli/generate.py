"""`glassformer generate MODEL PROMPT`: text generation, streamed as tokens arrive."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from glassformer.cli.inputs import check_texts, whole_texts
from glassformer.cli.options import Defaults, Json, ModelName, command, generation_keywords
from glassformer.cli.screen import notes, plain_table, print_json, terminal, visible, visible_lines
from glassformer.errors import ConfigError
from glassformer.files.schema import given
from glassformer.generation.options import GenerationOptions
from glassformer.inspect.options import GenerationViewOptions
from glassformer.loading import InferenceLoading
from glassformer.progress import spinner

if TYPE_CHECKING:
    from glassformer.generation.decoding import Generated
    from glassformer.model import Model
    from glassformer.text import Tokenizer


@command
def generate(
    model: ModelName,
    prompt: Annotated[str, typer.Argument(help="Prompt, in quotes, or a text file; - reads standard input.")],
    view: GenerationViewOptions,
    generation: Annotated[GenerationOptions, Defaults(max_new_tokens=40)],
    loading: InferenceLoading,
    json: Json = False,
) -> None:
    """Generate text: continue a prompt, or answer it with an encoder-decoder, streamed as tokens arrive.

    Greedy decoding by default; sampling, beam search, contrastive search and constraints by option.

    Examples:
      glassformer generate MODEL 'Once upon a time'
      # sampled, and reproducible
      glassformer generate MODEL 'Once upon a time' --top-p 0.9 --seed 1
      # the 5 most likely tokens at each step
      glassformer generate MODEL 'Once upon a time' --top 5
      # what matches, and nothing else
      glassformer generate MODEL 'Tom was' --regex ' [0-9]+ years old\\.'
      glassformer generate MODEL 'A person: ' --json-schema person.json
      # each step, live
      glassformer generate MODEL 'Once upon a time' --watch --top-k 50
      # a summary or translation
      glassformer generate MODEL - --beams 4 -n 60 < article.txt
      # contrastive search
      glassformer generate MODEL 'Once upon a time' --penalty-alpha 0.6 --top-k 4
      # speculative decoding
      glassformer generate MODEL 'Once upon a time' --draft SMALLER
    """
    options = generation_keywords(generation)
    if view.watch and (json or view.top):
        raise ConfigError("--watch shows the most likely tokens itself; leave --top and --json out")
    check_texts([prompt], most=1)
    with spinner("loading the model"):
        loaded = _load(model, loading, options)
    (text,) = whole_texts([prompt], loaded)
    with notes():
        if view.watch:
            from glassformer.inspect.generation_view import watch

            watch(loaded.writing(text), **options)
        elif json or view.top or generation.num_beams > 1 or generation.num_return_sequences > 1:
            _print_all(loaded, text, options, top=view.top, json=json)
        else:
            _print_stream(loaded, text, options)


def _load(model: str, loading: InferenceLoading, options: dict[str, Any]) -> Model:
    """The model; a draft model, of the Hub's default revision and its own base, is put into the options."""
    from glassformer.model import load

    loaded = load(model, **given(loading))
    if (draft := options.get("assistant_model")) is not None:
        options["assistant_model"] = load(draft, **{**given(loading), "revision": None, "base": None})
    return loaded


def _print_all(model: Model, text: str, options: Mapping[str, Any], *, top: int, json: bool) -> None:
    """Generate all answers, then print them; after Ctrl-C, what was generated until then."""
    from glassformer.generation.decoding import Interrupted

    try:
        generated = model.generate(text, **options, top=top, return_scores=True)
    except Interrupted as interrupt:
        _show(text, interrupt.partial, model.tokenizer.target, json=json)
        raise
    _show(text, generated, model.tokenizer.target, json=json)


def _show_prompt(model: Model, prompt: str) -> None:
    """On a terminal, print the prompt that a text continues, dim, so that it can be read whole; not to a pipe."""
    if model.task == "text-generation" and sys.stdout.isatty():
        typer.secho(visible_lines(prompt), dim=True, nl=False)


def _print_stream(model: Model, text: str, options: Mapping[str, Any]) -> None:
    """Print each piece of text as soon as it is generated; it stays on the screen after Ctrl-C."""
    _show_prompt(model, text)
    pieces = model.stream(text, **options)
    try:
        with warnings.catch_warnings(record=True) as notes:  # they come after the text, not within it
            for piece in pieces:
                typer.echo(visible_lines(piece), nl=False)
                sys.stdout.flush()
    finally:
        typer.echo()
    for note in notes:
        warnings.warn(note.message, stacklevel=2)


def _show(prompt: str, generated: Generated, tokenizer: Tokenizer, *, json: bool) -> None:
    """All answers, with scores if there are several, and with their steps if alternatives were asked for."""
    from glassformer.generation.answers import answers

    if json:
        print_json({"prompt": prompt, "answers": answers(generated, tokenizer)})
        return
    assert generated.texts is not None and generated.scores is not None  # both were requested
    for row, answer in enumerate(generated.texts):
        if len(generated.texts) > 1:
            typer.secho(f"answer {row + 1}, score {generated.scores[row]:.3f}", fg="cyan")
        typer.echo(visible_lines(answer))
        if generated.top_ids is not None and generated.top_ids.shape[-1]:
            _show_steps(row, generated, tokenizer)


def _show_steps(row: int, generated: Generated, tokenizer: Tokenizer) -> None:
    """A table with one line per step: the chosen token, and the most likely ones."""
    from glassformer.generation.answers import steps_of

    steps = steps_of(row, generated, tokenizer)
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
    console = terminal()
    console.print()
    console.print(table)
