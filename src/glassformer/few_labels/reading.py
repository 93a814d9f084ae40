"""Rows of files of which some have a label and the others none, as methods of few labels read them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from glassformer.data.report import usual_columns
from glassformer.data.sequence import IDENTIFIERS, InMemoryRows, RowSequence, missing_column
from glassformer.data.streams import stream_rows
from glassformer.errors import DataError
from glassformer.runs.config import DataConfig, as_list
from glassformer.tasks.classify.kinds import RegressionTarget, SingleLabel
from glassformer.tasks.classify.task import labels_of
from glassformer.tasks.columns import is_missing

ROLES = ("text", "text_pair", "label")
MOST_LABELS, LONGEST_LABEL = 200, 40
"""A column of more different values, or of longer ones, is not plainly one of labels."""
MEASURED = re.compile(r"-?\d*[.,]\d+|\d{1,4}([-./])\d{1,2}\1\d{1,4}\b.*|\d{1,2}:\d{2}\b.*")
"""A number with a fraction, a date or a time: no label."""


@dataclass(frozen=True)
class TextRows:
    """The texts of rows.

    texts: those with a label
    values: the label of each, as its file has it
    places: where each is
    without: texts of rows without a label
    empty: rows with a label and no text that were left out
    """

    texts: list[str] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    without: list[str] = field(default_factory=list)
    empty: int = 0


def text_rows(rows: RowSequence, columns: Mapping[str, str], *, skip: bool = False) -> TextRows:
    """Read the texts and labels of rows; a row without a label has None or nothing but white space there.

    Args:
        columns: role → column, of the text, the text_pair and the label
        skip: whether a row with a label and no text is left out
    Raises: DataError: no such column, or a label without a text.
    """
    names = {role: columns.get(role, role) for role in ROLES}
    for role in ("text", "label"):
        if names[role] not in rows.columns:
            raise DataError(f"{rows.file(0)}: {missing_column(names[role], rows.columns, role)}{_seeming(rows)}")
    read, empty = TextRows(), 0
    for index, row in enumerate(rows):
        text, label = row_text(row, names), row.get(names["label"])
        if is_missing(label):
            read.without.append(text)
            continue
        if not text.strip():
            if not skip:
                raise label_without_text(rows, index)
            empty += 1
            continue
        read.texts.append(text)
        read.values.append(label)
        read.places.append(rows.where(index))
    return replace(read, empty=empty)


def label_without_text(rows: RowSequence, index: int) -> DataError:
    """The error of a row that has a label and no text."""
    return DataError(
        f"{rows.where(index)}: has a label and no text; write one, remove the row, or leave out all such rows: "
        "--skip-bad-rows"
    )


def plain_label(rows: RowSequence, text: str) -> str | None:
    """The column that is plainly of labels: the only one of few, short values that repeat; None = there is none.

    Args:
        text: the column of the texts
    """
    seen = {name: Counter[str]() for name in rows.columns if name.lower() not in IDENTIFIERS and name != text}
    for row in rows:
        for name, counts in [*seen.items()]:
            value = str("" if row.get(name) is None else row[name]).strip()
            counts.update([value] if value else [])
            if len(value) > LONGEST_LABEL or len(counts) > MOST_LABELS or MEASURED.fullmatch(value):
                del seen[name]
    plain = [name for name, counts in seen.items() if 1 < len(counts) <= counts.total() / 2]
    return plain[0] if len(plain) == 1 else None


def _seeming(rows: RowSequence) -> str:
    """Which columns look like the text and the label, for a message; empty = none does."""
    text = usual_columns([rows])["text"]
    if text not in rows.columns:
        return ""
    label = "label" if "label" in rows.columns else plain_label(rows, text)
    return f"; {text!r} looks like the text" + (f", {label!r} like the label" if label else "")


def row_text(row: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """The text of a row; of two columns both, on lines of their own."""
    parts = [row.get(names.get(role, role)) for role in ("text", "text_pair")]
    return "\n".join(part for part in parts if isinstance(part, str) and part.strip())


def kind_of_labels(values: Sequence[Any], places: Sequence[str], separator: str | None) -> SingleLabel:
    """Which labels there are, and whether a text has one or several. Raises: DataError: numbers with fractions."""
    rows = InMemoryRows(({"label": x} for x in values), name="labels", places=places)
    kind = labels_of(rows, "label", separator=separator)
    if isinstance(kind, RegressionTarget):
        raise DataError(
            f"{places[0]}: the labels are numbers with fractions; these methods learn classes. To predict numbers: "
            "glassformer train --task classify --model FOLDER --data FILE"
        )
    return kind


def sampled_texts(data: DataConfig, files: str | list[str], limit: int) -> Iterator[str]:
    """A random sample of the texts of files, read row by row: memory does not grow with the files.

    Args:
        data: how files are read
        limit: number of texts
    """
    if not files:
        return
    paths = [str(data.root / name) for name in as_list(files)]
    names = {role: data.columns.get(role, role) for role in ("text", "text_pair")}
    draw, chosen = np.random.default_rng(0), list[str]()
    for number, row in enumerate(stream_rows(paths, buffer=1, **data.for_other_files.format)):
        if number == 0 and names["text"] not in row:
            raise DataError(f"{paths[0]}: no column {names['text']!r}; there are: {', '.join(map(repr, row))}")
        # Reservoir sampling (Vitter 1985): each row has the same chance, and none needs to be counted before.
        place = number if number < limit else int(draw.integers(number + 1))
        if place < limit:
            chosen[place : place + 1] = [row_text(row, names)]
    yield from chosen
