"""Label review: suspicious labels, those with the highest loss, to a spreadsheet (CSV) and back.

    split ─ write_sheet ─ sheet.csv ─ a person fills in "correction" ─ read_sheet ─ Corrections ─ apply_corrections

    index,where,row,text,label,said,probability,loss,correction,comment
    17,val.txt: line 18,r1f93…,i feel numb,joy,sadness,0.8123,3.2104,sadness,
    40,val.txt: line 41,r77a0…,(untranslatable),joy,fear,0.6110,2.9001,delete,not English

A line is identified by its index and a fingerprint of its row, so a sheet can be sorted, shortened and sent around.
Where tokens are tagged a line is a token. A cell that a spreadsheet would take for a formula has a ' before it.

Source: OWASP, "CSV Injection".
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from glassformer.errors import DataError, UnsupportedError, nearest
from glassformer.evaluation.error_analysis.errors import (
    Kind,
    confidence,
    label_kind,
    sort_by_loss,
    total_loss,
)
from glassformer.files import error_reason, open_regular_file, safe_repr
from glassformer.pages.tables import html_table
from glassformer.tasks.predictions import Prediction

DEFAULT_ROWS = 100
DELETE = "delete"
NO_LABEL, LABEL_SEPARATOR = "(none)", "|"
"""How a sheet writes no label, and the separator of several."""
MAX_CELL_CHARACTERS = 32_000
"""Maximum characters in a cell of a spreadsheet."""

_FORMULA = re.compile(r"'*[=+\-@\t\r]")


@dataclass(frozen=True, repr=False)
class Corrections:
    """The corrections of a sheet.

    labels: index of a row → its new label · dropped: rows to leave out
    unchanged: lines without a correction, or with the same label · pairs: (old, new) → count
    comments: position, and comment
    """

    labels: dict[int, Any] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)
    unchanged: int = 0
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    comments: list[tuple[str, str]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Names and values for JSON."""
        return {
            "corrected": self.pairs.total(),
            "rows": len(self.labels),
            "dropped": len(self.dropped),
            "unchanged": self.unchanged,
            "pairs": [{"from": old, "to": new, "count": n} for (old, new), n in self.pairs.most_common()],
            "comments": [{"where": where, "comment": comment} for where, comment in self.comments],
        }

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Headings and rows: a row for each pair of labels."""
        return ["from", "to", "count"], [[old, new, f"{n:,}"] for (old, new), n in self.pairs.most_common()]

    def __str__(self) -> str:
        lines = [
            f"{self.pairs.total():,} labels corrected in {len(self.labels):,} rows, {len(self.dropped):,} rows "
            f"dropped, {self.unchanged:,} lines unchanged, {len(self.comments):,} commented"
        ]
        lines += [f"  {n:5,}  {old} → {new}" for (old, new), n in self.pairs.most_common()]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(*self.table(), str(self).splitlines()[0])


# ------------------------------------------------------------------------------------------------------ out


def write_sheet(path: Path, records: Sequence[Prediction], worst: int = DEFAULT_ROWS) -> int:
    """Write the rows with the highest loss to a new CSV sheet.

    Returns: the number of rows. Raises: DataError: the file exists, or cannot be written. UnsupportedError: no labels.
    """
    kind = _require_labels(records)
    chosen = sort_by_loss(records)[:worst]
    try:
        with path.open(
            "x", encoding="utf-8-sig", newline=""
        ) as file:  # with the mark by which spreadsheets know UTF-8
            table = csv.writer(file, lineterminator="\r\n")
            table.writerow(_sheet_columns(kind, records))
            for record in chosen:
                table.writerows(
                    [escape_formula(cell) for cell in line]
                    for line in _sheet_lines(kind, record, _text_roles(records))
                )
    except FileExistsError:
        raise DataError(
            f"{path}: is there already, perhaps with somebody's work in it; name another place"
        ) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error_reason(error)}") from error
    return len(chosen)


def _sheet_columns(kind: Kind, records: Sequence[Prediction]) -> list[str]:
    texts = ["word", "text"] if kind == "tags" else _text_roles(records)
    return ["index", "where", "row", *texts, "label", "said", "probability", "loss", "correction", "comment"]


def _text_roles(records: Sequence[Prediction]) -> list[str]:
    return list(records[0].row)


def _sheet_lines(kind: Kind, record: Prediction, roles: Sequence[str]) -> Iterator[list[str]]:
    """The lines of a row: one, or one a token."""
    start = [str(record.index), record.where, fingerprint(record)]
    if kind != "tags":
        texts = [str(record.row.get(role) or "")[:MAX_CELL_CHARACTERS] for role in roles]
        predicted, loss = label_cell(record.predicted), _number_cell(total_loss(record))
        yield [
            *start,
            *texts,
            label_cell(record.label),
            predicted,
            _number_cell(confidence(record)),
            loss,
            "",
            "",
        ]
        return
    losses = record.details.get("losses") or [None] * len(record.row["tokens"])
    for number, (word, tag, loss) in enumerate(
        zip(record.row["tokens"], record.label, losses, strict=True), start=1
    ):
        predicted = (
            record.predicted[number - 1] if number <= len(record.predicted) and loss is not None else ""
        )
        sure = (
            math.exp(-loss) if loss is not None and predicted == tag else None
        )  # the probability of another tag is not saved
        yield [
            *start,
            str(number),
            str(word)[:MAX_CELL_CHARACTERS],
            str(tag),
            str(predicted or ""),
            _number_cell(sure),
            _number_cell(loss),
            "",
            "",
        ]


def fingerprint(record: Prediction) -> str:
    """A hash of the input and the label of a row. It begins with a letter, lest a spreadsheet take it for a number."""
    text = json.dumps([record.row, record.label], sort_keys=True, ensure_ascii=False)
    return "r" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def escape_formula(cell: str) -> str:
    """Escape a cell that a spreadsheet would take for a formula; `unescape_formula` reverts it."""
    return f"'{cell}" if _FORMULA.match(cell) else cell


def unescape_formula(cell: str) -> str:
    """Revert `escape_formula`."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def label_cell(label: Any) -> str:
    """A label as the text of a cell."""
    if isinstance(label, list):
        return LABEL_SEPARATOR.join(map(str, label)) or NO_LABEL
    return "" if label is None else str(label)


