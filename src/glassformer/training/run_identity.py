"""What must be the same when a run is resumed: options, data, task, model and adapters, as in its checkpoints."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.errors import ConfigError
from glassformer.files import safe_repr
from glassformer.model import Model
from glassformer.runs.config import TrainingOptions
from glassformer.tasks.base import Task
from glassformer.tasks.types import Examples

if TYPE_CHECKING:
    from glassformer.compression.adapters import Adapters

RESUME_MAY_CHANGE = frozenset(
    "micro_batch_tokens micro_batch_size keep log_every max_skipped max_failed_saves save_every deterministic "
    "training_sample".split()
)
"""Options that may differ when a run is resumed: they change no weight, but by rounding."""

WEIGHTS_DIGEST = "loaded weights"
UNREAD_KEYS = frozenset("_name_or_path transformers_version torch_dtype dtype architectures".split())
"""Keys of config.json that change no number of a run."""


def model_identity(model: Model, adapters: Adapters | None = None) -> dict[str, Any]:
    """What tells a model from another before it is trained: its config, adapters, and a digest of the loaded weights.

    New weights are drawn by the run's seed, and are no part of the digest.
    """
    loaded = set(model.report.loaded)
    digest = model.network.fingerprint(loaded, dtypes=False)  # a run may go on in another one
    known = {f"config.{key}": value for key, value in model.config.items() if key not in UNREAD_KEYS}
    if adapters is not None:
        known |= {f"adapter.{key}": value for key, value in asdict(adapters.spec).items()}
    size = sum(parameter.numel() for parameter in model.network.parameters())
    known["model"] = f"{model.family.model_type}, {size} parameters"
    return {**known, WEIGHTS_DIGEST: digest if loaded else None}


def task_identity(task: Task) -> dict[str, Any]:
    """The options of a task, by default or given: some act on an example each time it is shown, and leave no trace in
    the stored ones. Files may move.
    """
    parameters = inspect.signature(type(task)).parameters
    defaults = {name: parameters[name].default if name in parameters else None for name in task.options()}
    return {
        f"task_options.{name}": task.given_options.get(name, default)
        for name, default in defaults.items()
        if name not in ("folder", "report")
    }


def run_identity(
    task: Task, options: TrainingOptions, model: Mapping[str, Any], train: Examples, validation: Examples | None
) -> dict[str, Any]:
    """Everything that must be the same, by name, as it comes back from a checkpoint; model: its `model_identity`."""
    # Which examples a whole batch compares decides its loss.
    free = RESUME_MAY_CHANGE - ({"micro_batch_size"} if task.WHOLE_BATCH else set())
    known: dict[str, Any] = {name: x for name, x in asdict(options).items() if name not in free}
    known |= {"task": task.training_identity, **task_identity(task), "data": train.fingerprint}
    known |= {"validation": None if validation is None else validation.fingerprint, **model}
    as_read: dict[str, Any] = json.loads(json.dumps(known, default=str))
    return as_read


def check_same_run(theirs: Mapping[str, Any], ours: Mapping[str, Any], folder: Path | None) -> None:
    """Compare the run of a checkpoint with this one.

    Raises: ConfigError: they differ, with the first five differences.
    """
    changed = [name for name in {**theirs, **ours} if theirs.get(name) != ours.get(name)]
    if changed:
        what = "; ".join(
            f"{name} was {safe_repr(theirs.get(name))}, is now {safe_repr(ours.get(name))}" for name in changed[:5]
        )
        raise ConfigError(f"{folder}: holds a run of another configuration: {what}; choose another folder")
