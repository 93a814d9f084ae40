"""`glassformer search CONFIG`: try settings of a training, and keep the best."""

from __future__ import annotations

import json as json_format
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.options import Json
from glassformer.cli.screen import notes
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from glassformer.training.callbacks import Callback
    from glassformer.training.trials import Trial


@dataclass(frozen=True, kw_only=True)
class Space:
    """What stands under `search` in the configuration: which settings, how many trials, and which figure counts."""

    space: dict[str, Any]
    trials: int = 20
    metric: str | None = None
    keep_models: bool = field(default=False)


def search(
    config: Annotated[
        Path, typer.Argument(help="A YAML file as for train, with `search` in it.", show_default=False)
    ],
    trials: Annotated[int | None, typer.Option(help="How many in all, those done before among them.")] = None,
    output: Annotated[str | None, typer.Option("--output", "-o", help="The folder of the search.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the table at the end.")] = False,
    json: Json = False,
) -> None:
    """Search for settings of a training: each trial is a run, and those that fall behind are ended early.

    In the file, beside what `glassformer train` reads:

    search:
      trials: 20
      space:
        training.learning_rate: {low: 1.0e-5, high: 1.0e-3, log: true}
        training.batch_size: [8, 16, 32]

    The folder holds trials.log, from which the same command goes on after it was stopped, and at the end trials.html,
    trials.json and best.yaml, a configuration to train with.

    Examples:

    [cyan]glassformer search mood.yaml --trials 20[/]

    [cyan]glassformer train runs/search/best.yaml --output runs/best[/]
    """
    import yaml

    from glassformer.files.parsing import read_record
    from glassformer.runs.config import config_of, read_config
    from glassformer.runs.lock import Lock
    from glassformer.tasks.evaluator import objective_class
    from glassformer.training.search import search as search_for
    from glassformer.training.trainer import LOWER_IS_BETTER
    from glassformer.weights.write import atomic_file

    values = read_config(config)
    asked = read_record(Space, values.pop("search", None) or {}, "search")
    place = Path(output or values.get("output") or "runs/search")
    base = config_of({**values, "output": str(place)})
    if base.data.validation is None:
        raise ConfigError(
            "a search judges by validation; name data.validation: files, or a share such as 0.1"
        )
    metric = asked.metric or base.training.metric or objective_class(base.task).METRIC
    values["training"] = {**values.get("training", {}), "metric": metric}
    place.mkdir(parents=True, exist_ok=True)

    def make_trial(settings: dict[str, Any], watch: Callback) -> Mapping[str, float]:
        return _trained(_with(values, settings), place, watch, asked.keep_models)

    def told(trial: Trial) -> None:
        if not quiet and not json:
            figure = trial.figures.get(metric)
            said = ", ".join(f"{name} {value}" for name, value in trial.settings.items())
            typer.echo(f"trial {trial.number}: {said}: {trial.state}, {metric} {figure}", err=True)

    with Lock(place / "lock"), notes():
        found = search_for(
            make_trial,
            asked.space,
            metric=metric,
            direction="minimize" if metric in LOWER_IS_BETTER else "maximize",
            trials=trials or asked.trials,
            storage=place / "trials.log",
            seed=base.training.seed,
            progress=told,
        )
    found.save(place)
    if found.best is not None:
        with atomic_file(place / "best.yaml") as stream:
            stream.write(yaml.safe_dump(_with(values, found.best.settings), sort_keys=False).encode())
    if json:
        print(json_format.dumps(found.to_dict()))
        return
    from rich.console import Console
    from rich.table import Table

    headings, rows = found.table()
    table = Table(*headings, box=None, header_style="bold cyan", pad_edge=False)
    for row in rows:
        table.add_row(*row)
    Console(highlight=False).print(table)


def _trained(values: Mapping[str, Any], place: Path, watch: Callback, keep: bool) -> Mapping[str, float]:
    """One trial; its folder goes with it, unless it is to stay."""
    import shutil
    import tempfile

    from glassformer.runs.config import config_of
    from glassformer.training.run import make_trainer

    folder = Path(tempfile.mkdtemp(prefix="trial-", dir=place))
    try:
        trainer = make_trainer(config_of({**values, "output": str(folder)}), [watch])
        return trainer.train().figures
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _with(values: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration with these settings, by their place in it."""
    from glassformer.cli.train import put

    changed = deepcopy(dict(values))
    for place, value in settings.items():
        put(changed, place, value)
    return changed
