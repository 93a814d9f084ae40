"""Run configuration: the YAML file of a training, read strictly.

task: classify                            what to train; see `glassformer train --help`
model: path-or-name                       initial weights; or `scratch`
output: runs/mood                         the run folder: checkpoints, the event log and the best model
data: {train: mood.csv, validation: 0.1, columns: {text: tweet, label: mood}}
training: {epochs: 3, learning_rate: 3e-5}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from glassformer.compression.adapters import AdapterSpec
from glassformer.data.rows import RowSequence, read_rows
from glassformer.data.views import RelabelledRows
from glassformer.deprecation import former_names
from glassformer.errors import ConfigError, nearest
from glassformer.files import open_regular_file, safe_repr
from glassformer.files.parsing import parse_dataclass
from glassformer.runs.options import TrainingOptions
from glassformer.runs.presets import preset
from glassformer.tasks.base import Task
from glassformer.tasks.registry import task_class

MAX_CONFIG_BYTES = 1_000_000


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """The training and validation data.

    folder: of the files, if not the working directory
    train: a file, or several, concatenated · validation: files, or the share of the training rows to hold out
    held_out: "drawn": a random sample, stratified by label; "last": the last rows, of a single text its end
    columns: role → column, where they have other names · ignore: unused columns, or "*": all of them
    format: how files are read: `delimiter`, `names`, … · validation_format: what differs for validation files
    rename: of classes or tags: label → new name, such as {B-MISC: O, I-MISC: O}
    without_leaks: leave out validation rows whose inputs are in the training data too, whatever their labels
    limit: a random sample of so many training rows, by the seed; smaller samples are subsets of larger ones; a list: of
        each file, null = all
    cache: store the examples in the output folder, for rows that do not fit in RAM
    """

    train: str | list[str]
    folder: str = "."
    validation: str | list[str] | float | None = None
    held_out: Literal["drawn", "last"] = "drawn"
    columns: dict[str, str] = field(default_factory=dict)
    ignore: list[str] = field(default_factory=list)
    format: dict[str, Any] = field(default_factory=dict)
    validation_format: dict[str, Any] = field(default_factory=dict)
    rename: dict[str, str] = field(default_factory=dict)
    without_leaks: bool = False
    limit: int | list[int | None] | None = None
    cache: bool = False

    def read(self, files: str | list[str], format: Mapping[str, Any] | None = None) -> RowSequence:
        """Read the rows of files in the folder; `format`: options that override those of `format`."""
        paths = [str(Path(self.folder, name)) for name in as_list(files)]
        rows = read_rows(paths, **{**self.format, **(format or {})})
        return RelabelledRows(rows, self._label_column(rows), self.rename) if self.rename else rows

    def _label_column(self, rows: RowSequence) -> str:
        """The column of classes or tags."""
        usual = {"label": "label", "tags": "tags"}
        configured = [self.columns[role] for role in usual if role in self.columns]
        for name in (*configured, *usual):
            if name in rows.columns:
                return name
        raise ConfigError(
            f"data.rename is for classes and tags; {rows.file(0)} has neither 'label' nor 'tags' among its columns "
            f"{', '.join(map(repr, rows.columns))}: name the column, such as columns: {{label: mood}}"
        )


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """A tokenizer to train on the training rows, before the model: see `train_tokenizer`."""

    size: int
    kind: Literal["byte-bpe", "wordpiece", "unigram"] = "byte-bpe"
    family: str | None = None
    lower: bool = False


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """The whole configuration of a run.

    model: a folder or a name on the Hub · scratch: random initial weights instead: a published name (`glassformer
        sizes`), a config.json, or its keys; the tokenizer is then that of the folder `tokenizer`, or trained on the
        training rows, such as {size: 5000, family: bart}
    overrides: keys of config.json to override, such as {hidden_dropout_prob: 0}
    objective: options of the task, such as {block: 256}
    adapter: train low-rank adapters instead of all weights, such as {rank: 8, target_modules: [q, v]}
    judging: options of evaluation, such as {beams: 5}: how `glassformer evaluate` runs the trained model
    """

    task: str
    output: str
    data: DataConfig
    model: str | None = None
    scratch: str | dict[str, Any] | None = None
    tokenizer: str | TokenizerConfig | None = None
    overrides: dict[str, Any] = field(default_factory=dict)
    objective: dict[str, Any] = field(default_factory=dict)
    training: TrainingOptions = field(default_factory=TrainingOptions)
    adapter: AdapterSpec | None = None
    judging: dict[str, Any] = field(default_factory=dict)
    trackers: list[str] = field(default_factory=list)
    device: str = "cpu"
    sharded: bool = False

    def __post_init__(self) -> None:
        task_class(self.task)  # there is such a task
        if (self.model is None) == (self.scratch is None):
            raise ConfigError("give either model, for its weights, or scratch, for random ones")
        if self.scratch is not None and self.tokenizer is None:
            raise ConfigError(
                "a model from scratch needs a tokenizer: the folder of one (glassformer tokenizer train), or "
                "{size: 5000} to train one on the training rows"
            )
        if isinstance(self.data.validation, float) and not 0 < self.data.validation < 1:
            raise ConfigError(
                f"data.validation is {self.data.validation}; it is a share between 0 and 1, or a file"
            )
        if self.data.validation_format and isinstance(self.data.validation, float | None):
            raise ConfigError("data.validation_format is for files, and data.validation names none")
        limits = self.data.limit if isinstance(self.data.limit, list) else [self.data.limit]
        if any(size is not None and size < 1 for size in limits):
            raise ConfigError(f"data.limit is {self.data.limit}; it is a number of rows from 1 up")
        if isinstance(self.data.limit, list) and len(limits) != len(as_list(self.data.train)):
            raise ConfigError(
                f"data.limit has {len(limits)} numbers, and data.train names {len(as_list(self.data.train))} files; "
                "give one for each"
            )


def read_config(path: Path) -> dict[str, Any]:
    """Read a YAML or JSON file.

    Raises: ConfigError: no such file, invalid YAML, or not a mapping.
    """
    import yaml

    stream, size = open_regular_file(path, ConfigError)
    with stream:
        if size > MAX_CONFIG_BYTES:
            raise ConfigError(f"{path}: has {size} bytes, too many for a configuration")
        try:
            values = yaml.safe_load(stream)
        except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
            raise ConfigError(f"{path}: invalid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise ConfigError(
            f"{path}: must hold names and values, such as `task: classify`; got {safe_repr(values)}"
        )
    return values


def parse_config(values: Mapping[str, Any]) -> RunConfig:
    """A configuration from its keys and values; the options of a `preset` are defaults.

    Raises: ConfigError: an unknown key, or an invalid value.
    """
    merged = dict(values)
    if (name := merged.pop("preset", None)) is not None:
        training = preset(name)
        task_options = {"block": training.pop("block")} if "block" in training else {}
        for key, defaults in (("training", training), ("objective", task_options)):
            explicit = merged.get(key) or {}
            if not isinstance(explicit, Mapping):
                raise ConfigError(f"{key}: expected names and values, got {safe_repr(explicit)}")
            merged[key] = {**defaults, **explicit}
    return parse_dataclass(RunConfig, merged)


def config_yaml(config: RunConfig) -> str:
    """The effective configuration as YAML: every option, with the defaults."""
    import yaml

    text: str = yaml.safe_dump(asdict(config), sort_keys=False, allow_unicode=True, width=110)
    return text


def as_list(files: str | list[str]) -> list[str]:
    """One file or several as a list."""
    return [files] if isinstance(files, str) else files


def check_task_options(kind: type[Task], options: Mapping[str, Any]) -> None:
    """Raises: ConfigError: an option that the objective does not have."""
    known = kind.options()
    for name in options:
        if name not in known:
            raise ConfigError(
                f"objective: {safe_repr(name)} is no option of {kind.__name__}{nearest(name, known)}; "
                f"allowed: {', '.join(known) or 'none'}"
            )


__getattr__ = former_names(__name__)
