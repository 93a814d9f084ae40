"""`Trainer`: a training loop with the seams that code written for the reference library overrides.

    train()  ─ for each batch ─ training_step ─ compute_loss ─ backward ─ clip ─ optimizer ─ lr_scheduler
             └ where due ─ log · evaluate ─ evaluation_loop ─ prediction_step ─ compute_metrics · save a checkpoint

Examples are dictionaries as a tokenizer gives them, a data collator makes batches of them, and the model is called with
those: a `Model` of `glassformer.hf`, or any module whose output has a loss. Batches come in the order of the reference
library's for one process, so that without dropout the losses are the same.

Differs: one process (several: `glassformer train`); the loss of several accumulated batches is the mean over their
labels for every model; `glassformer.training.Trainer` is the loop to prefer for what is new: resumed to the bit,
packed, with a report.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from inspect import signature
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from glassformer.errors import ConfigError, DataError
from glassformer.hf.collators import DataCollatorWithPadding, default_data_collator
from glassformer.hf.optimization import get_scheduler
from glassformer.hf.reference_tokenizer import ReferenceTokenizer, as_reference_tokenizer
from glassformer.hf.trainer.arguments import TrainingArguments
from glassformer.hf.trainer.callbacks import (
    DefaultFlowCallback,
    PrinterCallback,
    TrainerControl,
    TrainerState,
    prefixed,
)
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
from glassformer.hf.trainer.evaluation import EvaluationLoop, call_with_items, speed_metrics
from glassformer.hf.trainer.examples import (
    ShuffledByEpoch,
    batches_per_epoch,
    counts_first_labels,
    label_count,
    label_names_of,
    operations_per_token,
    refuse_text_labels_in,
    shifts_labels,
    token_count,
)
from glassformer.hf.trainer.search import BestRun, hyperparameter_search
from glassformer.model import Model
from glassformer.progress import progress_bar
from glassformer.training.gradients import warn_of_emulation
from glassformer.training.state import restore_rng, seed_all


class TrainOutput(NamedTuple):
    """The result of a training."""

    global_step: int
    training_loss: float
    metrics: dict[str, float]


class CompatibleTrainer(EvaluationLoop):
    """Train and evaluate a model, with the names and arguments of the reference library's class.

        trainer = Trainer(model, args, train_dataset=rows, eval_dataset=others, processing_class=tokenizer,
                          compute_metrics=lambda p: {"accuracy": (p.predictions.argmax(-1) == p.label_ids).mean()})
        trainer.train()
        print(trainer.evaluate())

    Args:
        model, model_init: the model, or a function that makes one at each `train`
        args: `TrainingArguments`
        data_collator: a list of examples → a batch; default: padding, with `processing_class`, else stacking
        train_dataset, eval_dataset: sequences of dictionaries, `datasets` too; of the latter a dict of several
        processing_class: the tokenizer or processor (`tokenizer=` too), saved next to the model
        compute_metrics: an `EvalPrediction` → metrics
        callbacks: `TrainerCallback` classes or instances
        optimizers: a custom optimizer and schedule
        compute_loss_func: (outputs, labels) → loss; `num_items_in_batch=` too, where it takes it
        preprocess_logits_for_metrics: (logits, labels) → what is kept of the logits
    Raises: ConfigError: arguments that do not go together. UnsupportedError: several processes.
    """

    trial: Any = None

    def __init__(
        self,
        model: nn.Module | None = None,
        args: TrainingArguments | None = None,
        data_collator: Callable[[list[Any]], Mapping[str, Any]] | None = None,
        train_dataset: Any = None,
        eval_dataset: Any = None,
        processing_class: Any = None,
        model_init: Callable[..., nn.Module] | None = None,
        compute_loss_func: Callable[..., Tensor] | None = None,
        compute_metrics: Callable[[Any], dict[str, Any]] | None = None,
        callbacks: Sequence[Any] | None = None,
        optimizers: tuple[torch.optim.Optimizer | None, Any] = (None, None),
        preprocess_logits_for_metrics: Callable[..., Any] | None = None,
        *,
        tokenizer: Any = None,
    ) -> None:
        self.args = args or TrainingArguments()
        seed_all(self.args.seed)
        if (model is None) == (model_init is None):
            raise ConfigError("Trainer takes a model, or model_init=, a function that makes one: give one of them")
        self.model_init, self.processing_class = model_init, as_reference_tokenizer(processing_class or tokenizer)
        self.model: nn.Module = model if model is not None else self._initial_model()
        pads = isinstance(self.processing_class, ReferenceTokenizer)
        default = DataCollatorWithPadding(self.processing_class) if pads else default_data_collator
        self.data_collator = data_collator or default
        self.train_dataset, self.eval_dataset = train_dataset, eval_dataset
        self.compute_loss_func, self.compute_metrics = compute_loss_func, compute_metrics
        self.preprocess_logits_for_metrics = preprocess_logits_for_metrics
        self.optimizer, self.lr_scheduler = optimizers
        self.label_names = self.args.label_names or label_names_of(self.model)
        self.state, self.control = TrainerState(), TrainerControl()
        self.callbacks = [DefaultFlowCallback(), *(x() if isinstance(x, type) else x for x in callbacks or ())]
        if not any(isinstance(x, PrinterCallback) for x in self.callbacks):
            self.callbacks.append(PrinterCallback())
        self._log_losses: list[Tensor] = []
        self._generators: dict[str, Tensor] = {}
        self._own_schedule = False
        # Gradients in 16 bits underflow unless the loss is scaled up.
        self._scaler = torch.amp.GradScaler(self.args.device.type, enabled=self.args.fp16)
        self._notify("on_init_end")

    @property
    def tokenizer(self) -> Any:
        """The processing class."""
        return self.processing_class

    def _initial_model(self) -> nn.Module:
        assert self.model_init is not None
        return self.model_init(self.trial) if signature(self.model_init).parameters else self.model_init()

    # ------------------------------------------------------------------------------------------------- training

    def train(self, resume_from_checkpoint: str | bool | None = None, **unused: Any) -> TrainOutput:
        """Train to the end.

        Args:
            resume_from_checkpoint: a checkpoint's folder, or True = the newest of `output_dir`

        Raises: DataError: no training data, or none in it, or no such checkpoint.
        """
        if self.train_dataset is None:
            raise DataError("Trainer has no train_dataset; give one")
        if self.model_init is not None:
            seed_all(self.args.seed)
            self.model, self.optimizer, self.lr_scheduler = self._initial_model(), None, None
        self.model.to(self.args.device)
        warn_of_emulation("bf16" if self.args.bf16 else "fp16" if self.args.fp16 else "fp32", self.args.device)
        self._operations = operations_per_token(self.model)
        if self.args.gradient_checkpointing:
            self.model.gradient_checkpointing_enable()  # type: ignore[operator]
        loader = self.get_train_dataloader()
        batches = batches_per_epoch(loader)
        if batches == 0:
            raise DataError(
                "there is nothing to train on: train_dataset gives no batch; it has no examples, or "
                "dataloader_drop_last drops its only batch, which is not full"
            )
        per_epoch = None if batches is None else -(-batches // self.args.gradient_accumulation_steps)
        total = self._plan(per_epoch)
        if self._own_schedule:  # that of an earlier training, which is at its end
            self.lr_scheduler, self._own_schedule = None, False
        self.create_optimizer_and_scheduler(total)
        self.model.zero_grad()
        resume = resume_from_checkpoint if resume_from_checkpoint is not None else self.args.resume_from_checkpoint
        if resume:
            self._resume(resume)
            if isinstance(sampler := getattr(loader, "sampler", None), ShuffledByEpoch) and self.args.data_seed is None:
                sampler.seed = torch.initial_seed()  # that of the run which saved the checkpoint
        return self._train(loader, per_epoch or total, streamed=batches is None)

    def hyperparameter_search(
        self,
        hp_space: Callable[[Any], dict[str, Any]] | None = None,
        compute_objective: Callable[[dict[str, float]], float] | None = None,
        n_trials: int = 20,
        direction: Any = "minimize",
        backend: Any = None,
        hp_name: Callable[[Any], str] | None = None,
        **options: Any,
    ) -> BestRun:
        """Train so often, with suggested options; `hyperparameters` of what it returns are the best ones."""
        given = (hp_space, compute_objective, n_trials, direction, backend, hp_name)
        return hyperparameter_search(self, *given, **options)

    def _plan(self, per_epoch: int | None) -> int:
        """Number of optimiser updates of the training."""
        if per_epoch is None and self.args.max_steps <= 0:
            raise ConfigError("train_dataset has no length: give max_steps")
        total = self.args.max_steps
        if total <= 0:
            assert per_epoch is not None
            total = math.ceil(self.args.num_train_epochs * per_epoch)
        epochs = math.ceil(total / per_epoch) if per_epoch else 1
        self.state = TrainerState(max_steps=total, num_train_epochs=epochs)
        return total

    def _train(self, loader: Any, per_epoch: int, streamed: bool) -> TrainOutput:
        state, started, first = self.state, perf_counter(), self.state.global_step
        losses = 0.0
        begun = first // per_epoch
        epochs = count(begun) if streamed else range(begun, state.num_train_epochs)
        left_to_skip = first - begun * per_epoch  # updates that a resumed run has seen
        self.control = TrainerControl()
        self._notify("on_train_begin", train_dataloader=loader)
        if self.args.eval_on_start:
            self.evaluate()
        shown = None if self.args.disable_tqdm is None else not self.args.disable_tqdm
        with progress_bar("training", max(state.max_steps - first, 0), shown=shown) as advance:
            for epoch in epochs:
                if state.global_step >= state.max_steps or self.control.should_training_stop:
                    break
                read = left_to_skip, state.global_step
                loss, left_to_skip = self._train_epoch(loader, epoch, per_epoch, left_to_skip, advance)
                losses += loss
                if (left_to_skip, state.global_step) == read:  # a stream that is used up: it would never end
                    self._warn_used_up()
                    break
        self._load_best()
        trained = state.global_step - first
        mean, size = losses / max(trained, 1), self.args.train_batch_size * self.args.gradient_accumulation_steps
        speed = speed_metrics("train", started, num_samples=trained * size, num_steps=trained)
        self.log({**speed, "total_flos": state.total_flos, "train_loss": mean})
        metrics = {**speed, "train_loss": mean, "epoch": state.epoch}
        self._notify("on_train_end")
        return TrainOutput(state.global_step, mean, metrics)

    def _train_epoch(
        self, loader: Any, epoch: int, per_epoch: int, skipped: int, advance: Callable[[int], None]
    ) -> tuple[float, int]:
        """Train an epoch without its first `skipped` updates.

        Returns: the sum of the losses of its updates, and how many updates are still to be skipped.
        """
        state, losses = self.state, 0.0
        self._notify("on_epoch_begin", train_dataloader=loader)
        self.control.should_epoch_stop = False
        if not skipped:
            self._continue_generators()
        for number, batches in enumerate(self._accumulated(loader, epoch), 1):
            if skipped:
                skipped -= 1
                if not skipped:
                    self._continue_generators()
                continue
            losses += float(self._update([self._prepare_inputs(batch) for batch in batches]))
            state.global_step += 1
            state.epoch = epoch + number / per_epoch
            advance(1)
            self._notify("on_step_end", train_dataloader=loader)
            self._do_what_is_due()
            if self.control.should_training_stop or self.control.should_epoch_stop:
                break
        self._notify("on_epoch_end", train_dataloader=loader)
        self._do_what_is_due()
        return losses, skipped

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

    def _continue_generators(self) -> None:
        """Once, behind the batches that a resumed run skips: the random generators as its checkpoint has them."""
        if self._generators:
            restore_rng(self._generators)
            self._generators = {}

    def _accumulated(self, loader: Any, epoch: int) -> Iterator[list[Any]]:
        """The batches of each update of an epoch."""
        sampler = getattr(loader, "sampler", None)
        if isinstance(sampler, ShuffledByEpoch):
            sampler.epoch = epoch
        waiting: list[Any] = []
        for batch in loader:
            waiting.append(batch)
            if len(waiting) == self.args.gradient_accumulation_steps:
                yield waiting
                waiting = []
        if waiting:
            yield waiting

    def _warn_used_up(self) -> None:
        """Raises: DataError: it had no example at all."""
        step, planned = self.state.global_step, self.state.max_steps
        if not step:
            raise DataError("there is nothing to train on: the stream of train_dataset gives no example")
        warnings.warn(
            f"train_dataset gives no further example: training ends at step {step} of {planned}; give a data set that "
            "can be read again, or lower max_steps",
            stacklevel=3,
        )

    def _update(self, batches: list[dict[str, Any]]) -> Tensor:
        """One update of the weights; the mean loss of its batches."""
        assert self.optimizer is not None and self.lr_scheduler is not None
        self.model.train()
        self._notify("on_step_begin")
        counts = [label_count(batch) if (n := self._items(batch)) is None else int(n) for batch in batches]
        self.state.total_flos += sum(map(token_count, batches)) * self._operations
        total = torch.zeros((), device=self.args.device)
        for batch, labels in zip(batches, counts, strict=True):
            # The mean over all labels of the update, in however many batches they come.
            share = labels / max(sum(counts), 1) if sum(counts) else 1 / len(batches)
            total += self.training_step(self.model, batch, share)
        self._scaler.unscale_(self.optimizer)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.args.max_grad_norm or math.inf)
        self._log_losses.append(total)
        self._grad_norm = float(norm)
        self._notify("on_pre_optimizer_step")
        self._scaler.step(self.optimizer)
        self._scaler.update()
        self._notify("on_optimizer_step")
        self._rate = self.get_learning_rates()[0]
        self.lr_scheduler.step()
        self.optimizer.zero_grad(set_to_none=True)
        return total

    def training_step(self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None) -> Tensor:
        """Loss and gradients of a batch; `num_items_in_batch`: its share of the update, 1 where there is one batch."""
        share = 1.0 if num_items_in_batch is None else float(num_items_in_batch)
        with self.autocast():
            loss = self._loss_of(model, inputs)
        scaled: Tensor = loss * share
        self._scaler.scale(scaled).backward()
        return scaled.detach()

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """The loss of a batch; override it for another one.

        Args:
            return_outputs: (loss, outputs) instead
            num_items_in_batch: what the sum over its labels is divided by; None = the labels that are predicted
        """
        labels = inputs.get("labels")
        own = self.compute_loss_func is not None or self.args.label_smoothing_factor > 0
        given = {name: x for name, x in inputs.items() if name != "labels"} if self.compute_loss_func else inputs
        if shifts_labels(model) and isinstance(model, Model):  # nothing is continued, and packed texts go with no cache
            given = {"use_cache": False, **given}
        outputs = model(**given)
        if own and labels is not None:
            loss: Any = self._own_loss(outputs, labels, num_items_in_batch)
        else:
            loss = outputs.get("loss") if isinstance(outputs, Mapping) else getattr(outputs, "loss", outputs[0])
        if loss is None:
            refuse_text_labels_in(self.train_dataset)
            raise DataError(
                f"the model gave no loss: a batch has {', '.join(map(repr, inputs))}, and none is named 'labels'; name "
                "the column of the labels so, or override compute_loss"
            )
        if num_items_in_batch is not None and self.compute_loss_func is None and counts_first_labels(model):
            loss = loss * (label_count(inputs, shifted=True) / max(int(num_items_in_batch), 1))
        return (loss, outputs) if return_outputs else loss

    def _own_loss(self, outputs: Any, labels: Tensor, items: Any) -> Tensor:
        if self.compute_loss_func is not None:
            of_caller: Tensor = call_with_items(self.compute_loss_func, items, outputs, labels)
            return of_caller
        logits = outputs["logits"]
        if shifts_labels(self.model):
            logits, labels = logits[..., :-1, :], labels[..., 1:]
        return nn.functional.cross_entropy(
            logits.flatten(0, -2), labels.flatten(), label_smoothing=self.args.label_smoothing_factor
        )

    def autocast(self) -> Any:
        """Mixed precision, where the options ask for it."""
        narrow = torch.bfloat16 if self.args.bf16 else torch.float16 if self.args.fp16 else None
        return nullcontext() if narrow is None else torch.autocast(self.args.device.type, dtype=narrow)

    # ------------------------------------------------------------------------------- what a training is made of

    def create_optimizer_and_scheduler(self, num_training_steps: int) -> None:
        """The optimizer and the schedule, unless they were given."""
        if self.optimizer is None:
            self.create_optimizer()
        if self.lr_scheduler is None:
            self.create_scheduler(num_training_steps, self.optimizer)

    def create_optimizer(self, *unused: Any) -> torch.optim.Optimizer:
        """AdamW, SGD or Adafactor, unless there is one; matrices decay, and neither biases nor norms do."""
        if self.optimizer is not None:
            given: torch.optim.Optimizer = self.optimizer
            return given
        trained = [p for p in self.model.parameters() if p.requires_grad]
        groups = [
            {"params": [p for p in trained if p.dim() > 1], "weight_decay": self.args.weight_decay},
            {"params": [p for p in trained if p.dim() <= 1], "weight_decay": 0.0},
        ]
        made: torch.optim.Optimizer
        if self.args.optim == "sgd":
            made = torch.optim.SGD(groups, lr=self.args.learning_rate)
        elif self.args.optim == "adafactor":
            made = torch.optim.Adafactor(groups, lr=self.args.learning_rate)
        else:
            betas = (self.args.adam_beta1, self.args.adam_beta2)
            made = torch.optim.AdamW(groups, lr=self.args.learning_rate, betas=betas, eps=self.args.adam_epsilon)
        self.optimizer = made
        return made

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """The schedule of the learning rate, unless there is one."""
        if self.lr_scheduler is not None:
            return self.lr_scheduler
        self._own_schedule = True
        warmup = self.args.get_warmup_steps(num_training_steps)
        chosen = optimizer or self.optimizer
        assert chosen is not None
        own = self.args.lr_scheduler_kwargs
        self.lr_scheduler = get_scheduler(self.args.lr_scheduler_type, chosen, warmup, num_training_steps, own)
        return self.lr_scheduler

    def get_learning_rates(self) -> list[float]:
        """The rate of each group of parameters."""
        assert self.optimizer is not None
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Shuffled batches of the training data; without `data_seed` in the order of the generator's seed."""
        seed = torch.initial_seed() if self.args.data_seed is None else self.args.data_seed
        drop_last = self.args.dataloader_drop_last
        loader: DataLoader[Any] = self._loader(self.train_dataset, self.args.train_batch_size, seed, drop_last)
        return loader


class Seq2SeqTrainer(CompatibleTrainer):
    """A `Trainer` whose evaluation writes texts, where the arguments say `predict_with_generate`."""

    def prediction_step(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        prediction_loss_only: bool,
        ignore_keys: list[str] | None = None,
    ) -> tuple[Tensor | None, Any, Any]:
        if not self.args.predict_with_generate or prediction_loss_only:
            return super().prediction_step(model, inputs, prediction_loss_only, ignore_keys)
        loss, _, labels = super().prediction_step(model, inputs, False, ignore_keys)
        options = {"max_length": self.args.generation_max_length, "num_beams": self.args.generation_num_beams}
        options = {**options, "generation_config": self.args.generation_config, **self._generation}
        read = {name: x for name, x in inputs.items() if name not in ("labels", "decoder_input_ids")}
        written = model.generate(**read, **{name: x for name, x in options.items() if x is not None})  # type: ignore[operator]
        return loss, written, labels


Trainer = CompatibleTrainer
"""By the name of the reference library."""
