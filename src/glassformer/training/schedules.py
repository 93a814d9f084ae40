"""Learning rate schedules: the factor of the learning rate as a function of the step alone, so resuming needs no state.

          warm-up   decay
    1 ┤      ╱‾‾╲__                 factor(step), by which the learning rate is multiplied
      │    ╱       ‾‾╲__
    0 ┼──╱───────────────‾──>
      0    warmup       steps

    constant        1
    linear          1 - t                             t = (step - warmup) / (steps - warmup), from 0 to 1
    cosine          (1 + cos πt) / 2
    inverse-sqrt    √(warmup / step)
    noam            D^-0.5 · min(step^-0.5, step · warmup^-1.5)       an absolute rate: the learning rate is its scale

With a floor, factor = floor + (1 - floor) · (as above). All but `noam`, whose formula has it, begin with step / warmup.
Steps count from 1, the first update; at 0 nothing would move.

Source: noam, from whose formula inverse-sqrt is the shape: Vaswani et al. 2017, section 5.3; cosine: Loshchilov and
Hutter 2017, section 3; warm-up: Goyal et al. 2017, section 2.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from glassformer.errors import ConfigError, nearest

ENDLESS = ("constant", "inverse-sqrt", "noam")
SCHEDULES = ("constant", "linear", "cosine", "inverse-sqrt", "noam")


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """A learning rate schedule: `schedule(step)` is the factor of the learning rate at an update, counted from 1.

    name: one of `SCHEDULES` · steps: how many updates there will be; the endless ones need none
    warmup: updates of rising rates, or below 1 the share of all steps that they take
    floor: what it falls to, a share of the learning rate; noam has none · width: D, for noam
    Raises: ConfigError: numbers that do not fit.
    """

    name: str = "linear"
    steps: int | None = None
    warmup: float = 0
    floor: float = 0.0
    width: int | None = None

    def __post_init__(self) -> None:
        if self.name not in SCHEDULES:
            raise ConfigError(
                f"schedule is {self.name!r}; allowed: {', '.join(SCHEDULES)}{nearest(str(self.name), SCHEDULES)}"
            )
        if self.steps is None and (self.name not in ENDLESS or 0 < self.warmup < 1):
            what = "a warm-up that is a share" if self.name in ENDLESS else f"the schedule {self.name!r}"
            raise ConfigError(f"{what} needs to know how many steps there will be: give steps")
        if self.steps is not None and self.steps < 1:
            raise ConfigError(f"steps is {self.steps}; at least 1 is needed")
        if self.warmup < 0 or (self.warmup >= 1 and self.warmup != int(self.warmup)):
            raise ConfigError(f"warmup is {self.warmup}; give a whole number of steps, or a share below 1")
        if self.name in ("linear", "cosine") and self.steps is not None and self.warmup_steps > self.steps:
            raise ConfigError(f"warmup is {self.warmup}, longer than the {self.steps} steps there are")
        if self.name in ("inverse-sqrt", "noam") and self.warmup_steps < 1:
            raise ConfigError(f"the schedule {self.name!r} falls from the end of its warm-up on: give warmup")
        if not 0 <= self.floor <= (0 if self.name == "noam" else 1):
            raise ConfigError(
                f"floor is {self.floor}; it is a share of the learning rate, from 0 to 1; noam has none"
            )
        if self.name == "noam" and (self.width is None or self.width < 1):
            raise ConfigError("the schedule 'noam' needs width, the model's D")

    @property
    def warmup_steps(self) -> int:
        """Number of warm-up steps."""
        return round(self.warmup * (self.steps or 0)) if self.warmup < 1 else int(self.warmup)

    def __call__(self, step: int) -> float:
        if step < 0:
            raise ConfigError(f"step is {step}; updates count from 1")
        if self.name == "noam":
            return float(
                (self.width or 1) ** -0.5 * min(max(step, 1) ** -0.5, step * self.warmup_steps**-1.5)
            )
        if step < self.warmup_steps:
            return step / self.warmup_steps
        return self.floor + (1 - self.floor) * DECAY[self.name](self, step)


def _progress(schedule: Schedule, step: int) -> float:
    assert schedule.steps is not None
    return min(1.0, (step - schedule.warmup_steps) / max(1, schedule.steps - schedule.warmup_steps))


DECAY: dict[str, Callable[[Schedule, int], float]] = {
    "constant": lambda schedule, step: 1.0,
    "linear": lambda schedule, step: 1 - _progress(schedule, step),
    "cosine": lambda schedule, step: (1 + math.cos(math.pi * _progress(schedule, step))) / 2,
    "inverse-sqrt": lambda schedule, step: math.sqrt(schedule.warmup_steps / step),
}
"""The factor from the end of warm-up on, before the floor."""
