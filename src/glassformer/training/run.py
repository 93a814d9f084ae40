"""From a run's configuration to a `Trainer`: data, model, tokenizer and task.

task: classify                            see `glassformer train --help`
model: path-or-name                       initial weights
output: runs/mood                         where checkpoints, the log and the best model go
data: {train: mood.csv, validation: 0.1, columns: {text: tweet, label: mood}}
training: {epochs: 3, learning_rate: 3e-5}

glassformer train mood.yaml               glassformer train runs/mood/config.yaml --output runs/again
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from torch import nn

from glassformer.compression.adapters import adapt, adapters_of
from glassformer.compression.distil import even_layers
from glassformer.compression.structure import Parts, keep_layers, only_stack
from glassformer.data.rows import RowSequence
from glassformer.errors import ConfigError, WeightsError, nearest
from glassformer.files import counted, read_json_object, safe_repr
from glassformer.files.atomic import atomic_file
from glassformer.model import Model, load
from glassformer.models.presets import PRESETS
from glassformer.reports.table import amount, number
from glassformer.runs.config import RunConfig, as_list, config_yaml, parse_task_options
from glassformer.runs.data import check_unused_columns, read_splits
from glassformer.runs.folder import CONFIG, MODEL
from glassformer.tasks.base import Task
from glassformer.tasks.columns import columns_of
from glassformer.tasks.distil import taught_by
from glassformer.tasks.registry import task_class
from glassformer.text import characters
from glassformer.text.options import TokenizerTraining
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.train import train_tokenizer
from glassformer.training.batch_loader import LEAST_STEPS
from glassformer.training.callbacks import Callback
from glassformer.training.run_folder import check_run_folder
from glassformer.training.state import seed_all
from glassformer.training.trainer import Trainer

TEXT_ROLES = ("text", "tokens", "source", "question", "prompt")
"""Roles of columns that hold what a model of text reads."""


def make_trainer(config: RunConfig, callbacks: Sequence[Callback] = ()) -> Trainer:
    """Make the trainer that a configuration describes: read the data, load the model.

    Raises: GlassformerError: what is wrong with any of it.
    """
    kind = task_class(config.task)
    check_run_folder(Path(config.output))  # before the data are read and the model is loaded
    config = replace(config, task_options=parse_task_options(kind, config.task_options))
    train, validation = read_splits(config, kind)
    # Before the model is loaded; and by the task, whose options may leave a role out.
    check_unused_columns(train, columns_of(kind.COLUMNS, config.data.columns), config.data.unread)
    seed_all(config.training.seed)  # of a new head, too
    model = _model(config, kind, train)
    if config.distillation is not None and config.distillation.layers is not None:
        cut_layers(model, config.distillation.layers)
    task: Task = kind(model, columns=config.data.columns or None, **config.task_options)
    check_unused_columns(train, task.columns, config.data.unread)
    adapters = None
    if config.adapter is not None:
        # A new head has random weights, and is small: it is trained whole.
        full = config.adapter.modules_to_save or (("head",) if model.report.new else ())
        adapters = adapt(model.network, replace(config.adapter, modules_to_save=full))
    freeze(model.network, config.freeze)
    cache = Path(config.output) / "examples" if config.data.cache else None
    examples = task.encode(train, cache=cache and cache / "train")
    if config.distillation is not None:
        taught = taught_by(task, teacher_of(config, kind), config.distillation)
        task, examples = (
            taught,
            taught.teach(examples, Path(config.distillation.store or Path(config.output) / "teacher")),
        )
    trainer = Trainer(
        model,
        task,
        config.training,
        train=examples,
        validation=None if validation is None else task.encode(validation, cache=cache and cache / "validation"),
        folder=config.output,
        callbacks=[SaveConfig(config), *callbacks],
        adapters=adapters,
        pruning=config.pruning,
        quantisation=config.quantisation,
        sharded=config.sharded,
        config=config,
    )
    trainer.train_rows = train
    return trainer


def cut_layers(model: Model, layers: int | Sequence[int]) -> None:
    """Make a student of a model: some of its layers; all its other weights stay.

    Args:
        layers: how many, evenly spaced, or which, from 0
    Raises: ConfigError: more than there are. UnsupportedError: a model of several stacks.
    """
    parts = Parts.of(model)
    depth = len(only_stack(parts.network))
    chosen = even_layers(layers, depth) if isinstance(layers, int) else list(layers)
    keep_layers(parts, chosen).put_into(model)


def teacher_of(config: RunConfig, kind: type[Task]) -> Task:
    """The task of a run with the teacher's model, which is trained already.

    Raises: WeightsError: it has no head for this task.
    """
    assert config.distillation is not None
    name = config.distillation.teacher
    folder = Path(name) / MODEL if (Path(name) / CONFIG).is_file() else name
    model = load(folder, task=kind.HEAD, device=config.device)
    if new := model.report.new_in_head:
        raise WeightsError(
            f"{name}: holds no head for the task {config.task!r} ({new[0]} would be random), so it has nothing to teach"
        )
    return kind(model, columns=config.data.columns or None, **config.task_options)  # type: ignore[call-arg]


def freeze(network: nn.Module, names: Sequence[str]) -> None:
    """Exclude parts of a network, each with all below it, from training.

    Args:
        names: of modules or parameters

    Raises: ConfigError: there is no such part, or nothing is left to train.
    """
    known: dict[str, Any] = {**dict(network.named_modules()), **dict(network.named_parameters())}
    known.pop("", None)  # the network itself
    for name in names:
        if name not in known:
            parts = ", ".join(child for child, _ in network.named_children())
            raise ConfigError(f"freeze names {safe_repr(name)}{nearest(name, known)}; the network has: {parts}")
        known[name].requires_grad_(False)
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise ConfigError(f"freeze is {list(names)}, and nothing is left to train; leave a part out")


class SaveConfig(Callback):
    """Callback that writes the effective configuration into the run folder, to reproduce the run from."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config

    def on_begin(self, trainer: Trainer) -> None:
        with atomic_file(Path(self.config.output) / CONFIG) as stream:
            stream.write(config_yaml(self.config).encode())


