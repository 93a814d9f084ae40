"""."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from glassformer.data.rows import Rows
from glassformer.data.sequence import Joined, Listed, Renamed
from glassformer.data.splits import are_many, column, leaks, sample, split
from glassformer.errors import ConfigError, DataError, nearest
from glassformer.files import shown
from glassformer.runs.config import Config, Data, _list
from glassformer.tasks.base import Objective


def rows_of(config: Config, kind: type[Objective]) -> tuple[Rows, Rows | None]:
    """The rows to train and to validate on; a share that is held out has each label in its share.

    Raises: DataError: what is wrong with them. ConfigError: fewer rows than `data.limit` says.
    """
    data, seed = config.data, config.training.seed
    files = _list(data.train) if isinstance(data.limit, list) else [data.train]
    parts = [data.read(each) for each in files]
    _check_renamed(data, parts)
    train = _joined(parts)
    if isinstance(data.limit, list):
        train = _joined([_drawn(part, size, seed) for part, size in zip(parts, data.limit, strict=True)])
    validation: Rows | None = None
    if isinstance(data.validation, float):
        train, validation = _held_out(config, kind, train, data.validation)
        parts = [train]
    elif data.validation is not None:
        validation = data.read(data.validation, data.validation_format)
    if validation is not None and data.without_leaks:
        # Of all training rows, however few are drawn, so that the same rows judge.
        validation = without_leaks(config, kind, _joined(parts), validation)
    return train if isinstance(data.limit, list) else _drawn(train, data.limit, seed), validation


def _joined(parts: Sequence[Rows]) -> Rows:
    return parts[0] if len(parts) == 1 else Joined(parts)


def _drawn(rows: Rows, size: int | None, seed: int) -> Rows:
    """So many of the training rows; None = all."""
    if size is not None and size > len(rows):
        raise ConfigError(f"data.limit is {size:,}; there are {len(rows):,} training rows")
    return rows if size is None else rows.select(sample(len(rows), size, seed=seed))


def _check_renamed(data: Data, parts: Sequence[Rows]) -> None:
    """Warn of labels to rename that no training row has: other rows may have them, or the name is misspelt."""
    absent = [set(part.absent()) for part in parts if isinstance(part, Renamed)]
    if nowhere := sorted(set(data.rename).intersection(*absent)):
        warnings.warn(
            f"data.rename names {', '.join(map(shown, nowhere))}; no training row is labelled so",
            stacklevel=3,
        )


def without_leaks(config: Config, kind: type[Objective], train: Rows, validation: Rows) -> Rows:
    """The validation rows whose texts are not shown in training: they could be answered by heart."""
    names = {role: config.data.columns.get(role, name) for role, name in kind.COLUMNS.items()}
    read = [name for role, name in names.items() if role not in kind.SAID and name in train.columns]
    if not read:  # what reads the rows will say which columns are missing
        return validation

    def content(rows: Rows) -> list[str]:
        held = ([row.get(name) for name in read] for row in iter(rows))
        return ["\0".join(" ".join(x) if isinstance(x, list) else str(x) for x in row) for row in held]

    leaked = {number for _, number in leaks(content(train), content(validation))}
    if not leaked:
        return validation
    if len(leaked) == len(validation):
        raise DataError(
            f"all {len(leaked):,} validation rows stand in the training rows too; take other ones"
        )
    warnings.warn(
        f"{len(leaked):,} of {len(validation):,} validation rows are left out: they stand in the training rows too",
        stacklevel=2,
    )
    return validation.select(number for number in range(len(validation)) if number not in leaked)


def _held_out(config: Config, kind: type[Objective], train: Rows, share: float) -> tuple[Rows, Rows]:
    """The training rows without a share of them, and the share."""
    data = config.data
    if data.held_out == "last":
        return parted(train, 1 - share)
    label = data.columns.get("label", kind.COLUMNS.get("label"))
    labels = None if label is None else column(train, label)
    if labels is not None and are_many(labels):  # numbers, such as scores: chance shares them out well enough
        labels = None
    held_in, held_out = split(len(train), (1 - share, share), seed=config.training.seed, labels=labels)
    return train.select(held_in), train.select(held_out)


def parted(rows: Rows, share: float) -> tuple[Rows, Rows]:
    """The first rows and the last; a single row, such as a book, is parted within its text.

    Raises: ConfigError: a part would be empty.
    """
    if len(rows) == 1 and list(rows.columns) == ["text"]:
        text = rows[0]["text"]
        at = round(share * len(text))
        if 0 < at < len(text):
            before, after = ([{"text": part}] for part in (text[:at], text[at:]))
            return Listed(before, name=rows.file(0)), Listed(after, name=rows.file(0))
    at = round(share * len(rows))
    if not 0 < at < len(rows):
        raise ConfigError(f"data.validation: of {len(rows)} rows the last {1 - share:g} leave a part empty")
    return rows.select(range(at)), rows.select(range(at, len(rows)))


def check_columns(rows: Rows, objective: Objective, ignored: Sequence[str]) -> None:
    """Raises: ConfigError: a column that nothing reads, or one to ignore that is not there."""
    if missing := [name for name in ignored if name != "*" and name not in rows.columns]:
        raise ConfigError(
            f"data.ignore names {missing[0]!r}{nearest(missing[0], rows.columns)}; the columns are: "
            f"{', '.join(rows.columns)}"
        )
    read = objective.columns.values()
    unused = [
        name for name in rows.columns if name not in read and name not in ignored and "*" not in ignored
    ]
    if unused:
        roles = ", ".join(f"{role}={name}" for role, name in objective.columns.items())
        raise ConfigError(
            f"nothing is learnt from the columns {', '.join(map(repr, unused))}; say which are read "
            f"(data.columns; now {roles}), or that these do not matter: --ignore {unused[0]!r}, or --ignore '*'"
        )
