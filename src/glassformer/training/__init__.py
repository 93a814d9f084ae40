"""The training loop: batches, gradients, checkpoints, resuming, distributed training, trackers and searches.

rows ─ task ─ examples ─ batch sampler ─ batches ─ batch loader ─ micro-batches ─ network ─ losses ─ optimizer ─ weights

run.py           a configuration becomes a Trainer             trainer.py       the loop: read this first
batch_loader.py  which examples make which step, prefetched    gradients.py     accumulation, NaN, validation
optimiser.py     parameter groups, learning rate schedules     distributed.py   one process, DDP or FSDP
state.py         all that resuming needs, and its files        checkpoints.py   atomic saves of it
run_folder.py    checkpoints, event log, the best model        randomness.py    seeds, and generator states
callbacks.py     progress bar, Ctrl-C; trackers.py listen      search.py        hyperparameter search: trials.py
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glassformer.runs.config import TrainingOptions
    from glassformer.training.trainer import Trainer

__all__ = ["Trainer", "TrainingOptions"]

_LAZY = {
    "TrainingOptions": "glassformer.runs.config",
    "Options": "glassformer.runs.config",
    "Trainer": "glassformer.training.trainer",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_LAZY[name]), name)
