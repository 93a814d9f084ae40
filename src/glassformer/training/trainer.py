"""The training loop.

    for each epoch:                                     Trainer.train
        for each step of it:                            Trainer.train_epoch
            micro-batches ─ network ─ losses ─ backward Trainer.train_step
            clip ─ optimizer step
        validate ─ best? ─ save                         Trainer.validate

What a step reads follows from its number, its randomness from generators that are saved, and its losses are divided by
the label count of the whole step. So a run is the same however it is cut: into micro-batches, processes, or by a kill.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from glassformer.compression.movement import PruningSpec, WeightPruning
from glassformer.compression.quantisation_aware import QuantisationAware, QuantisationSpec
from glassformer.errors import ConfigError
from glassformer.files import as_path, safe_repr
from glassformer.model import Model
from glassformer.runs.config import RunConfig, TrainingOptions
from glassformer.runs.folder import MODEL
from glassformer.tasks.base import Task
from glassformer.tasks.types import Dataset, Examples, TrainingPart
from glassformer.training.batch_loader import BatchLoader, BatchSampler
from glassformer.training.callbacks import Callback, GracefulShutdown, StepReport, TrainingStopped
from glassformer.training.distributed import init_distributed
from glassformer.training.gradients import Diverged, Gradients, ValidationLoop, is_finite
from glassformer.training.optimiser import Schedule, make_optimiser, set_rate
from glassformer.training.run_folder import RunFolder
from glassformer.training.state import (
    TrainingState,
    capture_state,
    model_identity,
    restore_state,
    run_identity,
    seed_all,
)

if TYPE_CHECKING:
    from glassformer.compression.adapters import Adapters


FEW_STEPS = 500
"""Of a run of at most this many, each step is logged by default."""


@dataclass(frozen=True)
class TrainingResult:
    """The result of a training: steps done, metrics of the best validation, and its step."""

    steps: int
    metrics: dict[str, float]
    best_step: int | None
    folder: Path | None


class Trainer:
    """Trains a model for a task.

        trainer = Trainer(model, task, TrainingOptions(epochs=3), train=task.encode(rows), folder="runs/first")
        trainer.train()
        trainer.validate()

    Args:
        model: it is trained in place
        task: what it learns
        train, validation: examples
        folder: for checkpoints, the log and the best model; None = keep nothing
        callbacks: see callbacks.py
        adapters: of the model, which then is saved with them merged
        quantisation: weights are rounded in each pass, and saved so
        pruning: masks on its weights, which then are saved as zeros; validations count from the final sparsity on
        sharded: FSDP where there are several processes, instead of DDP
        config: the configuration of the run, where one describes it: what its card and report say
    Raises: ConfigError, DataError: options, data and model that do not go together.
    """

    def __init__(
        self,
        model: Model,
        task: Task,
        options: TrainingOptions | None = None,
        *,
        train: Examples,
        validation: Examples | None = None,
        folder: str | Path | None = None,
        callbacks: Sequence[Callback] = (),
        adapters: Adapters | None = None,
        pruning: PruningSpec | None = None,
        quantisation: QuantisationSpec | None = None,
        sharded: bool = False,
        config: RunConfig | None = None,
    ) -> None:
        model.network.check_trainable()
        self.config = config
        self.model, self.task, self.adapters, self.options = model, task, adapters, options or TrainingOptions()
        self.train_examples, self.validation_examples, self.callbacks = train, validation, list(callbacks)
        self.train_rows: Dataset | None = None  # of the examples, where a configuration names them
        self.batch_sampler = BatchSampler(self.options, train.lengths)
        self.steps = self.batch_sampler.total_steps()
        # A curve of a short run needs every point that there is.
        self.log_every = self.options.log_every or (1 if self.steps <= FEW_STEPS else 10)
        # of its weights before they are sharded and trained
        self._model_identity = model_identity(model, adapters, pruning, quantisation)
        self.distributed, self.device = init_distributed(model.device, sharded=sharded)
        self.network = model.network.to(self.device)
        self.pruning = None if pruning is None else WeightPruning(self.network, pruning, self.steps)
        self.quantisation = None if quantisation is None else QuantisationAware(self.network, quantisation)
        share = self.distributed.rank, self.distributed.world_size
        task.check_training(train, self.options.micro_batch_size or self.options.batch_size)
        batch_loader = BatchLoader(task, train, self.batch_sampler, share)
        self.gradients = Gradients(self.network, batch_loader, self.options, self.distributed, self.device)
        given = self.options
        rates = {name: getattr(given, name) for name in "learning_rate weight_decay beta1 beta2 epsilon".split()}
        own_rates = {} if self.pruning is None else self.pruning.rates
        self.optimizer = make_optimiser(self.network, given.optimizer, own_rates=own_rates, **rates)
        shape: dict[str, Any] = {"warmup": given.warmup, "floor": given.floor, "width": self.network.width}
        self.schedule = Schedule(given.schedule, self.steps, **shape)
        self.folder = None if folder is None else as_path(folder, "folder")
        self.run_folder = RunFolder(self.folder, self.options, self.distributed)
        self.state, self.metric = TrainingState(), given.metric or task.VALIDATION_METRIC
        tokens = self.gradients.micro_batch_tokens(self.state)
        self._validation_loop = ValidationLoop(self.gradients, task, tokens=tokens)
        if validation is not None:
            task.metric()  # what cannot be scored is refused before the first step
        self._saved_step: int | None = None

    # ------------------------------------------------------------------------------------------------- the run

    def train(self, *, resume: bool = True) -> TrainingResult:
        """Train to the end, from the newest intact checkpoint of the folder where there is one.

        Args:
            resume: False = a folder that holds a run is an error.
        Returns: a `TrainingResult`; the model holds the best weights, or the last where nothing was validated.
        Raises: TrainingStopped: by Ctrl-C or SIGTERM, and the step is finished and saved; or since another of several
            processes has ended. Diverged: the loss is NaN.
            ConfigError: the folder holds another run. WeightsError: the disk refused too often.
        """
        with ExitStack() as stack:
            stack.enter_context(self.distributed.lost_processes())
            stack.enter_context(self.run_folder.open())
            self._start_or_resume(resume)
            stack.callback(self.network.eval)
            stack.callback(self.gradients.batch_loader.close)
            self.state.start_clocks()
            stop = stack.enter_context(GracefulShutdown())
            result = None
            self._notify("on_begin")
            try:
                while self.state.step < self.steps and not self._patience_exhausted:
                    self.train_epoch(stop)
                result = self._finish()
            finally:
                self._notify("on_end", result)
            # One that came while the last weights were saved, before anything else hears signals again.
            if self._stop_requested(stop):
                raise TrainingStopped(
                    "stopped behind the last step; the training is finished and saved, and the same command continues"
                )
            return result

    def _stop_requested(self, stop: GracefulShutdown | None) -> bool:
        """Whether one of the processes was asked to stop."""
        return bool(self.distributed.all_reduce_max(int(stop is not None and bool(stop.requested))))

    def train_epoch(self, stop: GracefulShutdown | None = None) -> None:
        """Train the rest of this epoch, with validations and checkpoints where they are due."""
        epoch = self.state.epoch
        while self.state.epoch == epoch and self.state.step < self.steps and not self._patience_exhausted:
            self.train_step()
            whole = self.state.epoch > epoch and self.state.epoch % self.batch_sampler.epochs_per_pause == 0
            ended = whole or self.state.step == self.steps
            if self.validation_examples is not None and _due(self.state.step, self.options.validate_every, ended):
                self._validate_and_keep_best()
            stop_requested = self._stop_requested(stop)
            # Not between skipped steps: a rollback shall go to before them.
            if stop_requested or (not self.state.skipped and _due(self.state.step, self.options.save_every, ended)):
                self.save()
            if stop_requested:
                raise TrainingStopped(
                    f"stopped after step {self.state.step:,} of {self.steps:,}, which is saved; the same "
                    "command resumes from there"
                )

    def train_step(self) -> StepReport:
        """One optimizer step, on a batch that may take several micro-batches."""
        start, state = time.perf_counter(), self.state
        factor = self.schedule(state.step + 1) * 0.5**state.rollbacks
        set_rate(self.optimizer, factor)
        self.network.train()
        batches, loss, tokens = self.gradients.of_step(state, self.run_folder.log_event)
        norm = self.gradients.clip_norm(self.optimizer)
        # It skips steps whose gradients overflow in 16 bits, and lowers its scale.
        scaler = self.gradients.scaler
        applied = is_finite(loss) and (is_finite(norm) or scaler.is_enabled())
        cause = "" if applied else self.gradients.diagnose(batches)
        if applied and not self.options.dry_run:
            if self.pruning is not None:
                self.pruning.before_update(state.step + 1)
            scaler.step(self.optimizer)
            scaler.update()
        if self.pruning is not None:
            self.pruning.after_update(state.step + 1, self.optimizer)
        self.optimizer.zero_grad(set_to_none=True)
        speed = tokens / (time.perf_counter() - start)
        state.step, state.position, state.tokens = state.step + 1, state.position + 1, state.tokens + tokens
        if state.position == self.batch_sampler.steps_per_epoch(state.epoch):
            state.epoch, state.position = state.epoch + 1, 0
        epoch = state.epoch + state.position / self.batch_sampler.steps_per_epoch(state.epoch)
        report = StepReport(state.step, epoch, loss, self.options.learning_rate * factor, norm, tokens, speed)
        self._log_step(report)
        if applied:
            state.skipped = 0
            self._notify("on_step", report)
        else:
            self._handle_skipped_step(report, cause, [i for batch in batches for i in batch.indices])
        return report

    def validate(self, examples: Examples | None = None) -> dict[str, float]:
        """Metrics on the validation examples, or others: the mean loss of their labels, and the metrics of the task.

        Memory does not grow with the data: sufficient statistics are added up batch by batch.
        """
        chosen = examples if examples is not None else self.validation_examples
        if chosen is None or not len(chosen):
            raise ConfigError("no validation examples; give some")
        own = examples is None and self.options.training_sample > 0
        return self._validation_loop.metrics(chosen, self.train_examples if own else None)

    def predict(self, examples: Examples) -> Iterator[Any]:
        """What the head gives for each example, in their order, as the task reads it."""
        return self._validation_loop.outputs(examples)

    def save(self) -> None:
        """Save a checkpoint; where the disk refuses, the previous one stays intact."""
        self.state.update_clocks()
        if self.state.step == self._saved_step:
            return
        offset = torch.tensor(self.run_folder.log_offset())
        self.state.log_offsets = [int(x) for x in self.distributed.all_gather(offset)]
        parts = self.network, self.optimizer, self.gradients.scaler, self.state, self.distributed
        tensors, values = capture_state(*parts)
        saved, path = self.run_folder.try_save(self.state.step, tensors, values, self._run_identity)
        if saved:
            self._saved_step = self.state.step
            self._notify("on_checkpoint", path)

    # ------------------------------------------------------------------------------------------- inside a step

    def _log_step(self, report: StepReport) -> None:
        """Log every `self.log_every` steps: the mean of their losses, the tokens read, and the speed."""
        mean = self.state.mean_since_log(report)
        finite = is_finite(report.loss, report.grad_norm)
        if report.step % self.log_every and report.step < self.steps and finite:
            return
        self.run_folder.log_event("step", **{**asdict(report), **mean, "tokens": self.state.tokens})
        self.state.log_sums = {}

    def _handle_skipped_step(self, report: StepReport, cause: str, indices: list[int]) -> None:
        """Log and warn of a step that was not applied; roll back to the last checkpoint after too many in a row.

        Raises: Diverged: there is no checkpoint to roll back to, or it did not help.
        """
        self.state.skipped += 1
        skipped = {"step": report.step, "loss": report.loss, "indices": indices, "module": cause}
        self.run_folder.log_event("skipped", **skipped)
        examples = f"{indices[:10]}{'…' if len(indices) > 10 else ''}"
        warnings.warn(
            f"step {report.step} was not applied: {cause} is NaN or infinite (loss {report.loss}); examples {examples}",
            stacklevel=3,
        )
        if self.state.skipped < self.options.max_skipped:
            return
        may_roll_back = self.state.rollbacks < self.options.max_skipped
        saved = self.run_folder.load_state(self._run_identity) if may_roll_back else None
        if saved is None:
            raise Diverged(
                f"{self.state.skipped} steps in a row had a NaN or infinite loss or gradient (last: step "
                f"{report.step}, {cause}), and there is no checkpoint left to roll back to; "
                f"lower learning_rate, or look at the examples {examples}"
            )
        rollbacks = self.state.rollbacks + 1
        self._restore(*saved)
        self.state.rollbacks = rollbacks
        self.run_folder.log_event("rolled back", to=self.state.step, lr_factor=0.5**rollbacks)

    # ---------------------------------------------------------------------------------------- around the steps

    def _validate_and_keep_best(self) -> None:
        """Validate, and save the model if it is the best so far; with pruning, of those with the final sparsity."""
        metrics, state = self.validate(), self.state
        if self.metric not in metrics:
            raise ConfigError(f"metric is {safe_repr(self.metric)}; validation gives {', '.join(metrics)}")
        final = self.pruning is None or state.step >= self.pruning.final_step
        better = final and state.note_validation(metrics, self.metric)
        if better:
            self.task.note_validation(metrics)
            self._save_best_model()
        self.run_folder.log_event("validation", step=state.step, metrics=metrics, best=better)
        if self.pruning is not None:
            self.run_folder.log_event("sparsity", step=state.step, sparsity=self.pruning.sparsity)
        self._notify("on_validation", metrics)

    @property
    def _patience_exhausted(self) -> bool:
        patience = self.options.patience
        return patience is not None and self.state.validations_without_improvement >= patience

    def _save_best_model(self) -> None:
        """Save the model as it is now as the best of the run, with adapters or masks merged, as anyone can load it."""
        merged = self._training_parts
        for part in merged:
            part.merge()
        model = self.distributed.full_model(self.model)
        if self.distributed.is_main:
            self.run_folder.save_best_model(model)
        for part in merged:
            part.unmerge()

    @property
    def _training_parts(self) -> list[TrainingPart]:
        """What the network has in training alone."""
        parts = (self.adapters, self.pruning, self.quantisation, *self.task.training_parts)
        return [part for part in parts if part is not None]

    def _start_or_resume(self, resume: bool) -> None:
        if self.options.deterministic:
            torch.use_deterministic_algorithms(True)
        saved = self.run_folder.load_state(self._run_identity)
        if saved is not None and not resume:
            raise ConfigError(f"{self.folder}: holds a run already; resume it, or choose another folder")
        if saved is None:
            seed_all(self.distributed.process_seed(self.options.seed))
            self.run_folder.truncate_log(0)
            self.run_folder.log_event("begin", steps=self.steps, metric=self.metric, options=asdict(self.options))
            return
        self._restore(*saved)
        self.run_folder.truncate_log(dict(enumerate(self.state.log_offsets)).get(self.distributed.rank, 0))
        self.run_folder.log_event("resumed", step=self.state.step)

    def _restore(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        parts = self.network, self.optimizer, self.gradients.scaler, self.distributed
        self.state = restore_state(tensors, values, *parts, seed=self.options.seed)
        if self.state.best_metrics:
            self.task.note_validation(self.state.best_metrics)
        self.state.start_clocks()
        self._saved_step = self.state.step

    def _finish(self) -> TrainingResult:
        self.save()
        if self.state.best_step is None:
            self._save_best_model()
            for changed in filter(None, (self.pruning, self.quantisation, *self.task.training_parts)):
                changed.remove()
        elif self.folder is not None:
            damaged = self.distributed.is_main and self.run_folder.best_model_is_damaged(self.state)
            if self.distributed.all_reduce_max(int(damaged)):
                self._save_best_model()
            for part in self._training_parts:  # the best weights have them merged
                part.remove()
            self.model.take_weights(self.folder / MODEL)
        result = TrainingResult(self.state.step, self.state.best_metrics, self.state.best_step, self.folder)
        ended = {"steps": result.steps, "metrics": result.metrics, "best_step": result.best_step}
        self.run_folder.log_event("end", **ended, folder=None)
        return result

    @property
    def _run_identity(self) -> dict[str, Any]:
        """What must be the same when a run is resumed."""
        examples = self.train_examples, self.validation_examples
        return run_identity(self.task, self.options, self._model_identity, *examples)

    def _notify(self, event: str, *arguments: Any) -> None:
        if self.distributed.is_main:
            for callback in self.callbacks:
                getattr(callback, event)(self, *arguments)


def _due(step: int, every: int | None, ended: bool) -> bool:
    """Whether it is time: every N steps; None = at the end of an epoch, or of several, and of the run."""
    return ended if every is None else step % every == 0
