"""Learn a method of few labels as a run: `glassformer train --task classify --method nearest-neighbours …`.

OUTPUT/config.yaml     the effective configuration
OUTPUT/model/          a model folder, or a scorer (`tasks/classify/scorer.py`): what predict and evaluate read
OUTPUT/evaluation/     the report on validation rows, where there are some
"""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError
from glassformer.few_labels.method import Method, Setting, find_method, make_method
from glassformer.few_labels.reading import kind_of_labels, sampled_texts, text_rows
from glassformer.few_labels.rows import LabelledTexts, without_leaks
from glassformer.few_labels.saving import save_method
from glassformer.files import counted
from glassformer.files.atomic import atomic_file, remove_folder
from glassformer.hub import resolve
from glassformer.progress import Bar, no_bar
from glassformer.runs.config import LabelMethod, RunConfig, as_list, config_yaml, run_config
from glassformer.runs.data import read_splits
from glassformer.runs.folder import CONFIG, MODEL, EventLog, event_log_path
from glassformer.studies.trained import Notify, TrainedResult, evaluated_at_end
from glassformer.tasks.classify.task import Classify
from glassformer.tasks.registry import task_class
from glassformer.training.run_folder import check_run_folder


@dataclass(frozen=True)
class MethodRows:
    """What a method learns from.

    labelled: without the validation rows
    unlabelled: none of which is labelled, or a validation row
    leaked: how many were, and are left out
    skips: whether files have rows without labels, which an evaluation leaves out
    """

    labelled: LabelledTexts
    unlabelled: Sequence[str]
    leaked: int
    skips: bool


def train_method(
    config: RunConfig, *, evaluate: bool = True, notify: Notify = lambda message: None, bar: Bar = no_bar
) -> TrainedResult:
    """Learn a method, write it into the run folder, and evaluate it where there are validation rows.

    Args:
        notify: called with messages: what it learned from
        bar: shows progress of the evaluation
    Raises: ConfigError: no such method or option, a model that is missing, a folder with another run. DataError: rows.
        UnsupportedError: a method that learns nothing that could be saved.
    """
    assert config.method is not None
    folder, spec, kind = Path(config.output), config.method, find_method(config.method.name)
    unfitted = make_method(spec.name, Setting(model=""), **spec.options)
    if kind.saved is Method.saved:  # before it learns
        unfitted.saved()
    unfitted.require_encoder(config.model, spec.name)
    check_run_folder(folder)
    _check_same_run(config, folder)
    rows = read_rows_of(config, spec, kind)
    what = counted(len(rows.labelled), "labelled row") if len(rows.labelled) else "the names of the labels alone"
    others = f", and {len(rows.unlabelled):,} without a label are known" if rows.unlabelled else ""
    leaked = f"; {counted(rows.leaked, 'other')} left out: rows with a label have the same text" if rows.leaked else ""
    notify(f"{spec.name} learns from {what}{others}{leaked}")
    setting = Setting(
        model=str(resolve(config.model)) if config.model and unfitted.needs_encoder else "", seed=config.training.seed,
        max_tokens=spec.max_tokens, descriptions=spec.descriptions, models=spec.models,
    )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    with EventLog(event_log_path(folder)) as log:  # without steps: when it began, and that it has ended
        log.write("begin", options={"task": config.task, "method": asdict(spec)})
        method = make_method(spec.name, setting, **spec.options).fit(rows.labelled, rows.unlabelled)
        remove_folder(folder / MODEL)
        save_method(method, folder / MODEL)
        config = _effective(config, method, skips=rows.skips)
        with atomic_file(folder / CONFIG) as stream:
            stream.write(config_yaml(config).encode())
        log.write("end", steps=0)
    report = evaluated_at_end(config, notify, bar) if evaluate else None
    return TrainedResult(config.output, 0, None, {}, report)


def _check_same_run(config: RunConfig, folder: Path) -> None:
    """Raises: ConfigError: the folder holds another run, or one of other rows or of another method."""
    if (folder / CONFIG).is_file():
        before = run_config(folder / CONFIG)
        if (before.method, before.model, before.data.train) != (config.method, config.model, config.data.train):
            raise ConfigError(f"{folder}: holds another run already; choose another folder")


def read_rows_of(config: RunConfig, spec: LabelMethod, kind: type[Method[Any]]) -> MethodRows:
    """Read labelled and unlabelled rows; of a method that needs no label, the names of the labels may be enough."""
    separator = config.task_options.get("separator")
    if "labels" not in kind.NEEDS and spec.labels:
        return MethodRows(LabelledTexts.names_only(spec.labels, several=separator is not None), [], 0, skips=False)
    data = config.data
    read = text_rows(data.read(data.train), data.columns, skip=data.skips_bad_rows)
    if read.without:  # an evaluation of the run leaves them out too
        config = _skipping(config)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*were left out: [0-9,]+ without a label")  # they are the unlabelled ones
        train, validation = read_splits(config, task_class(config.task))
    own = text_rows(train, data.columns)
    labelled = LabelledTexts.read(own.texts, own.values, kind_of_labels(own.values, own.places, separator))
    tested = [] if validation is None else text_rows(validation, data.columns).texts
    more = sampled_texts(data, spec.unlabelled, spec.unlabelled_limit)
    unlabelled, leaked, _ = without_leaks([*read.without, *more], [*own.texts, *tested])
    return MethodRows(labelled, unlabelled, leaked, skips=bool(read.without))


def _skipping(config: RunConfig) -> RunConfig:
    """The same, which leaves out rows that cannot be read, such as those without a label."""
    return replace(config, data=replace(config.data, format={**config.data.format, "on_bad_rows": "skip"}))


def _effective(config: RunConfig, method: Method[Any], *, skips: bool) -> RunConfig:
    """The configuration by which an evaluation reads rows and texts as the method did."""
    assert config.method is not None
    if skips:
        config = _skipping(config)
    if isinstance(network := method.saved(), Classify):
        config = replace(config, task_options={"max_tokens": network.max_tokens, **config.task_options})
    return config


def method_commands(config: RunConfig, *, evaluated: bool) -> list[str]:
    """Commands to continue with: the answers for rows without labels, the errors, and the page of the run."""
    assert config.method is not None
    run = Path(config.output)
    commands = [f"glassformer {name} {shlex.quote(config.output)}" for name in ("errors", "look")] if evaluated else []
    if config.data.format.keys() <= {"on_bad_rows"}:  # else options of reading would have to be written too
        file = config.data.root / [*as_list(config.method.unlabelled), *as_list(config.data.train)][0]
        roles = [f"{role}={name}" for role, name in config.data.columns.items() if role != "label"]
        columns = [word for role in roles for word in ("--column", role)]
        words = ["predict", "classify", run, file, *columns, "--output", run / "predictions.jsonl"]
        commands.insert(0, shlex.join(["glassformer", *map(str, words)]))
    return commands
