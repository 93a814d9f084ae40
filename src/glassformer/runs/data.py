"""Training and validation rows of a run: read, sampled, split, and free of leaks."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Mapping, Sequence

from glassformer.data.rows import RowSequence
from glassformer.data.sequence import IDENTIFIERS, InMemoryRows
from glassformer.data.splits import column_values, leaks, sample, split, too_many_labels
from glassformer.data.views import ConcatenatedRows, RelabelledRows
from glassformer.errors import ConfigError, DataError, nearest
from glassformer.files import refuse_repeated, safe_repr
from glassformer.runs.config import DataConfig, RunConfig, as_list
from glassformer.tasks.base import Task
from glassformer.tasks.columns import columns_of, rows_with

NEEDED = {"label": "label", "tags": "label", "text": "text", "tokens": "text"}
"""Roles of columns without whose value a row teaches nothing, and what is then missing."""
MAX_TYPED = 3  # columns to ignore one by one in a message
EVERY = "--ignore '*'"


def read_splits(config: RunConfig, kind: type[Task]) -> tuple[RowSequence, RowSequence | None]:
    """Read the training and validation rows; a held-out share is stratified by label.

    Raises: DataError: rows that cannot be read. ConfigError: fewer rows than `data.limit` says.
    """
    data, seed = config.data, config.training.seed
    files = as_list(data.train) if isinstance(data.limit, list) else [data.train]
    if isinstance(data.limit, list):
        refuse_repeated((str(data.root / file) for file in as_list(data.train)), DataError)
    parts = [read_usable(data, kind, file) for file in files]
    _warn_of_unused_renames(data, parts)
    train = _concatenated(parts)
    if isinstance(data.limit, list):
        train = _concatenated([_sampled(part, size, seed) for part, size in zip(parts, data.limit, strict=True)])
    validation: RowSequence | None = None
    if isinstance(data.validation, float):
        train, validation = _hold_out(config, kind, train, data.validation)
        parts = [train]
    elif data.validation is not None:
        validation = read_usable(data.for_validation, kind, data.validation)
    if validation is not None and data.without_leaks:
        # Of all training rows, however few are sampled, so that runs of any sample are validated on the same rows.
        validation = drop_leaked_rows(config, kind, _concatenated(parts), validation)
    return train if isinstance(data.limit, list) else _sampled(train, data.limit, seed), validation


def read_usable(data: DataConfig, kind: type[Task], files: str | list[str]) -> RowSequence:
    """Read the rows of files; with `on_bad_rows: skip`, those that a task can learn from.

    Warns: of rows that are left out.
    Raises: DataError: rows that cannot be read, or none that is left.
    """
    rows = data.read(files)
    if not data.skips_bad_rows:
        return rows
    needed = {
        columns_of(kind.COLUMNS, data.columns)[role]: what
        for role, what in NEEDED.items()
        if role in kind.COLUMNS and (what == "label") == (role in kind.TARGETS)  # a transcript may be empty
    }
    return rows_with(rows, needed)


def _concatenated(parts: Sequence[RowSequence]) -> RowSequence:
    return parts[0] if len(parts) == 1 else ConcatenatedRows(parts)


def _sampled(rows: RowSequence, size: int | None, seed: int) -> RowSequence:
    """A random sample of the training rows; None = all."""
    if size is not None and size > len(rows):
        raise ConfigError(f"data.limit is {size:,}; there are {len(rows):,} training rows")
    return sample_rows(rows, size, seed)


def sample_rows(rows: RowSequence, count: int | None, seed: int = 0) -> RowSequence:
    """A random sample of this many rows, in their order; a smaller sample of a seed is a subset of a larger one.

        sample_rows(rows, 1_000, seed=42)

    Args:
        count: None, or more than there are = all rows
    Raises: ConfigError: `count` below 1, or a seed below 0.
    """
    if count is not None and count < 1:
        raise ConfigError(f"limit is {count}; it must be a whole number from 1 up")
    if seed < 0:
        raise ConfigError(f"a seed is a whole number from 0 on; got {seed}")
    if count is None or count >= len(rows):
        return rows
    return rows.select(sample(len(rows), count, seed=seed))


def _warn_of_unused_renames(data: DataConfig, parts: Sequence[RowSequence]) -> None:
    """Warn of labels in `data.rename` that no training row has: other rows may have them, or the name is misspelt."""
    absent = [set(part.missing_labels()) for part in parts if isinstance(part, RelabelledRows)]
    if unused := sorted(set(data.rename).intersection(*absent)):
        warnings.warn(
            f"data.rename names {', '.join(map(safe_repr, unused))}; no training row has such a label",
            stacklevel=3,
        )


def drop_leaked_rows(config: RunConfig, kind: type[Task], train: RowSequence, validation: RowSequence) -> RowSequence:
    """Leave out validation rows whose inputs are in the training rows too (data leakage)."""
    names = {role: config.data.columns.get(role, name) for role, name in kind.COLUMNS.items()}
    read = [name for role, name in names.items() if role not in kind.TARGETS and name in train.columns]
    if not read:  # what reads the rows will say which columns are missing
        return validation

    def content(rows: RowSequence) -> list[str]:
        inputs = ([row.get(name) for name in read] for row in iter(rows))
        return ["\0".join(" ".join(x) if isinstance(x, list) else str(x) for x in row) for row in inputs]

    leaked = {number for _, number in leaks(content(train), content(validation))}
    if not leaked:
        return validation
    if len(leaked) == len(validation):
        raise DataError(f"all {len(leaked):,} validation rows are in the training data too; use other ones")
    warnings.warn(
        f"{len(leaked):,} of {len(validation):,} validation rows are left out: they are in the training data too",
        stacklevel=2,
    )
    return validation.select(number for number in range(len(validation)) if number not in leaked)


def _hold_out(config: RunConfig, kind: type[Task], train: RowSequence, share: float) -> tuple[RowSequence, RowSequence]:
    """Hold out a share of the training rows; the rest, and the share."""
    data = config.data
    if data.held_out == "last" or (len(train) == 1 and list(train.columns) == ["text"]):  # a book
        return split_at(train, 1 - share)
    if data.groups is not None:
        groups = [str(value) for value in column_values(train, data.groups)]
        held_in, held_out = split(len(train), (1 - share, share), seed=config.training.seed, groups=groups)
        return train.select(held_in), train.select(held_out)
    label = data.columns.get("label", kind.COLUMNS.get("label"))
    labels = None if label is None else column_values(train, label, "label")
    if labels is not None and too_many_labels(labels):  # numbers, such as scores, are no strata
        labels = None
    held_in, held_out = split(len(train), (1 - share, share), seed=config.training.seed, labels=labels)
    return train.select(held_in), train.select(held_out)


def split_at(rows: RowSequence, share: float) -> tuple[RowSequence, RowSequence]:
    """Split rows in two at a share; a single row, such as a book, is split within its text.

    Raises: ConfigError: a part would be empty.
    """
    if len(rows) == 1 and list(rows.columns) == ["text"]:
        text = rows[0]["text"]
        at = round(share * len(text))
        if 0 < at < len(text):
            before, after = ([{"text": part}] for part in (text[:at], text[at:]))
            return InMemoryRows(before, name=rows.file(0)), InMemoryRows(after, name=rows.file(0))
    at = round(share * len(rows))
    if not 0 < at < len(rows):
        raise ConfigError(f"data.validation: of {len(rows)} rows the last {1 - share:g} leave a part empty")
    return rows.select(range(at)), rows.select(range(at, len(rows)))


def check_unused_columns(rows: RowSequence, columns: Mapping[str, str], ignored: Sequence[str]) -> None:
    """Check that every column of rows is read, or ignored on purpose.

    Args:
        columns: what the task reads, role → column; rows need not have all of them
        ignored: columns, or "*": all unused ones
    Raises: ConfigError: a column that the task does not use, or one to ignore that is not there.
    """
    if missing := [name for name in ignored if name != "*" and name not in rows.columns]:
        raise ConfigError(
            f"data.ignore names {missing[0]!r}{nearest(missing[0], rows.columns)}; the columns are: "
            f"{', '.join(rows.columns)}"
        )
    passed = {*columns.values(), *ignored, *IDENTIFIERS}
    unused = [name for name in rows.columns if name not in passed and "*" not in ignored]
    if unused:
        read = {role: name for role, name in columns.items() if name in rows.columns}
        now = f"read are {', '.join(f'{role}={name}' for role, name in read.items())}" if read else "none is read"
        role = next((role for role in columns if role not in read), next(iter(columns)))
        one_by_one = " ".join(f"--ignore {shlex.quote(name)}" for name in unused[:MAX_TYPED])
        leave_out = f"{one_by_one} (or {EVERY})" if len(unused) <= MAX_TYPED else EVERY
        raise ConfigError(
            f"unused columns {', '.join(map(repr, unused))}; {now}. To leave them out: {leave_out}; to read one: "
            f"--column {shlex.quote(f'{role}={unused[0]}')} (in a configuration: data.ignore, data.columns)"
        )
