"""`glassformer search CONFIG`: hyperparameter search, with pruning of trials that fall behind."""

from __future__ import annotations

import shlex
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.options import IsConfig, Json, Quiet, command
from glassformer.cli.screen import notes, say, show, show_next
from glassformer.errors import ConfigError
from glassformer.progress import hidden, progress_bar, spinner
from glassformer.runs.options import SearchOptions

if TYPE_CHECKING:
    from glassformer.training.callbacks import Callback, StepReport
    from glassformer.training.trials import Trial


@command
def search(
    config: Annotated[
        Path,
        IsConfig,
        typer.Argument(help="Configuration file (YAML) as for train, with a section `search`.", show_default=False),
    ],
    options: SearchOptions,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Hyperparameter search: each trial is a training run, and trials that fall behind are pruned.

    In the configuration file, next to the keys of `glassformer train`:

    search:
      trials: 20
      space:
        training.learning_rate: {low: 1.0e-5, high: 1.0e-3, log: true}
        training.batch_size: [8, 16, 32]

    The folder holds trials.log, from which the same command resumes an interrupted search, and at the end trials.html,
    trials.json and best.yaml, the configuration of the best trial.

    Examples:
      glassformer search mood.yaml --trials 20
      glassformer train runs/search/best.yaml --output runs/best
    """
    with spinner("starting"):
        from glassformer.runs.folder import read_config
        from glassformer.training.search_run import search_config

    with notes(), hidden(quiet or json):
        results = search_config(
            config, options, callbacks=lambda: [_bar()], progress=_say_trial if not (quiet or json) else _say_nothing
        )
    show(results, json, indent=None)
    if not json and results.best is not None:
        folder = options.folder(read_config(config))
        best = shlex.join(["glassformer", "train", str(folder / "best.yaml"), "--output", str(folder / "best")])
        say(f"\nsaved in {folder}: trials.html, and best.yaml")
        show_next([best])
    if results.trials and all(trial.error for trial in results.trials):
        raise ConfigError(f"no trial could be trained; trial {results.trials[0].number}: {results.trials[0].error}")


def _say_trial(trial: Trial, metric: str) -> None:
    from glassformer.training.trials import cell

    changes = ", ".join(f"{name} {cell(value)}" for name, value in trial.settings.items())
    result = f"{trial.state}, {metric} {cell(trial.metrics.get(metric))}"
    print(f"trial {trial.number}: {changes}: {result}", file=sys.stderr)


def _say_nothing(trial: Trial, metric: str) -> None:
    """With --quiet: print no line for a trial."""


def _bar() -> Callback:
    """A callback that shows a progress bar of the steps of one trial."""
    from glassformer.training.callbacks import Callback
    from glassformer.training.trainer import Trainer

    class Bar(Callback):
        """Progress bar of a trial."""

        def on_begin(self, trainer: Trainer) -> None:
            self._shown = ExitStack()
            self._advance = self._shown.enter_context(progress_bar("training a trial, steps", trainer.steps))

        def on_step(self, trainer: Trainer, report: StepReport) -> None:
            self._advance(1)

        def on_end(self, trainer: Trainer, result: Any) -> None:
            self._shown.close()

    return Bar()
