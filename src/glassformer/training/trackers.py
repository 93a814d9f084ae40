"""Experiment trackers: TensorBoard, Weights & Biases, trackio. The event log of the run is there without any of them.

Each continues the same run when a training is resumed. A tracker that fails (no network, no account) warns once and is
silent from then on: training never stops for it. Metrics are named `train/loss`, `validation/f1`, … in all of them.
"""

from __future__ import annotations

import secrets
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from glassformer.errors import ConfigError, DataError, import_optional, nearest
from glassformer.files import read_text, safe_repr
from glassformer.files.atomic import disk_errors, write_text
from glassformer.training.callbacks import Callback, StepReport

if TYPE_CHECKING:
    from glassformer.training.trainer import Trainer


class Tracker(Callback, ABC):
    """Base class of trackers: what is sent when, and that an error never stops a training.

    NAME: of the tracker, and of the package that it needs
    MODULE: what of it is imported
    Raises: MissingExtraError: the package is not installed.
    """

    NAME: ClassVar[str]
    MODULE: ClassVar[str]

    def __init__(self) -> None:
        self.package = import_optional(self.MODULE, self.NAME, "track", f"tracking by {self.NAME}")
        self.failed = False

    @abstractmethod
    def start(self, trainer: Trainer) -> None:
        """Open a run, or the one that this training had before it was interrupted."""

    @abstractmethod
    def log(self, metrics: dict[str, float], step: int) -> None:
        """Send the metrics of a step."""

    @abstractmethod
    def finish(self) -> None:
        """Close the run."""

    def on_begin(self, trainer: Trainer) -> None:
        self._try(self.start, trainer)

    def on_step(self, trainer: Trainer, report: StepReport) -> None:
        metrics = asdict(report)
        step = metrics.pop("step")
        self._try(self.log, {f"train/{name}": value for name, value in metrics.items()}, step)

    def on_validation(self, trainer: Trainer, metrics: Mapping[str, float]) -> None:
        named = {f"validation/{name}": value for name, value in metrics.items()}
        self._try(self.log, named, trainer.state.step)

    def on_end(self, trainer: Trainer, result: Any) -> None:
        self._try(self.finish)

    def _try(self, action: Callable[..., None], *arguments: Any) -> None:
        if self.failed:
            return
        try:
            action(*arguments)
        except Exception as error:
            self.failed = True
            warnings.warn(
                f"{self.NAME} failed ({type(error).__name__}: {error}); it gets nothing more of this run. Training "
                "continues, and the event log has everything",
                RuntimeWarning,
                stacklevel=2,
            )


class TensorBoard(Tracker):
    """Event files in `RUN/tensorboard`; a resumed run hides what the interrupted one wrote behind its checkpoint."""

    NAME = "tensorboard"
    MODULE = "torch.utils.tensorboard"

    def start(self, trainer: Trainer) -> None:
        step = trainer.state.step
        self._writer = self.package.SummaryWriter(
            str(_folder(trainer) / "tensorboard"), purge_step=step + 1 if step else None
        )

    def log(self, metrics: dict[str, float], step: int) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)

    def finish(self) -> None:
        self._writer.close()

    def on_checkpoint(self, trainer: Trainer, folder: Path | None) -> None:
        self._try(lambda: self._writer.flush())  # no kill loses what was sent before a checkpoint


class Wandb(Tracker):
    """A run of Weights & Biases, whose id is stored in `RUN/wandb.id`; it ignores steps that it has already.

    `WANDB_MODE=offline` needs no account; `WANDB_PROJECT` names the project, else the folder above the run does.
    """

    NAME = "wandb"
    MODULE = "wandb"

    def start(self, trainer: Trainer) -> None:
        folder = _folder(trainer)
        self._run = self.package.init(
            id=_run_id(folder / "wandb.id", fresh=trainer.state.step == 0),
            resume="allow",
            name=folder.name,
            dir=str(folder),
            config=asdict(trainer.options),
            settings=self.package.Settings(silent=True),
        )

    def log(self, metrics: dict[str, float], step: int) -> None:
        self._run.log(metrics, step=step)

    def finish(self) -> None:
        self._run.finish()


class Trackio(Tracker):
    """A run of trackio on this machine, of the same name as the run's folder.

    It stores every value it is sent: steps between the checkpoint and the interruption are there twice, with equal
    values.
    """

    NAME = "trackio"
    MODULE = "trackio"

    def start(self, trainer: Trainer) -> None:
        folder = _folder(trainer).absolute()
        self.package.init(
            project=folder.parent.name or "glassformer",
            name=folder.name,
            resume="allow" if trainer.state.step else "never",
            config=asdict(trainer.options),
        )

    def log(self, metrics: dict[str, float], step: int) -> None:
        self.package.log(metrics, step=step)

    def finish(self) -> None:
        self.package.finish()


TRACKERS: dict[str, type[Tracker]] = {tracker.NAME: tracker for tracker in (TensorBoard, Wandb, Trackio)}


def by_name(names: Iterable[str]) -> list[Callback]:
    """Make the trackers of these names, for the main process alone.

    Raises: ConfigError: no such tracker. MissingExtraError: its package is not installed.
    """
    for name in (names := list(names)):
        if name not in TRACKERS:
            raise ConfigError(f"no tracker {safe_repr(name)}; there are {', '.join(TRACKERS)}{nearest(name, TRACKERS)}")
    return [TRACKERS[name]() for name in dict.fromkeys(names)]


def _folder(trainer: Trainer) -> Path:
    if trainer.folder is None:
        raise ConfigError("the training has no folder; give one, so that the tracker can resume its run")
    return trainer.folder


def _run_id(path: Path, *, fresh: bool) -> str:
    """The id of a run, the same when it is resumed; a run that starts again has a new one."""
    if not fresh and path.is_file():
        return read_text(path, DataError).strip()
    run_id = secrets.token_hex(4)
    with disk_errors(path, DataError):
        write_text(path, run_id)
    return run_id
