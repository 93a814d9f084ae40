"""Callbacks of a `Trainer`: state, control flags, and early stopping."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, DataError
from glassformer.files import as_path, read_json_object
from glassformer.files.atomic import write_json


@dataclass
class TrainerState:
    """How far a training is.

    log_history: every log
    best_metric, best_model_checkpoint: of the best validation
    total_flos: floating-point operations, 6 a token and parameter
    """

    epoch: float = 0
    global_step: int = 0
    max_steps: int = 0
    num_train_epochs: int = 0
    total_flos: float = 0.0
    best_metric: float | None = None
    best_global_step: int | None = None
    best_model_checkpoint: str | None = None
    log_history: list[dict[str, Any]] = field(default_factory=list)
    is_local_process_zero: bool = True
    is_world_process_zero: bool = True

    def save_to_json(self, json_path: str | Path) -> None:
        """Write the state to a file; a log that is NaN or infinite is null there, since JSON has neither."""
        write_json(as_path(json_path, "json_path"), _finite(asdict(self)))

    @classmethod
    def load_from_json(cls, json_path: str | Path) -> TrainerState:
        """Read what `save_to_json`, or the reference library, wrote."""
        values = read_json_object(as_path(json_path, "json_path"), DataError)
        return cls(**{name: values[name] for name in cls.__dataclass_fields__ if name in values})


@dataclass
class TrainerControl:
    """What a callback asks for: set a flag, and return the control or None."""

    should_training_stop: bool = False
    should_epoch_stop: bool = False
    should_save: bool = False
    should_evaluate: bool = False
    should_log: bool = False


class TrainerCallback:
    """Called at the events of a training; override those of interest.

    def on_epoch_end(self, args, state, control, **kwargs): ...

    kwargs: model, processing_class, optimizer, lr_scheduler, train_dataloader, eval_dataloader; metrics or logs
    """

    EVENTS = (
        "on_init_end on_train_begin on_train_end on_epoch_begin on_epoch_end on_step_begin on_substep_end on_step_end "
        "on_pre_optimizer_step on_optimizer_step on_evaluate on_predict on_save on_log on_prediction_step"
    ).split()

    def __getattr__(self, name: str) -> Any:
        if name in TrainerCallback.EVENTS:
            return lambda *args, **kwargs: None
        raise AttributeError(f"{type(self).__name__} has no {name!r}")


class EarlyStoppingCallback(TrainerCallback):
    """Stop when the metric for the best model did not improve in this many validations."""

    def __init__(self, early_stopping_patience: int = 1, early_stopping_threshold: float | None = 0.0) -> None:
        self.early_stopping_patience = early_stopping_patience
        self.early_stopping_threshold = early_stopping_threshold or 0.0
        self.early_stopping_patience_counter = 0

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if args.metric_for_best_model is None or args.eval_strategy == "no":
            raise ConfigError("EarlyStoppingCallback needs metric_for_best_model, and an eval_strategy")

    def on_evaluate(
        self, args: Any, state: TrainerState, control: TrainerControl, metrics: dict[str, float], **kwargs: Any
    ) -> None:
        value = metrics.get(prefixed(args.metric_for_best_model))
        if value is None:
            return
        gain = 0.0 if state.best_metric is None else (value - state.best_metric) * (1 if args.greater_is_better else -1)
        better = state.best_metric is None or gain > self.early_stopping_threshold
        self.early_stopping_patience_counter = 0 if better else self.early_stopping_patience_counter + 1
        if self.early_stopping_patience_counter >= self.early_stopping_patience:
            control.should_training_stop = True


class PrinterCallback(TrainerCallback):
    """Prints every log as a dictionary, its numbers to four digits."""

    def on_log(self, args: Any, state: TrainerState, control: TrainerControl, logs: Any = None, **kwargs: Any) -> None:
        shown = {name: x for name, x in (logs or {}).items() if name != "total_flos"}
        print({name: f"{x:.4g}" if isinstance(x, float) else x for name, x in shown.items()}, flush=True)


class DefaultFlowCallback(TrainerCallback):
    """Sets the flags of the control where the options say that a log, a validation or a checkpoint is due."""

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        step = state.global_step
        control.should_log |= step == 1 and args.logging_first_step
        for kind, flag in (("logging", "should_log"), ("eval", "should_evaluate"), ("save", "should_save")):
            due = step % args.interval(kind, state.max_steps) == 0
            if getattr(args, f"{kind}_strategy") == "steps" and due:
                setattr(control, flag, True)
        if step >= state.max_steps:
            control.should_training_stop = True
            control.should_save |= args.save_strategy == "steps"  # the last step is always kept

    def on_epoch_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        for kind, flag in (("logging", "should_log"), ("eval", "should_evaluate"), ("save", "should_save")):
            if getattr(args, f"{kind}_strategy") == "epoch":
                setattr(control, flag, True)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(x) for name, x in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(x) for x in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def prefixed(metric: str) -> str:
    """The name of a metric in an evaluation."""
    return metric if metric.startswith("eval_") else f"eval_{metric}"
