"""Run folder, as the trainer writes it: event log, checkpoints, and the best model so far.

config.yaml       the effective configuration        checkpoints/   training states to resume from
journal.jsonl     event log, step by step            model/         the best model so far, which anyone can load
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from glassformer.errors import ConfigError, WeightsError
from glassformer.files import error_reason, safe_repr
from glassformer.runs.event_log import EventLog, event_log_path
from glassformer.runs.folder import CHECKPOINTS, MODEL
from glassformer.runs.lock import RunLock
from glassformer.training.checkpoints import Checkpoint, Checkpoints
from glassformer.training.distributed import Distributed
from glassformer.training.state_files import read_state, write_state

if TYPE_CHECKING:
    from glassformer.model import Model


class NullRun:
    """A run without a folder, which leaves nothing but the trained model in memory (null object)."""

    path: Path | None = None

    @contextmanager
    def open(self) -> Iterator[None]:
        """Lock the folder and open the event log, while the block runs."""
        yield

    def log_event(self, event: str, **values: Any) -> None:
        """Write a line of the event log."""

    def load_state(self, identity: Mapping[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The newest intact training state of this very run, as tensors and values; None where there is none."""
        return None

    def save_state(
        self, step: int, tensors: Mapping[str, Tensor], values: Mapping[str, Any], identity: Mapping[str, Any]
    ) -> Path | None:
        """Save a checkpoint; its folder."""
        return None

    def save_best_model(self, model: Model) -> None:
        """Save this model as the best of the run."""

    def load_best_weights(self, model: Model) -> None:
        """Load the weights of the best model into a model."""

    def log_offset(self) -> int:
        """Length of the event log in bytes, once it is on the disk."""
        return 0

    def truncate_log(self, offset: int) -> None:
        """Drop what the event log says beyond an offset in bytes."""


class RunFolder(NullRun):
    """The folder of a run, for the process that writes; the others only read its checkpoints and keep a log.

    Args:
        keep: how many checkpoints stay · distributed: the processes that train
    """

    def __init__(self, path: Path, *, keep: int, distributed: Distributed) -> None:
        if path.exists() and not path.is_dir():
            raise ConfigError(f"{path}: is a file; give a folder for the run")
        self.path: Path = path
        self.distributed, self.rank = distributed, distributed.rank
        self.checkpoints = Checkpoints(path / CHECKPOINTS, keep=keep)
        self.event_log: EventLog | None = None

    @contextmanager
    def open(self) -> Iterator[None]:
        """Lock the folder; another run in it is an error."""
        with ExitStack() as stack:
            if self.rank == 0:
                _make(self.path)
                stack.enter_context(RunLock(self.path / "lock"))
                self._recover_model()
            self.distributed.all_reduce_max(0)  # a barrier: the others wait until the folder exists
            self.event_log = stack.enter_context(EventLog(event_log_path(self.path, self.rank)))
            try:
                yield
            finally:
                self.event_log = None

    def log_event(self, event: str, **values: Any) -> None:
        if self.event_log is not None:
            self.event_log.write(event, **values)

    def log_offset(self) -> int:
        if self.event_log is not None:
            self.event_log.sync()
        return self.event_log.offset if self.event_log is not None else 0

    def truncate_log(self, offset: int) -> None:
        if self.event_log is not None:
            self.event_log.truncate(offset)

    def load_state(self, identity: Mapping[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        checkpoint: Checkpoint | None = self.checkpoints.latest()
        if checkpoint is None:
            return None
        theirs = dict(checkpoint.about.get("run", {}))
        changed = [name for name in {**theirs, **identity} if theirs.get(name) != identity.get(name)]
        if changed:
            what = "; ".join(
                f"{name} was {safe_repr(theirs.get(name))}, is now {safe_repr(identity.get(name))}"
                for name in changed[:5]
            )
            raise ConfigError(
                f"{self.path}: holds a run of another configuration: {what}; choose another folder"
            )
        return read_state(checkpoint.folder)

    def save_state(
        self, step: int, tensors: Mapping[str, Tensor], values: Mapping[str, Any], identity: Mapping[str, Any]
    ) -> Path | None:
        return self.checkpoints.save(
            step, lambda folder: write_state(folder, tensors, values), about={"run": dict(identity)}
        )

    def _recover_model(self) -> None:
        """Undo a kill between the two renames of `save_best_model`, which leaves the old model aside."""
        old, path = self.path / f".{MODEL}.old", self.path / MODEL
        if old.exists() and not path.exists():
            old.rename(path)

    def save_best_model(self, model: Model) -> None:
        """Write beside the old model, then swap by renaming: a kill leaves one of them intact."""
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
        model.take_weights(self.path / MODEL)


def _make(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{path}: the folder cannot be made: {error_reason(error)}") from error
