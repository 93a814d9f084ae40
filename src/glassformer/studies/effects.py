"""What another level of a factor changes: a paired difference, and the sentence that says it."""

from __future__ import annotations

from dataclasses import dataclass

from glassformer.studies.cells import Level, label_of
from glassformer.tasks.metrics.metric import Interval


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What another level of a factor changes of a metric, all others being the same.

    factor: or several, joined by +
    where: the other levels
    first, second: the levels; the difference is second - first
    before, after: the metric
    seeds: the difference of each seed
    """

    factor: str
    where: dict[str, Level]
    first: str
    second: str
    metric: str
    before: float
    after: float
    difference: Interval
    seeds: list[float]

    @property
    def agreement(self) -> str:
        """How many seeds have a difference of the same sign."""
        return f"{sum(x * self.difference.value > 0 for x in self.seeds)} of {len(self.seeds)}"

    @property
    def sentence(self) -> str:
        """What it says, and whether it can be told from chance."""
        label = label_of(self.where)  # empty where all that is in it applies to neither
        size, where = self.difference, f" ({label})" if label else ""
        subject = f"{_replacing(self.first, self.second)}{where}"
        if size.value == 0 and not size.leaves_out_zero and not any(self.seeds):
            return f"{subject} leaves the {self.metric} at {self.after:.3f}."
        change = f"the {self.metric} from {self.before:.3f} to {self.after:.3f}: {size.written(3, signed=True)}"
        if size.low is not None and not size.leaves_out_zero:
            return f"{subject} is not shown to change {change}; zero is within the interval."
        verb = "lowers" if size.value < 0 else "raises"
        of_seeds = f", with {self.agreement} seeds" if len(self.seeds) > 1 else ""
        known = "its interval is not known" if size.low is None else "zero is outside of the interval"
        return f"{subject} {verb} {change}{of_seeds}; {known}."


def _replacing(first: str, second: str) -> str:
    """The change from one level to another, as the subject of a sentence."""
    if second.startswith("without "):
        return f"Leaving out {second.removeprefix('without ')}"
    part = second.removeprefix("with ")
    return f"Adding {part}" if second != part and first == f"without {part}" else f"Replacing {first} by {second}"
