"""A run from its configuration: data read, model loaded, objective made, and all of it handed to a `Trainer`.

task: classify                            what is learnt: one of OBJECTIVES
model: path-or-name                       what it begins with
output: runs/mood                         where checkpoints, the log and the best model go
data: {train: mood.csv, validation: 0.1, columns: {text: tweet, label: mood}}
training: {epochs: 3, learning_rate: 3e-5}

glassformer train mood.yaml               glassformer train runs/mood/config.yaml --output runs/again
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from glassformer.compression.adapters import AdapterSpec, adapt
from glassformer.data.rows import Rows, read_rows
from glassformer.data.splits import are_many, column, split
from glassformer.errors import ConfigError, nearest
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
    format: how files are read: `delimiter`, `names`, …
    cache: keep what is made of the rows in the output folder, for rows that do not fit in memory
    """

    train: str | list[str]
    folder: str = "."
    validation: str | list[str] | float | None = None
    held_out: Literal["drawn", "last"] = "drawn"
    columns: dict[str, str] = field(default_factory=dict)
    ignore: list[str] = field(default_factory=list)
    format: dict[str, Any] = field(default_factory=dict)
    cache: bool = False

    def read(self, files: str | list[str]) -> Rows:
        """The rows of files in the folder."""
        if isinstance(files, str):
            return read_rows(str(Path(self.folder, files)), **self.format)
        return read_rows([str(Path(self.folder, name)) for name in files], **self.format)


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
    """The rows to train and to validate on; a share that is held out has each label in its share."""
    data = config.data
    train = data.read(data.train)
    if not isinstance(data.validation, float):
        return train, None if data.validation is None else data.read(data.validation)
    if data.held_out == "last":
        return parted(train, 1 - data.validation)
    label = data.columns.get("label", kind.COLUMNS.get("label"))
    labels = None if label is None else column(train, label)
    if labels is not None and are_many(labels):  # numbers, such as scores: chance shares them out well enough
        labels = None
    shares = (1 - data.validation, data.validation)
    held_in, held_out = split(len(train), shares, seed=config.training.seed, labels=labels)
    return train.select(held_in), train.select(held_out)


def parted(rows: Rows, share: float) -> tuple[Rows, Rows]:
    """The first rows and the last; a single row, such as a book, is parted within its text.

    Raises: ConfigError: a part would be empty.
    """
    if len(rows) == 1 and rows.columns == ["text"]:
        text = rows[0]["text"]
        at = round(share * len(text))
        if 0 < at < len(text):
            return read_rows([{"text": text[:at]}]), read_rows([{"text": text[at:]}])
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
        texts = [row[name] for row in iter(rows) for name in columns if isinstance(row[name], str)]
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
