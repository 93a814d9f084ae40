"""Several runs in one configuration: what they share is once, and each may build on the models of those before it.

output: runs/guitar
data: {train: recordings/}                  of all runs
runs:
  codec: {task: reconstruct, …}             in runs/guitar/codec; its keys override those of all
  player: {task: generate-audio, task_options: {codec: "run:codec"}, …}        run:codec: the model of that run
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, nearest
from glassformer.files import safe_repr
from glassformer.runs.folder import MODEL

RUNS, REFERENCE = "runs", "run:"


def split_runs(values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The keys and values of each run of a configuration, by its name, in their order.

    Raises: ConfigError: `runs` holds no configurations, a name that is no folder's, two runs with one output folder, or
        a reference to no run before it.
    """
    shared = {name: value for name, value in values.items() if name != RUNS}
    runs = values[RUNS]
    if not isinstance(runs, Mapping) or not runs:
        raise ConfigError(f"runs is {safe_repr(runs)}; it must be name → configuration: {{codec: {{task: …}}, …}}")
    folder = shared.pop("output", "runs")
    configs: dict[str, dict[str, Any]] = {}
    models: dict[str, str] = {}
    for name, own in runs.items():
        if not isinstance(name, str) or Path(name).name != name or name.startswith("."):
            raise ConfigError(f"runs has the name {safe_repr(name)}; it must be that of a folder in {folder}")
        if not isinstance(own, Mapping):
            raise ConfigError(f"runs.{name} is {safe_repr(own)}; it must be names and values, such as task: classify")
        output = str(Path(str(folder)) / name)
        config = _resolved({"output": output, **merged_values(shared, own)}, models, f"runs.{name}")
        model = str(Path(str(config["output"])) / MODEL)
        if same := [other for other in models if models[other] == model]:
            raise ConfigError(
                f"runs.{name} has the output folder of runs.{same[0]}, {config['output']}; give it another"
            )
        configs[name], models[name] = config, model
    return configs


def refuse_runs(values: Mapping[str, Any], what: str) -> None:
    """Refuse a configuration of several runs where one is needed. Raises: ConfigError: it has `runs`."""
    if RUNS in values:
        raise ConfigError(
            f"{what} needs the configuration of one run, and this one has `runs`; take one of them by itself"
        )


def merged_values(shared: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Shared values, and those of one run in their place; of mappings, key by key."""
    merged = {**shared, **own}
    for name, value in own.items():
        if isinstance(value, Mapping) and isinstance(shared.get(name), Mapping):
            merged[name] = merged_values(shared[name], value)
    return merged


def _resolved(value: Any, models: Mapping[str, str], where: str) -> Any:
    """A value with every `run:NAME` as the folder of that run's model."""
    if isinstance(value, Mapping):
        return {key: _resolved(inner, models, f"{where}.{key}") for key, inner in value.items()}
    if isinstance(value, list):
        return [_resolved(inner, models, where) for inner in value]
    if not isinstance(value, str) or not value.startswith(REFERENCE):
        return value
    name = value.removeprefix(REFERENCE)
    if name not in models:
        known = ", ".join(models) or "none"
        raise ConfigError(f"{where} is {safe_repr(value)}; runs before this one{nearest(name, models)}: {known}")
    return models[name]
