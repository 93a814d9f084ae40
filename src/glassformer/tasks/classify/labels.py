"""What a row may be labelled with, read off the rows, and how a model's config says it.

    column "label"                kind                                           config.json
    joy · anger · joy             one of: anger 0, joy 1                         id2label, label2id, problem_type
    ["bug"] · [] · bug|docs       any of: bug, docs              [1. 0.] …       "multi_label_classification"
    3.8 · 0.25                    a number                       3.8 …           "regression", with one output

A head needs its config before it is made; from then on the config alone says which number a label has:

    kind = labels_of(rows, "label")
    config = relabelled(config, kind, own=…)        and then the model, by this config
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch

from glassformer.core.heads import Head
from glassformer.errors import ConfigError, DataError, nearest
from glassformer.files import shown
from glassformer.tasks.base import Meter, Rows
from glassformer.tasks.classify.values import is_whole, name_of, number_of, parts_of, sorted_names
from glassformer.tasks.columns import check_columns, placed
from glassformer.tasks.metrics.meters import Classification, MultiLabel, Regression

PROBLEMS = {
    "single": "single_label_classification",
    "multi": "multi_label_classification",
    "regression": "regression",
}
"""Our name of a kind of labels → the name in `config.json`."""


class Kind(ABC):
    """A kind of labels.

    PROBLEM: its name, where the config has one for it · DTYPE: what the head takes
    METRIC: the figure that says which model is best
    names: of the outputs of the head, by number
    """

    PROBLEM: ClassVar[str | None] = None
    DTYPE: ClassVar[torch.dtype] = torch.int64
    METRIC: str

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.names)}: {_first_ten(self.names)})"

    @abstractmethod
    def read(self, value: object) -> np.ndarray:
        """What the head should say where a row has this label.

        Raises: DataError: no label of this kind, or one that is not known.
        """

    @abstractmethod
    def meter(self, head: Head) -> Meter:
        """What judges a head that says such labels."""

    @abstractmethod
    def fits(self, names: Sequence[str]) -> bool:
        """Does a head whose outputs have these names say every label of this kind?"""

    def problem_config(self) -> dict[str, Any]:
        """The key of `config.json` that says which kind this is."""
        return {"problem_type": PROBLEMS[self.PROBLEM]} if self.PROBLEM else {}

    def config(self) -> dict[str, Any]:
        """The keys of `config.json` that say all this, so that a saved folder does."""
        return {**head_config(self.names), **self.problem_config()}


class OneOf(Kind):
    """One class of several."""

    PROBLEM: ClassVar[str | None] = "single"
    METRIC = "f1_macro"

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self._numbers = {name: number for number, name in enumerate(names)}
        # Where no class is called by a number, a number can only mean the place of one.
        self._by_number = not any(map(is_whole, names))

    def read(self, value: object) -> np.ndarray:
        return np.array(self.number(value), dtype=np.int64)

    def number(self, value: object) -> int:
        """The number of a class."""
        name = name_of(value)
        if name in self._numbers:
            return self._numbers[name]
        if self._by_number and is_whole(name) and 0 <= int(name) < len(self.names):
            return int(name)
        raise self.unknown(name)

    def unknown(self, name: str) -> DataError:
        """What is to be said of a name that no class has."""
        return DataError(
            f"the label {shown(name)} is none of the {len(self.names)} that the model knows"
            f"{nearest(name, self.names)}: {_first_ten(self.names)}; correct it, leave the row out, or train on rows "
            "that have it"
        )

    def fits(self, names: Sequence[str]) -> bool:
        there = type(self)(names)
        try:
            return all(there.number(name) >= 0 for name in self.names)
        except DataError:
            return False

    def meter(self, head: Head) -> Meter:
        return Classification(head, self.names)


class AnyOf(OneOf):
    """Any number of labels, none included: a list, or a text in which a sign separates them."""

    PROBLEM = "multi"
    DTYPE = torch.float32
    METRIC = "f1_micro"

    def __init__(self, names: Sequence[str], separator: str | None = None) -> None:
        super().__init__(names)
        self.separator = separator

    def read(self, value: object) -> np.ndarray:
        found = np.zeros(len(self.names), dtype=np.float32)
        found[[self.number(label) for label in parts_of(value, self.separator)]] = 1.0
        return found

    def meter(self, head: Head) -> Meter:
        return MultiLabel(head, self.names)


class Number(Kind):
    """A number."""

    PROBLEM = "regression"
    DTYPE = torch.float32
    METRIC = "pearson"

    def read(self, value: object) -> np.ndarray:
        number = number_of(value)
        if number is None:
            raise DataError(f"the label is {shown(value)}; it must be a number")
        return np.array(number, dtype=np.float32)

    def fits(self, names: Sequence[str]) -> bool:
        return len(names) == 1

    def meter(self, head: Head) -> Meter:
        return Regression(head)


def labels_of(
    rows: Rows, column: str, *, problem: str | None = None, separator: str | None = None
) -> OneOf | AnyOf | Number:
    """What the rows that are learned from are labelled with; a class with a single row is warned about.

    Classes are numbered in sorted order, whole numbers by size. So the order of the rows changes nothing.

    Args:
        column: of the labels
        problem: "single", "multi" or "regression"; None = multi for lists or where a separator is given, regression
            for numbers of which one at least is not whole, else single
        separator: what stands between several labels in a text, such as "|"
    Raises: DataError: a row without a label or with one of another kind, or nothing to tell apart. ConfigError: a
        problem that there is not.
    """
    if problem is not None and problem not in PROBLEMS:
        raise ConfigError(f"problem is {shown(problem)}; it must be one of: {', '.join(PROBLEMS)}")
    if separator is not None and (separator == "" or problem not in (None, "multi")):
        raise ConfigError(f"separator={separator!r} is what stands between labels; it needs problem='multi'")
    check_columns(rows, [column])
    values = [row.get(column) for row in iter(rows)]
    kind = problem or ("multi" if separator else _problem_of(values))
    if kind == "regression":
        for index, value in enumerate(values):
            with placed(rows, index):
                Number([column]).read(value)
        return Number([column])
    if kind == "multi":
        return AnyOf(
            _names(rows, column, values, lambda value: parts_of(value, separator), least=1), separator
        )
    return OneOf(_names(rows, column, values, lambda value: [name_of(value)], least=2))


def _names(
    rows: Rows, column: str, values: Sequence[object], read: Callable[[object], list[str]], *, least: int
) -> list[str]:
    """The names of all labels that rows have, in order; at least so many."""
    counts: Counter[str] = Counter()
    where: dict[str, int] = {}
    for index, value in enumerate(values):
        with placed(rows, index):
            for name in read(value):
                counts[name] += 1
                where[name] = index
    names = sorted_names(counts)
    if len(names) < least:
        only = f"has the label {shown(names[0])}" if names else "is without a label"
        raise DataError(f"every row of {column!r} {only}; there is nothing to tell apart ({rows.where(0)})")
    if single := [name for name in names if counts[name] == 1]:
        listed = ", ".join(f"{name!r} ({rows.where(where[name])})" for name in single[:5])
        warnings.warn(
            f"{len(single)} of {len(names)} labels have a single row: {listed}{' …' if len(single) > 5 else ''}",
            stacklevel=3,
        )
    return names


def kind_of(config: Mapping[str, Any], *, separator: str | None = None) -> OneOf | AnyOf | Number:
    """The kind of labels that a config speaks of; without `problem_type`, a single output says a number.

    Raises: ConfigError: a problem that there is not.
    """
    names = names_in(config)
    said = config.get("problem_type") or PROBLEMS["regression" if len(names) == 1 else "single"]
    if said == PROBLEMS["regression"]:
        if len(names) > 1:
            raise ConfigError(
                f"config.json: a regression says one number, and id2label names {len(names)}: {', '.join(names[:5])}"
            )
        return Number(names)
    if said not in PROBLEMS.values():
        raise ConfigError(
            f"config.json: problem_type is {shown(said)}; it must be one of: {', '.join(PROBLEMS.values())}"
        )
    return AnyOf(names, separator) if said == PROBLEMS["multi"] else OneOf(names)


def relabelled(config: Mapping[str, Any], kind: Kind, *, own: bool) -> dict[str, Any]:
    """A model's config, by which its head says labels of this kind.

    Args: own: whether the checkpoint has a head for this very task; if that can say all these labels, it is kept with
        the names that it has. Any other head is new, and as large as there are labels.
    """
    kept = own and kind.fits(names_in(config))
    return {**config, **(kind.problem_config() if kept else kind.config())}


def head_config(names: Sequence[str]) -> dict[str, Any]:
    """The keys of `config.json` that name what a head says, by number; a new head is made as large as they say."""
    return {
        "id2label": {str(number): name for number, name in enumerate(names)},
        "label2id": {name: number for number, name in enumerate(names)},
        "num_labels": len(names),
    }


def names_in(config: Mapping[str, Any]) -> list[str]:
    """The names of a head's outputs, by number; LABEL_0, … where the config has none.

    Raises: ConfigError: names that leave a number out, or stand twice.
    """
    named = config.get("id2label")
    if not isinstance(named, Mapping) or not named:
        return [f"LABEL_{number}" for number in range(int(config.get("num_labels") or 2))]
    numbers = {str(number): str(name) for number, name in named.items()}
    missing = [number for number in range(len(numbers)) if str(number) not in numbers]
    names = [numbers[str(number)] for number in range(len(numbers)) if str(number) in numbers]
    if missing or len(set(names)) < len(names):
        what = f"has no name for {missing[0]}" if missing else "gives two numbers one name"
        raise ConfigError(
            f"config.json: id2label {what}; it must name 0 to {len(numbers) - 1}, each by its own"
        )
    return names


def _problem_of(values: Sequence[object]) -> str:
    if any(isinstance(value, (list, tuple, np.ndarray)) for value in values):
        return "multi"
    numbers = [number_of(value) for value in values]
    fractions = any(number is not None and not number.is_integer() for number in numbers)
    return "regression" if fractions and None not in numbers else "single"


def _first_ten(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (" …" if len(names) > 10 else "")
