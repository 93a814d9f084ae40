"""Corrected data files, to train on again; existing files are never overwritten.

split of the run            what is written
train, validation: files    the rows of that split
a share that was held out   all rows of the training file, so that the same share can be held out again
--data FILE                 the rows of the file

A run with options of its own for reading files (`data.format`) gets its other split in the new format too.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from glassformer.data.write import write_rows
from glassformer.errors import DataError
from glassformer.evaluation.error_analysis.review import Corrections, apply_corrections
from glassformer.evaluation.runs import VALIDATION
from glassformer.evaluation.splits import TRAIN, EvaluatedSplit
from glassformer.runs.folder import CONFIG
from glassformer.tasks.registry import task_class


@dataclass(frozen=True)
class CorrectedFiles:
    """Files of corrected rows.

    rows: in `path` · train, validation: data files of a new training; None = those of the run
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
    config = split.run.config
    rows = split.rows()
    column = _label_column(split)
    if len(corrections.dropped) == len(rows):
        raise DataError("the sheet drops every row; there is nothing left to write")
    corrected = apply_corrections(rows, split.records, corrections, column, config.objective.get("separator"))
    held_out = isinstance(config.data.validation, float)
    if split.data or not held_out:
        write_rows(path, corrected, rows.columns)
        return _with_other_split(split, CorrectedFiles(path, len(rows) - len(corrections.dropped)))
    all_rows = config.data.read(config.data.train)
    new = dict(
        zip((rows.where(i) for i in range(len(rows)) if i not in corrections.dropped), corrected, strict=True)
    )
    dropped = {rows.where(i) for i in corrections.dropped}
    positions = [where for i in range(len(all_rows)) if (where := all_rows.where(i)) not in dropped]
    if len({*positions}) < len(positions):
        raise DataError(
            f"{all_rows.file(0)}: several rows have one position, so the held-out ones cannot be identified"
        )
    index = {all_rows.where(i): i for i in range(len(all_rows))}
    write_rows(path, (new.get(where) or all_rows[index[where]] for where in positions), all_rows.columns)
    return CorrectedFiles(path, len(positions), train=path)


def _with_other_split(split: EvaluatedSplit, written: CorrectedFiles) -> CorrectedFiles:
    """The data files of a new training; the other split too, where one format cannot read both."""
    data, path = split.run.config.data, written.path
    files = [data.train] if isinstance(data.train, str) else data.train
    is_training_split = split.name == TRAIN or (
        split.data is not None
        and [Path(x).resolve() for x in split.data] == [Path(data.folder, x).resolve() for x in files]
    )
    if split.data is not None and not is_training_split:
        return written
    other = split.run.splits[1 if is_training_split else 0]
    beside = None
    if _custom_formats(split) and other is not None:
        beside = path.with_name(f"{path.stem}-{VALIDATION if is_training_split else TRAIN}{path.suffix}")
        write_rows(beside, other, other.columns)
    train, validation = (path, beside) if is_training_split else (beside, path)
    return CorrectedFiles(path, written.rows, train, validation)


def retrain_command(split: EvaluatedSplit, written: CorrectedFiles) -> str:
    """The command that trains or evaluates on the corrected rows; empty where there is none."""
    folder = split.run.folder
    if written.train is None and written.validation is None:
        return (
            ""
            if _custom_formats(split)
            else f"glassformer evaluate {_quoted(folder)} --data {_quoted(written.path)}"
        )
    arguments = ["glassformer train", _quoted(folder / CONFIG)]
    if written.train is not None:
        arguments.append(f"--data {_quoted(written.train.resolve())}")
    if written.validation is not None:
        arguments.append(f"--validation {_quoted(written.validation.resolve())}")
    arguments += [f"--set data.{name}={{}}" for name in _custom_formats(split)]
    return " ".join([*arguments, f"--output {_quoted(folder.with_name(folder.name + '-corrected'))}"])


def _custom_formats(split: EvaluatedSplit) -> list[str]:
    """The options of reading files that do not fit the corrected ones."""
    data = split.run.config.data
    return [name for name in ("format", "validation_format") if getattr(data, name)]


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def _label_column(split: EvaluatedSplit) -> str:
    """The column of labels."""
    columns = {**task_class(split.run.config.task).COLUMNS, **split.run.config.data.columns}
    role = "tags" if "tags" in columns else "label"
    return columns[role]
