"""How a model is trained: one record of numbers, read strictly, so that no misspelt option is silently dropped."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from glassformer.errors import ConfigError
from glassformer.files import shown

Schedule = Literal["constant", "linear", "cosine", "inverse-sqrt", "noam"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What `Trainer` is told. A step is one change of the weights, whatever it is cut into.

    epochs, steps: how long; `steps` wins, `epochs` may be a fraction
    batch_size: examples a step, over all processes · batch_tokens: instead, tokens a step at most
    micro_batch_tokens, micro_batch_size: what one pass of the network holds at most; they change speed and memory, and
        the numbers only by rounding. None = 2,048 tokens on a CPU, 16,384 elsewhere, and any number of examples
    learning_rate, schedule, warmup, floor: the rate at its highest, its curve, steps (or, below 1, the share of them)
        that it rises for, and the share of it that is left at the end
    optimizer, weight_decay, beta1, beta2, epsilon: "adamw" or "adafactor" · clip: the largest norm of the gradient
    precision: "fp32"; "bf16" or "fp16" compute products in 16 bits and keep the weights in 32
    label_smoothing: the share of a target that goes to all classes alike
    gradient_checkpointing: compute blocks again in the backward pass instead of keeping their insides
    offload: let what the backward pass needs wait in the host's memory, where an accelerator's is short
    shuffle: another order each epoch · seed: of the order, of dropout and of new weights
    validate_every, save_every: steps between; None = at the end of each epoch · keep: how many checkpoints stay
    metric, patience: which figure says what is best (None = the objective's), and after how many validations without
        a better one it stops (None = never)
    log_every: steps between two lines of the log
    max_skipped: so many steps in a row may be skipped for a loss that is no number before the run goes back
    max_failed_saves: so many saves in a row may fail, for a full disk, before the run stops
    deterministic: refuse operations whose result may differ from one run to the next
    dry_run: do everything but change the weights
    Raises: ConfigError: a value that cannot be.
    """

    epochs: float = 3.0
    steps: int | None = None
    batch_size: int = 32
    batch_tokens: int | None = None
    micro_batch_tokens: int | None = None
    micro_batch_size: int | None = None
    learning_rate: float = 5e-5
    schedule: Schedule = "linear"
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
            self._need(
                name, value is None or (isinstance(value, int) and value >= 1), "a whole number from 1 up"
            )
        self._need("epochs", 0 < self.epochs < math.inf, "a number above 0")
        self._need("learning_rate", 0 < self.learning_rate < math.inf, "a number above 0, such as 5e-5")
        self._need("warmup", 0 <= self.warmup < math.inf, "a number of steps, or a share of them below 1")
        self._need("seed", 0 <= self.seed < 2**32, "a whole number from 0 to 4294967295")
        self._need(
            "clip", self.clip is None or 0 < self.clip < math.inf, "a number above 0, or null for none"
        )
        self._need("weight_decay", 0 <= self.weight_decay < math.inf, "a number from 0 up")
        self._need("epsilon", 0 < self.epsilon < 1, "a number between 0 and 1")
        for name in ("floor", "label_smoothing", "beta1", "beta2"):
            self._need(name, 0 <= getattr(self, name) < 1, "a number from 0 up to, but not including, 1")

    def _need(self, name: str, true: bool, allowed: str) -> None:
        if not true:
            raise ConfigError(f"{name} is {shown(getattr(self, name))}; it must be {allowed}")
