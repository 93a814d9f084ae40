"""Run configuration: the YAML file of a training, read strictly.

task: classify                            what to train; see `glassformer train --help`
model: path-or-name                       initial weights; or `scratch`
output: runs/mood                         the run folder: checkpoints, the event log and the best model
data: {train: mood.csv, validation: 0.1, columns: {text: tweet, label: mood}}
training: {epochs: 3, learning_rate: 3e-5}

`configured_runs` gives the runs of a file, with options of the command line in place of some of its values.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from glassformer.data.options import ReadingOptions
from glassformer.errors import ConfigError, DataError, nearest
from glassformer.files import safe_repr
from glassformer.files.schema import (
    BelowOne,
    Count,
    NonNegative,
    NonNegativeInt,
    Positive,
    Schema,
    Seed,
    above,
    at_least,
    convert,
    given,
    keyword_types,
    later,
    parse,
)
from glassformer.runs.folder import read_config
from glassformer.runs.options import TrainOptions, set_value
from glassformer.runs.several import RUNS, split_runs
from glassformer.tasks.registry import known_task, task_class, task_name
from glassformer.text.options import TokenizerTraining

# A configuration is read and checked without torch, which what its parts describe needs.
if TYPE_CHECKING:
    from glassformer.compression.adapters import AdapterSpec
    from glassformer.compression.distil import Distillation
    from glassformer.compression.movement import PruningSpec
    from glassformer.compression.quantisation_aware import QuantisationSpec
    from glassformer.data.sequence import RowSequence
    from glassformer.tasks.base import Task
else:
    AdapterSpec = later("glassformer.compression.adapters:AdapterSpec")
    Distillation = later("glassformer.compression.distil:Distillation")
    PruningSpec = later("glassformer.compression.movement:PruningSpec")
    QuantisationSpec = later("glassformer.compression.quantisation_aware:QuantisationSpec")

ScheduleName = Literal["constant", "linear", "cosine", "inverse-sqrt", "noam"]
HeldOutShare = Annotated[float, above(0, 1, "a share between 0 and 1, or a file")]
RowLimit = Annotated[int, at_least(1, words="a number of rows from 1 up")]


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(Schema):
    """Hyperparameters and settings of `Trainer`. A step is one update of the weights, in any number of micro-batches.

    epochs, steps: length of the training; `steps` wins, `epochs` may be a fraction. None of both = 3 epochs, or for few
        examples as many as make `LEAST_STEPS` steps
    batch_size: examples a step, over all processes
    batch_tokens: instead, tokens a step at most
    micro_batch_tokens, micro_batch_size: limits of one call of the network; they change speed and memory, and results
        only by rounding. None = 2,048 tokens on a CPU, 16,384 elsewhere, and any number of examples. A task that
        compares the examples of a batch is never cut by tokens, and compares `micro_batch_size` of them
    learning_rate, schedule, warmup, floor: peak learning rate, its schedule, warm-up steps (below 1: a share of all),
        and the factor that is left at the end
    optimizer, weight_decay, beta1, beta2, epsilon: "adamw" or "adafactor"
    clip: maximum gradient norm
    precision: "fp32"; "bf16" or "fp16": mixed precision, matrix products in 16 bits and weights in 32
    label_smoothing: the share of a target that is spread over all classes
    gradient_checkpointing: recompute blocks in the backward pass instead of storing their activations
    offload: store what the backward pass needs in the host's RAM, where an accelerator's memory is short
    shuffle: shuffle the examples each epoch
    seed: random seed of the order, dropout and new weights
    validate_every, save_every: steps between; None = at the end of each epoch, and where few examples have many short
        ones by default, at the end of about ten of them
    keep: number of last checkpoints kept
    training_sample: examples of the training data that each validation scores too, as train_loss, …; 0 = none
    metric, patience: the metric of the best model (None = that of the task), and early stopping after this many
        validations without improvement (None = never)
    log_every: steps between two logged steps; None = 10, and 1 in a run of at most 500 steps
    max_skipped: steps in a row that may be skipped for a NaN loss before a rollback
    max_failed_saves: saves in a row that may fail, for a full disk, before the run stops
    deterministic: deterministic algorithms only; others raise an error
    dry_run: do everything but update the weights
    Raises: ConfigError: an invalid value.
    """

    epochs: Positive | None = None
    steps: Count | None = None
    batch_size: Count = 32
    batch_tokens: Count | None = None
    micro_batch_tokens: Count | None = None
    micro_batch_size: Count | None = None
    learning_rate: Annotated[float, above(0, words="a number above 0, such as 5e-5")] = 5e-5
    schedule: ScheduleName = "linear"
    warmup: Annotated[float, at_least(0.0, words="a number of steps, or a share of them below 1")] = 0.1
    floor: BelowOne = 0.0
    optimizer: Literal["adamw", "adafactor"] = "adamw"
    weight_decay: NonNegative = 0.01
    beta1: BelowOne = 0.9
    beta2: BelowOne = 0.999
    epsilon: Annotated[float, above(0, 1)] = 1e-8
    clip: Annotated[float | None, above(0, words="a number above 0, or null for none")] = 1.0
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    label_smoothing: BelowOne = 0.0
    gradient_checkpointing: bool = False
    offload: bool = False
    shuffle: bool = True
    seed: Seed = 0
    validate_every: Count | None = None
    save_every: Count | None = None
    keep: Count = 2
    training_sample: NonNegativeInt = 0
    metric: str | None = None
    patience: Count | None = None
    log_every: Count | None = None
    max_skipped: Count = 3
    max_failed_saves: Count = 3
    deterministic: bool = False
    dry_run: bool = False


_FINE_TUNING = {"weight_decay": 0.01, "schedule": "linear", "warmup": 0.1}
_BOOK_GPT = {"weight_decay": 0.1, "block": 1024, "seed": 1, "schedule": "cosine"}

# A step is `batch_size` examples, in any number of micro-batches: what others write as micro-batch size times gradient
# accumulation steps is the product of both here.
PRESETS: dict[str, dict[str, Any]] = {
    "gpt-small": {**_BOOK_GPT, "batch_size": 12 * 1, "learning_rate": 5e-4, "steps": 150_000, "warmup": 2000},
    "gpt-large": {**_BOOK_GPT, "batch_size": 2 * 16, "learning_rate": 2e-4, "steps": 50_000, "warmup": 750},
    "classify": {**_FINE_TUNING, "batch_size": 32, "learning_rate": 3e-5, "epochs": 3},
    "tag": {**_FINE_TUNING, "batch_size": 32, "learning_rate": 5e-5, "epochs": 3},
    "answer": {**_FINE_TUNING, "batch_size": 32, "learning_rate": 3e-5, "epochs": 2},
    "translate": {
        "batch_size": 128,
        "learning_rate": 1.0,  # noam multiplies it: about 7e-4 at the peak, for a width of 512
        "weight_decay": 0.0,
        "steps": 100_000,
        "schedule": "noam",
        "warmup": 4000,
        "label_smoothing": 0.1,
    },
    "lora": {**_FINE_TUNING, "batch_size": 32, "learning_rate": 2e-4, "epochs": 3, "warmup": 0.06},
}
"""Training presets: hyperparameters that have worked, by name; each of them can be overridden.

