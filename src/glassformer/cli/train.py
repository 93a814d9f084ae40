"""`glassformer train CONFIG`, or `glassformer train --task classify --model FOLDER --data my.csv`: training."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.options import command
from glassformer.cli.screen import first_words, note, notes, print_facts, print_json, show, show_next, terminal, text_of
from glassformer.data.options import ReadingOptions
from glassformer.progress import hidden, is_first_process, progress_bar, spinner
from glassformer.reports.report import plain
from glassformer.runs.options import RUN, RunOptions, TrainOptions

if TYPE_CHECKING:
    from glassformer.runs.config import RunConfig
    from glassformer.studies.trained import TrainedResult
    from glassformer.training.callbacks import Callback
    from glassformer.training.trainer import Trainer

ConfigFile = Annotated[
    Path | None,
    typer.Argument(help="Configuration file (YAML); options on the command line override it.", show_default=False),
]


Show = Annotated[bool, typer.Option("--show", help="Print the effective configuration, and exit.", rich_help_panel=RUN)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Quiet: no progress bar.", rich_help_panel=RUN)]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel=RUN)]


@command
def train(
    config: ConfigFile = None,
    *,
    options: TrainOptions,
    reading: ReadingOptions,
    around: RunOptions,
    show_config: Show = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Train or fine-tune a model on your data.

    The run folder holds the effective configuration (config.yaml), checkpoints, an event log, training curves, and the
    best model, which is evaluated at the end on the validation data, next to baselines. The same command resumes an
    interrupted run, bit for bit; Ctrl-C finishes the step and saves a checkpoint.

    Exit codes: 0 done · 2 an error to correct · 3 the loss is NaN or infinite · 75 interrupted and saved

    Examples:
      # a tenth held out for validation
      glassformer train -t classify -m MODEL -d mood.csv -v 0.1 -o runs/mood
      # a method of few labels
      glassformer train -t classify --method naive-bayes -d mood.csv -o runs/mood
      # the configuration with another warm-up
      glassformer train mood.yaml --set training.warmup=100
      # the same run once more
      glassformer train runs/mood/config.yaml --output runs/again
      # three random seeds: mean and standard deviation of the metrics
      glassformer train mood.yaml --seeds 3
      # several runs of one configuration
      glassformer train examples/guitar-own.yaml --data recordings/
      # data-parallel training in two processes
      torchrun --nproc-per-node 2 -m glassformer train mood.yaml
    """
    with spinner("starting"):
        from glassformer.runs.config import ONLY, config_yaml, configured_runs, only_run

    configs, quiet = configured_runs(config, options, reading), quiet or json
    if show_config:
        print("---\n".join(map(config_yaml, configs.values())), end="")
        return
    with spinner("starting"):
        from glassformer.studies.trained import train_runs, train_seeds

    say_which = _ignore if quiet else partial(print, file=sys.stderr)
    evaluate = around.evaluate and not options.dry_run
    if around.seeds is not None:
        one = partial(_train, resume=not around.fresh, evaluate=around.evaluate, quiet=quiet, at_end=False)
        with notes():
            runs = train_seeds(
                only_run(configs), around.seeds, one, fresh=around.fresh, notify=say_which, bar=progress_bar
            )
        show(runs, json)
        return
    one = partial(_train, resume=not around.fresh, evaluate=evaluate, quiet=quiet)
    results: Any = one(configs[ONLY]) if ONLY in configs else None
    if results is None:
        results = train_runs(configs, one, evaluate=evaluate, fresh=around.fresh, notify=say_which)
    if json and is_first_process():
        print_json(plain(results), indent=None)


def _ignore(message: str) -> None:
    """With --quiet: print no messages."""


def _train(config: RunConfig, *, resume: bool, evaluate: bool, quiet: bool, at_end: bool = True) -> TrainedResult:
    """Train one run; at its end print its report and what comes next."""
    if config.method is not None:
        return _learn(config, evaluate=evaluate, quiet=quiet or not at_end)
    with notes(), hidden(quiet), spinner("reading the data, loading the model", logged=20):
        from glassformer.studies.trained import configured_trainer, saved_sentence, train_run

        trainer = configured_trainer(config)
    if not quiet:
        trainer.callbacks[1:1] = _progress(config)  # after the configuration is saved

    def bar(what: str, rows: int | None) -> Any:
        if not quiet:
            typer.echo("evaluating the best model and baselines", err=True)
        return progress_bar(what, rows)

    with notes():
        result = train_run(config, trainer, resume=resume, evaluate=evaluate, notify=note, bar=bar)
    if at_end and not quiet and is_first_process():
        commands = next_commands(config, trainer)
        show_end(result, saved_sentence(result, trainer), commands)
    return result


def _learn(config: RunConfig, *, evaluate: bool, quiet: bool) -> TrainedResult:
    """Learn a method of few labels, and print its report and what comes next."""
    with notes(), hidden(quiet), spinner("learning", logged=20):
        from glassformer.studies.trained_method import method_commands, train_method

        result = train_method(config, evaluate=evaluate, notify=note, bar=progress_bar)
    if not quiet:
        show_end(result, f"saved in {result.folder}", method_commands(config, evaluated=result.report is not None))
    return result


def _progress(config: RunConfig) -> list[Callback]:
    from glassformer.training.callbacks import Callback, Progress
    from glassformer.training.run import few_steps_note, training_facts

    class Opening(Callback):
        """Shows what is trained, on what and for how long, before the first step."""

        def on_begin(self, trainer: Trainer) -> None:
            from rich.console import Console

            print_facts(training_facts(config, trainer), Console(stderr=True, highlight=False))
            if (few := few_steps_note(trainer)) is not None:
                note(few)

    return [Opening(), Progress()]


def next_commands(config: RunConfig, trainer: Trainer) -> list[str]:
    """Up to three commands to continue with, on words of an example where the model reads text."""
    from glassformer.tasks.base import gives_sounds
    from glassformer.training.run import example_text

    run, verb = shlex.quote(config.output), {"generate": "generate", "instruct": "generate"}.get(config.task)
    if config.task in ("classify", "tag", "fill", "translate", "summarise"):
        verb = f"predict {config.task}"
    tokenizer, text = trainer.model._tokenizer, first_words(example_text(trainer))
    commands = [f"glassformer look {run}"]
    if gives_sounds(type(trainer.task)):
        commands.insert(0, f"glassformer listen {run}")
    if text:
        commands.insert(0, f"glassformer look {run} {shlex.quote(text)}")
        if config.task == "fill" and tokenizer is not None:
            text = f"{text} {tokenizer.special_tokens.get('mask')}"
        if verb is not None:
            commands.insert(0, f"glassformer {verb} {run} {shlex.quote(text)}")
    return commands[:3]


def show_end(result: TrainedResult, saved: str, commands: Sequence[str]) -> None:
    """The report, where the model is, and the commands to continue with."""
    if result.report is not None:
        show(result.report, json=False)
    terminal().print(text_of(f"\n{saved}"))
    show_next(commands)
