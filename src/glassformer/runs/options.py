"""Options of trainings and searches: values in place of those of a configuration file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from glassformer.data.options import DATA, ColumnMapping, IgnoredColumns
from glassformer.errors import ConfigError
from glassformer.files import safe_repr
from glassformer.files.schema import Allowed, Count, Doc, NonNegativeInt, Positive, Schema, Seed, given
from glassformer.runs import KEYS


def set_value(values: dict[str, Any], path: str, value: Any) -> None:
    """Set a nested value of a configuration by its path, such as `training.seed`.

    Raises: ConfigError: the path goes through something that is no mapping.
    """
    *outer, last = path.split(".")
    for name in outer:
        inner = values.setdefault(name, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"{path}: {name} is {safe_repr(inner)}, which has no {last!r}")
        values = inner
    values[last] = value


def with_values(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a configuration with other values, each by its path. Raises: ConfigError: as `set_value`."""
    changed = deepcopy(dict(values))
    for path, value in changes.items():
        set_value(changed, path, value)
    return changed


def set_data(values: dict[str, Any], path: str, files: Sequence[str]) -> None:
    """Set the files of a configuration; a folder, where its files are in one, takes the place of that folder.

        data: {fetch: emotion, train: emotion/train.txt.gz}, and --data FOLDER        FOLDER/emotion/train.txt.gz

    Raises: ConfigError: as `set_value`.
    """
    known = values.get("data")
    in_a_folder = isinstance(known, dict) and bool(known.get("fetch") or known.get("folder"))
    if len(files) == 1:
        folder = in_a_folder and Path(files[0]).is_dir()
        set_value(values, "data.folder" if folder else path, files[0])
    elif files:
        set_value(values, path, list(files))


OPTIMISATION, RUN = "Optimisation", "Run"
TRAINING = ("epochs", "steps", "learning_rate", "batch_size", "precision", "seed", "dry_run")
PATHS = {
    **{name: name for name in ("task", "model", "device", "output", "trackers")},
    **{name: f"training.{name}" for name in TRAINING},
    **{"method": "method.name", "unlabelled": "method.unlabelled"},
    **{"data": "data.train", "validation": "data.validation", "ignore": "data.ignore"},
}
"""Fields of `TrainOptions` → the keys of the configuration that they take the place of."""


def _key(name: str, group: str | None = None) -> Doc:
    return Doc(KEYS[PATHS[name]], group)


@dataclass(frozen=True, kw_only=True)
class TrainOptions(Schema):
    """Values in place of those of a training's configuration."""

    columns: ColumnMapping = field(default_factory=dict)
    ignore: IgnoredColumns = ()
    task: Annotated[str | None, _key("task")] = None
    model: Annotated[str | None, _key("model")] = None
    method: Annotated[str | None, _key("method")] = None
    data: Annotated[Sequence[str], _key("data", DATA)] = ()
    validation: Annotated[str | float | Sequence[str] | None, _key("validation", DATA)] = None
    unlabelled: Annotated[Sequence[str], _key("unlabelled", DATA)] = ()
    epochs: Annotated[Positive | None, _key("epochs", OPTIMISATION)] = None
    steps: Annotated[Count | None, _key("steps", OPTIMISATION)] = None
    learning_rate: Annotated[float | None, _key("learning_rate", OPTIMISATION)] = None
    batch_size: Annotated[Count | None, _key("batch_size", OPTIMISATION)] = None
    precision: Annotated[str | None, _key("precision", OPTIMISATION)] = None
    seed: Annotated[Seed | None, _key("seed", OPTIMISATION)] = None
    settings: Annotated[
        Mapping[str, Any],
        Doc(
            "Any configuration value, by its path: training.warmup=100, task_options.block=256; repeatable.",
            OPTIMISATION,
        ),
    ] = field(default_factory=dict)
    device: Annotated[str | None, _key("device", OPTIMISATION)] = None
    output: Annotated[str | None, _key("output", RUN)] = None
    trackers: Annotated[Sequence[str], _key("trackers", RUN)] = ()
    dry_run: Annotated[bool, _key("dry_run", RUN)] = False

    def apply(self, values: dict[str, Any]) -> None:
        """Override values of a configuration. Raises: ConfigError: as `set_value`."""
        named = {name: list(x) if isinstance(x, tuple | list) else x for name, x in given(self).items()}
        for name in named.keys() & PATHS.keys() - {"data"}:
            set_value(values, PATHS[name], named[name])
        set_data(values, PATHS["data"], self.data)
        for role, name in self.columns.items():
            set_value(values, f"data.columns.{role}", name)
        for path, value in self.settings.items():
            set_value(values, path, value)
        if self.unlabelled and "name" not in values["method"]:
            raise ConfigError("unlabelled= is for a method of few labels: name one, method= NAME (--method NAME)")
        if self.model is not None:
            values.pop("scratch", None)


Seeds = Annotated[Sequence[NonNegativeInt], Allowed("random seeds, each once", lambda x: 0 < len(x) == len(set(x)))]


@dataclass(frozen=True, kw_only=True)
class RunOptions(Schema):
    """What is done around a training."""

    seeds: Annotated[
        Seeds | None,
        Doc("Random seeds of several runs, one after the other: how many, or a list: 0,1,2.", OPTIMISATION),
    ] = None
    evaluate: Annotated[
        bool, Doc("After training, evaluate the best model on the validation data, next to baselines.", RUN)
    ] = True
    fresh: Annotated[bool, Doc("Do not resume: an error if the folder holds a run already.", RUN)] = False


@dataclass(frozen=True, kw_only=True)
class SearchPlan(Schema):
    """The section `search` of a configuration: search space, number of trials, and the metric to optimise."""

    space: dict[str, Any]
    trials: Count = 20
    metric: str | None = None
    keep_models: bool = field(default=False)


@dataclass(frozen=True, kw_only=True)
class SearchOptions(Schema):
    """Values in place of those of a search's configuration."""

    trials: Annotated[Count | None, Doc("Total number of trials, including those of an interrupted search.")] = None
    data: Annotated[str | None, Doc("Folder of the data files. Default: the configuration's.")] = None
    output: Annotated[str | None, Doc("Output folder of the search.")] = None

    def folder(self, values: Mapping[str, Any]) -> Path:
        """The output folder, of a search or of its configuration."""
        return Path(self.output or values.get("output") or "runs/search")
