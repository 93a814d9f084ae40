"""The runs that a configuration file describes, with options in place of some of its values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from glassformer.data.options import ReadingOptions
from glassformer.errors import ConfigError
from glassformer.runs.config import RunConfig, parse_config
from glassformer.runs.folder import read_config
from glassformer.runs.options import TrainOptions, set_value
from glassformer.runs.several import RUNS, split_runs

ONLY = ""
"""The name of the run of a configuration that has one."""


def configured_runs(
    config: Path | None, options: TrainOptions, reading: ReadingOptions | None = None
) -> dict[str, RunConfig]:
    """The configurations of the runs, by name; of one alone, by `ONLY`.

    Args:
        config: the YAML file; None = the options are all there is
        reading: how the files of the data are read, in place of the same keys of `data.format`
    Raises: ConfigError: no task or data, a study, or an invalid key or value.
    """
    values = {} if config is None else read_config(config)
    if "study" in values:
        raise ConfigError(f"{config} describes a study of several runs: glassformer study {config}")
    if RUNS not in values:
        _apply(options, reading, values)
        needed = {"task": "--task classify", "data": "--data rows.csv"}
        if missing := [example for name, example in needed.items() if name not in values]:
            raise ConfigError(
                f"add {' and '.join(missing)}, or name a configuration file; see `glassformer train --help`"
            )
        return {ONLY: parse_config({"output": f"runs/{values.get('task')}", **values})}
    if options.output is not None:
        values["output"] = options.output  # of the folder that holds them all
    runs = split_runs(values)
    for own in runs.values():
        _apply(replace(options, output=None), reading, own)
    return {name: _parsed(name, own) for name, own in runs.items()}


def _apply(options: TrainOptions, reading: ReadingOptions | None, values: dict[str, Any]) -> None:
    """Override values of a configuration. Raises: ConfigError: as `set_value`."""
    options.apply(values)
    for name, value in ({} if reading is None else reading.keywords()).items():
        set_value(values, f"data.format.{name}", list(value) if isinstance(value, tuple) else value)


def only_run(configs: dict[str, RunConfig]) -> RunConfig:
    """The one run of a configuration. Raises: ConfigError: it has several."""
    if ONLY not in configs:
        raise ConfigError(f"seeds= repeats one run; this configuration has {len(configs)}: {', '.join(configs)}")
    return configs[ONLY]


def _parsed(name: str, values: dict[str, Any]) -> RunConfig:
    """The configuration of one run of several. Raises: ConfigError: it is none, with the name of the run."""
    try:
        return parse_config(values)
    except ConfigError as error:
        raise ConfigError(f"runs.{name}: {error}") from error
