"""Run folder, as the trainer writes it: event log, checkpoints of the training state, and the best model so far.

config.yaml       the effective configuration        checkpoints/   training states to resume from
journal.jsonl     event log, step by step            model/         the best model so far, which anyone can load
"""

from __future__ import annotations

import math
import re
import shutil
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.errors import ConfigError, WeightsError
from glassformer.files import error_reason, file_sha256
from glassformer.files.atomic import atomic_file, remove_folder
from glassformer.files.lock import FolderLock
from glassformer.model import Model
from glassformer.runs.config import TrainingOptions
from glassformer.runs.digest import update_digest
from glassformer.runs.event_log import EventLog, event_log_path
from glassformer.runs.folder import CHECKPOINTS, MODEL
from glassformer.tasks.metrics.metric import quality
from glassformer.training.callbacks import StepReport
from glassformer.training.checkpoints import Checkpoints
from glassformer.training.distributed import Distributed
from glassformer.training.run_identity import check_same_run
from glassformer.training.state import (
    capture_rng,
    optimiser_tensors,
    read_state,
    restore_optimiser,
    restore_rng,
    seed_all,
    write_state,
)

SUMS = "SHA256SUMS"
"""Digests of the files of the best model, in its folder, as `sha256sum --check` reads them."""
_SUM = re.compile(r"([0-9a-f]{64})  (.+)")


def check_run_folder(path: Path) -> None:
    """Raises: ConfigError: a file, where a run's folder is to be."""
    if path.exists() and not path.is_dir():
        raise ConfigError(f"{path}: is a file; give a folder for the run")


class RunFolder:
    """The folder of a run, for the process that writes; the others only read its checkpoints and keep a log.

    Args:
        path: None = nothing is kept but the trained model in memory
        distributed: the processes that train
    """

    def __init__(self, path: Path | None, options: TrainingOptions, distributed: Distributed) -> None:
        if path is not None:
            check_run_folder(path)
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
                stack.enter_context(FolderLock(self.path / "lock"))
                old, model = self.path / f".{MODEL}.old", self.path / MODEL
                if old.exists() and not model.exists():
                    old.rename(model)  # a kill came between the two renames of `save_best_model`
            self.distributed.all_reduce_max(0)  # a barrier: the others wait until the folder exists
            self.event_log = stack.enter_context(EventLog(event_log_path(self.path, self.distributed.rank)))
            try:
                yield
            finally:
                update_digest(self.event_log.path)
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
        update_digest(self.event_log.path)
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
        check_same_run(dict(checkpoint.about.get("run", {})), identity, self.path)
        return read_state(checkpoint.folder)

    def try_save(
        self, step: int, tensors: Mapping[str, Tensor], values: Mapping[str, Any], identity: Mapping[str, Any]
    ) -> tuple[bool, Path | None]:
        """Save a checkpoint by the main process; a disk that refuses is an error after `max_failed_saves` in a row.

        Returns: whether it is saved, which all processes know, and where.
        """
        error, path = None, None
        if self.distributed.is_main and self.checkpoints is not None:
            try:
                path = self.checkpoints.save(
                    step, lambda folder: write_state(folder, tensors, values), about={"run": dict(identity)}
                )
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

    def save_best_model(self, model: Model) -> None:
        """Write next to the old model, then swap by renaming: a kill leaves one of them intact."""
        if self.path is None:
            return
        new, old, path = (self.path / name for name in (f".{MODEL}.new", f".{MODEL}.old", MODEL))
        try:
            for left in (new, old):
                remove_folder(left)
            model.save_pretrained(new)
            sums = "".join(f"{file_sha256(file)}  {file.name}\n" for file in sorted(new.iterdir()))
            with atomic_file(new / SUMS) as stream:
                stream.write(sums.encode())
            if path.exists():
                path.rename(old)
            new.rename(path)
            shutil.rmtree(old, ignore_errors=True)
        except OSError as error:
            raise WeightsError(f"{path}: the model cannot be written: {error_reason(error)}") from error

    def best_model_is_damaged(self, state: TrainingState) -> bool:
        """Whether a file of the best model is missing, or not as it was written; then a warning says so.

        A model without digests is one of an earlier release; it is taken as it is.
        """
        folder = (self.path or Path()) / MODEL
        damaged = _damaged_file(folder)
        if damaged is None and folder.is_dir():
            return False
        what = f"{folder} is gone" if damaged is None else f"{damaged} is damaged: its SHA-256 is not that of {SUMS}"
        if damaged == folder / SUMS:
            what = f"{damaged} is damaged: it holds no digests"
        warnings.warn(
            f"{what}; the best weights, of step {state.best_step}, are lost, and the last ones, of step {state.step}, "
            "take their place",
            stacklevel=4,
        )
        return True


def _damaged_file(folder: Path) -> Path | None:
    """The first file that its digest does not fit, or the file of digests where that is damaged; None = all is well."""
    sums = folder / SUMS
    if not sums.is_file():
        return None
    lines = [_SUM.fullmatch(line) for line in sums.read_text("utf-8", "replace").splitlines()]
    entries = [(folder / Path(line[2]).name, line[1]) for line in lines if line is not None]
    if not entries or len(entries) < len(lines):
        return sums
    return next((file for file, digest in entries if not file.is_file() or file_sha256(file) != digest), None)


