"""The training loop: batches, gradients, checkpoints, resuming, distributed training, trackers and searches.

rows ─ task ─ examples ─ batch sampler ─ batches ─ batch loader ─ micro-batches ─ network ─ losses ─ optimizer ─ weights

run.py           a configuration becomes a Trainer             trainer.py       the loop: read this first
batch_loader.py  which examples make which step, prefetched    gradients.py     accumulation, NaN, validation
optimiser.py     parameter groups, learning rate schedules     distributed.py   one process, DDP or FSDP
run_folder.py    event log, atomic checkpoints, the best model
state.py         counters, generators and optimizers, exact files of them; what a resumed run must have in common
callbacks.py     progress bar, Ctrl-C; trackers.py listen      search.py        hyperparameter search: trials.py
"""

from __future__ import annotations

from glassformer.runs.config import TrainingOptions
from glassformer.training.trainer import Trainer

__all__ = ["Trainer", "TrainingOptions"]