Source: gpt-small, gpt-large: Tunstall et al. 2022, "Natural Language Processing with Transformers", chapter 10, after
Brown et al. 2020, table 2.1 (cosine, decay of 0.1); classify, tag, answer: Devlin et al. 2019, appendix A.3, and
Mosbach et al. 2021, section 6 (warm-up over a tenth of the steps); translate: Vaswani et al. 2017, section 5.3;
lora: Hu et al. 2022, appendix D.
"""


def preset(name: str) -> dict[str, Any]:
    """The options of a preset.

    Raises: ConfigError: there is none of this name.
    """
    if not isinstance(name, str) or name not in PRESETS:
        raise ConfigError(f"preset is {safe_repr(name)}; allowed: {', '.join(PRESETS)}{nearest(str(name), PRESETS)}")
    return dict(PRESETS[name])


@dataclass(frozen=True, kw_only=True)
class DataConfig(Schema):
    """The training and validation data.

    fetch: data sets of `glassformer data list` that the files are of, by name: emotion/train.txt.gz
    folder: of the files, if it is neither the working directory nor that of fetched data sets
    train: a file, or several, concatenated
    validation: files, or the share of the training rows to hold out
    held_out: "drawn": a random sample, stratified by label; "last": the last rows, of a single text its end
    columns: role → column, where they have other names
    ignore: unused columns, or "*": all of them
    format: how files are read: `delimiter`, `names`, …
    validation_format: what differs for validation files
    rename: of classes or tags: label → new name, such as {B-MISC: O, I-MISC: O}
    groups: a column, such as speaker, none of whose values is in both parts where a share is held out
    without_leaks: leave out validation rows whose inputs are in the training data too, whatever their labels
    limit: a random sample of N training rows, by the seed; smaller samples are subsets of larger ones; a list: of
        each file, null = all
    cache: store the examples in the output folder, for rows that do not fit in RAM
    """

    train: str | list[str]
    fetch: str | list[str] = field(default_factory=list)
    folder: str | None = None
    validation: str | list[str] | HeldOutShare | None = None
    held_out: Literal["drawn", "last"] = "drawn"
    columns: dict[str, str] = field(default_factory=dict)
    ignore: list[str] = field(default_factory=list)
    format: dict[str, Any] = field(default_factory=dict)
    validation_format: dict[str, Any] = field(default_factory=dict)
    rename: dict[str, str] = field(default_factory=dict)
    groups: str | None = None
    without_leaks: bool = False
    limit: list[RowLimit | None] | RowLimit | None = None
    cache: bool = False

    @property
    def root(self) -> Path:
        """The folder of the files. Raises: ConfigError: no such data set. DataError: one is not fetched yet."""
        if self.folder is not None or not self.fetch:
            return Path(self.folder or "")
        from glassformer.hub.data_sets import fetched_folder

        return fetched_folder(self.fetch)

    @property
    def unread(self) -> list[str]:
        """Columns that no task reads: those to ignore, the one of groups; of a published data set, all others."""
        from glassformer.data.rows import is_data_set

        others = ["*"] if is_data_set(self.format.get("kind")) else []
        return [*self.ignore, *others, *([] if self.groups is None else [self.groups])]

    @property
    def skips_bad_rows(self) -> bool:
        """Whether rows that cannot be read, or that teach nothing, are left out."""
        return self.format.get("on_bad_rows") == "skip"

    @property
    def for_other_files(self) -> DataConfig:
        """How files besides the training ones are read: of a data set, the split to train on is not theirs."""
        return self._read_as([])

    @property
    def for_validation(self) -> DataConfig:
        """How validation files are read; of a data set's folder, it is the split `validation` unless one is named."""
        files = self.validation if isinstance(self.validation, list | str) else []
        read = self._read_as([self.root / name for name in as_list(files)])
        return replace(read, format={**read.format, **self.validation_format})

    def _read_as(self, validation: Sequence[Path]) -> DataConfig:
        from glassformer.data.rows import is_data_set
        from glassformer.data.sets import find_data_set

        if not is_data_set(self.format.get("kind")):
            return self
        data_set = find_data_set(self.format["kind"])
        _, part = data_set.chosen_parts(self.format)
        parts = ["validation"] * any(map(data_set.has_splits, validation)) + [part] * (part is not None)
        return replace(self, format={**self.format, "part": parts})

    def read(self, files: str | list[str]) -> RowSequence:
        """Read the rows of files in the folder."""
        from glassformer.data.rows import files_of, read_rows
        from glassformer.data.views import RelabelledRows

        paths = [str(self.root / name) for name in as_list(files)]
        if self.fetch and (absent := [path for path in paths if not all(map(os.path.isfile, files_of(path)))]):
            raise DataError(
                f"{absent[0]}: no such file; --data (data.folder in the configuration) names the folder that holds "
                f"those of the data sets, such as FOLDER in FOLDER/{as_list(files)[paths.index(absent[0])]}; or fetch "
                f"them: glassformer data fetch {' '.join(as_list(self.fetch))}"
            )
        if self.folder and not self.root.is_dir() and not all(map(os.path.isabs, as_list(files))):
            named = "" if files == "." else f" ({', '.join(as_list(files))})"
            raise DataError(
                f"{self.root}: no such folder, which is to hold the data{named}; the first lines of an example say "
                "where they come from; --data (data.folder in the configuration) names another folder"
            )
        rows = read_rows(paths, **self.format)
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
class LabelMethod(Schema):
    """A method of few labels, which learns in place of a training: `glassformer.few_labels`.

    name: one of `few_labels.METHODS`, such as nearest-neighbours
    options: of the method, such as {k: 5}
    labels: names of the labels, for methods that need no labelled row
    descriptions: label → what it means
    unlabelled: files of further texts without labels
    unlabelled_limit: a random sample of this many of them
    models: other models by what they are for
    max_tokens: longer texts are cut
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    labels: list[str] = field(default_factory=list)
    descriptions: dict[str, str] = field(default_factory=dict)
    unlabelled: str | list[str] = field(default_factory=list)
    unlabelled_limit: Count = 5_000
    models: dict[str, str] = field(default_factory=dict)
    max_tokens: Count = 128


OF_TRAININGS = (
    "scratch", "tokenizer", "overrides", "adapter", "pruning", "quantisation", "freeze", "distillation", "trackers",
    "sharded",
)  # fmt: skip
"""Keys that a method of few labels does not take."""


@dataclass(frozen=True, kw_only=True)
class RunConfig(Schema):
    """The whole configuration of a run.

    model: a folder or a name on the Hub
    method: a method of few labels instead of a training, such as {name: nearest-neighbours}
    scratch: random initial weights instead: a published name (`glassformer sizes`), a config.json, or its keys; the
        tokenizer is then that of the folder `tokenizer`, or trained on the training rows, such as {size: 5000, family:
        bart}
    overrides: keys of config.json to override, such as {hidden_dropout_prob: 0}
    task_options: options of the task, such as {block: 256}
    adapter: train low-rank adapters instead of all weights, such as {rank: 8, target_modules: [q, v]}
    pruning: zeros in the weights, chosen while they are trained, such as {method: movement, sparsity: 0.9}
    quantisation: weights that are rounded in each pass, such as {bits: 4, group_size: 32}
    freeze: parts of the network whose weights stay as they are, by their names, such as [embed, encoder]
    distillation: learn from a teacher too, such as {teacher: runs/large, layers: 3, temperature: 4}
    evaluation: options of evaluation, such as {beams: 5}: how `glassformer evaluate` runs the trained model
    """

    task: str
    output: str
    data: DataConfig
    model: str | None = None
    method: LabelMethod | None = None
    scratch: str | dict[str, Any] | None = None
    tokenizer: str | TokenizerTraining | None = None
    overrides: dict[str, Any] = field(default_factory=dict)
    task_options: dict[str, Any] = field(default_factory=dict)
    training: TrainingOptions = field(default_factory=TrainingOptions)
    adapter: AdapterSpec | None = None
    pruning: PruningSpec | None = None
    quantisation: QuantisationSpec | None = None
    freeze: list[str] = field(default_factory=list)
    distillation: Distillation | None = None
    evaluation: dict[str, Any] = field(default_factory=dict)
    trackers: list[str] = field(default_factory=list)
    device: str = "cpu"
    sharded: bool = False

    def validate(self) -> None:
        known_task(self.task)
        if self.method is not None:
            self._check_method()
            return
        if (self.model is None) == (self.scratch is None):
            raise ConfigError(
                "give either a model to fine-tune (--model NAME; `model` in a configuration) or `scratch`, the shape "
                f"of one with random weights; got {'neither' if self.model is None else 'both'}"
            )
        if self.scratch is not None and self.tokenizer is None and task_class(self.task).READS_TEXT:
            raise ConfigError(
                "a model from scratch needs a tokenizer: the folder of one (glassformer tokenizer train), or "
                "{size: 5000} to train one on the training rows"
            )
        if self.pruning is not None and (self.adapter is not None or self.sharded):
            other = "adapter, which leaves the pruned weights as they are" if self.adapter else "sharded"
            raise ConfigError(f"pruning masks whole matrices that are trained; it does not go with {other}")
        if self.quantisation is not None and (self.adapter is not None or self.pruning is not None or self.sharded):
            raise ConfigError(
                "quantisation rounds whole matrices that are trained; it does not go with adapter, pruning or sharded"
            )
        if self.sharded and self.distillation is not None and self.distillation.on_policy:
            raise ConfigError("distillation.on_policy needs a whole student to write with; it does not go with sharded")
        if self.data.validation_format and isinstance(self.data.validation, float | None):
            raise ConfigError("data.validation_format is for files, and data.validation names none")
        limits = self.data.limit
        if isinstance(limits, list) and len(limits) != len(as_list(self.data.train)):
            raise ConfigError(
                f"data.limit has {len(limits)} numbers, and data.train names {len(as_list(self.data.train))} files; "
                "give one for each"
            )

    def _check_method(self) -> None:
        """A method of few labels takes nothing that is of trainings. Raises: ConfigError: a key of these."""
        if self.task != "classify":
            raise ConfigError(f"method is for the task classify; task is {self.task!r}")
        options = replace(self.training, seed=0)
        of_trainings = [f"training.{x.name}" for x in fields(options) if getattr(options, x.name) != x.default]
        of_trainings += [name for name in OF_TRAININGS if getattr(self, name)]
        if of_trainings:
            raise ConfigError(
                f"{of_trainings[0]} is of trainings, and {self.method and self.method.name} is a method of few labels; "
                "its own options are method.options (--set method.options.NAME=VALUE)"
            )


def parse_config(values: Mapping[str, Any]) -> RunConfig:
    """A configuration from its keys and values; the options of a `preset` are defaults.

    Raises: ConfigError: an unknown key, or an invalid value.
    """
    if not isinstance(values, Mapping):
        raise ConfigError(f"a configuration holds names and values; got {safe_repr(values)}")
    merged = dict(values)
    if (name := merged.pop("preset", None)) is not None:
        training = preset(name)
        task_options = {"block": training.pop("block")} if "block" in training else {}
        for key, defaults in (("training", training), ("task_options", task_options)):
            explicit = merged.get(key) or {}
            if not isinstance(explicit, Mapping):
                raise ConfigError(f"{key}: expected names and values, got {safe_repr(explicit)}")
            merged[key] = {**defaults, **explicit}
    if isinstance(merged.get("task"), str):
        merged["task"] = task_name(merged["task"])
    return parse(RunConfig, merged)


def config_values(config: RunConfig) -> dict[str, Any]:
    """The effective configuration as keys and values, those of its YAML: every option, with the defaults."""
    values: dict[str, Any] = _with_lists(asdict(config))
    return values


def _with_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_lists(x) for key, x in value.items()}
    return [_with_lists(x) for x in value] if isinstance(value, list | tuple) else value


def config_yaml(config: RunConfig) -> str:
    """The effective configuration as YAML."""
    import yaml

    text: str = yaml.safe_dump(config_values(config), sort_keys=False, allow_unicode=True, width=110)
    return text


def as_list(files: str | list[str]) -> list[str]:
    """One file or several as a list."""
    return [files] if isinstance(files, str) else files


def parse_task_options(kind: type[Task], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a task, each of the type that its class annotates.

    Raises: ConfigError: an option that the task does not have, or a value of another type.
    """
    known, hints = kind.options(), keyword_types(kind)
    for name in options:
        if name not in known:
            raise ConfigError(
                f"task_options: {safe_repr(name)} is no option of {kind.__name__}{nearest(name, known)}; "
                f"allowed: {', '.join(known) or 'none'}"
            )
    return {name: convert(hints.get(name, Any), value, f"task_options.{name}") for name, value in options.items()}


