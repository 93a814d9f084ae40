"""Checkpoints of a `Trainer`: folders `checkpoint-STEP` that load as models, with what resuming needs alongside.

checkpoint-500/  config.json  model.safetensors  tokenizer.json …     as `save_pretrained` writes them
                 trainer_state.json                                   logs, step, best checkpoint
                 optimizer.safetensors  optimizer.json                optimizer, schedule, random generators: no pickle
                 manifest.json                                        size and SHA-256 of each file

They are written and verified as those of a run are (`training/checkpoints.py`): a kill leaves a whole one or none, and
training resumes from none that is damaged.
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from glassformer.errors import DataError, WeightsError
from glassformer.files import as_path
from glassformer.files.atomic import atomic_file, disk_errors, flush_folder, remove_folder, removed_on_failure
from glassformer.hf.custom_models import CustomModel
from glassformer.hf.trainer.callbacks import TrainerState
from glassformer.model import Model
from glassformer.training.run_folder import read_manifest, write_manifest
from glassformer.training.state import (
    capture_rng,
    optimiser_tensors,
    read_state,
    restore_optimiser,
    restore_rng,
    write_state,
)
from glassformer.weights.write import write_tensors

PREFIX = "checkpoint-"
STATE = "trainer_state.json"
RANDOM = "random."


def save_model(model: nn.Module, processing_class: Any, folder: Path) -> None:
    """Write a model, and its tokenizer or processor, to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(model, (Model, CustomModel)):
        model.save_pretrained(folder)
    else:  # a custom module: its weights alone
        state = {name: x.detach().clone().contiguous() for name, x in model.state_dict().items()}
        with atomic_file(folder / "model.safetensors") as stream:
            write_tensors(stream, state, {"format": "pt"})
    if processing_class is not None:
        processing_class.save_pretrained(folder)


def load_weights(model: nn.Module, folder: Path) -> None:
    """Load the weights of a checkpoint into a model."""
    if isinstance(model, Model):
        saved = type(model).from_pretrained(str(folder)) if hasattr(type(model), "from_pretrained") else None
        state = saved.state_dict() if saved is not None else _loaded(folder, model.task)
    else:
        state = load_file(folder / "model.safetensors")
    model.load_state_dict(state)


def _loaded(folder: Path, task: str) -> dict[str, torch.Tensor]:
    from glassformer.model import load

    return dict(load(folder, task=task).state_dict())


def save_checkpoint(
    folder: Path, model: nn.Module, processing_class: Any, optimizer: Any, schedule: Any, state: TrainerState
) -> None:
    """Write a checkpoint; the folder has its name only when it is complete, and on the disk."""
    unfinished = folder.with_name(f".{folder.name}.unfinished")
    best = state.best_global_step == state.global_step
    with disk_errors(folder, DataError):
        remove_folder(unfinished)
        with removed_on_failure(unfinished):
            save_model(model, processing_class, unfinished)
            tensors, values = optimiser_tensors(optimizer, model.named_parameters())
            tensors |= {f"{RANDOM}{name}": x for name, x in capture_rng().items()}
            write_state(unfinished, tensors, {"optimizer": values, "last_epoch": schedule.last_epoch}, name="optimizer")
            state.save_to_json(unfinished / STATE)
            write_manifest(
                unfinished, {"step": state.global_step, "best": best, "about": {}, "number": state.global_step}
            )
            remove_checkpoint(folder)
            unfinished.rename(folder)
        flush_folder(folder.parent)


def remove_checkpoint(folder: Path) -> None:
    """Remove a checkpoint, if it is there; a kill meanwhile leaves no part of one under its name."""
    if folder.is_dir():
        removed = folder.with_name(f".{folder.name}.removed")
        remove_folder(removed)
        folder.rename(removed)
        remove_folder(removed)


def check_checkpoint(folder: Path) -> None:
    """Verify every file of a checkpoint.

    Raises: DataError: it is none of this Trainer. WeightsError: a file that is missing, cut or changed.
    """
    if not (folder / STATE).is_file() or not (folder / "optimizer.json").is_file():
        raise DataError(
            f"{folder}: holds no checkpoint of this Trainer ({STATE}, optimizer.json); give one of its own folders "
            f"{PREFIX}STEP, or leave resume_from_checkpoint out"
        )
    read_manifest(folder).verify()


def newest_checkpoint(output_dir: str | Path) -> Path:
    """The newest intact checkpoint in a folder; damaged ones are skipped with a warning.

    Raises: DataError: there is none.
    """
    for folder in reversed(saved_checkpoints(output_dir)):
        try:
            check_checkpoint(folder)
            return folder
        except (DataError, WeightsError) as problem:
            warnings.warn(f"{problem}; the checkpoint {folder.name} is skipped", stacklevel=4)
    raise DataError(
        f"resume_from_checkpoint=True: {output_dir} holds no {PREFIX}STEP that is intact; leave it out to begin"
    )


def load_checkpoint(
    folder: Path, model: nn.Module, optimizer: Any, schedule: Any
) -> tuple[TrainerState, dict[str, Tensor]]:
    """Restore what `save_checkpoint` wrote; the state of the training, and those of the random generators."""
    load_weights(model, folder)
    tensors, values = read_state(folder, name="optimizer")
    restore_optimiser(optimizer, model.named_parameters(), tensors, values["optimizer"])
    schedule.last_epoch = values["last_epoch"]
    rates = [
        base * factor(schedule.last_epoch) for base, factor in zip(schedule.base_lrs, schedule.lr_lambdas, strict=True)
    ]
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
    generators = {name.removeprefix(RANDOM): x for name, x in tensors.items() if name.startswith(RANDOM)}
    restore_rng(generators)
    return TrainerState.load_from_json(folder / STATE), generators


def saved_checkpoints(output_dir: str | Path) -> list[Path]:
    """The checkpoints in a folder, from the first step to the last."""
    folder, name = as_path(output_dir, "output_dir"), re.compile(rf"{PREFIX}(\d+)")
    by_step = {int(match[1]): path for path in folder.glob(f"{PREFIX}*") if (match := name.fullmatch(path.name))}
    return [by_step[step] for step in sorted(by_step)]


def get_last_checkpoint(folder: str | Path) -> str | None:
    """The newest checkpoint in a folder; None where there is none."""
    saved = saved_checkpoints(folder)
    return str(saved[-1]) if saved else None
