"""Rows of files of which some have a label and the others none, as methods of few labels read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from glassformer.data.sequence import InMemoryRows, RowSequence, missing_column
from glassformer.errors import DataError
from glassformer.tasks.classify.kinds import RegressionTarget, SingleLabel
from glassformer.tasks.classify.task import labels_of

ROLES = ("text", "text_pair", "label")


@dataclass(frozen=True)
class TextRows:
    """The texts of rows.

    texts: those with a label
    values: the label of each, as its file has it
    places: where each is
    without: texts of rows without a label
    """

    texts: list[str] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    without: list[str] = field(default_factory=list)


def text_rows(rows: RowSequence, columns: Mapping[str, str]) -> TextRows:
    """Read the texts and labels of rows; a row without a label has None or nothing but white space there.

    Args:
        columns: role → column, of the text, the text_pair and the label
    Raises: DataError: no such column, or a label without a text.
    """
    names = {role: columns.get(role, role) for role in ROLES}
    for role in ("text", "label"):
        if names[role] not in rows.columns:
            raise DataError(f"{rows.file(0)}: {missing_column(names[role], rows.columns, role)}")
    read = TextRows()
    for index, row in enumerate(rows):
        text, label = row_text(row, names), row.get(names["label"])
        if label is None or (isinstance(label, str) and not label.strip()):
            read.without.append(text)
            continue
        if not text.strip():
            raise DataError(f"{rows.where(index)}: has a label and no text; write one, or leave the row out")
        read.texts.append(text)
        read.values.append(label)
        read.places.append(rows.where(index))
    return read


def row_text(row: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """The text of a row; of two columns both, on lines of their own."""
    parts = [row.get(names.get(role, role)) for role in ("text", "text_pair")]
    return "\n".join(part for part in parts if isinstance(part, str) and part.strip())


def kind_of_labels(values: Sequence[Any], places: Sequence[str], separator: str | None) -> SingleLabel:
    """Which labels there are, and whether a text has one or several. Raises: DataError: numbers with fractions."""
    rows = InMemoryRows(({"label": x} for x in values), name="labels", places=places)
    kind = labels_of(rows, "label", separator=separator)
    if isinstance(kind, RegressionTarget):
        raise DataError(f"{places[0]}: the labels are numbers with fractions; these methods learn classes")
    return kind
