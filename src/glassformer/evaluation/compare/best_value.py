"""Cost against quality: the smallest and the fastest system whose quality is not measurably worse than the first's.

    original   91.1 MB   8.1 ms
    int8       24.3 MB   6.9 ms   −0.001 [−0.003, +0.001]     the interval reaches zero: not measurably worse
    pruned     20.2 MB   6.0 ms   −0.020 [−0.027, −0.013]     all of it is below zero: worse, however small and fast

A system with the best metric is rarely the answer: of several that are alike by their paired intervals, which has the
highest is chance, and what was asked for is a smaller or a faster one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from glassformer.reports.table import byte_amount
from glassformer.tasks.metrics.metric import Interval


@dataclass(frozen=True)
class Costed:
    """A system: its difference to the first by the main metric, and what it costs.

    difference: paired; None = it is the first, or was measured on other rows, and is left out
    bytes: on disk
    latency: of a row, in milliseconds
    speed: how many times as fast as the first; None = by the latencies, without an interval
    """

    name: str
    difference: Interval | None
    bytes: float | None
    latency: float | None
    speed: Interval | None = None

    def is_worse(self, higher: bool) -> bool:
        """Whether its whole interval is on the worse side; a difference without an interval counts by its value."""
        assert self.difference is not None
        x = self.difference
        ends = (x.value if x.low is None else x.low, x.value if x.high is None else x.high)
        return not (ends[1] >= 0 if higher else ends[0] <= 0)


SMALLER, FASTER = "smallest", "fastest"
NO_FASTER = 1.02
"""Times as fast: less is within what two timings of one model differ by."""


def is_faster(speed: Interval) -> bool:
    """Whether a speed is above 1 beyond chance: all of its interval, and by more than timings differ."""
    return (speed.value if speed.low is None else speed.low) > 1 and speed.value >= NO_FASTER


def best_value(first: Costed, others: Sequence[Costed], metric: str, *, higher: bool) -> str:
    """Which of the others is the smallest, and which the fastest, that is not worse than the first; in a sentence.

    Args:
        higher: whether more of the metric is better
    Returns: "" where sizes and latencies are not known, or nothing can be compared.
    """
    others = [x for x in others if x.difference is not None]
    costs: dict[str, Callable[[Costed], float | None]] = {SMALLER: lambda x: x.bytes, FASTER: lambda x: x.latency}
    known = {word: cost for word, cost in costs.items() if all(cost(x) for x in (first, *others))}
    if not known or not others:
        return ""
    equal = [x for x in others if not x.is_worse(higher)]
    if not equal:
        every = "it is" if len(others) == 1 else "every other is"
        return f"None is as good as {first.name} by the {metric}: {every} worse, beyond chance."
    speeds = {x.name: x.speed or Interval((first.latency or 0) / (x.latency or math.inf)) for x in equal}
    parts, best = list[str](), dict[str, Costed]()
    for word, cost in known.items():
        cheaper_ones = [
            x for x in equal if (is_faster(speeds[x.name]) if word == FASTER else (cost(x) or 0) < (cost(first) or 0))
        ]
        if cheaper_ones:
            best[word] = min(cheaper_ones, key=lambda x: cost(x) or math.inf)
    if not best:
        cheaper = " or ".join({SMALLER: "smaller", FASTER: "faster"}[word] for word in known)
        return f"None is {cheaper} than {first.name} without a worse {metric}, beyond chance."
    for one in dict.fromkeys(best.values()):
        words = [word for word, x in best.items() if x is one]
        facts = []
        if SMALLER in words and one.bytes and first.bytes:
            facts.append(f"{byte_amount(one.bytes)} instead of {byte_amount(first.bytes)}")
        if FASTER in words:
            facts.append(f"{speeds[one.name].value:.3g} × as fast")
        assert one.difference is not None
        facts.append(f"{metric} {one.difference.written(3, signed=True)}")
        parts.append(f"{one.name} is the {' and the '.join(words)} ({', '.join(facts)})")
    return f"Of those not worse than {first.name} beyond chance, {' and '.join(parts)}."
