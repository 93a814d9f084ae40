"""Which combination is best at each number, such as of labels, and of which others that is not certain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from glassformer.studies.cells import written


@dataclass(frozen=True, kw_only=True)
class Winner:
    """The best of the combinations that share a number, such as one of labels.

    over, number: the factor, such as labels, and its level
    name, value: of the best, by the main metric
    equal: those whose paired difference to it may be chance
    """

    over: str
    number: float
    name: str
    value: float
    equal: list[str]

    @property
    def sentence(self) -> str:
        """Which is best, and of which others that is not certain."""
        best = f"With {written(self.number)} {self.over}, {self.name} is best ({self.value:.3f})"
        return (
            f"{best}; not distinguishable from it: {', '.join(self.equal)}."
            if self.equal
            else f"{best}, beyond chance."
        )


def best_by_number(winners: Sequence[Winner]) -> str:
    """Which is best at which numbers, in one sentence, with its value at the largest of them."""
    parts = []
    for name, group in groupby(winners, lambda x: x.name):
        own = list(group)
        sure = [x for x in own if not x.equal]
        alone = f"with {_numbers(sure)} " if 0 < len(sure) < len(own) else ""
        chance = f"{alone}beyond chance" if sure else "others may equal it"
        parts.append(f"{name} with {_numbers(own)} {own[-1].over} ({own[-1].value:.3f}, {chance})")
    return f"Best: {'; '.join(parts)}."


def _numbers(winners: Sequence[Winner]) -> str:
    *others, last = (written(x.number) for x in winners)
    return f"{', '.join(others)} and {last}" if others else last
