"""Evaluation of a `Trainer`: losses, predictions, metrics; its logs, callbacks and saved models."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.errors import DataError, UnsupportedError
from glassformer.files.atomic import write_json
from glassformer.hf.names import EvalPrediction
from glassformer.hf.trainer.arguments import TrainingArguments
from glassformer.hf.trainer.callbacks import TrainerCallback, TrainerControl, TrainerState
from glassformer.hf.trainer.checkpoints import save_model
from glassformer.hf.trainer.examples import (
    IGNORED,
    columns_read,
    counts_first_labels,
    data_loader,
    label_count,
    shifts_labels,
)
from glassformer.progress import with_bar

NO_LOGITS = frozenset(
    "loss past_key_values cache hidden_states attentions encoder_hidden_states encoder_attentions "
    "decoder_hidden_states decoder_attentions cross_attentions".split()
)
"""Fields of an output that are no predictions."""

REFUSED = {
    "create_model_card": "`glassformer train` writes a model card",
}


class PredictionOutput(NamedTuple):
    """What `predict` gives: arrays, and metrics where there are labels."""

    predictions: Any
    label_ids: Any
    metrics: dict[str, float]


class EvaluationLoop(ABC):
    """The half of a `Trainer` that changes no weight."""

    model: nn.Module
    args: TrainingArguments
    processing_class: Any
    data_collator: Callable[[list[Any]], Mapping[str, Any]]
    eval_dataset: Any
    compute_metrics: Callable[[Any], dict[str, Any]] | None
    preprocess_logits_for_metrics: Callable[..., Any] | None
    label_names: list[str]
    callbacks: list[TrainerCallback]
    state: TrainerState
    control: TrainerControl
    optimizer: Any
    lr_scheduler: Any
    _prepared: float | None = None

    # ------------------------------------------------------------------------------------------------ evaluating

    def evaluate(
        self,
        eval_dataset: Any = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
        **generation: Any,
    ) -> dict[str, float]:
        """The loss, and the metrics of `compute_metrics`, on the validation data or other data; they are logged.

        Args:
            ignore_keys: fields of the output that are no predictions
            generation: as `max_length`, `num_beams`
        Returns: metric → value, with the prefix; of a dict of data sets those of each, with its name.
        Raises: DataError: no data.
        """
        chosen = self.eval_dataset if eval_dataset is None else eval_dataset
        if isinstance(chosen, Mapping):
            metrics: dict[str, float] = {}
            for name, each in chosen.items():
                metrics |= self.evaluate(each, ignore_keys, f"{metric_key_prefix}_{name}", **generation)
            return metrics
        self._generation = generation
        loader = self.get_eval_dataloader(chosen)
        only_loss = self.args.prediction_loss_only or self.compute_metrics is None
        output = self.evaluation_loop(loader, "evaluation", only_loss, ignore_keys, metric_key_prefix)
        output.metrics["epoch"] = self.state.epoch
        self.log(output.metrics)
        self._notify("on_evaluate", metrics=output.metrics)
        return output.metrics

    def predict(
        self,
        test_dataset: Any,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "test",
        **generation: Any,
    ) -> PredictionOutput:
        """What the model gives for each example: `predictions`, `label_ids`, `metrics`."""
        self._generation = generation
        loader = self.get_test_dataloader(test_dataset)
        output = self.evaluation_loop(loader, "prediction", False, ignore_keys, metric_key_prefix)
        self._notify("on_predict", metrics=output.metrics)
        return output

    def evaluation_loop(
        self,
        dataloader: Any,
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> PredictionOutput:
        """Run the model over batches, and put what it gives together."""
        started, only_loss = perf_counter(), bool(prediction_loss_only)
        self.model.to(self.args.device).eval()
        if not self.state.max_steps and self._prepared is None:  # as in the reference: until a new trainer is made
            self._prepared = round(perf_counter() - started, 4)
        losses, logits, labels, rows, batches = [], [], [], 0, 0
        for batch in with_bar(dataloader, description, shown=None if self.args.disable_tqdm is None else False):
            inputs = self._prepare_inputs(batch)
            size = _examples_in(inputs, dataloader, rows)
            loss, given, wanted = self.prediction_step(self.model, inputs, only_loss, ignore_keys)
            if loss is not None:
                losses.append((float(loss), size))
            if given is not None and self.preprocess_logits_for_metrics is not None:
                given = self.preprocess_logits_for_metrics(given, wanted)
            logits.append(_arrays(given))
            labels.append(_arrays(wanted))
            rows, batches = rows + size, batches + 1
        if not batches:
            raise DataError("there is nothing to evaluate: the data has no examples")
        predictions, label_ids = _concatenated(logits), _concatenated(labels)
        metrics: dict[str, Any] = {}
        if self.compute_metrics is not None and predictions is not None and label_ids is not None:
            metrics = dict(self.compute_metrics(EvalPrediction(predictions, label_ids)))
        named = {_named(metric_key_prefix, name): _number(value) for name, value in metrics.items()}
        own: dict[str, Any] = {}
        if losses:
            # A batch whose loss overflows does not spoil those of the others.
            sound = [(loss, size) for loss, size in losses if math.isfinite(loss)] or losses
            own[f"{metric_key_prefix}_loss"] = sum(loss * size for loss, size in sound) / sum(size for _, size in sound)
        if self._prepared is not None:
            own[f"{metric_key_prefix}_model_preparation_time"] = self._prepared
        first = {name: value for name, value in named.items() if name in metrics}  # the order of the reference library
        speed = speed_metrics(metric_key_prefix, started, num_samples=rows, num_steps=batches)
        return PredictionOutput(predictions, label_ids, {**first, **own, **named, **speed})

    def prediction_step(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        prediction_loss_only: bool,
        ignore_keys: list[str] | None = None,
    ) -> tuple[Tensor | None, Any, Any]:
        """Loss, predictions and labels of a batch; what it has not is None."""
        labelled = bool(self.label_names) and all(inputs.get(name) is not None for name in self.label_names)
        with torch.no_grad(), self.autocast():
            if labelled:
                loss, outputs = self._loss_of(model, inputs, return_outputs=True)
            else:
                loss, outputs = None, model(**inputs)
        if prediction_loss_only:
            return loss, None, None
        left_out = NO_LOGITS | set(ignore_keys or ())
        predicted = (
            tuple(x for name, x in outputs.items() if name not in left_out)
            if isinstance(outputs, Mapping)
            else tuple(outputs[1:] if labelled else outputs)
        )
        labels = tuple(inputs[name] for name in self.label_names) if labelled else None
        return loss, _alone(predicted), None if labels is None else _alone(labels)

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        """Batches of the validation data, in their order."""
        return self._loader(self.eval_dataset if eval_dataset is None else eval_dataset, self.args.eval_batch_size)

    def get_test_dataloader(self, test_dataset: Any) -> Any:
        """Batches of other data, in their order."""
        return self._loader(test_dataset, self.args.eval_batch_size)

    def _loader(self, examples: Any, size: int, seed: int | None = None, drop_last: bool = False) -> Any:
        columns = columns_read(self.model, self.label_names) if self.args.remove_unused_columns else None
        return data_loader(examples, size, self.data_collator, columns, seed, drop_last)

    def _remove_unused_columns(self, dataset: Any, description: str | None = None) -> Any:
        """The rows of a data set without the columns that the model does not read."""
        read = columns_read(self.model, self.label_names)
        if hasattr(dataset, "remove_columns"):
            return dataset.remove_columns([name for name in dataset.column_names if name not in read])
        return [{name: x for name, x in row.items() if name in read} for row in dataset]

    def _prepare_inputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """A batch on the device of the model."""
        device = self.args.device
        return {name: x.to(device) if isinstance(x, Tensor) else x for name, x in inputs.items()}

    # ---------------------------------------------------------------------------------------- logs and saved models

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add metrics to the log, and tell the callbacks."""
        entry = {**logs, "epoch": self.state.epoch}
        self.state.log_history.append({**entry, "step": self.state.global_step})
        self._notify("on_log", logs=entry)

    @property
    def model_wrapped(self) -> nn.Module:
        """The model: one process wraps nothing around it."""
        return self.model

    def num_examples(self, dataloader: Any) -> int:
        """How many examples a loader goes through."""
        return len(dataloader.dataset)

    def get_num_trainable_parameters(self) -> int:
        """How many parameters are trained."""
        return sum(x.numel() for x in self.model.parameters() if x.requires_grad)

    def get_decay_parameter_names(self, model: nn.Module) -> list[str]:
        """The names of parameters that decay: matrices."""
        return [name for name, x in model.named_parameters() if x.dim() > 1]

    def log_metrics(self, split: str, metrics: Mapping[str, Any]) -> None:
        """Print metrics, one a line."""
        print(f"***** {split} metrics *****")
        for name in sorted(metrics):
            print(f"  {name} = {metrics[name]}")

    def save_metrics(self, split: str, metrics: Mapping[str, Any], combined: bool = True) -> None:
        """Write metrics to `SPLIT_results.json` of the output folder."""
        Path(self.args.output_dir).mkdir(parents=True, exist_ok=True)
        write_json(Path(self.args.output_dir) / f"{split}_results.json", dict(metrics))

    def save_state(self) -> None:
        """Write the log to `trainer_state.json` of the output folder."""
        Path(self.args.output_dir).mkdir(parents=True, exist_ok=True)
        self.state.save_to_json(Path(self.args.output_dir) / "trainer_state.json")

    def save_model(self, output_dir: str | Path | None = None, _internal_call: bool = False) -> None:
        """Write the model, and its tokenizer or processor, to a folder; default: `output_dir`."""
        save_model(self.model, self.processing_class, Path(output_dir or self.args.output_dir))

    def push_to_hub(self, commit_message: str = "End of training", **options: Any) -> str:
        """Save the model, and upload it as `hub_model_id`, or the name of the output folder."""
        self.save_model()
        name = self.args.hub_model_id or Path(self.args.output_dir).name
        if not hasattr(self.model, "push_to_hub"):
            raise UnsupportedError("push_to_hub is for models of glassformer.hf; upload the folder by: hf upload")
        address: str = self.model.push_to_hub(name, message=commit_message)  # type: ignore[operator]
        return address

    # ------------------------------------------------------------------------------------------------- callbacks

    def add_callback(self, callback: Any) -> None:
        """Add a callback, a class or an instance."""
        self.callbacks.append(callback() if isinstance(callback, type) else callback)

    def remove_callback(self, callback: Any) -> None:
        """Remove a callback, by class or instance."""
        self.callbacks = [x for x in self.callbacks if x is not callback and type(x) is not callback]

    def pop_callback(self, callback: Any) -> Any:
        """Remove a callback, and give it back; None where there is none."""
        first = next((x for x in self.callbacks if x is callback or type(x) is callback), None)
        self.remove_callback(callback)
        return first

    def is_world_process_zero(self) -> bool:
        """Whether this process writes files: it is the only one."""
        return True

    is_local_process_zero = is_world_process_zero

    def _notify(self, event: str, **more: Any) -> None:
        parts = {
            "model": self.model,
            "processing_class": self.processing_class,
            "tokenizer": self.processing_class,
            "optimizer": self.optimizer,
            "lr_scheduler": self.lr_scheduler,
            **more,
        }
        for callback in self.callbacks:
            self.control = getattr(callback, event)(self.args, self.state, self.control, **parts) or self.control

    @abstractmethod
    def autocast(self) -> Any:
        """Mixed precision, where the options ask for it."""

    @abstractmethod
    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """The loss of a batch; with return_outputs also what the model gave."""

    def _loss_of(self, model: nn.Module, inputs: dict[str, Any], **options: Any) -> Any:
        """`compute_loss` with the number of the batch's labels, where an override takes it."""
        return call_with_items(self.compute_loss, self._items(inputs), model, inputs, **options)

    def _items(self, inputs: Mapping[str, Any]) -> Tensor | None:
        """How many labels the loss of a batch is divided by; None without labels."""
        if not isinstance(inputs.get("labels"), Tensor):
            return None
        shifted = shifts_labels(self.model) and not counts_first_labels(self.model)
        return torch.tensor(label_count(inputs, shifted=shifted))

    def __getattr__(self, name: str) -> Any:
        if name in REFUSED:
            raise UnsupportedError(f"Trainer.{name} is not there: {REFUSED[name]}")
        raise AttributeError(f"{type(self).__name__} has no {name!r}")


