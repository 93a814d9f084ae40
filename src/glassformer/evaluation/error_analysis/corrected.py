"""Corrected rows as files to train on again; what was there is never written over.

part of the run             what is written
train, validation: files    the rows of that part
a share that was held out   all rows of the training file, so that the same share can be held out again
--data FILE                 the rows of the file

A run whose files are read in a way of their own (`data.format`) gets its other part in the same new format beside it.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from glassformer.data.write import write_rows
from glassformer.errors import DataError
from glassformer.evaluation.error_analysis.review import Corrections, applied
from glassformer.evaluation.runs import VALIDATION
from glassformer.evaluation.splits import TRAIN, Part
from glassformer.runs.folder import CONFIG
from glassformer.tasks.evaluator import objective_class


@dataclass(frozen=True)
class Written:
    """Files of corrected rows.

    rows: in `path` · train, validation: what a new training takes as its data; None = as the run had it
    """

    path: Path
    rows: int
    train: Path | None = None
    validation: Path | None = None


def write_corrected(part: Part, found: Corrections, path: Path) -> Written:
    """Write the rows of a part with their corrections.

    Raises: DataError: all rows are dropped, a file is there already, or cannot hold the rows; the rows were changed
        since they were judged.
    """
    config = part.run.config
    rows = part.rows()
    column = _label_column(part)
    if len(found.dropped) == len(rows):
        raise DataError("every row is dropped by this sheet; there is nothing left to write")
    corrected = applied(rows, part.records, found, column, config.objective.get("separator"))
    held_out = isinstance(config.data.validation, float)
    if part.data or not held_out:
        write_rows(path, corrected, rows.columns)
        return _with_other(part, Written(path, len(rows) - len(found.dropped)))
    whole = config.data.read(config.data.train)
    new = dict(
        zip((rows.where(i) for i in range(len(rows)) if i not in found.dropped), corrected, strict=True)
    )
    dropped = {rows.where(i) for i in found.dropped}
    places = [place for i in range(len(whole)) if (place := whole.where(i)) not in dropped]
    if len({*places}) < len(places):
        raise DataError(
            f"{whole.file(0)}: several rows stand at one place, so the held-out ones cannot be found in it"
        )
    at = {whole.where(i): i for i in range(len(whole))}
    write_rows(path, (new.get(place) or whole[at[place]] for place in places), whole.columns)
    return Written(path, len(places), train=path)


def _with_other(part: Part, written: Written) -> Written:
    """Where each file stands in a new training; the other part beside it where one format cannot read both."""
    data, path = part.run.config.data, written.path
    files = [data.train] if isinstance(data.train, str) else data.train
    learnt = part.name == TRAIN or (
        part.data is not None
        and [Path(x).resolve() for x in part.data] == [Path(data.folder, x).resolve() for x in files]
    )
    if part.data is not None and not learnt:
        return written
    other = part.run.parts[1 if learnt else 0]
    beside = None
    if _own_format(part) and other is not None:
        beside = path.with_name(f"{path.stem}-{VALIDATION if learnt else TRAIN}{path.suffix}")
        write_rows(beside, other, other.columns)
    train, validation = (path, beside) if learnt else (beside, path)
    return Written(path, written.rows, train, validation)


def again(part: Part, written: Written) -> str:
    """The command that trains on the corrected rows, or judges on them; none where there is nothing to suggest."""
    folder = part.run.folder
    if written.train is None and written.validation is None:
        return (
            ""
            if _own_format(part)
            else f"glassformer evaluate {_quoted(folder)} --data {_quoted(written.path)}"
        )
    words = ["glassformer train", _quoted(folder / CONFIG)]
    if written.train is not None:
        words.append(f"--data {_quoted(written.train.resolve())}")
    if written.validation is not None:
        words.append(f"--validation {_quoted(written.validation.resolve())}")
    words += [f"--set data.{name}={{}}" for name in _own_format(part)]
    return " ".join([*words, f"--output {_quoted(folder.with_name(folder.name + '-corrected'))}"])


def _own_format(part: Part) -> list[str]:
    """Which of its options read files in a way that the corrected ones are not written in."""
    data = part.run.config.data
    return [name for name in ("format", "validation_format") if getattr(data, name)]


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def _label_column(part: Part) -> str:
    """The column that corrections are about."""
    columns = {**objective_class(part.run.config.task).COLUMNS, **part.run.config.data.columns}
    role = "tags" if "tags" in columns else "label"
    return columns[role]