def _number_cell(x: float | None) -> str:
    return "" if x is None else f"{x:.4f}"


# ------------------------------------------------------------------------------------------------------- in


def read_sheet(
    path: Path, records: Sequence[Prediction], names: Sequence[str], *, new_labels: bool = False
) -> Corrections:
    """Read and check a sheet that a person has filled in.

    Args:
        records: that the sheet was written from · names: of the labels · new_labels: allow others
    Raises: DataError: no sheet of these rows, or an invalid line, with its number.
    """
    return _SheetReader(path, records, names, new_labels).corrections()


class _SheetReader:
    """Reads a sheet line by line."""

    def __init__(
        self, path: Path, records: Sequence[Prediction], names: Sequence[str], new_labels: bool
    ) -> None:
        self.path, self.names, self.new_labels = path, list(names), new_labels
        self.kind = _require_labels(records)
        self.records = {record.index: record for record in records}
        self.roles = ["text"] if self.kind == "tags" else _text_roles(records)
        # where a label has this name, another text drops a row
        self.delete = f"{DELETE} row" if DELETE in names else DELETE
        self.line = 1

    def corrections(self) -> Corrections:
        """Read all lines."""
        first_line: dict[tuple[int, int], int] = {}
        changes: list[tuple[Prediction, int, Any]] = []
        dropped: set[int] = set()
        comments: list[tuple[str, str]] = []
        unchanged = 0
        for cells in self._read():
            record, word = self._record(cells)
            if (record.index, word) in first_line:
                self._fail(f"repeats line {first_line[record.index, word]}")
            first_line[record.index, word] = self.line
            if comment := cells.get("comment", "").strip():
                comments.append((record.where + (f", word {word}" if word else ""), comment))
            correction = cells["correction"].strip()
            if correction == self.delete:
                dropped.add(record.index)
            elif not correction or (new := self._label(correction)) == _label_at(record, word):
                unchanged += 1
            else:
                changes.append((record, word, new))
        labels: dict[int, Any] = {}
        pairs: Counter[tuple[str, str]] = Counter()
        for record, word, new in changes:
            if record.index not in dropped:
                pairs[label_cell(_label_at(record, word)), label_cell(new)] += 1
                if word:
                    labels.setdefault(record.index, list(record.label))[word - 1] = new
                else:
                    labels[record.index] = new
        return Corrections(labels, dropped, unchanged, pairs, comments)

    def _read(self) -> Iterator[dict[str, str]]:
        """The cells of each line by column."""
        text = self._text()
        first = text.split("\n", 1)[0]
        needed = [
            "index",
            "row",
            *(["word"] if self.kind == "tags" else []),
            *self.roles,
            "label",
            "correction",
        ]
        delimiter = max(
            ",;\t",
            key=lambda sign: len(
                {x.strip() for x in next(csv.reader([first], delimiter=sign), [])} & {*needed}
            ),
        )
        csv.field_size_limit(max(csv.field_size_limit(), 10_000_000))
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        try:
            head = [name.strip() for name in next(reader, [])]
            if missing := [name for name in needed if name not in head]:
                raise DataError(
                    f"{self.path}: lacks the column {missing[0]!r}; a review sheet of this split has "
                    f"{', '.join(needed)}, and this file has {', '.join(map(repr, head[:12])) or 'nothing'}"
                )
            if twice := [name for name in needed if head.count(name) > 1]:
                raise DataError(f"{self.path}: has the column {twice[0]!r} twice")
            previous = reader.line_num
            for cells in reader:
                self.line, previous = previous + 1, reader.line_num
                if any(cell.strip() for cell in cells):
                    if any(cell.strip() for cell in cells[len(head) :]):
                        self._fail(f"has {len(cells)} cells, and the first line {len(head)}")
                    padded = [*cells, *[""] * (len(head) - len(cells))]
                    yield {name: unescape_formula(cell) for name, cell in zip(head, padded, strict=False)}
        except csv.Error as error:
            self.line = reader.line_num
            self._fail(f"cannot be read as a row: {error}")

    def _text(self) -> str:
        stream, _ = open_regular_file(self.path, DataError)
        with stream:
            content = stream.read()
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            what = "a spreadsheet file" if content.startswith(b"PK") else "no UTF-8 text"
            raise DataError(
                f"{self.path}: is {what}; save it as CSV, with the character set UTF-8"
            ) from error

    def _record(self, cells: Mapping[str, str]) -> tuple[Prediction, int]:
        """The row of a line, and the number of its token from 1; 0 = the row itself."""
        index = cells["index"].strip()
        if not index.isascii() or not index.isdigit() or int(index) not in self.records:
            self._fail(f"has {safe_repr(index)} as index; there is no such row")
        record = self.records[int(index)]
        if cells["row"].strip() != fingerprint(record):
            self._fail(
                f"is about another row than {record.where}, or its data were changed since: the fingerprint is "
                f"{safe_repr(cells['row'].strip())} and should be {fingerprint(record)}; make a new sheet"
            )
        word = 0
        if self.kind == "tags":
            number = cells["word"].strip()
            if not number.isascii() or not number.isdigit() or not 1 <= int(number) <= len(record.label):
                self._fail(f"has {safe_repr(number)} as word; the row has words 1 to {len(record.label)}")
            word = int(number)
        for role in self.roles:
            text = str(record.row["tokens"][word - 1] if word else record.row.get(role) or "")[
                :MAX_CELL_CHARACTERS
            ]
            if not _same_text(text, cells[role]):
                self._fail(
                    f"has another {role} than the row: {safe_repr(cells[role])} instead of "
                    f"{safe_repr(text)}; texts are not "
                    "corrected here, only labels"
                )
        label = label_cell(_label_at(record, word))
        if not _same_text(label, cells["label"]):
            self._fail(
                f"has {safe_repr(cells['label'])} as label, which was {safe_repr(label)}; leave it, "
                "and write the right one "
                "into the column 'correction'"
            )
        return record, word

    def _label(self, correction: str) -> Any:
        """The label of a correction."""
        if self.kind == "number":
            try:
                number = float(correction.replace(",", "."))
            except ValueError:
                number = math.nan
            if not math.isfinite(number):
                self._fail(
                    f"has the correction {safe_repr(correction)}; it must be a number, or {self.delete!r}"
                )
            return number
        if self.kind == "labels":
            parts = [part.strip() for part in correction.split(LABEL_SEPARATOR)]
            return [] if correction == NO_LABEL else [self._name(part) for part in parts if part]
        return self._name(correction)

    def _name(self, name: str) -> str:
        if name not in self.names and not self.new_labels:
            self._fail(
                f"has the correction {safe_repr(name)}, which is no label{nearest(name, self.names)}; there are "
                f"{', '.join(self.names[:20])}; {self.delete!r} drops the row, and --new-labels allows others"
            )
        return name

    def _fail(self, what: str) -> NoReturn:
        """Raises: DataError: naming the current line."""
        raise DataError(f"{self.path}: line {self.line} {what}")