def head_overrides(
    config: RunConfig, kind: type[Task], rows: RowSequence, scratch: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The keys of config.json that change: those of a head for the labels of these rows, and what the run overrides.

    Args:
        scratch: the config of a model from scratch
    """
    # On the meta device a model has shapes and names alone.
    header = None if config.model is None else load(config.model, task=kind.HEAD, device="meta")
    known = (scratch or {}) if header is None else header.config
    own = header is not None and not header.report.new
    fitted = kind.head_config(rows, known, own=own, columns=config.data.columns, options=config.task_options)
    # Only what differs: where a label is overridden, `load` takes a head that the checkpoint lacks for a new one.
    return {key: x for key, x in {**fitted, **config.overrides}.items() if known.get(key) != x}


def _model(config: RunConfig, kind: type[Task], rows: RowSequence) -> Model:
    """The model, with a head for the labels that the rows have."""
    if config.model is not None:
        overrides = head_overrides(config, kind, rows)
        tokenizer = _new_vocabulary(config, kind, rows)
        if tokenizer is not None:
            overrides |= {"vocab_size": tokenizer.largest_id + 1, "pad_token_id": tokenizer.pad_token_id}
        model = load(config.model, task=kind.HEAD, overrides=overrides, device=config.device)
        if adapters_of(model.network):
            model.merge_and_unload()
        if tokenizer is not None:
            model.tokenizer = tokenizer
        return model
    config_json = _scratch_config(config)
    if not kind.READS_TEXT:
        fitted = {**config_json, **head_overrides(config, kind, rows, config_json)}
        model = Model.from_config(fitted, task=kind.HEAD, device=config.device)
        kind.initialise(model, config.task_options)
        return model
    tokenizer = _tokenizer(config, kind, rows, str(config_json.get("model_type")))
    special = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad")}
    known = {name: number for name, number in special.items() if number is not None}
    sized = {**config_json, "vocab_size": tokenizer.largest_id + 1, **known}
    fitted = {**sized, **head_overrides(config, kind, rows, sized)}
    return Model.from_config(fitted, task=kind.HEAD, tokenizer=tokenizer, device=config.device)


def _new_vocabulary(config: RunConfig, kind: type[Task], rows: RowSequence) -> Tokenizer | None:
    """The tokenizer of a checkpoint that has none, a self-supervised speech encoder; None where nothing is missing."""
    if config.tokenizer is None or config.model is None:
        return None
    header = load(config.model, task=kind.HEAD, device="meta")
    if header.family.modality != "sound" or header.has_tokenizer or not header.report.new:
        return None
    return _tokenizer(config, kind, rows, header.family.model_type)


def _tokenizer(config: RunConfig, kind: type[Task], rows: RowSequence, model_type: str) -> Tokenizer:
    """The tokenizer of a folder, or one that is trained on all texts of the rows."""
    assert config.tokenizer is not None  # checked by RunConfig
    if isinstance(config.tokenizer, TokenizerTraining):
        options = asdict(config.tokenizer)
        if config.tokenizer.kind == "characters" and model_type in characters.FAMILIES:
            options["family"] = options["family"] or model_type  # letters for CTC
        return train_tokenizer(list(kind.corpus(rows, config.data.columns)), **options)
    tokenizer = Tokenizer.find(Path(config.tokenizer), model_type=model_type)
    if tokenizer is None:
        raise ConfigError(f"{config.tokenizer}: holds no tokenizer; make one with: glassformer tokenizer train")
    return tokenizer


def _scratch_config(config: RunConfig) -> Mapping[str, Any]:
    """The config.json of a model that is trained from scratch."""
    if isinstance(config.scratch, Mapping):
        return config.scratch
    assert config.scratch is not None
    if config.scratch in PRESETS:
        return PRESETS[config.scratch].config
    path = Path(config.scratch)
    if path.suffix != ".json":
        raise ConfigError(
            f"scratch is {safe_repr(config.scratch)}, no published model{nearest(config.scratch, PRESETS)}; give one "
            "of those that `glassformer sizes` lists, a config.json, or its keys"
        )
    return read_json_object(path, ConfigError)


def training_facts(config: RunConfig, trainer: Trainer) -> dict[str, str]:
    """A training in five facts: the model, the task, examples, steps, and where all settings are."""
    options, model, labels = config.training, trainer.model, trainer.model.config.get("id2label") or {}
    parameters = sum(parameter.numel() for parameter in model.network.parameters())
    trained = sum(parameter.numel() for parameter in model.network.parameters() if parameter.requires_grad)
    part = "" if trained == parameters else f", {amount(trained)} of them trained"
    count = f", {len(labels)} labels" if config.task in ("classify", "tag") else ""
    if model.config.get("problem_type") == "regression":
        count = ", a number"
    best = "" if trainer.validation_examples is None else f"; the best model by {chosen_by(trainer)}"
    first, *more = as_list(config.data.train)
    if first == ".":
        first = str(config.data.root)
    files = f"{first} and {len(more)} more" if more else first
    held_out = trainer.validation_examples
    validation = "no validation data (-v 0.1 holds out a tenth)"
    if held_out is not None:
        validation = f"{len(held_out):,} for validation"
    size = f"{options.batch_size} examples" if options.batch_tokens is None else f"{options.batch_tokens:,} tokens"
    length = f"{counted(trainer.steps, 'step')} of {size}"
    passes = trainer.batch_sampler.epochs
    epochs = "" if options.steps is not None else f" ({passes:g} epoch{'s' * (passes != 1)})"
    resumed = f"; resumed after step {trainer.state.step:,}" if trainer.state.step else ""
    return {
        "model": f"{config.model or 'from scratch'}: {model.family.model_type}, {amount(parameters)} parameters{part}",
        "task": f"{config.task}{count}{best}",
        "data": f"{files}: {len(trainer.train_examples):,} examples, {validation}",
        "budget": f"{length}{epochs}, learning rate {number(options.learning_rate)}, on {trainer.device}",
        "output": f"{config.output}, with every setting in its {CONFIG}{resumed}",
    }


def chosen_by(trainer: Trainer) -> str:
    """The metric that chooses the best model, and next to it that of the report, where it is another."""
    reported = trainer.task.METRIC
    if trainer.task.EVALUATION is None or reported == trainer.metric:
        return trainer.metric
    return f"{trainer.metric}, while the report leads with {reported}"


def example_text(trainer: Trainer) -> str:
    """The first text of the training rows as it is there: a tokenizer may lower-case it. "" = the rows have none."""
    rows, columns = trainer.train_rows, trainer.task.columns
    if rows is None or not trainer.task.READS_TEXT or not trainer.model.has_tokenizer:
        return ""
    names = [columns[role] for role in TEXT_ROLES if role in columns and role not in trainer.task.TARGETS]
    for index in range(min(len(rows), 100)):  # a row may have no words
        for value in filter(None, map(rows[index].get, names)):
            text = value if isinstance(value, str) else " ".join(map(str, value))
            if text.strip():
                return text
    return ""


def few_steps_note(trainer: Trainer) -> str | None:
    """What to type where the epochs that were asked for are too few steps to learn anything; None = they suffice."""
    options, sampler = trainer.options, trainer.batch_sampler
    if options.epochs is None or options.steps is not None or trainer.steps >= LEAST_STEPS or options.dry_run:
        return None
    epochs = -(-LEAST_STEPS // sampler.steps_per_epoch(0))
    return (
        f"{counted(trainer.steps, 'step')} are few, a new head hardly learns in them: "
        f"--epochs {epochs} makes {LEAST_STEPS:,} of the same rows"
    )
