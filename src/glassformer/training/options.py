"""How a model is trained: one record of numbers, read strictly, so that no misspelt option is silently dropped."""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from glassformer.errors import ConfigError, nearest
from glassformer.files import shown

Record = TypeVar("Record")
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


def read_record(kind: type[Record], values: object, place: str = "") -> Record:
    """A dataclass from a mapping, each key known and each value of its type.

        read_record(Options, {"steps": 100, "learning_rate": 1e-4}, "training")

    Whole numbers do for numbers, and texts such as "5e-5", which YAML takes for a text, too.
    Raises: ConfigError: a key that is none (with the nearest ones), a value of another type, a key that is missing.
    """
    where = f"{place}: " if place else ""
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where}expected names and values, got {shown(values)}")
    hints = get_type_hints(kind)
    known = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    read: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            raise ConfigError(
                f"{where}{shown(name)} is no option{nearest(str(name), known)}; allowed: {', '.join(known)}"
            )
        read[name] = _as(hints[name], value, f"{place}.{name}" if place else str(name))
    for name, field in known.items():
        if name not in read and field.default is field.default_factory is dataclasses.MISSING:
            raise ConfigError(f"{where}{name!r} is missing")
    return kind(**read)


def _as(hint: Any, value: Any, place: str) -> Any:
    """A value as the type that an option has."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        if value is None and type(None) in inner:
            return None
        kinds = [kind for kind in inner if kind is not type(None)]
        for kind in kinds[:-1]:
            try:
                return _as(kind, value, place)
            except ConfigError:
                continue
        return _as(kinds[-1], value, place)
    if origin is Literal:
        if value in inner:
            return value
        raise ConfigError(f"{place} is {shown(value)}; allowed: {', '.join(map(str, inner))}")
    if dataclasses.is_dataclass(hint):
        return value if isinstance(value, hint) else read_record(hint, value, place)  # type: ignore[arg-type]
    if origin in (list, tuple) and isinstance(value, (list, tuple)):
        return origin(_as(inner[0], item, f"{place}[{i}]") for i, item in enumerate(value))
    if origin is dict and isinstance(value, Mapping):
        return {_as(inner[0], k, place): _as(inner[1], v, f"{place}.{k}") for k, v in value.items()}
    if hint is float and not isinstance(value, bool) and isinstance(value, (int, float, str)):
        try:
            return float(value)
        except (ValueError, OverflowError):
            pass
    whole = isinstance(value, float) and value.is_integer()
    if hint is int and not isinstance(value, bool) and (isinstance(value, int) or whole):
        return int(value)
    if hint in (bool, str) and isinstance(value, hint):
        return value
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
    wanted = (
        names.get(hint)
        or names.get(origin)
        or {list: "a list", tuple: "a list", dict: "names and values"}.get(origin, str(hint))
    )
    raise ConfigError(f"{place} is {shown(value)}; it must be {wanted}")
