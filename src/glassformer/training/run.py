"""A run from its configuration: data read, model loaded, objective made, and all of it handed to a `Trainer`.

task: classify                            what is learnt: one of OBJECTIVES
model: path-or-name                       what it begins with
output: runs/mood                         where checkpoints, the log and the best model go
data: {train: mood.csv, validation: 0.1, columns: {text: tweet, label: mood}}
training: {epochs: 3, learning_rate: 3e-5}

glassformer train mood.yaml               glassformer train runs/mood/config.yaml --output runs/again
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from glassformer.compression.adapters import AdapterSpec, adapt
from glassformer.data.rows import Rows, read_rows
from glassformer.data.sequence import Joined, Listed, Renamed
from glassformer.data.splits import are_many, column, leaks, sample, split
from glassformer.errors import ConfigError, DataError, nearest
from glassformer.files import open_regular, shown
from glassformer.model import Model, load
from glassformer.models.presets import PRESETS
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.train import train_tokenizer
from glassformer.training import randomness
from glassformer.training.callbacks import Callback, Training
from glassformer.training.folder import CONFIG
from glassformer.training.objective import Objective
from glassformer.training.options import Options, read_record
from glassformer.training.presets import preset
from glassformer.training.trainer import Trainer
from glassformer.weights.strict_json import read_object
from glassformer.weights.write import atomic_file

MOST_CONFIG_BYTES = 1_000_000

OBJECTIVES = {
    "classify": "classify.Classify",
    "tag": "tag.Tag",
    "answer": "span.Answer",
    "generate": "causal.Causal",
    "instruct": "causal.Answers",
    "fill": "masked.Masked",
    "translate": "sequence.SequenceToSequence",
    "summarise": "sequence.SequenceToSequence",
    "next-sentence": "next_sentence.NextSentence",
    "pre-train": "next_sentence.PreTraining",
    "denoise": "denoise.Denoising",
    "gap-sentences": "denoise.GapSentences",
    "span-corruption": "denoise.SpanCorruption",
}
"""What can be learnt → the module and class in `objectives/`."""


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


def make_trainer(config: Config, callbacks: Sequence[Callback] = ()) -> Trainer:
    """Read, load and make all that a configuration names.

    Raises: GlassformerError: what is wrong with any of it.
    """
    kind = objective_class(config.task)
    check_options(kind, config.objective)
    train, validation = rows_of(config, kind)
    randomness.seed_all(config.training.seed)  # of a new head, too
    model = _model(config, kind, train)
    objective = kind(model, columns=config.data.columns or None, **config.objective)  # type: ignore[call-arg]
    check_columns(train, objective, config.data.ignore)
    adapters = None
    if config.adapter is not None:
        # A head that is new knows nothing yet, and is small: it is trained whole.
        whole = config.adapter.whole or (("head",) if model.report.new else ())
        adapters = adapt(model.network, replace(config.adapter, whole=whole))
    cache = Path(config.output) / "examples" if config.data.cache else None
    return Trainer(
        model,
        objective,
        config.training,
        train=objective.examples(train, cache=cache and cache / "train"),
        validation=None
        if validation is None
        else objective.examples(validation, cache=cache and cache / "validation"),
        folder=config.output,
        callbacks=[KeepConfig(config), *callbacks],
        adapters=adapters,
        sharded=config.sharded,
    )


def objective_class(task: str) -> type[Objective]:
    """What is learnt, by name."""
    module, _, name = OBJECTIVES[task].partition(".")
    found: type[Objective] = getattr(import_module(f"glassformer.training.objectives.{module}"), name)
    return found


def check_options(kind: type[Objective], options: Mapping[str, Any]) -> None:
    """Raises: ConfigError: an option that the objective does not have."""
    known = kind.options()
    for name in options:
        if name not in known:
            raise ConfigError(
                f"objective: {shown(name)} is no option of {kind.__name__}{nearest(name, known)}; "
                f"allowed: {', '.join(known) or 'none'}"
            )


def check_columns(rows: Rows, objective: Objective, ignored: Sequence[str]) -> None:
    """Raises: ConfigError: a column that nothing reads, or one to ignore that is not there."""
    if missing := [name for name in ignored if name != "*" and name not in rows.columns]:
        raise ConfigError(
            f"data.ignore names {missing[0]!r}{nearest(missing[0], rows.columns)}; the columns are: "
            f"{', '.join(rows.columns)}"
        )
    read = objective.columns.values()
    unused = [
        name for name in rows.columns if name not in read and name not in ignored and "*" not in ignored
    ]
    if unused:
        roles = ", ".join(f"{role}={name}" for role, name in objective.columns.items())
        raise ConfigError(
            f"nothing is learnt from the columns {', '.join(map(repr, unused))}; say which are read "
            f"(data.columns; now {roles}), or that these do not matter: --ignore {unused[0]!r}, or --ignore '*'"
        )


def rows_of(config: Config, kind: type[Objective]) -> tuple[Rows, Rows | None]:
    """The rows to train and to validate on; a share that is held out has each label in its share.

    Raises: DataError: what is wrong with them. ConfigError: fewer rows than `data.limit` says.
    """
    data, seed = config.data, config.training.seed
    files = _list(data.train) if isinstance(data.limit, list) else [data.train]
    parts = [data.read(each) for each in files]
    _check_renamed(data, parts)
    train = _joined(parts)
    if isinstance(data.limit, list):
        train = _joined([_drawn(part, size, seed) for part, size in zip(parts, data.limit, strict=True)])
    validation: Rows | None = None
    if isinstance(data.validation, float):
        train, validation = _held_out(config, kind, train, data.validation)
        parts = [train]
    elif data.validation is not None:
        validation = data.read(data.validation, data.validation_format)
    if validation is not None and data.without_leaks:
        # Of all training rows, however few are drawn, so that the same rows judge.
        validation = without_leaks(config, kind, _joined(parts), validation)
    return train if isinstance(data.limit, list) else _drawn(train, data.limit, seed), validation


def _list(files: str | list[str]) -> list[str]:
    return [files] if isinstance(files, str) else files


def _joined(parts: Sequence[Rows]) -> Rows:
    return parts[0] if len(parts) == 1 else Joined(parts)


def _drawn(rows: Rows, size: int | None, seed: int) -> Rows:
    """So many of the training rows; None = all."""
    if size is not None and size > len(rows):
        raise ConfigError(f"data.limit is {size:,}; there are {len(rows):,} training rows")
    return rows if size is None else rows.select(sample(len(rows), size, seed=seed))


def _check_renamed(data: Data, parts: Sequence[Rows]) -> None:
    """Warn of labels to rename that no training row has: other rows may have them, or the name is misspelt."""
    absent = [set(part.absent()) for part in parts if isinstance(part, Renamed)]
    if nowhere := sorted(set(data.rename).intersection(*absent)):
        warnings.warn(
            f"data.rename names {', '.join(map(shown, nowhere))}; no training row is labelled so",
            stacklevel=3,
        )


def without_leaks(config: Config, kind: type[Objective], train: Rows, validation: Rows) -> Rows:
    """The validation rows whose texts are not shown in training: they could be answered by heart."""
    names = {role: config.data.columns.get(role, name) for role, name in kind.COLUMNS.items()}
    read = [name for role, name in names.items() if role not in kind.SAID and name in train.columns]
    if not read:  # what reads the rows will say which columns are missing
        return validation

    def content(rows: Rows) -> list[str]:
        held = ([row.get(name) for name in read] for row in iter(rows))
        return ["\0".join(" ".join(x) if isinstance(x, list) else str(x) for x in row) for row in held]

    leaked = {number for _, number in leaks(content(train), content(validation))}
    if not leaked:
        return validation
    if len(leaked) == len(validation):
        raise DataError(
            f"all {len(leaked):,} validation rows stand in the training rows too; take other ones"
        )
    warnings.warn(
        f"{len(leaked):,} of {len(validation):,} validation rows are left out: they stand in the training rows too",
        stacklevel=2,
    )
    return validation.select(number for number in range(len(validation)) if number not in leaked)


def _held_out(config: Config, kind: type[Objective], train: Rows, share: float) -> tuple[Rows, Rows]:
    """The training rows without a share of them, and the share."""
    data = config.data
    if data.held_out == "last":
        return parted(train, 1 - share)
    label = data.columns.get("label", kind.COLUMNS.get("label"))
    labels = None if label is None else column(train, label)
    if labels is not None and are_many(labels):  # numbers, such as scores: chance shares them out well enough
        labels = None
    held_in, held_out = split(len(train), (1 - share, share), seed=config.training.seed, labels=labels)
    return train.select(held_in), train.select(held_out)


def parted(rows: Rows, share: float) -> tuple[Rows, Rows]:
    """The first rows and the last; a single row, such as a book, is parted within its text.

    Raises: ConfigError: a part would be empty.
    """
    if len(rows) == 1 and list(rows.columns) == ["text"]:
        text = rows[0]["text"]
        at = round(share * len(text))
        if 0 < at < len(text):
            before, after = ([{"text": part}] for part in (text[:at], text[at:]))
            return Listed(before, name=rows.file(0)), Listed(after, name=rows.file(0))
    at = round(share * len(rows))
    if not 0 < at < len(rows):
        raise ConfigError(f"data.validation: of {len(rows)} rows the last {1 - share:g} leave a part empty")
    return rows.select(range(at)), rows.select(range(at, len(rows)))


class KeepConfig(Callback):
    """Writes the effective configuration into the run's folder, from which the run can be repeated."""

    def __init__(self, config: Config) -> None:
        self.config = config

    def on_begin(self, trainer: Training) -> None:
        with atomic_file(Path(self.config.output) / CONFIG) as stream:
            stream.write(as_yaml(self.config).encode())