def _label_at(record: Prediction, word: int) -> Any:
    """The label of a row, or of one of its tokens, counted from 1."""
    return record.label[word - 1] if word else record.label


def _same_text(was: str, cell: str) -> bool:
    """Whether a cell is unchanged, except white space, numbers and dates, which spreadsheets rewrite."""
    one, other = (" ".join(text.split()) for text in (was, cell))
    return one == other or not any(map(str.isalpha, one))


def _require_labels(records: Sequence[Prediction]) -> Kind:
    """The kind of labels. Raises: UnsupportedError: they are texts."""
    kind = label_kind(records)
    if kind == "texts":
        raise UnsupportedError("a review sheet is about labels: of texts (classify) or of words (tag)")
    return kind


# --------------------------------------------------------------------------------------------------- applied


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
        records: of these rows · column: of the labels · separator: of several in a text
    """
    spellings: dict[str, Any] = {}
    for record in records if corrections.labels else ():
        spellings.update(_label_spellings(record, rows[record.index][column]))
    for index, row in enumerate(rows):
        if index in corrections.dropped:
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
        return (
            (separator or LABEL_SEPARATOR).join(new)
            if joined
            else [spellings.get(name, name) for name in new]
        )
    if isinstance(new, str):
        return spellings.get(new, new)
    return f"{new:g}" if isinstance(old, str) else new
