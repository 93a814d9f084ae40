"""`TrainingArguments` and `Seq2SeqTrainingArguments`: options of a `Trainer`, by the names of the reference library."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import MISSING, asdict, dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import torch

from glassformer.errors import ConfigError, UnknownOptionError, UnsupportedError, nearest
from glassformer.files import check_count
from glassformer.files.schema import (
    Allowed,
    BelowOne,
    Count,
    NonNegative,
    NonNegativeInt,
    above,
    at_least,
    convert,
    field_types,
)


class IntervalStrategy(StrEnum):
    """When something is due: never, every N steps, after each epoch; `best`: when validation improves."""

    NO = "no"
    STEPS = "steps"
    EPOCH = "epoch"
    BEST = "best"


OLD_NAMES = {
    "evaluation_strategy": "eval_strategy",
    "per_gpu_train_batch_size": "per_device_train_batch_size",
    "per_gpu_eval_batch_size": "per_device_eval_batch_size",
    "no_cuda": "use_cpu",
}
"""Names that options of the reference library had in older versions, and those of today."""

UNUSED = frozenset(
    "overwrite_output_dir do_train do_eval do_predict log_level log_level_replica log_on_each_node logging_dir "
    "logging_nan_inf_filter save_safetensors save_on_each_node save_only_model jit_mode_eval dataloader_num_workers "
    "dataloader_pin_memory dataloader_persistent_workers dataloader_prefetch_factor ddp_find_unused_parameters "
    "ddp_timeout skip_memory_metrics project run_name report_to hub_token hub_private_repo hub_strategy "
    "hub_always_push include_num_input_tokens_seen eval_accumulation_steps eval_do_concat_batches "
    "gradient_checkpointing_kwargs half_precision_backend tf32 local_rank past_index push_to_hub_model_id "
    "push_to_hub_organization push_to_hub_token group_by_length length_column_name use_mps_device sortish_sampler "
    "restore_callback_states_from_checkpoint torch_empty_cache_steps average_tokens_across_devices".split()
)
"""Options that are taken and change nothing here: where logs and uploads go, how processes are run."""

UNSET = {
    **dict.fromkeys(("do_train", "do_predict", "overwrite_output_dir", "hub_always_push", "save_only_model"), False),
    **{"do_eval": True, "local_rank": -1, "log_level": "passive", "report_to": "none", "dataloader_num_workers": 0},
}
"""Their values where they are not given; of the others None."""

INSTEAD = {
    "deepspeed": "several processes are `torchrun … -m glassformer train` (docs/training.md)",
    "fsdp": "several processes are `torchrun … -m glassformer train` with `sharded: true` (docs/training.md)",
    "fsdp_config": "several processes are `torchrun … -m glassformer train` with `sharded: true` (docs/training.md)",
    "torch_compile": "models run as they are; leave it out",
    "neftune_noise_alpha": "noise on embeddings is not built; leave it out",
    "auto_find_batch_size": "lower per_device_train_batch_size, and raise gradient_accumulation_steps",
    "full_determinism": "call torch.use_deterministic_algorithms(True)",
    **dict.fromkeys(
        ("include_for_metrics", "include_inputs_for_metrics", "batch_eval_metrics"),
        "compute_metrics is given all predictions and label_ids, once; leave it out",
    ),
    "use_liger_kernel": "models bring their own kernels; leave it out",
}
"""Options that would change the training and are refused, with what to do."""

Finite = Annotated[float, Allowed("a finite number", math.isfinite)]
Epsilon = Annotated[float, above(0, 1, "a small number above 0, such as 1e-8")]
WarmupRatio = Annotated[
    float, at_least(0.0, 1.0, "a share of all steps, from 0 to 1; a number of steps is warmup_steps")
]


class OptimizerNames(StrEnum):
    """Values of `optim`."""

    ADAMW_TORCH = "adamw_torch"
    ADAMW_TORCH_FUSED = "adamw_torch_fused"
    SGD = "sgd"
    ADAFACTOR = "adafactor"


OPTIMIZERS = (*OptimizerNames, "adamw_hf", "adamw")


@dataclass(kw_only=True)
class _Options:
    """The fields; their defaults are those of the reference library."""

    output_dir: str = "trainer_output"
    num_train_epochs: Finite = 3.0
    max_steps: int = -1
    per_device_train_batch_size: Count = 8
    per_device_eval_batch_size: Count = 8
    gradient_accumulation_steps: Count = 1
    learning_rate: NonNegative = 5e-5
    weight_decay: NonNegative = 0.0
    adam_beta1: BelowOne = 0.9
    adam_beta2: BelowOne = 0.999
    adam_epsilon: Epsilon = 1e-8
    max_grad_norm: NonNegative = 1.0
    optim: str = "adamw_torch"
    lr_scheduler_type: str = "linear"
    lr_scheduler_kwargs: dict[str, Any] | None = None
    warmup_steps: NonNegative = 0
    warmup_ratio: WarmupRatio = 0.0
    label_smoothing_factor: BelowOne = 0.0
    seed: NonNegativeInt = 42
    data_seed: NonNegativeInt | None = None
    bf16: bool = False
    fp16: bool = False
    use_cpu: bool = False
    gradient_checkpointing: bool = False
    dataloader_drop_last: bool = False
    eval_strategy: str = "no"
    eval_steps: Finite | None = None
    eval_on_start: bool = False
    logging_strategy: str = "steps"
    logging_steps: Finite = 500
    logging_first_step: bool = False
    save_strategy: str = "steps"
    save_steps: Finite = 500
    save_total_limit: int | None = None
    load_best_model_at_end: bool = False
    metric_for_best_model: str | None = None
    greater_is_better: bool | None = None
    prediction_loss_only: bool = False
    remove_unused_columns: bool = True
    label_names: list[str] | None = None
    disable_tqdm: bool | None = None
    push_to_hub: bool = False
    hub_model_id: str | None = None
    resume_from_checkpoint: str | bool | None = None
    predict_with_generate: bool = False
    generation_max_length: int | None = None
    generation_num_beams: int | None = None
    generation_config: Any = None
    unused: dict[str, Any] = field(default_factory=dict)


class _Extended(type):
    """Makes arguments of a dataclass that derives from `TrainingArguments`: its own fields are options, too."""

    def __call__(cls, *unnamed: Any, **options: Any) -> Any:
        named: Any = cls  # a dataclass
        own = {each.name: each for each in fields(named) if each.name not in _NAMES}
        if "__dataclass_fields__" not in vars(cls) or not own:
            return super().__call__(*unnamed, **options)
        made: Any = object.__new__(cls)  # type: ignore[arg-type] # a class
        TrainingArguments.__init__(made, *unnamed, **{name: x for name, x in options.items() if name not in own})
        for name, each in own.items():
            default = each.default if each.default_factory is MISSING else each.default_factory()
            setattr(made, name, options.get(name, default))
        return made


_NAMES = frozenset(each.name for each in fields(_Options))


class TrainingArguments(_Options, metaclass=_Extended):
    """Options of a `Trainer`: those of the reference library that its training depends on.

        TrainingArguments("runs/first", num_train_epochs=2, eval_strategy="epoch", learning_rate=2e-5)

    Raises:
        ConfigError: an unknown option, or a value out of range. UnsupportedError: one that is not built; what to do.
    """

    def __init__(self, output_dir: str | Path = "trainer_output", **options: Any) -> None:
        known = [each.name for each in fields(_Options) if each.name != "unused"]
        given = {OLD_NAMES.get(name, name): value for name, value in options.items()}
        unused = {name: given.pop(name) for name in list(given) if name in UNUSED}
        for name in given:
            if given[name] and name in INSTEAD:
                raise UnsupportedError(f"TrainingArguments({name}=…): {INSTEAD[name]}")
            if name not in known and name not in INSTEAD:
                raise UnknownOptionError(f"TrainingArguments has no option {name!r}{nearest(name, known)}")
        given = {name: value for name, value in given.items() if name in known}
        super().__init__(output_dir=str(output_dir), unused=unused, **given)
        self._check()

    def __getattr__(self, name: str) -> Any:
        """Options that change nothing here, as they were given, or as they are there by default."""
        if name in UNUSED:
            return self.__dict__.get("unused", {}).get(name, UNSET.get(name))
        raise AttributeError(f"TrainingArguments has no option {name!r}")

    def get_process_log_level(self) -> int:
        """The level of logging: WARNING."""
        return logging.WARNING

    def _check(self) -> None:
        for name in ("eval_strategy", "logging_strategy", "save_strategy", "lr_scheduler_type", "optim"):
            setattr(self, name, str(getattr(getattr(self, name), "value", getattr(self, name))))
        for name in ("eval_strategy", "logging_strategy", "save_strategy"):
            allowed = ["no", "steps", "epoch", *(["best"] if name == "save_strategy" else [])]
            if getattr(self, name) not in allowed:
                raise ConfigError(f"{name} is {getattr(self, name)!r}; allowed: {', '.join(allowed)}")
        if self.optim not in OPTIMIZERS:
            raise ConfigError(
                f"optim is {self.optim!r}{nearest(self.optim, OPTIMIZERS)}; allowed: {', '.join(OPTIMIZERS)}"
            )
        self._check_numbers()
        if self.num_train_epochs <= 0 and self.max_steps <= 0:
            raise ConfigError("there is nothing to train: num_train_epochs and max_steps are both 0 or less")
        if self.metric_for_best_model is None and self.load_best_model_at_end:
            self.metric_for_best_model = "loss"
        if self.greater_is_better is None and self.metric_for_best_model is not None:
            self.greater_is_better = not self.metric_for_best_model.endswith("loss")
        if self.load_best_model_at_end and self.eval_strategy == "no":
            raise ConfigError("load_best_model_at_end needs validations: give eval_strategy='epoch' or 'steps'")
        if self.load_best_model_at_end and self.save_strategy not in (self.eval_strategy, "best"):
            raise ConfigError(
                f"load_best_model_at_end needs a checkpoint for each validation: save_strategy is "
                f"{self.save_strategy!r} and eval_strategy {self.eval_strategy!r}; make them equal"
            )

    def _check_numbers(self) -> None:
        """Numbers written as text, as YAML reads 5e-5, become numbers."""
        for name, hint in field_types(_Options).items():
            if isinstance(value := getattr(self, name), (int, float, str)) and (
                isinstance(number := convert(hint, value, name), (int, float)) and isinstance(value, str)
            ):
                setattr(self, name, number)
        if (workers := self.unused.get("dataloader_num_workers")) is not None:
            check_count("dataloader_num_workers", workers, 0)
        for kind in ("logging", "eval", "save"):
            steps = getattr(self, f"{kind}_steps")
            if getattr(self, f"{kind}_strategy") == "steps" and steps is not None and steps <= 0:
                raise ConfigError(
                    f"{kind}_steps is {steps}; it must be a number of steps above 0, or {kind}_strategy='no'"
                )

    @property
    def train_batch_size(self) -> int:
        """Examples of a training batch."""
        return self.per_device_train_batch_size

    @property
    def eval_batch_size(self) -> int:
        """Examples of an evaluation batch."""
        return self.per_device_eval_batch_size

    @property
    def device(self) -> torch.device:
        """Where it runs: an accelerator, where there is one and `use_cpu` does not say otherwise."""
        accelerator = None if self.use_cpu else torch.accelerator.current_accelerator(check_available=True)
        return accelerator or torch.device("cpu")

    @property
    def n_gpu(self) -> int:
        """Number of accelerators in use."""
        return int(self.device.type != "cpu")

    world_size = 1
    process_index = 0
    local_process_index = 0
    should_log = True
    should_save = True
    place_model_on_device = True

    @contextmanager
    def main_process_first(self, *_: Any, **__: Any) -> Iterator[None]:
        """What the first process does before the others: here there is one."""
        yield

    def get_warmup_steps(self, num_training_steps: int) -> int:
        """Warm-up updates of this many in all; a number below 1 is a share."""
        share = self.warmup_steps if 0 < self.warmup_steps < 1 else self.warmup_ratio
        return int(self.warmup_steps) if self.warmup_steps >= 1 else -int(-share * num_training_steps // 1)

    def interval(self, kind: str, total: int) -> int:
        """Steps between two evaluations, logs or checkpoints; a number below 1 is a share of all steps."""
        every = getattr(self, f"{kind}_steps")
        every = self.logging_steps if every is None else every
        return max(1, -int(-every * total // 1) if every < 1 else int(every))

    def to_dict(self) -> dict[str, Any]:
        values = asdict(self)
        return {**values.pop("unused"), **values}

    def to_json_string(self) -> str:
        return json.dumps(self.to_dict(), indent=2, default=str)

    def to_sanitized_dict(self) -> dict[str, Any]:
        """The options by name, as numbers, texts and flags: what logs of hyper-parameters take."""
        return {name: x if isinstance(x, int | float | str) else str(x) for name, x in self.to_dict().items()}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.to_dict().items())})"


class Seq2SeqTrainingArguments(TrainingArguments):
    """Options of a `Seq2SeqTrainer`; `predict_with_generate` and its siblings are for evaluations that write texts."""
