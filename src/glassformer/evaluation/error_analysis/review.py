"""Label review: suspicious labels, those with the highest loss, to a spreadsheet (CSV) and back.

    split ─ write_sheet ─ sheet.csv ─ a person fills in "correction" ─ read_sheet ─ Corrections ─ corrected.py

    index,where,row,text,label,predicted,probability,loss,correction,comment
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
from pathlib import Path
from typing import Any, NoReturn

from glassformer.errors import DataError, UnsupportedError, nearest
from glassformer.evaluation.error_analysis.corrected import LABEL_SEPARATOR, Corrections, RowComment
from glassformer.evaluation.error_analysis.errors import confidence, label_kind
from glassformer.files import error_reason, open_regular_file, safe_repr
from glassformer.files.atomic import new_file
from glassformer.reports.charts import RowKind
from glassformer.tasks.predictions import sort_by_loss, total_loss
from glassformer.tasks.types import Prediction

DEFAULT_ROWS = 100
"""What a person reviews in about an hour."""
DELETE = "delete"
NO_LABEL = "(none)"
MAX_CELL_CHARACTERS = 32_000
"""Maximum characters in a cell of a spreadsheet."""

_CELL_START = r"(?:^|(?<=[;\t\r\n]))"
_FORMULA = r"""(?=['" ]*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])"""
"""Where a cell begins, also where ; or a tab separates them, and what begins a formula, in full width as well."""


# ------------------------------------------------------------------------------------------------------ out


def write_sheet(path: Path, records: Sequence[Prediction], worst: int = DEFAULT_ROWS) -> int:
    """Write the rows with the highest loss to a new CSV sheet.

    Returns: the number of rows.
    Raises: DataError: the file exists, or cannot be written. UnsupportedError: no labels.
    """
    kind, roles = _require_labels(records), list(records[0].row)
    chosen = sort_by_loss(records)[:worst]
    texts = ["word", "text"] if kind == "tags" else roles
    columns = ["index", "where", "row", *texts, "label", "predicted"]
    columns += ["probability", "loss", "correction", "comment"]
    try:
        # utf-8-sig: with the mark by which spreadsheets know UTF-8
        with new_file(path, "utf-8-sig") as file:
            table = csv.writer(file, lineterminator="\r\n")
            table.writerow(columns)
            for record in chosen:
                words = range(1, len(record.label) + 1) if kind == "tags" else [0]
                row = fingerprint(record)
                lines = ({**_line_cells(record, word, roles), "row": row} for word in words)
                table.writerows([escape_formula(cells.get(name, "")) for name in columns] for cells in lines)
    except FileExistsError:
        raise DataError(f"{path}: exists already and may contain edits; name another file") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error_reason(error)}") from error
    return len(chosen)


def _line_cells(record: Prediction, word: int, roles: Sequence[str]) -> dict[str, str]:
    """The cells of a row (word 0), or of its token, counted from 1; without the fingerprint and what people fill in."""
    label, predicted = record.label, record.predicted
    if word:
        texts = {"word": str(word), "text": str(record.row["tokens"][word - 1])}
        label, loss = label[word - 1], (record.details.get("losses") or [None] * len(label))[word - 1]
        predicted = predicted[word - 1] if loss is not None and word <= len(predicted) else None
        # the probability of another tag is not saved
        sure = math.exp(-loss) if loss is not None and predicted == label else None
    else:
        texts = {role: str(record.row.get(role) or "") for role in roles}
        loss, sure = total_loss(record), confidence(record)
    return {
        "index": str(record.index),
        "where": record.where,
        **{name: text[:MAX_CELL_CHARACTERS] for name, text in texts.items()},
        "label": label_cell(label),
        "predicted": label_cell(predicted),
        "probability": "" if sure is None else f"{sure:.4f}",
        "loss": "" if loss is None else f"{loss:.4f}",
    }


def fingerprint(record: Prediction) -> str:
    """A hash of the input and the label of a row. It begins with a letter, so that it is no number in a spreadsheet."""
    text = json.dumps([record.row, record.label], sort_keys=True, ensure_ascii=False)
    return "r" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def escape_formula(cell: str) -> str:
    """Escape a cell that a spreadsheet would take for a formula, or several cells; `unescape_formula` reverts it."""
    return re.sub(_CELL_START + _FORMULA, "'", cell)


def unescape_formula(cell: str) -> str:
    """Revert `escape_formula`."""
    return re.sub(f"{_CELL_START}'{_FORMULA}", "", cell)


def label_cell(label: Any) -> str:
    """A label as the text of a cell."""
    if isinstance(label, list):
        return LABEL_SEPARATOR.join(map(str, label)) or NO_LABEL
    return "" if label is None else str(label)


# ------------------------------------------------------------------------------------------------------- in


def read_sheet(
    path: Path, records: Sequence[Prediction], names: Sequence[str], *, new_labels: bool = False
) -> Corrections:
    """Read and check a sheet that a person has filled in.

    Args:
        records: that the sheet was written from
        names: of the labels
        new_labels: allow others
    Raises: DataError: no sheet of these rows, or an invalid line, with its number.
    """
    return _SheetReader(path, records, names, new_labels).corrections()


class _SheetReader:
    """Reads a sheet line by line."""

    def __init__(self, path: Path, records: Sequence[Prediction], names: Sequence[str], new_labels: bool) -> None:
        self.path, self.names, self.new_labels = path, list(names), new_labels
        self.kind = _require_labels(records)
        self.records = {record.index: record for record in records}
        self.roles = ["text"] if self.kind == "tags" else list(records[0].row)
        # where a label has this name, another text drops a row
        self.delete = f"{DELETE} row" if DELETE in names else DELETE
        self.line = 1

    def corrections(self) -> Corrections:
        """Read all lines."""
        first_line: dict[tuple[int, int], int] = {}
        changes: list[tuple[Prediction, int, Any]] = []
        dropped: set[int] = set()
        comments: list[RowComment] = []
        unchanged = 0
        for cells in self._read():
            record, word = self._record(cells)
            if (record.index, word) in first_line:
                self._fail(f"repeats line {first_line[record.index, word]}")
            first_line[record.index, word] = self.line
            if comment := cells.get("comment", "").strip():
                comments.append(RowComment(record.where + (f", word {word}" if word else ""), comment))
            correction = cells["correction"].strip()
            if correction == self.delete:
                dropped.add(record.index)
            elif not correction or (new := self._label(correction)) == _label_at(record, word):
                unchanged += 1
            else:
                changes.append((record, word, new))
        labels: dict[int, Any] = {}
        pairs: Counter[tuple[str, str]] = Counter()
        # only now is it known which rows are dropped: a later line of a row may say so
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
        word = ["word"] if self.kind == "tags" else []
        needed = ["index", "row", *word, *self.roles, "label", "correction"]
        # Python's limit of 128 KiB is below what a row may hold
        csv.field_size_limit(max(csv.field_size_limit(), 10_000_000))
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text, needed), strict=True)
        try:
            head = [name.strip() for name in next(reader, [])]
            self._check_columns(head, needed)
            previous = reader.line_num
            for cells in reader:
                # a cell may hold line breaks: the line number is that of the row's first line
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
            raise DataError(f"{self.path}: is {what}; save it as CSV, with the character set UTF-8") from error

    def _check_columns(self, head: Sequence[str], needed: Sequence[str]) -> None:
        if missing := [name for name in needed if name not in head]:
            raise DataError(
                f"{self.path}: lacks the column {missing[0]!r}; a review sheet of this split has "
                f"{', '.join(needed)}, and this file has {', '.join(map(repr, head[:12])) or 'nothing'}"
            )
        if twice := [name for name in needed if head.count(name) > 1]:
            raise DataError(f"{self.path}: has the column {twice[0]!r} twice")

    def _record(self, cells: Mapping[str, str]) -> tuple[Prediction, int]:
        """The row of a line, and the number of its token from 1; 0 = the row itself."""
        index = _whole_number(cells["index"])
        record = None if index is None else self.records.get(index)
        if record is None:
            self._fail(f"has {safe_repr(cells['index'].strip())} as index; there is no such row")
        if (row := cells["row"].strip()) != (expected := fingerprint(record)):
            self._fail(
                f"is about another row than {record.where}, or its data were changed since: the fingerprint is "
                f"{safe_repr(row)} and should be {expected}; make a new sheet"
            )
        word = 0
        if self.kind == "tags":
            word = _whole_number(cells["word"]) or 0
            if not 1 <= word <= len(record.label):
                number = safe_repr(cells["word"].strip())
                self._fail(f"has {number} as word; the row has words 1 to {len(record.label)}")
        written = _line_cells(record, word, self.roles)
        for role in self.roles:
            if not _same_text(written[role], cells[role]):
                self._fail(
                    f"has another {role} than the row: {safe_repr(cells[role])} instead of "
                    f"{safe_repr(written[role])}; texts are not corrected here, only labels"
                )
        if not _same_text(written["label"], cells["label"]):
            self._fail(
                f"has {safe_repr(cells['label'])} as label, which was {safe_repr(written['label'])}; leave it, "
                "and write the right one into the column 'correction'"
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
                self._fail(f"has the correction {safe_repr(correction)}; it must be a number, or {self.delete!r}")
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


def _delimiter(text: str, columns: Sequence[str]) -> str:
    """The delimiter with which the first line names most of these columns; spreadsheets write that of their country."""
    first = text.split("\n", 1)[0]

    def matches(delimiter: str) -> int:
        return len({name.strip() for name in next(csv.reader([first], delimiter=delimiter), [])} & {*columns})

    return max(",;\t", key=matches)


def _whole_number(cell: str) -> int | None:
    text = cell.strip()
    # `isdigit` takes ², too, which `int` does not.
    return int(text) if text.isascii() and text.isdigit() else None


def _label_at(record: Prediction, word: int) -> Any:
    """The label of a row, or of one of its tokens, counted from 1."""
    return record.label[word - 1] if word else record.label


def _same_text(was: str, cell: str) -> bool:
    """Whether a cell is unchanged, except white space, numbers and dates, which spreadsheets rewrite."""
    one, other = (" ".join(text.split()) for text in (was, cell))
    return one == other or not any(map(str.isalpha, one))


def _require_labels(records: Sequence[Prediction]) -> RowKind:
    """The kind of labels. Raises: UnsupportedError: they are texts."""
    kind = label_kind(records)
    if kind == "texts":
        raise UnsupportedError("a review sheet is about labels: of texts (classify) or of words (tag)")
    return kind
