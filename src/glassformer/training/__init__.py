"""The training loop: batches, gradients, checkpoints, resuming, distributed training, trackers and searches.

rows ─ task ─ examples ─ batch sampler ─ batches ─ batch loader ─ micro-batches ─ network ─ losses ─ optimizer ─ weights

run.py             a configuration becomes a Trainer      trainer.py          the loop: read this first
batch_sampler.py   which examples make which step         batch_loader.py     the micro-batches of a step, prefetched
gradients.py       gradient accumulation                  distributed.py      one process, DDP or FSDP
optimiser.py       parameter groups, AdamW                schedules.py        learning rate schedules
training_state.py  all that resuming needs                state_files.py      the same as files, checkpoints.py: whole
validation.py      the validation loop                    run_folder.py       checkpoints, event log, the best model
faults.py          NaN and out of memory                  stopping.py         Ctrl-C
callbacks.py       progress.py and trackers.py listen     search.py           hyperparameter search
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glassformer.runs.options import TrainingOptions
    from glassformer.training.trainer import Trainer

__all__ = ["Trainer", "TrainingOptions"]

_LAZY = {
    "TrainingOptions": "glassformer.runs.options",
    "Options": "glassformer.runs.options",
    "Trainer": "glassformer.training.trainer",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_LAZY[name]), name)
