"""Read the labels of a classification from rows, and write them into a model's config.

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
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from glassformer.errors import ConfigError, DataError
from glassformer.files import safe_repr
from glassformer.tasks.base import Dataset
from glassformer.tasks.classify.kinds import (
    PROBLEMS,
    LabelKind,
    MultiLabel,
    RegressionTarget,
    SingleLabel,
    label_names,
)
from glassformer.tasks.classify.values import name_of, number_of, parts_of, sorted_names
from glassformer.tasks.columns import check_columns, placed


def labels_of(
    rows: Dataset, column: str, *, problem: str | None = None, separator: str | None = None
) -> SingleLabel | MultiLabel | RegressionTarget:
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
        raise ConfigError(f"problem is {safe_repr(problem)}; it must be one of: {', '.join(PROBLEMS)}")
    if separator is not None and (separator == "" or problem not in (None, "multi")):
        raise ConfigError(f"separator={separator!r} is what stands between labels; it needs problem='multi'")
    check_columns(rows, [column])
    values = [row.get(column) for row in iter(rows)]
    kind = problem or ("multi" if separator else _problem_of(values))
    if kind == "regression":
        for index, value in enumerate(values):
            with placed(rows, index):
                RegressionTarget([column]).read(value)
        return RegressionTarget([column])
    if kind == "multi":
        return MultiLabel(
            _names(rows, column, values, lambda value: parts_of(value, separator), least=1), separator
        )
    return SingleLabel(_names(rows, column, values, lambda value: [name_of(value)], least=2))


def _names(
    rows: Dataset, column: str, values: Sequence[object], read: Callable[[object], list[str]], *, least: int
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
        only = f"has the label {safe_repr(names[0])}" if names else "is without a label"
        raise DataError(f"every row of {column!r} {only}; there is nothing to tell apart ({rows.where(0)})")
    if single := [name for name in names if counts[name] == 1]:
        listed = ", ".join(f"{name!r} ({rows.where(where[name])})" for name in single[:5])
        warnings.warn(
            f"{len(single)} of {len(names)} labels have a single row: {listed}{' …' if len(single) > 5 else ''}",
            stacklevel=3,
        )
    return names


def label_kind_of(
    config: Mapping[str, Any], *, separator: str | None = None
) -> SingleLabel | MultiLabel | RegressionTarget:
    """The kind of labels that a config speaks of; without `problem_type`, a single output says a number.

    Raises: ConfigError: a problem that there is not.
    """
    names = label_names(config)
    problem_type = config.get("problem_type") or PROBLEMS["regression" if len(names) == 1 else "single"]
    if problem_type == PROBLEMS["regression"]:
        if len(names) > 1:
            raise ConfigError(
                f"config.json: a regression says one number, and id2label names {len(names)}: {', '.join(names[:5])}"
            )
        return RegressionTarget(names)
    if problem_type not in PROBLEMS.values():
        raise ConfigError(
            f"config.json: problem_type is {safe_repr(problem_type)}; it must be one of: {', '.join(PROBLEMS.values())}"
        )
    return MultiLabel(names, separator) if problem_type == PROBLEMS["multi"] else SingleLabel(names)


def relabelled(config: Mapping[str, Any], kind: LabelKind, *, own: bool) -> dict[str, Any]:
    """A model's config, by which its head says labels of this kind.

    Args: own: whether the checkpoint has a head for this very task; if that can say all these labels, it is kept with
        the names that it has. Any other head is new, and as large as there are labels.
    """
    head_fits = own and kind.fits(label_names(config))
    return {**config, **(kind.problem_config() if head_fits else kind.config())}


def _problem_of(values: Sequence[object]) -> str:
    if any(isinstance(value, (list, tuple, np.ndarray)) for value in values):
        return "multi"
    numbers = [number_of(value) for value in values]
    fractions = any(number is not None and not number.is_integer() for number in numbers)
    return "regression" if fractions and None not in numbers else "single"
