"""."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from glassformer.compression.adapters import AdapterSpec
from glassformer.data.rows import Rows, read_rows
from glassformer.data.sequence import Renamed
from glassformer.errors import ConfigError, nearest
from glassformer.files import open_regular, shown
from glassformer.files.parsing import read_record
from glassformer.runs.options import Options
from glassformer.runs.presets import preset
from glassformer.tasks.base import Objective
from glassformer.tasks.evaluator import OBJECTIVES

MOST_CONFIG_BYTES = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Data:
    """Which rows.

    folder: where the files are, if not in the folder that the command is run in
    train: a file, or several, one behind the other · validation: files, or the share of the training rows held out
    held_out: such a share is drawn, each label in its share, or it is the last rows, of a single text its end
    columns: role → column, where they have other names · ignore: columns that nothing is learnt from, or "*": all such
    format: how files are read: `delimiter`, `names`, … · validation_format: what of it is other for validation files
    rename: of classes or tags: label → what it shall be called, such as {B-MISC: O, I-MISC: O}
    without_leaks: leave validation rows out that are shown in training too, whatever is to be said of them
    limit: of the training rows, so many drawn by the seed of the training, fewer within more; a list: of each file,
        null = all
    cache: keep what is made of the rows in the output folder, for rows that do not fit in memory
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

    def read(self, files: str | list[str], format: Mapping[str, Any] | None = None) -> Rows:
        """The rows of files in the folder; `format`: what of it is other for them."""
        places = [str(Path(self.folder, name)) for name in _list(files)]
        rows = read_rows(places, **{**self.format, **(format or {})})
        return Renamed(rows, self._labels(rows), self.rename) if self.rename else rows

    def _labels(self, rows: Rows) -> str:
        """The column of classes or tags."""
        usual = {"label": "label", "tags": "tags"}
        named = [self.columns[role] for role in usual if role in self.columns]
        for name in (*named, *usual):
            if name in rows.columns:
                return name
        raise ConfigError(
            f"data.rename is for classes and tags; {rows.file(0)} has neither 'label' nor 'tags' among its columns "
            f"{', '.join(map(repr, rows.columns))}: name the column, such as columns: {{label: mood}}"
        )


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """A tokenizer that is learnt from the training rows, before the model begins: see `train_tokenizer`."""

    size: int
    kind: Literal["byte-bpe", "wordpiece", "unigram"] = "byte-bpe"
    family: str | None = None
    lower: bool = False


@dataclass(frozen=True, kw_only=True)
class Config:
    """All of a run.

    model: a folder or a name on the Hub · scratch: begin with new weights instead: a published name (`glassformer
        sizes`), a config.json, or its keys; the tokenizer is then that of the folder `tokenizer`, or learnt from the
        training rows, such as {size: 5000, family: bart}
    overrides: keys of config.json that shall be read otherwise, such as {hidden_dropout_prob: 0}
    objective: options of what is learnt, such as {block: 256}
    adapter: train low-rank adapters instead of all weights, such as {rank: 8, places: [q, v]}
    judging: options of the judge of this task, such as {beams: 5}: how `glassformer evaluate` asks the trained model
    """

    task: str
    output: str
    data: Data
    model: str | None = None
    scratch: str | dict[str, Any] | None = None
    tokenizer: str | Pieces | None = None
    overrides: dict[str, Any] = field(default_factory=dict)
    objective: dict[str, Any] = field(default_factory=dict)
    training: Options = field(default_factory=Options)
    adapter: AdapterSpec | None = None
    judging: dict[str, Any] = field(default_factory=dict)
    trackers: list[str] = field(default_factory=list)
    device: str = "cpu"
    sharded: bool = False

    def __post_init__(self) -> None:
        if self.task not in OBJECTIVES:
            raise ConfigError(
                f"task is {shown(self.task)}{nearest(self.task, OBJECTIVES)}; allowed: {', '.join(OBJECTIVES)}"
            )
        if (self.model is None) == (self.scratch is None):
            raise ConfigError("give either model, whose weights it begins with, or scratch, for new ones")
        if self.scratch is not None and self.tokenizer is None:
            raise ConfigError(
                "a model from scratch needs a tokenizer: the folder of one (glassformer tokenizer train), or "
                "{size: 5000} to learn one from the training rows"
            )
        if isinstance(self.data.validation, float) and not 0 < self.data.validation < 1:
            raise ConfigError(
                f"data.validation is {self.data.validation}; it is a share between 0 and 1, or a file"
            )
        if self.data.validation_format and isinstance(self.data.validation, float | None):
            raise ConfigError("data.validation_format is of files; data.validation names none")
        limits = self.data.limit if isinstance(self.data.limit, list) else [self.data.limit]
        if any(size is not None and size < 1 for size in limits):
            raise ConfigError(f"data.limit is {self.data.limit}; it is a number of rows from 1 up")
        if isinstance(self.data.limit, list) and len(limits) != len(_list(self.data.train)):
            raise ConfigError(
                f"data.limit has {len(limits)} numbers, and data.train names {len(_list(self.data.train))} files; give "
                "one for each"
            )


def read_config(path: Path) -> dict[str, Any]:
    """The keys and values of a YAML or JSON file.

    Raises: ConfigError: no such file, no YAML, or no mapping.
    """
    import yaml

    stream, size = open_regular(path, ConfigError)
    with stream:
        if size > MOST_CONFIG_BYTES:
            raise ConfigError(f"{path}: has {size} bytes; that is no configuration")
        try:
            found = yaml.safe_load(stream)
        except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
            raise ConfigError(f"{path}: is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: must hold names and values, such as `task: classify`; got {shown(found)}")
    return found


def config_of(values: Mapping[str, Any]) -> Config:
    """A configuration, each key of it known; what a `preset` names holds where nothing else is said."""
    given = dict(values)
    if (name := given.pop("preset", None)) is not None:
        known = preset(name)
        block = {"block": known.pop("block")} if "block" in known else {}
        for place, options in (("training", known), ("objective", block)):
            said = given.get(place) or {}
            if not isinstance(said, Mapping):
                raise ConfigError(f"{place}: expected names and values, got {shown(said)}")
            given[place] = {**options, **said}
    return read_record(Config, given)


def as_yaml(config: Config) -> str:
    """The effective configuration: with every option, also those that nobody named."""
    import yaml

    text: str = yaml.safe_dump(asdict(config), sort_keys=False, allow_unicode=True, width=110)
    return text


def _list(files: str | list[str]) -> list[str]:
    return [files] if isinstance(files, str) else files


def check_options(kind: type[Objective], options: Mapping[str, Any]) -> None:
    """Raises: ConfigError: an option that the objective does not have."""
    known = kind.options()
    for name in options:
        if name not in known:
            raise ConfigError(
                f"objective: {shown(name)} is no option of {kind.__name__}{nearest(name, known)}; "
                f"allowed: {', '.join(known) or 'none'}"
            )
