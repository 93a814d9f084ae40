"""`glassformer train CONFIG --seeds 0,1,2`: training with several random seeds, with mean and standard deviation."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.cli.screen import counted, notes, print_json, table_of, visible
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from glassformer.evaluation.compare.seeds import SeedSummary
    from glassformer.runs.config import RunConfig


def train_seeds(
    config: RunConfig, seeds: str, run: Callable[..., Any], *, fresh: bool, quiet: bool, json: bool
) -> None:
    """Train into OUTPUT/seed-0, OUTPUT/seed-1, …, skipping finished runs; then evaluate and summarise them.

    Args: run: trains one run, given its configuration
    Raises: ConfigError: invalid seeds, several processes, or a folder that holds a single run already.
    """
    from glassformer.evaluation.compare.seeds import parse_seeds, summarise_seeds
    from glassformer.runs.folder import CONFIG, seed_folder

    numbers = parse_seeds(seeds)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError(
            "--seeds trains several runs one after the other, in one process; with torchrun, give --seed"
        )
    if (Path(config.output) / CONFIG).is_file():
        raise ConfigError(f"{config.output}: holds a run of a single seed already; choose another folder")
    with notes():
        for number in numbers:
            folder = seed_folder(config.output, number)
            run_config = replace(config, output=str(folder), training=replace(config.training, seed=number))
            if not quiet:
                print(f"seed {number}, in {folder}", file=sys.stderr)
            if fresh or not is_finished(folder, run_config):
                run(run_config, resume=not fresh, quiet=quiet)
        with counted(None, "evaluating") as progress:
            summary = summarise_seeds(config.output, progress)
    show(summary, json=json)


def is_finished(folder: Path, config: RunConfig) -> bool:
    """Whether the folder holds a finished run of exactly this configuration."""
    from glassformer.runs.config import config_yaml
    from glassformer.runs.folder import CONFIG
    from glassformer.runs.history import read_run

    saved = folder / CONFIG
    return saved.is_file() and saved.read_text("utf-8") == config_yaml(config) and read_run(folder).ended


def show(summary: SeedSummary, *, json: bool) -> None:
    """Print mean and standard deviation of the metrics over several seeds, as tables or as JSON."""
    if json:
        print_json(summary.to_dict())
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    console.print(Text(visible(summary.caption)), end="\n\n")
    metric = summary.first.metric
    durations = [_minutes(run.cost.seconds, run.cost.cpu_seconds) for run in summary.runs]
    seconds, cpu_seconds = (None if x is None else x.value for x in (summary.seconds, summary.cpu_seconds))
    rows = [
        [f"mean of {len(durations)}", summary.means[metric].written(), _minutes(seconds, cpu_seconds)],
        *(
            [f"seed {run.seed}", run.report.metrics[metric].written(3), duration]
            for run, duration in zip(summary.runs, durations, strict=True)
        ),
        *(
            [name, scores[metric].written(), ""]
            for name, scores in summary.baselines.items()
            if metric in scores
        ),
    ]
    console.print(table_of(["", metric, "minutes (CPU)"], rows, left=1))
    console.print()
    others = [[name, mean.written()] for name, mean in summary.means.items() if name != metric]
    console.print(table_of(["metric", "mean"], others, left=1))
    for note in summary.notes:
        console.print(Text(visible(note), style="dim"))


def _minutes(seconds: float | None, cpu_seconds: float | None) -> str:
    """Training time in minutes: wall clock, and CPU time in brackets."""
    from glassformer.evaluation.compare.seeds import minutes

    return minutes(seconds) + (f" ({minutes(cpu_seconds)})" if cpu_seconds is not None else "")
