"""Run folder, as the trainer writes it: event log, checkpoints, and the best model so far.

config.yaml       the effective configuration        checkpoints/   training states to resume from
journal.jsonl     event log, step by step            model/         the best model so far, which anyone can load
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from glassformer.errors import ConfigError, WeightsError
from glassformer.files import error_reason, safe_repr
from glassformer.runs.config import TrainingOptions
from glassformer.runs.event_log import EventLog, event_log_path
from glassformer.runs.folder import CHECKPOINTS, MODEL, RunLock
from glassformer.training.checkpoints import Checkpoints
from glassformer.training.distributed import Distributed
from glassformer.training.state import read_state, write_state

if TYPE_CHECKING:
    from glassformer.model import Model


class RunFolder:
    """The folder of a run, for the process that writes; the others only read its checkpoints and keep a log.

    Args: path: None = nothing is kept but the trained model in memory · distributed: the processes that train
    """

    def __init__(self, path: Path | None, options: TrainingOptions, distributed: Distributed) -> None:
        if path is not None and path.exists() and not path.is_dir():
            raise ConfigError(f"{path}: is a file; give a folder for the run")
        self.path, self.options, self.distributed = path, options, distributed
        self.checkpoints = None if path is None else Checkpoints(path / CHECKPOINTS, keep=options.keep)
        self.event_log: EventLog | None = None
        self._failed_saves = 0

    @contextmanager
    def open(self) -> Iterator[None]:
        """Lock the folder and open the event log, while the block runs; another run in it is an error."""
        if self.path is None:
            yield
            return
        with ExitStack() as stack:
            if self.distributed.is_main:
                try:
                    self.path.mkdir(parents=True, exist_ok=True)
                except OSError as error:
                    reason = error_reason(error)
                    raise ConfigError(f"{self.path}: the folder cannot be made: {reason}") from error
                stack.enter_context(RunLock(self.path / "lock"))
                self._recover_model(self.path)
            self.distributed.all_reduce_max(0)  # a barrier: the others wait until the folder exists
            self.event_log = stack.enter_context(EventLog(event_log_path(self.path, self.distributed.rank)))
            try:
                yield
            finally:
                self.event_log = None

    def log_event(self, event: str, **values: Any) -> None:
        """Write a line of the event log."""
        if self.event_log is not None:
            self.event_log.write(event, **values)

    def log_offset(self) -> int:
        """Length of the event log in bytes, once it is on the disk."""
        if self.event_log is None:
            return 0
        self.event_log.sync()
        return self.event_log.offset

    def truncate_log(self, offset: int) -> None:
        """Drop what the event log says beyond an offset in bytes."""
        if self.event_log is not None:
            self.event_log.truncate(offset)

    def load_state(self, identity: Mapping[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The newest intact training state of this very run, as tensors and values; None where there is none."""
        checkpoint = None if self.checkpoints is None else self.checkpoints.latest()
        if checkpoint is None:
            return None
        theirs = dict(checkpoint.about.get("run", {}))
        changed = [name for name in {**theirs, **identity} if theirs.get(name) != identity.get(name)]
        if changed:
            what = "; ".join(
                f"{name} was {safe_repr(theirs.get(name))}, is now {safe_repr(identity.get(name))}"
                for name in changed[:5]
            )
            raise ConfigError(f"{self.path}: holds a run of another configuration: {what}; choose another folder")
        return read_state(checkpoint.folder)

    def save_state(
        self, step: int, tensors: Mapping[str, Tensor], values: Mapping[str, Any], identity: Mapping[str, Any]
    ) -> Path | None:
        """Save a checkpoint; its folder."""
        if self.checkpoints is None:
            return None
        return self.checkpoints.save(
            step, lambda folder: write_state(folder, tensors, values), about={"run": dict(identity)}
        )

    def try_save(self, step: int, *state: Any) -> tuple[bool, Path | None]:
        """`save_state` by the main process; a disk that refuses is an error only after `max_failed_saves` in a row.

        Returns: whether it is saved, which all processes know, and where.
        """
        error, path = None, None
        if self.distributed.is_main:
            try:
                path = self.save_state(step, *state)
            except WeightsError as problem:
                error = problem
        self._failed_saves = self.distributed.all_reduce_max(self._failed_saves + 1 if error else 0)
        if not self._failed_saves:
            self.log_event("checkpoint", step=step)
            return True, path
        self.log_event("not saved", step=step, reason=str(error))
        if self._failed_saves > self.options.max_failed_saves:
            raise error or WeightsError("the main process could not save")
        if error:
            warnings.warn(f"step {step} is not saved: {error}", stacklevel=3)
        return False, None

    @staticmethod
    def _recover_model(folder: Path) -> None:
        """Undo a kill between the two renames of `save_best_model`, which leaves the old model aside."""
        old, path = folder / f".{MODEL}.old", folder / MODEL
        if old.exists() and not path.exists():
            old.rename(path)

    def save_best_model(self, model: Model) -> None:
        """Write beside the old model, then swap by renaming: a kill leaves one of them intact."""
        if self.path is None:
            return
        new, old, path = (self.path / name for name in (f".{MODEL}.new", f".{MODEL}.old", MODEL))
        try:
            for left in (new, old):
                shutil.rmtree(left, ignore_errors=True)
            model.save_pretrained(new)
            if path.exists():
                path.rename(old)
            new.rename(path)
            shutil.rmtree(old, ignore_errors=True)
        except OSError as error:
            raise WeightsError(f"{path}: the model cannot be written: {error_reason(error)}") from error

    def load_best_weights(self, model: Model) -> None:
        """Load the weights of the best model into a model."""
        if self.path is not None:
            model.take_weights(self.path / MODEL)