# ------------------------------------------------------------------------------------------- the training state


@dataclass
class TrainingState:
    """The counters of a run.

    step: steps done
    epoch, position: of the next step
    tokens: seen, without padding
    seconds, cpu_seconds: spent in all sessions, with validation and saves; CPU time is that of this process
    skipped: steps skipped in a row
    rollbacks: to a checkpoint; each halves the learning rate
    micro_batch_halvings: after running out of memory
    log_sums: sums since the last step in the event log
    log_offsets: bytes of each process's event log
    best, best_step, best_metrics: the best value of the main metric, its step, and all metrics there; of equal values
        that with the lower loss
    validations_without_improvement: since then
    """

    step: int = 0
    epoch: int = 0
    position: int = 0
    tokens: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    skipped: int = 0
    rollbacks: int = 0
    micro_batch_halvings: int = 0
    log_sums: dict[str, float] = field(default_factory=dict)
    log_offsets: list[int] = field(default_factory=list)
    best: float | None = None
    best_step: int | None = None
    best_metrics: dict[str, float] = field(default_factory=dict)
    validations_without_improvement: int = 0

    def __post_init__(self) -> None:
        self.start_clocks()

    def start_clocks(self) -> None:
        """Count time from now on."""
        self._clocks = time.perf_counter(), time.process_time()

    def update_clocks(self) -> None:
        """Add the time since the last call to the counters."""
        before = self._clocks
        self.start_clocks()
        self.seconds += self._clocks[0] - before[0]
        self.cpu_seconds += self._clocks[1] - before[1]

    def mean_since_log(self, report: StepReport) -> dict[str, float]:
        """Add a step to what is logged next; the mean loss and the speed since the last logged step."""
        seconds = report.tokens / report.tokens_per_s
        added = {"steps": 1, "loss": report.loss, "tokens": report.tokens, "seconds": seconds}
        self.log_sums = sums = {name: self.log_sums.get(name, 0) + value for name, value in added.items()}
        return {"loss": sums["loss"] / sums["steps"], "tokens_per_s": sums["tokens"] / sums["seconds"]}

    def note_validation(self, metrics: dict[str, float], metric: str) -> bool:
        """Count a validation; whether it is the best so far."""
        value = metrics[metric]
        better = math.isfinite(value) and (
            self.best is None or quality(metrics, metric) > quality(self.best_metrics, metric)
        )
        self.validations_without_improvement = 0 if better else self.validations_without_improvement + 1
        if better:
            self.best, self.best_step, self.best_metrics = value, self.step, metrics
        return better


def capture_state(
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    scaler: Any,
    state: TrainingState,
    distributed: Distributed,
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Everything that decides how a run continues, as tensors and values; a collective call of all processes."""
    tensors = {f"weights.{name}": distributed.full_tensor(x) for name, x in _named_tensors(network)}
    optimiser_state, optimiser_values = optimiser_tensors(optimizer, network.named_parameters())
    tensors |= {f"optimiser.{name}": distributed.full_tensor(x) for name, x in optimiser_state.items()}
    for key, x in capture_rng().items():
        tensors |= {f"random.{rank}.{key}": one for rank, one in enumerate(distributed.all_gather(x))}
    return tensors, {"state": asdict(state), "optimiser": optimiser_values, "scaler": scaler.state_dict()}


def restore_state(
    tensors: Mapping[str, Tensor],
    values: Mapping[str, Any],
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    scaler: Any,
    distributed: Distributed,
    *,
    seed: int,
) -> TrainingState:
    """Restore the state that `capture_state` took; a collective call.

    A process that the run did not have before gets random generators of its own, from the seed and the step.
    Raises: WeightsError: the checkpoint is of another network.
    """
    state = TrainingState(**values["state"])
    for name, target in _named_tensors(network):
        whole = tensors.get(f"weights.{name}")
        if whole is None or whole.shape != target.shape:
            raise WeightsError(f"the checkpoint does not hold {name} {list(target.shape)}; it is of another model")
        with torch.no_grad():
            target.copy_(distributed.shard_like(whole, target))
    parameters = dict(network.named_parameters())
    optimiser_state = {
        name: distributed.shard_like(whole, parameters[name.partition("/")[0]])
        for name, whole in _with_prefix(tensors, "optimiser.")
        if name.partition("/")[0] in parameters
    }
    restore_optimiser(optimizer, network.named_parameters(), optimiser_state, values["optimiser"])
    if values["scaler"]:
        scaler.load_state_dict(values["scaler"])
    own = dict(_with_prefix(tensors, f"random.{distributed.rank}."))
    if own:
        restore_rng(own)
    else:
        seed_all(distributed.process_seed(seed, state.step))
    return state


def _named_tensors(network: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from network.named_parameters()
    yield from network.named_buffers()


def _with_prefix(tensors: Mapping[str, Tensor], prefix: str) -> Iterator[tuple[str, Tensor]]:
    return ((name.removeprefix(prefix), x) for name, x in tensors.items() if name.startswith(prefix))
