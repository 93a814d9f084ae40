"""What `glassformer train` shows around a training: its facts before the first step, and commands to continue with."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from glassformer.cli.screen import show_next, terminal, text_of
from glassformer.files import counted
from glassformer.reports.amounts import amount

if TYPE_CHECKING:
    from glassformer.runs.config import RunConfig
    from glassformer.training.trainer import Trainer

EXAMPLE_CHARACTERS = 100
"""Of an example on a command line: most sentences are whole, and a long text ends at a word."""


def summary(config: RunConfig, trainer: Trainer) -> dict[str, str]:
    """A training in five facts: the model, the task, examples, steps, and where all settings are."""
    from glassformer.runs.charts import number
    from glassformer.runs.config import as_list
    from glassformer.runs.folder import CONFIG

    options, model, labels = config.training, trainer.model, trainer.model.config.get("id2label") or {}
    parameters = sum(parameter.numel() for parameter in model.network.parameters())
    trained = sum(parameter.numel() for parameter in model.network.parameters() if parameter.requires_grad)
    part = "" if trained == parameters else f", {amount(trained)} of them trained"
    count = f", {len(labels)} labels" if config.task in ("classify", "tag") else ""
    if model.config.get("problem_type") == "regression":
        count = ", a number"
    best = "" if trainer.validation_examples is None else f"; the best model by {trainer.metric}"
    first, *more = as_list(config.data.train)
    if first == ".":
        first = str(config.data.root)
    files = f"{first} and {len(more)} more" if more else first
    held_out = trainer.validation_examples
    validation = "no validation data (-v 0.1 holds out a tenth)"
    if held_out is not None:
        validation = f"{len(held_out):,} for validation"
    size = f"{options.batch_size} examples" if options.batch_tokens is None else f"{options.batch_tokens:,} tokens"
    length = f"{counted(trainer.steps, 'step')} of {size}"
    passes = trainer.batch_sampler.epochs
    epochs = "" if options.steps is not None else f" ({passes:g} epoch{'s' * (passes != 1)})"
    resumed = f"; resumed after step {trainer.state.step:,}" if trainer.state.step else ""
    return {
        "model": f"{config.model or 'from scratch'}: {model.family.model_type}, {amount(parameters)} parameters{part}",
        "task": f"{config.task}{count}{best}",
        "data": f"{files}: {len(trainer.train_examples):,} examples, {validation}",
        "budget": f"{length}{epochs}, learning rate {number(options.learning_rate)}, on {trainer.device}",
        "output": f"{config.output}, with every setting in its {CONFIG}{resumed}",
    }


def few_steps_note(trainer: Trainer) -> str | None:
    """What to type where the epochs that were asked for are too few steps to learn anything; None = they suffice."""
    from glassformer.training.batch_loader import LEAST_STEPS

    options, sampler = trainer.options, trainer.batch_sampler
    if options.epochs is None or options.steps is not None or trainer.steps >= LEAST_STEPS or options.dry_run:
        return None
    epochs = -(-LEAST_STEPS // sampler.steps_per_epoch(0))
    return (
        f"{counted(trainer.steps, 'step')} are few, a new head hardly learns in them: "
        f"--epochs {epochs} makes {LEAST_STEPS:,} of the same rows"
    )


def next_commands(config: RunConfig, trainer: Trainer, *, evaluated: bool) -> list[str]:
    """Up to three commands to continue with, on words of an example where the model reads text."""
    from glassformer.tasks.base import gives_sounds

    run, verb = shlex.quote(config.output), {"generate": "generate", "instruct": "generate"}.get(config.task)
    if config.task in ("classify", "tag", "fill", "translate", "summarise"):
        verb = f"predict {config.task}"
    tokenizer, text = trainer.model._tokenizer, ""
    for index in range(min(len(trainer.train_examples), 100)):  # an example may have no words
        ids = trainer.train_examples[index].get("input_ids")
        if ids is None or tokenizer is None or text:
            break
        text = first_words(tokenizer.decode([int(i) for i in ids], skip_special_tokens=True))
    commands = [f"glassformer errors {run}" if evaluated else f"glassformer curves {run}"]
    if gives_sounds(type(trainer.task)):
        commands.insert(0, f"glassformer listen {run}")
    if text:
        commands.insert(0, f"glassformer look {run} {shlex.quote(text)}")
        if config.task == "fill" and tokenizer is not None:
            text = f"{text} {tokenizer.special_tokens.get('mask')}"
        if verb is not None:
            commands.insert(0, f"glassformer {verb} {run} {shlex.quote(text)}")
    return commands[:3]


def first_words(text: str) -> str:
    """The beginning of an example, for a command line."""
    words = text.split()
    ends = accumulate(len(word) + 1 for word in words)
    return " ".join(word for word, end in zip(words, ends, strict=True) if end <= EXAMPLE_CHARACTERS)


def show_end(config: RunConfig, result: Mapping[str, Any], commands: Sequence[str]) -> None:
    """Where the model is, how good it is, and the commands to continue with."""
    from glassformer.runs.charts import scores

    best = f"step {result['steps']:,}, the last"
    if result["best_step"] is not None:
        # A report has said how good it is.
        metrics = f": {', '.join(scores(result['metrics']))}" if "comparison" not in result else ""
        best = f"step {result['best_step']:,}, the best{metrics}"
    terminal().print(text_of(f"\nsaved in {config.output}: the model of {best}"))
    show_next(commands)