def speed_metrics(split: str, started: float, *, num_samples: int, num_steps: int) -> dict[str, float]:
    """Seconds, and samples and steps a second.

    Args:
        started: of `perf_counter`
    """
    seconds = max(perf_counter() - started, 1e-9)  # a wall clock may be set back meanwhile
    return {
        f"{split}_runtime": round(seconds, 4),
        f"{split}_samples_per_second": round(num_samples / seconds, 3),
        f"{split}_steps_per_second": round(num_steps / seconds, 3),
    }


def call_with_items(function: Callable[..., Any], items: Tensor | None, *arguments: Any, **options: Any) -> Any:
    """Call a function of the caller, with `num_items_in_batch` where it has this argument."""
    named = signature(function).parameters
    if "num_items_in_batch" in named or any(x.kind is Parameter.VAR_KEYWORD for x in named.values()):
        options["num_items_in_batch"] = items
    return function(*arguments, **options)


def _examples_in(inputs: Mapping[str, Any], loader: Any, seen: int) -> int:
    """How many examples a batch is made of: its rows, or of one that joins examples in a row what the loader took."""
    rows = next((len(x) for x in inputs.values() if isinstance(x, Tensor) and x.dim()), 1)
    size: Any = getattr(loader, "batch_size", None)
    examples: Any = getattr(loader, "dataset", None)
    if rows > 1 or size is None or not hasattr(examples, "__len__"):
        return rows
    return max(min(int(size), len(examples) - seen), 1)


def _alone(parts: tuple[Any, ...]) -> Any:
    return parts[0] if len(parts) == 1 else parts


def _named(prefix: str, name: str) -> str:
    return name if name.startswith(f"{prefix}_") else f"{prefix}_{name}"


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) or (isinstance(value, Tensor) and not value.dim()) else value


def _arrays(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().float().cpu().numpy() if value.is_floating_point() else value.cpu().numpy()
    return tuple(_arrays(x) for x in value) if isinstance(value, (tuple, list)) else value


def _concatenated(parts: list[Any]) -> Any:
    """Batches below each other; the shorter ones are filled up with -100 along their second dimension."""
    if not parts or parts[0] is None:
        return None
    if isinstance(parts[0], tuple):
        return tuple(_concatenated(list(each)) for each in zip(*parts, strict=True))
    if parts[0].ndim < 2:
        return np.concatenate([np.atleast_1d(part) for part in parts])
    width = max(part.shape[1] for part in parts)
    padded = [
        np.pad(p, [(0, 0), (0, width - p.shape[1])] + [(0, 0)] * (p.ndim - 2), constant_values=IGNORED) for p in parts
    ]
    return np.concatenate(padded)
