"""What `glassformer train` shows at the end: where the model is, and commands to continue with."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from glassformer.cli.screen import show_next, terminal, text_of

if TYPE_CHECKING:
    from glassformer.runs.config import RunConfig
    from glassformer.studies.trained import TrainedResult
    from glassformer.training.trainer import Trainer

TEXT_ROLES = ("text", "tokens", "source", "question", "prompt")
"""Roles of columns that hold what a model of text reads."""
EXAMPLE_CHARACTERS = 100
"""Of an example on a command line: most sentences are whole, and a long text ends at a word."""


def next_commands(config: RunConfig, trainer: Trainer, *, evaluated: bool) -> list[str]:
    """Up to three commands to continue with, on words of an example where the model reads text."""
    from glassformer.tasks.base import gives_sounds

    run, verb = shlex.quote(config.output), {"generate": "generate", "instruct": "generate"}.get(config.task)
    if config.task in ("classify", "tag", "fill", "translate", "summarise"):
        verb = f"predict {config.task}"
    tokenizer, text = trainer.model._tokenizer, example_words(trainer)
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


def example_words(trainer: Trainer) -> str:
    """The beginning of a training text, as its row has it: a tokenizer may lower-case it. "" = the rows have none."""
    rows, columns = trainer.train_rows, trainer.task.columns
    names = [columns[role] for role in TEXT_ROLES if role in columns and role not in trainer.task.TARGETS]
    if rows is None or not trainer.task.READS_TEXT or trainer.model._tokenizer is None:
        return ""
    for index in range(min(len(rows), 100)):  # a row may have no words
        for value in filter(None, map(rows[index].get, names)):
            words = value if isinstance(value, str) else " ".join(map(str, value))
            if text := first_words(words):
                return text
    return ""


def first_words(text: str) -> str:
    """The beginning of an example, for a command line."""
    words = text.split()
    ends = accumulate(len(word) + 1 for word in words)
    return " ".join(word for word, end in zip(words, ends, strict=True) if end <= EXAMPLE_CHARACTERS)


def show_end(result: TrainedResult, commands: Sequence[str], trainer: Trainer) -> None:
    """Where the model is, how good it is, by which metric it was chosen, and the commands to continue with."""
    from glassformer.runs.charts import scores
    from glassformer.training.run import chosen_by

    best = f"step {result.steps:,}, the last"
    if result.best_step is not None:
        # A report has said how good it is.
        metrics = f": {', '.join(scores(dict(result.metrics)))}" if result.report is None else ""
        best = f"step {result.best_step:,}, the best by {trainer.metric if metrics else chosen_by(trainer)}{metrics}"
    terminal().print(text_of(f"\nsaved in {result.folder}: the model of {best}"))
    show_next(commands)
