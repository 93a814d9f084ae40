"""`glassformer search CONFIG`: hyperparameter search, with pruning of trials that fall behind."""

from __future__ import annotations

import shlex
import sys
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.options import Json, Options, Quiet, command, option
from glassformer.cli.screen import notes, say, show, show_next
from glassformer.errors import ConfigError
from glassformer.progress import progress_bar, spinner

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from glassformer.training.callbacks import Callback, StepReport
    from glassformer.training.trials import SearchResult, Trial


@dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """The section `search` of the configuration: search space, number of trials, and the metric to optimise."""

    space: dict[str, Any]
    trials: int = 20
    metric: str | None = None
    keep_models: bool = field(default=False)


@dataclass(frozen=True, kw_only=True)
class SearchOptions(Options):
    """Options of a search, beside its configuration."""

    trials: int | None = option(None, "Total number of trials, including those of an interrupted search.")
    output: str | None = option(None, "Output folder of the search.", "--output", "-o")


@command
def search(
    config: Annotated[
        Path,
        typer.Argument(help="Configuration file (YAML) as for train, with a section `search`.", show_default=False),
    ],
    options: SearchOptions,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Hyperparameter search: each trial is a training run, and trials that fall behind are pruned.

    In the configuration file, beside the keys of `glassformer train`:

    search:
      trials: 20
      space:
        training.learning_rate: {low: 1.0e-5, high: 1.0e-3, log: true}
        training.batch_size: [8, 16, 32]

    The folder holds trials.log, from which the same command resumes an interrupted search, and at the end trials.html,
    trials.json and best.yaml, the configuration of the best trial.

    Examples:

    [cyan]glassformer search mood.yaml --trials 20[/]

    [cyan]glassformer train runs/search/best.yaml --output runs/best[/]
    """
    with spinner("starting"):
        from glassformer.files.schema import parse
        from glassformer.runs.folder import read_config

    values = read_config(config)
    if "search" not in values:
        raise ConfigError(
            f"{config}: a search needs a section `search` with the settings to vary, such as "
            "search: {space: {training.learning_rate: [1.0e-5, 1.0e-4]}}; to train once: glassformer train"
        )
    settings = parse(SearchConfig, values.pop("search", None) or {}, "search")
    settings = replace(settings, trials=options.trials or settings.trials)
    folder = Path(options.output or values.get("output") or "runs/search")
    with notes():
        results = _search(values, settings, folder, quiet=quiet or json)
    show(results, json, indent=None)
    if not json and results.best is not None:
        best = shlex.join(["glassformer", "train", str(folder / "best.yaml"), "--output", str(folder / "best")])
        say(f"\nsaved in {folder}: trials.html, and best.yaml")
        show_next([best])
    if results.trials and all(trial.error for trial in results.trials):
        raise ConfigError(f"no trial could be trained; trial {results.trials[0].number}: {results.trials[0].error}")


def _search(values: dict[str, Any], settings: SearchConfig, folder: Path, *, quiet: bool) -> SearchResult:
    """Search, and save the results and the configuration of the best trial into the folder."""
    with spinner("starting"):
        from glassformer.runs.config import parse_config
        from glassformer.runs.folder import RunLock
        from glassformer.runs.several import refuse_runs
        from glassformer.tasks.base import task_class
        from glassformer.tasks.metrics.metric import greater_is_better
        from glassformer.training.search import search as search_for
        from glassformer.training.trials import cell

    refuse_runs(values, "a search")
    base = parse_config({**values, "output": str(folder)})
    if base.data.validation is None:
        raise ConfigError(
            "a search compares trials on validation data; give data.validation: files, or a fraction such as 0.1"
        )
    metric = settings.metric or base.training.metric or task_class(base.task).VALIDATION_METRIC
    values["training"] = {**values.get("training", {}), "metric": metric}
    folder.mkdir(parents=True, exist_ok=True)

    def run_trial(chosen: dict[str, Any], pruning: Callback) -> Mapping[str, float]:
        callbacks = [pruning] if quiet else [pruning, _bar()]
        return _run_trial(_with_settings(values, chosen), folder, callbacks, settings.keep_models)

    def report(trial: Trial) -> None:
        if not quiet:
            changes = ", ".join(f"{name} {cell(value)}" for name, value in trial.settings.items())
            print(
                f"trial {trial.number}: {changes}: {trial.state}, {metric} {cell(trial.metrics.get(metric))}",
                file=sys.stderr,
            )

    with RunLock(folder / "lock"):
        results = search_for(
            run_trial,
            settings.space,
            metric=metric,
            direction="maximize" if greater_is_better(metric) else "minimize",
            trials=settings.trials,
            storage=folder / "trials.log",
            seed=base.training.seed,
            progress=report,
        )
    results.write(folder)
    if results.best is not None:
        _save_config(folder / "best.yaml", _with_settings(values, results.best.settings))
    return results


def _save_config(path: Path, values: Mapping[str, Any]) -> None:
    import yaml

    from glassformer.files.atomic import atomic_file

    with atomic_file(path) as stream:
        stream.write(yaml.safe_dump(dict(values), sort_keys=False).encode())


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


def _run_trial(
    values: Mapping[str, Any], parent: Path, callbacks: Sequence[Callback], keep: bool
) -> Mapping[str, float]:
    """Train one trial; its folder is deleted afterwards, unless models are kept."""
    import shutil
    import tempfile

    from glassformer.runs.config import parse_config
    from glassformer.training.run import make_trainer

    folder = Path(tempfile.mkdtemp(prefix="trial-", dir=parent))
    try:
        with spinner("reading the data, loading the model"):
            trainer = make_trainer(parse_config({**values, "output": str(folder)}), callbacks)
        return trainer.train().metrics
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _with_settings(values: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a configuration with settings changed, each named by its path."""
    from glassformer.cli.train import put

    changed = deepcopy(dict(values))
    for path, value in settings.items():
        put(changed, path, value)
    return changed
