"""Corrections of labels, and the corrected data files to train on again; existing files are never overwritten.

split of the run            output
train, validation: files    the rows of that split
a share that was held out   all rows of the training file, so that the same share can be held out again
--data FILE                 the rows of the file

A run with options of its own for reading files (`data.format`) gets its other split in the new format too.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glassformer.data.rows import write_rows
from glassformer.errors import DataError
from glassformer.evaluation.runs import TRAIN, VALIDATION, EvaluatedSplit
from glassformer.files import counted
from glassformer.reports.report import Report
from glassformer.reports.table import Table
from glassformer.runs.folder import CONFIG
from glassformer.tasks.registry import task_class
from glassformer.tasks.types import Prediction

LABEL_SEPARATOR = "|"
"""Between several labels of a row, where nothing else says how they are separated."""


@dataclass(frozen=True)
class LabelChange:
    """How many labels were changed from `old` to `new`."""

    old: str
    new: str
    count: int


@dataclass(frozen=True)
class RowComment:
    """A comment on a row."""

    where: str
    comment: str


@dataclass(frozen=True, repr=False)
class Corrections(Report, kind="corrections", keys=("corrected", "rows", "dropped", "unchanged", "pairs", "comments")):
    """The corrections of a sheet.

    labels: index of a row → its new label
    dropped_rows: rows to leave out
    unchanged: lines without a correction, or with the same label
    changes: (old, new) label → count
    comments: position, and comment
    """

    labels: dict[int, Any] = field(default_factory=dict)
    dropped_rows: set[int] = field(default_factory=set)
    unchanged: int = 0
    changes: Counter[tuple[str, str]] = field(default_factory=Counter)
    comments: list[RowComment] = field(default_factory=list)

    @property
    def corrected(self) -> int:
        """Number of labels that were changed."""
        return self.changes.total()

    @property
    def rows(self) -> int:
        """Number of rows with a new label."""
        return len(self.labels)

    @property
    def dropped(self) -> int:
        """Number of rows that are left out."""
        return len(self.dropped_rows)

    @property
    def pairs(self) -> list[LabelChange]:
        """Each pair of old and new label, the most frequent first."""
        return [LabelChange(old, new, count) for (old, new), count in self.changes.most_common()]

    @property
    def caption(self) -> str:
        return (
            f"{counted(self.corrected, 'label')} corrected in {counted(self.rows, 'row')}, "
            f"{counted(self.dropped, 'row')} dropped, {counted(self.unchanged, 'line')} unchanged, "
            f"{len(self.comments):,} commented"
        )

    def tables(self) -> list[Table]:
        """A row for each pair of labels."""
        rows = [[pair.old, pair.new, f"{pair.count:,}"] for pair in self.pairs]
        return [Table(["from", "to", "count"], rows, left=2)] if rows else []


@dataclass(frozen=True)
class CorrectedFiles:
    """Files of corrected rows.

    rows: in `path`
    train, validation: data files of a new training; None = those of the run
    """

    path: Path
    rows: int
    train: Path | None = None
    validation: Path | None = None


def write_corrected(split: EvaluatedSplit, corrections: Corrections, path: Path) -> CorrectedFiles:
    """Write the rows of a split with their corrections.

    Raises: DataError: all rows are dropped, a file is there already, or cannot hold the rows; the rows were changed
        since they were evaluated.
    """
    config, rows = split.run.config, split.rows()
    columns = {**task_class(config.task).COLUMNS, **config.data.columns}
    column = columns["tags" if "tags" in columns else "label"]
    if len(corrections.dropped_rows) == len(rows):
        raise DataError("the sheet drops every row; there is nothing left to write")
    corrected = apply_corrections(rows, split.records, corrections, column, config.task_options.get("separator"))
    if split.data or not isinstance(config.data.validation, float):
        write_rows(path, corrected, rows.columns)
        return _with_other_split(split, CorrectedFiles(path, len(rows) - len(corrections.dropped_rows)))
    all_rows = config.data.read(config.data.train)
    index = {all_rows.where(i): i for i in range(len(all_rows))}
    if len(index) < len(all_rows):
        raise DataError(
            f"{all_rows.file(0)}: several rows have one position, so the held-out ones cannot be identified"
        )
    remaining = (rows.where(i) for i in range(len(rows)) if i not in corrections.dropped_rows)
    new = dict(zip(remaining, corrected, strict=True))
    dropped = {rows.where(i) for i in corrections.dropped_rows}
    chosen = [where for where in index if where not in dropped]
    write_rows(path, (new.get(where) or all_rows[index[where]] for where in chosen), all_rows.columns)
    return CorrectedFiles(path, len(chosen), train=path)


def _with_other_split(split: EvaluatedSplit, written: CorrectedFiles) -> CorrectedFiles:
    """The data files of a new training; the other split too, where one format cannot read both."""
    data, path = split.run.config.data, written.path
    files = [data.train] if isinstance(data.train, str) else data.train
    is_training_split = split.name == TRAIN or (
        split.data is not None and [Path(x).resolve() for x in split.data] == [(data.root / x).resolve() for x in files]
    )
    if split.data is not None and not is_training_split:
        return written
    other = split.run.splits[1 if is_training_split else 0]
    other_path = None
    if _custom_formats(split) and other is not None:
        other_path = path.with_name(f"{path.stem}-{VALIDATION if is_training_split else TRAIN}{path.suffix}")
        write_rows(other_path, other, other.columns)
    train, validation = (path, other_path) if is_training_split else (other_path, path)
    return CorrectedFiles(path, written.rows, train, validation)


def retrain_command(split: EvaluatedSplit, written: CorrectedFiles) -> str:
    """The command that trains or evaluates on the corrected rows; empty where there is none."""
    folder = split.run.folder
    if written.train is None and written.validation is None:
        evaluate = ["glassformer", "evaluate", str(folder), "--data", str(written.path)]
        return "" if _custom_formats(split) else shlex.join(evaluate)
    arguments = ["glassformer", "train", str(folder / CONFIG)]
    if written.train is not None:
        arguments += ["--data", str(written.train.resolve())]
    if written.validation is not None:
        arguments += ["--validation", str(written.validation.resolve())]
    for name in _custom_formats(split):
        arguments += ["--set", f"data.{name}={{}}"]
    return shlex.join([*arguments, "--output", str(folder.with_name(f"{folder.name}-corrected"))])


def _custom_formats(split: EvaluatedSplit) -> list[str]:
    """The options of reading files that do not fit the corrected ones."""
    data = split.run.config.data
    return [name for name in ("format", "validation_format") if getattr(data, name)]


# ----------------------------------------------------------------------------------------------- corrected rows


def apply_corrections(
    rows: Sequence[Mapping[str, Any]],
    records: Sequence[Prediction],
    corrections: Corrections,
    column: str,
    separator: str | None = None,
) -> Iterator[dict[str, Any]]:
    """The rows with corrected labels, without dropped ones; other columns stay as they are.

    Labels keep the spelling of the rows, such as numbers.

    Args:
        records: of these rows
        column: of the labels
        separator: of several in a text
    """
    spellings: dict[str, Any] = {}
    for record in records if corrections.labels else ():
        spellings.update(_label_spellings(record, rows[record.index][column]))
    for index, row in enumerate(rows):
        if index in corrections.dropped_rows:
            continue
        if index not in corrections.labels:
            yield dict(row)
        else:
            yield {**row, column: _in_form_of(row[column], corrections.labels[index], spellings, separator)}


def _label_spellings(record: Prediction, value: Any) -> Iterator[tuple[str, Any]]:
    """How a row spells its labels, where the order is known."""
    label = record.label
    if isinstance(label, str):
        yield label, value
    elif isinstance(value, list | tuple) and ("tokens" in record.row or len(label) == len(value) == 1):
        yield from zip(label, value, strict=True)  # several labels of a text may be in any order


def _in_form_of(old: Any, new: Any, spellings: Mapping[str, Any], separator: str | None) -> Any:
    """A label in the form of the one that it replaces: a list, separated text, a text, a number."""
    if isinstance(new, list):
        joined = isinstance(old, str)
        return (separator or LABEL_SEPARATOR).join(new) if joined else [spellings.get(name, name) for name in new]
    if isinstance(new, str):
        return spellings.get(new, new)
    return f"{new:g}" if isinstance(old, str) else new
