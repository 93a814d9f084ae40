"""The folder of a run.

config.yaml       the effective configuration        checkpoints/   to go on from
journal.jsonl     what happened, step by step        model/         the best so far, which anyone can load
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from glassformer.errors import ConfigError, WeightsError
from glassformer.files import reason, shown
from glassformer.runs.event_log import Journal, journal_path
from glassformer.runs.folder import CHECKPOINTS, MODEL
from glassformer.runs.lock import Lock
from glassformer.training.checkpoints import Checkpoint, Checkpoints
from glassformer.training.parallel import Crew
from glassformer.training.state import read_state, write_state

if TYPE_CHECKING:
    from glassformer.model import Model


class Nowhere:
    """No folder: a run that leaves nothing but the trained model in memory."""

    path: Path | None = None

    @contextmanager
    def opened(self) -> Iterator[None]:
        yield

    def log(self, event: str, **values: Any) -> None:
        """Write a line of the journal."""

    def begin(self, identity: Mapping[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The newest state that is whole, of this very run; None where there is none."""
        return None

    def save(
        self, step: int, tensors: Mapping[str, Tensor], values: Mapping[str, Any], identity: Mapping[str, Any]
    ) -> Path | None:
        """Save a state."""
        return None

    def publish(self, model: Model) -> None:
        """Make this model the run's."""

    def take_best(self, model: Model) -> None:
        """Give a model the weights that were published last."""

    def mark(self) -> int:
        """How long the journal is."""
        return 0

    def cut(self, mark: int) -> None:
        """Forget what the journal says beyond a mark."""


class RunFolder(Nowhere):
    """The folder of a run, for the process that writes; the others only read its checkpoints and keep a log.

    Args:
        keep: how many checkpoints stay · crew: who trains
    """

    def __init__(self, path: Path, *, keep: int, crew: Crew) -> None:
        if path.exists() and not path.is_dir():
            raise ConfigError(f"{path}: is a file; give a folder for the run")
        self.path: Path = path
        self.crew, self.rank = crew, crew.rank
        self.checkpoints = Checkpoints(path / CHECKPOINTS, keep=keep)
        self.journal: Journal | None = None

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Hold the folder; another run in it is refused."""
        with ExitStack() as held:
            if self.rank == 0:
                _make(self.path)
                held.enter_context(Lock(self.path / "lock"))
                self._mend()
            self.crew.most(0)  # the others wait until the folder is there
            self.journal = held.enter_context(Journal(journal_path(self.path, self.rank)))
            try:
                yield
            finally:
                self.journal = None

    def log(self, event: str, **values: Any) -> None:
        if self.journal is not None:
            self.journal.write(event, **values)

    def mark(self) -> int:
        if self.journal is not None:
            self.journal.sync()
        return self.journal.offset if self.journal is not None else 0

    def cut(self, mark: int) -> None:
        if self.journal is not None:
            self.journal.truncate(mark)

    def begin(self, identity: Mapping[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        found: Checkpoint | None = self.checkpoints.latest()
        if found is None:
            return None
        theirs = dict(found.about.get("run", {}))
        changed = [name for name in {**theirs, **identity} if theirs.get(name) != identity.get(name)]
        if changed:
            what = "; ".join(
                f"{name} was {shown(theirs.get(name))}, is now {shown(identity.get(name))}"
                for name in changed[:5]
            )
            raise ConfigError(
                f"{self.path}: holds a run of another configuration: {what}; choose another folder"
            )
        return read_state(found.folder)

    def save(
        self, step: int, tensors: Mapping[str, Tensor], values: Mapping[str, Any], identity: Mapping[str, Any]
    ) -> Path | None:
        return self.checkpoints.save(
            step, lambda folder: write_state(folder, tensors, values), about={"run": dict(identity)}
        )

    def _mend(self) -> None:
        """A kill between the two renames of `publish` leaves the old model aside: it is the run's still."""
        old, place = self.path / f".{MODEL}.old", self.path / MODEL
        if old.exists() and not place.exists():
            old.rename(place)

    def publish(self, model: Model) -> None:
        """Beside the old one first, then in its place: a kill leaves one of them whole."""
        new, old, place = (self.path / name for name in (f".{MODEL}.new", f".{MODEL}.old", MODEL))
        try:
            for left in (new, old):
                shutil.rmtree(left, ignore_errors=True)
            model.save_pretrained(new)
            if place.exists():
                place.rename(old)
            new.rename(place)
            shutil.rmtree(old, ignore_errors=True)
        except OSError as error:
            raise WeightsError(f"{place}: the model cannot be written: {reason(error)}") from error

    def take_best(self, model: Model) -> None:
        model.take_weights(self.path / MODEL)


def _make(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{path}: the folder cannot be made: {reason(error)}") from error