def run_config(path: Path) -> RunConfig:
    """The configuration of a run, from its file. Raises: ConfigError: it is none, with the file."""
    values = read_config(path)
    try:
        return parse_config(values)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def seen_from_here(config: RunConfig, folder: Path) -> RunConfig:
    """The configuration of a run with its relative paths as they are from the working directory.

    They are relative to the directory in which it was trained: the run's folder, without its path `output`.

        output: runs/mood, folder: ../project/runs/mood        train.csv is ../project/train.csv
    """
    own, output = folder.resolve().parts, Path(config.output).parts
    base = Path(*own[: -len(output)])
    if Path(config.output).is_absolute() or own[-len(output) :] != output or base == Path.cwd():
        return config
    here, data = os.path.relpath(base), config.data
    if data.folder is not None or not data.fetch:  # else it is the folder of fetched data sets
        data = replace(data, folder=os.path.join(here, data.folder or ""))
    model, distillation = config.model, config.distillation
    if model is not None and os.path.exists(os.path.join(here, model)):  # else it is a name on the Hub
        model = os.path.join(here, model)
    if distillation is not None:
        if os.path.exists(teacher := os.path.join(here, distillation.teacher)):
            distillation = replace(distillation, teacher=teacher)
        if distillation.store is not None:
            distillation = replace(distillation, store=os.path.join(here, distillation.store))
    return replace(config, data=data, model=model, distillation=distillation)


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
        if config is None and (missing := [example for name, example in needed.items() if name not in values]):
            raise ConfigError(
                f"add {' and '.join(missing)}, or name a configuration file; see `glassformer train --help`"
            )
        try:
            return {ONLY: parse_config({"output": f"runs/{values.get('task')}", **values})}
        except ConfigError as error:
            key = str(error).partition(" ")[0].rpartition(".")[2]
            if config is None or key in given(options):
                raise
            raise ConfigError(f"{config}: {error}") from error  # and not as an option of the command line
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
