"""Training options: hyperparameters and settings of the training loop, read strictly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from glassformer.deprecation import former_names
from glassformer.errors import ConfigError
from glassformer.files import safe_repr

ScheduleName = Literal["constant", "linear", "cosine", "inverse-sqrt", "noam"]


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Hyperparameters and settings of `Trainer`. A step is one update of the weights, in any number of micro-batches.

    epochs, steps: length of the training; `steps` wins, `epochs` may be a fraction
    batch_size: examples a step, over all processes · batch_tokens: instead, tokens a step at most
    micro_batch_tokens, micro_batch_size: limits of one call of the network; they change speed and memory, and results
        only by rounding. None = 2,048 tokens on a CPU, 16,384 elsewhere, and any number of examples
    learning_rate, schedule, warmup, floor: peak learning rate, its schedule, warm-up steps (below 1: a share of all),
        and the factor that is left at the end
    optimizer, weight_decay, beta1, beta2, epsilon: "adamw" or "adafactor" · clip: maximum gradient norm
    precision: "fp32"; "bf16" or "fp16": mixed precision, matrix products in 16 bits and weights in 32
    label_smoothing: the share of a target that is spread over all classes
    gradient_checkpointing: recompute blocks in the backward pass instead of storing their activations
    offload: store what the backward pass needs in the host's RAM, where an accelerator's memory is short
    shuffle: shuffle the examples each epoch · seed: random seed of the order, dropout and new weights
    validate_every, save_every: steps between; None = at the end of each epoch · keep: number of last checkpoints kept
    metric, patience: the metric of the best model (None = that of the task), and early stopping after so many
        validations without improvement (None = never)
    log_every: steps between two logged steps
    max_skipped: steps in a row that may be skipped for a NaN loss before a rollback
    max_failed_saves: saves in a row that may fail, for a full disk, before the run stops
    deterministic: deterministic algorithms only; others raise an error
    dry_run: do everything but update the weights
    Raises: ConfigError: an invalid value.
    """

    epochs: float = 3.0
    steps: int | None = None
    batch_size: int = 32
    batch_tokens: int | None = None
    micro_batch_tokens: int | None = None
    micro_batch_size: int | None = None
    learning_rate: float = 5e-5
    schedule: ScheduleName = "linear"
    warmup: float = 0.1
    floor: float = 0.0
    optimizer: Literal["adamw", "adafactor"] = "adamw"
    weight_decay: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    clip: float | None = 1.0
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    label_smoothing: float = 0.0
    gradient_checkpointing: bool = False
    offload: bool = False
    shuffle: bool = True
    seed: int = 0
    validate_every: int | None = None
    save_every: int | None = None
    keep: int = 2
    metric: str | None = None
    patience: int | None = None
    log_every: int = 10
    max_skipped: int = 3
    max_failed_saves: int = 3
    deterministic: bool = False
    dry_run: bool = False

    def __post_init__(self) -> None:
        at_least_one = (
            "steps batch_size batch_tokens micro_batch_tokens micro_batch_size validate_every save_every keep "
            "patience log_every max_skipped max_failed_saves"
        )
        for name in at_least_one.split():
            value = getattr(self, name)
            self._require(
                name, value is None or (isinstance(value, int) and value >= 1), "a whole number from 1 up"
            )
        self._require("epochs", 0 < self.epochs < math.inf, "a number above 0")
        self._require("learning_rate", 0 < self.learning_rate < math.inf, "a number above 0, such as 5e-5")
        self._require("warmup", 0 <= self.warmup < math.inf, "a number of steps, or a share of them below 1")
        self._require("seed", 0 <= self.seed < 2**32, "a whole number from 0 to 4294967295")
        self._require(
            "clip", self.clip is None or 0 < self.clip < math.inf, "a number above 0, or null for none"
        )
        self._require("weight_decay", 0 <= self.weight_decay < math.inf, "a number from 0 up")
        self._require("epsilon", 0 < self.epsilon < 1, "a number between 0 and 1")
        for name in ("floor", "label_smoothing", "beta1", "beta2"):
            self._require(name, 0 <= getattr(self, name) < 1, "a number from 0 up to, but not including, 1")

    def _require(self, name: str, true: bool, allowed: str) -> None:
        if not true:
            raise ConfigError(f"{name} is {safe_repr(getattr(self, name))}; it must be {allowed}")


__getattr__ = former_names(__name__)