def _model(config: Config, kind: type[Objective], rows: Rows) -> Model:
    """The model, its head made for what the rows hold."""

    def fitted(read: Mapping[str, Any], own: bool) -> dict[str, Any]:
        changed = kind.head_config(rows, read, own=own, columns=config.data.columns, options=config.objective)
        return {**changed, **config.overrides}

    if config.model is not None:
        seen = load(config.model, task=kind.TASK, device="meta")  # shapes and names alone
        overrides = fitted(seen.config, own=not seen.report.new)
        changed = {key: value for key, value in overrides.items() if seen.config.get(key) != value}
        return load(config.model, task=kind.TASK, overrides=changed, device=config.device)
    begun = _scratch(config)
    tokenizer = _tokenizer(config, kind, rows, str(begun.get("model_type")))
    special = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad")}
    known = {name: number for name, number in special.items() if number is not None}
    made = {**begun, "vocab_size": tokenizer.largest_id + 1, **known}
    return Model.from_config(
        fitted(made, own=False), task=kind.TASK, tokenizer=tokenizer, device=config.device
    )


def _tokenizer(config: Config, kind: type[Objective], rows: Rows, model_type: str) -> Tokenizer:
    """The tokenizer of a folder, or one that is learnt from all texts of the rows."""
    assert config.tokenizer is not None  # Config has made sure of it
    if isinstance(config.tokenizer, Pieces):
        columns = [name for name in {**kind.COLUMNS, **config.data.columns}.values() if name in rows.columns]
        values = (row[name] for row in iter(rows) for name in columns)
        several = (value if isinstance(value, list) else [value] for value in values)
        texts = [text for parts in several for text in parts if isinstance(text, str)]
        return train_tokenizer(texts, **asdict(config.tokenizer))
    found = Tokenizer.find(Path(config.tokenizer), model_type=model_type)
    if found is None:
        raise ConfigError(
            f"{config.tokenizer}: holds no tokenizer; make one with: glassformer tokenizer train"
        )
    return found


def _scratch(config: Config) -> Mapping[str, Any]:
    """The config.json of a model that begins with new weights."""
    if isinstance(config.scratch, Mapping):
        return config.scratch
    assert config.scratch is not None
    if config.scratch in PRESETS:
        return PRESETS[config.scratch].config
    path = Path(config.scratch)
    if path.suffix != ".json":
        raise ConfigError(
            f"scratch is {config.scratch!r}, no published model{nearest(config.scratch, PRESETS)}; give one of those "
            "that `glassformer sizes` lists, a config.json, or its keys"
        )
    return read_object(path, ConfigError)
