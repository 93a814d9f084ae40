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
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from glassformer.compression.adapters import adapt
from glassformer.data.rows import Rows
from glassformer.errors import ConfigError, nearest
from glassformer.files.strict_json import read_object
from glassformer.model import Model, load
from glassformer.models.presets import PRESETS
from glassformer.runs.config import Config, Pieces, as_yaml, check_options
from glassformer.runs.data import check_columns, rows_of
from glassformer.runs.folder import CONFIG
from glassformer.tasks.base import Objective
from glassformer.tasks.evaluator import objective_class
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.train import train_tokenizer
from glassformer.training import randomness
from glassformer.training.callbacks import Callback, Training
from glassformer.training.trainer import Trainer
from glassformer.weights.write import atomic_file


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
