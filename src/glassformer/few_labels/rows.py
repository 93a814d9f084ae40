"""Labelled texts: a few texts with their labels, of which each has one or several; and unlabelled texts without leaks.

texts      it crashes on start        add a dark mode, docs too        holds    bug  feature  docs     [N, L]
labels     bug                        feature, docs                              1      0      0
                                                                                 0      1      1
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from glassformer.data.sequence import InMemoryRows
from glassformer.data.splits import split, text_digest
from glassformer.errors import ConfigError, DataError
from glassformer.files import counted, safe_repr
from glassformer.tasks.classify.kinds import MultiLabel, RegressionTarget, SingleLabel
from glassformer.tasks.classify.task import labels_of

SIZES = (8, 16, 32, 64, 128, 220)
"""The usual numbers of labelled rows that methods are compared with."""
ALL_TESTED_BELOW = 400
"""Labelled rows below which every one is a test row, by cross-validation: a share of them would be too few."""
TEST_SHARE = 0.25
LEAST_HELD_OUT = 2
"""Rows that are held out at least: one alone has a single label, which no choice can be made by."""


@dataclass(frozen=True)
class LabelledTexts:
    """Texts and which labels each has.

    texts: none of them empty
    holds: which labels each has; of a single-label task one. [N, L] bool
    kind: the labels by name, and whether a text has one or several
    """

    texts: Sequence[str]
    holds: np.ndarray
    kind: SingleLabel

    def __post_init__(self) -> None:
        if self.holds.shape != (len(self.texts), len(self.kind.names)):
            raise DataError(
                f"there are {len(self.texts):,} texts and {len(self.kind.names)} labels, and the labels that hold have "
                f"the shape {self.holds.shape}"
            )
        for number, text in enumerate(self.texts):
            if not isinstance(text, str) or not text.strip():
                raise DataError(f"text {number} is {safe_repr(text)}; a text that is classified must not be empty")

    @classmethod
    def of(cls, texts: Sequence[str], labels: Sequence[Any], *, separator: str | None = None) -> LabelledTexts:
        """Labelled texts from a label for each: a name, or of several labels a list, or a text with separators.

        Raises: DataError: not a label a text, or a label that is none; a number with a fraction.
        """
        if len(texts) != len(labels):
            raise DataError(f"there are {len(texts):,} texts and {len(labels):,} labels; give one for each text")
        rows = InMemoryRows([{"label": label} for label in labels], name="the labels")
        kind = labels_of(rows, "label", separator=separator)
        if isinstance(kind, RegressionTarget):
            raise DataError("the labels are numbers with fractions; these methods learn classes: give names")
        return cls.read(texts, labels, kind)

    @classmethod
    def read(cls, texts: Sequence[str], labels: Sequence[Any], kind: SingleLabel) -> LabelledTexts:
        """The same where the kind of labels is known. Raises: DataError: a label that is unknown."""
        holds = np.zeros((len(texts), len(kind.names)), dtype=bool)
        for row, label in zip(holds, labels, strict=True):
            value = kind.read(label)
            row[...] = value > 0 if isinstance(kind, MultiLabel) else np.arange(len(row)) == int(value)
        return cls(list(texts), holds, kind)

    @classmethod
    def names_only(cls, names: Sequence[str], *, several: bool = False) -> LabelledTexts:
        """No text at all, only the names of the labels, for methods that need nothing else.

        Raises: ConfigError: one label alone, where a text has one.
        """
        if not several and len(set(names)) < 2:
            raise ConfigError(f"the labels are {', '.join(names)} alone; there is nothing to tell apart: name another")
        kind = MultiLabel(names) if several else SingleLabel(names)
        return cls([], np.zeros((0, len(names)), dtype=bool), kind)

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def several(self) -> bool:
        """Whether a text may have several labels, or none."""
        return isinstance(self.kind, MultiLabel)

    @property
    def labels(self) -> list[Any]:
        """The label of each text: a name, or a list of names."""
        names = self.kind.names
        sets = [[names[i] for i in np.flatnonzero(row)] for row in self.holds]
        return sets if self.several else [one[0] for one in sets]

    @property
    def classes(self) -> np.ndarray:
        """The number of the label of each text, of a single-label task. [N]"""
        numbers: np.ndarray = self.holds.argmax(1)
        return numbers

    def select(self, indices: Iterable[int] | np.ndarray) -> LabelledTexts:
        """The texts at these indices, in this order."""
        order = np.fromiter(indices, np.int64)
        return replace(self, texts=[self.texts[i] for i in order], holds=self.holds[order])

    def joined(self, other: LabelledTexts) -> LabelledTexts:
        """These texts, and others behind them."""
        return replace(self, texts=[*self.texts, *other.texts], holds=np.concatenate([self.holds, other.holds]))

    def held_out(self, share: float, seed: int) -> tuple[LabelledTexts, LabelledTexts]:
        """Most of the texts, and a share that is held out, in which each label has its share where it can.

        Raises: DataError: fewer than four texts.
        """
        if len(self) < 2 * LEAST_HELD_OUT:
            raise DataError(
                f"there are {counted(len(self), 'labelled text')}; to hold {LEAST_HELD_OUT} out at least "
                f"{2 * LEAST_HELD_OUT} are needed: label more, or choose a method that holds none out"
            )
        share = min(max(share, LEAST_HELD_OUT / len(self)), 0.5)
        inner, outer = split(len(self), (1 - share, share), seed=seed, labels=self.labels)
        return self.select(inner), self.select(outer)

    def folds(self, count: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Cross-validation: indices to learn from, and those that are left out, each text once."""
        parts = min(count, len(self))
        if parts < 2:
            raise DataError(f"there is {counted(len(self), 'labelled text')}; cross-validation needs two")
        out = split(len(self), [1 / parts] * parts, seed=seed, labels=self.labels)
        return [(np.setdiff1d(np.arange(len(self)), part), part) for part in out]


def numbers_of_labels(wanted: Sequence[int], most: int) -> list[int]:
    """Those of the numbers of labelled rows that there are; and all there are, where that is clearly more.

    numbers_of_labels([8, 16, 64], 48)        [8, 16, 48]
    """
    sizes = [size for size in sorted(wanted) if size <= most]
    return [*sizes, most] if max(wanted) > most > 1.2 * (sizes or [0])[-1] else sizes


def without_leaks(unlabelled: Iterable[str], known: Iterable[str]) -> tuple[list[str], int, int]:
    """Unlabelled texts that are no known ones, each once; how many were known, and how many were repeated or empty.

        without_leaks(["a", "B", "b", ""], ["A"])        (["B"], 1, 2)

    Args:
        known: labelled texts and those of the test, from which a method would learn what it is tested on
    """
    labelled, seen = set(map(text_digest, known)), set[bytes]()
    remaining: list[str] = []
    leaked = others = 0
    for text in unlabelled:
        digest = text_digest(text)
        if digest in labelled:
            leaked += 1
        elif digest in seen or not text.strip():
            others += 1
        else:
            seen.add(digest)
            remaining.append(text)
    return remaining, leaked, others
