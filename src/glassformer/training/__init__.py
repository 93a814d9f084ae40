"""From rows and a model to a better model: objectives, the loop, checkpoints.

rows ──objective──> examples ──plan──> steps ──feed──> passes ──network──> losses ──optimiser──> weights

run.py        a configuration becomes a Trainer      trainer.py     the loop: read this first
objective.py  what is learnt, and objectives/        plan.py        which examples make which step
feed.py       steps as passes, passes.py: laid out   examiner.py    figures and answers
parallel.py   one process or several                 snapshot.py    all of a run's state, state.py: in files
folder.py     the run's folder: checkpoints.py, lock.py, journal.py, curves.py, card.py
faults.py     numbers that are none, no memory       stopping.py    Ctrl-C
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glassformer.runs.options import Options
    from glassformer.training.trainer import Trainer

__all__ = ["Options", "Trainer"]

_LAZY = {"Options": "glassformer.runs.options", "Trainer": "glassformer.training.trainer"}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_LAZY[name]), name)
