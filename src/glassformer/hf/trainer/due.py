"""What is due after a step of a `Trainer`: a log, a validation, a checkpoint; the best one, and the one to resume."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from torch import Tensor

from glassformer.errors import ConfigError
from glassformer.hf.trainer.callbacks import TrainerControl, prefixed
from glassformer.hf.trainer.checkpoints import (
    PREFIX,
    check_checkpoint,
    load_checkpoint,
    load_weights,
    newest_checkpoint,
    remove_checkpoint,
    save_checkpoint,
    saved_checkpoints,
)
from glassformer.hf.trainer.evaluation import EvaluationLoop


class Checkpointing(EvaluationLoop):
    """The part of a `Trainer` that logs, validates and saves."""

    _log_losses: list[Tensor]
    _generators: dict[str, Tensor]
    _grad_norm: float
    _rate: float

    def _do_what_is_due(self) -> None:
        """Log, validate and save, where the control says so; callbacks may have asked for it."""
        due, self.control = self.control, TrainerControl()
        self.control.should_training_stop, self.control.should_epoch_stop = (
            due.should_training_stop,
            due.should_epoch_stop,
        )
        if due.should_log and self._log_losses:
            mean = float(torch.stack(self._log_losses).mean())
            self.log({"loss": mean, "grad_norm": self._grad_norm, "learning_rate": self._rate})
            self._log_losses = []
        improved = due.should_evaluate and self.eval_dataset is not None and self._validate()
        if due.should_save or (improved and self.args.save_strategy == "best"):
            self._save()

    def _validate(self) -> bool:
        """Whether a validation is the best so far."""
        metrics, before = self.evaluate(), self.state.best_metric
        if self.args.metric_for_best_model is None:
            return False
        name = prefixed(self.args.metric_for_best_model)
        if name not in metrics:
            raise ConfigError(f"metric_for_best_model is {name!r}; an evaluation gives {', '.join(metrics)}")
        value, greater = metrics[name], self.args.greater_is_better
        if before is None:
            before = -math.inf if greater else math.inf  # NaN is never the best
        better = bool(value > before if greater else value < before)  # of equal ones the first stays
        if better:
            self.state.best_metric, self.state.best_global_step = value, self.state.global_step
        return better

    def _save(self) -> None:
        folder = Path(self.args.output_dir) / f"{PREFIX}{self.state.global_step}"
        folder.parent.mkdir(parents=True, exist_ok=True)
        if self.state.best_global_step == self.state.global_step:
            self.state.best_model_checkpoint = str(folder)
        save_checkpoint(folder, self.model, self.processing_class, self.optimizer, self.lr_scheduler, self.state)
        self._notify("on_save")
        if self.args.save_total_limit:
            needed = {str(folder), self.state.best_model_checkpoint if self.args.load_best_model_at_end else ""} - {""}
            others = [path for path in saved_checkpoints(self.args.output_dir) if str(path) not in needed]
            surplus = others[: max(0, len(others) + len(needed) - self.args.save_total_limit)]
            if surplus:
                check_checkpoint(folder)  # none is removed before the new one is seen to be intact
            for path in surplus:
                remove_checkpoint(path)

    def _load_best(self) -> None:
        """The weights of the best validation, where the options ask for it; with a limit of 1 only it stays."""
        best = self.state.best_model_checkpoint
        if not self.args.load_best_model_at_end or best is None:
            return
        check_checkpoint(Path(best))
        load_weights(self.model, Path(best))
        self.model.eval()
        if self.args.save_total_limit == 1:
            for path in saved_checkpoints(self.args.output_dir):
                if str(path) != best:
                    remove_checkpoint(path)

    def _resume(self, checkpoint: str | Path | bool) -> None:
        """Go on from a checkpoint; True = the newest of the output folder."""
        if checkpoint is True:
            folder = newest_checkpoint(self.args.output_dir)
        else:
            folder = Path(str(checkpoint))
            check_checkpoint(folder)
        planned = self.state
        self.state, self._generators = load_checkpoint(folder, self.model, self.optimizer, self.lr_scheduler)
        self.state.max_steps, self.state.num_train_epochs = planned.max_steps, planned.num_train_epochs
