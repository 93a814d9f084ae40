"""`glassformer train CONFIG --seeds 0,1,2`: the same training several times, and what its figures are worth."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from glassformer.cli.screen import counted, notes, table_of, visible
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from glassformer.evaluation.compare.seeds import Seeds
    from glassformer.runs.config import Config


def train_seeds(
    asked: Config, seeds: str, run: Callable[..., Any], *, fresh: bool, quiet: bool, json: bool
) -> None:
    """Train into OUTPUT/seed-0, OUTPUT/seed-1, …, what is finished already not again; then evaluate, and summarise.

    Args: run: how one run is trained
    Raises: ConfigError: no seeds, several processes, or a folder that holds a single run already.
    """
    from glassformer.evaluation.compare.seeds import seed_numbers, summarise
    from glassformer.runs.folder import CONFIG, seed_folder

    numbers = seed_numbers(seeds)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError(
            "several seeds are trained one after the other by one process; with torchrun, give --seed"
        )
    if (Path(asked.output) / CONFIG).is_file():
        raise ConfigError(f"{asked.output}: holds a run of a single seed already; choose another folder")
    with notes():
        for number in numbers:
            folder = seed_folder(asked.output, number)
            one = replace(asked, output=str(folder), training=replace(asked.training, seed=number))
            if not quiet:
                print(f"seed {number}, in {folder}", file=sys.stderr)
            if fresh or not is_finished(folder, one):
                run(one, resume=not fresh, quiet=quiet)
        with counted(None, "judging") as progress:
            found = summarise(asked.output, progress)
    show(found, json=json)


def is_finished(folder: Path, config: Config) -> bool:
    """Is the very run that this configuration describes at its end?"""
    from glassformer.runs.config import as_yaml
    from glassformer.runs.folder import CONFIG
    from glassformer.runs.history import read_run

    kept = folder / CONFIG
    return kept.is_file() and kept.read_text("utf-8") == as_yaml(config) and read_run(folder).ended


def show(found: Seeds, *, json: bool) -> None:
    """Several seeds, for programs or for people."""
    if json:
        import json as json_format

        typer.echo(json_format.dumps(found.to_dict(), ensure_ascii=False, indent=2))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    console.print(Text(visible(found.headed)), end="\n\n")
    metric = found.first.metric
    taken = [_minutes(run.cost.seconds, run.cost.cpu_seconds) for run in found.runs]
    seconds, cpu_seconds = (None if x is None else x.value for x in (found.seconds, found.cpu_seconds))
    standings = [
        [f"mean of {len(taken)}", found.means[metric].written(), _minutes(seconds, cpu_seconds)],
        *(
            [f"seed {run.seed}", run.report.figures[metric].written(3), spent]
            for run, spent in zip(found.runs, taken, strict=True)
        ),
        *(
            [name, figures[metric].written(), ""]
            for name, figures in found.baselines.items()
            if metric in figures
        ),
    ]
    console.print(table_of(["", metric, "minutes (CPU)"], standings, left=1))
    console.print()
    others = [[name, mean.written()] for name, mean in found.means.items() if name != metric]
    console.print(table_of(["figure", "mean"], others, left=1))
    for note in found.notes:
        console.print(Text(visible(note), style="dim"))


def _minutes(seconds: float | None, cpu_seconds: float | None) -> str:
    """Of training: on the wall, and of all processors."""
    from glassformer.evaluation.compare.seeds import minutes

    return minutes(seconds) + (f" ({minutes(cpu_seconds)})" if cpu_seconds is not None else "")
