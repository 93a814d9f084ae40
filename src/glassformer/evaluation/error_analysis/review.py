"""Labels that may be wrong, out to a spreadsheet and back: a model's highest losses are often not the model's fault.

    part ──write_sheet──> sheet.csv ──a person fills in "correction"──> read_sheet ──> Corrections ──applied──> rows

    index,where,row,text,label,said,probability,loss,correction,comment
    17,val.txt: line 18,r1f93…,i feel numb,joy,sadness,0.8123,3.2104,sadness,
    40,val.txt: line 41,r77a0…,(untranslatable),joy,fear,0.6110,2.9001,delete,not English

A line is found again by its index and by a fingerprint of its row, so a sheet can be sorted, shortened and sent around.
Where words are tagged a line is a word. A cell that a spreadsheet would take for a formula has a ' before it.

Source: of the danger, OWASP, "CSV Injection".
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
from glassformer.evaluation.error_analysis.errors import Kind, by_loss, kind_of, loss_of, surely
from glassformer.files import open_regular, reason, shown
from glassformer.pages.tables import html_table
from glassformer.tasks.predictions import Record

WORST = 100
DELETE = "delete"
NONE, BETWEEN = "(none)", "|"
"""How a sheet says that no label holds, and what stands between several."""
LONGEST = 32_000
"""Characters that a cell of a spreadsheet holds."""

_FORMULA = re.compile(r"'*[=+\-@\t\r]")


@dataclass(frozen=True, repr=False)
class Corrections:
    """What a sheet says.

    labels: index of a row → its whole new label · dropped: rows to leave out
    unchanged: lines without a correction, or with the label that was there · pairs: (old, new) → how often
    comments: where, and what was said
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
        """Headings, and a line for each pair of labels."""
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


def write_sheet(path: Path, records: Sequence[Record], worst: int = WORST) -> int:
    """Write the rows with the highest loss to a sheet that is not there yet.

    Returns: how many rows it has. Raises: DataError: it is there, or cannot be written. UnsupportedError: no labels.
    """
    kind = _labelled(records)
    chosen = by_loss(records)[:worst]
    try:
        with path.open(
            "x", encoding="utf-8-sig", newline=""
        ) as file:  # with the mark by which spreadsheets know UTF-8
            table = csv.writer(file, lineterminator="\r\n")
            table.writerow(_columns(kind, records))
            for record in chosen:
                table.writerows(
                    [protected(cell) for cell in line] for line in _lines(kind, record, _roles(records))
                )
    except FileExistsError:
        raise DataError(
            f"{path}: is there already, perhaps with somebody's work in it; name another place"
        ) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {reason(error)}") from error
    return len(chosen)


def _columns(kind: Kind, records: Sequence[Record]) -> list[str]:
    texts = ["word", "text"] if kind == "tags" else _roles(records)
    return ["index", "where", "row", *texts, "label", "said", "probability", "loss", "correction", "comment"]


def _roles(records: Sequence[Record]) -> list[str]:
    return list(records[0].row)


def _lines(kind: Kind, record: Record, roles: Sequence[str]) -> Iterator[list[str]]:
    """The lines of a row: one, or one a word."""
    start = [str(record.index), record.where, fingerprint(record)]
    if kind != "tags":
        texts = [str(record.row.get(role) or "")[:LONGEST] for role in roles]
        said, loss = cell_of(record.said), _number(loss_of(record))
        yield [*start, *texts, cell_of(record.label), said, _number(surely(record)), loss, "", ""]
        return
    losses = record.details.get("losses") or [None] * len(record.row["tokens"])
    for number, (word, tag, loss) in enumerate(
        zip(record.row["tokens"], record.label, losses, strict=True), start=1
    ):
        said = record.said[number - 1] if number <= len(record.said) and loss is not None else ""
        sure = math.exp(-loss) if loss is not None and said == tag else None  # of another tag no record tells
        yield [
            *start,
            str(number),
            str(word)[:LONGEST],
            str(tag),
            str(said or ""),
            _number(sure),
            _number(loss),
            "",
            "",
        ]


def fingerprint(record: Record) -> str:
    """What tells a row from all others: of what was read and how it is labelled. It begins with a letter, lest a
    spreadsheet take it for a number."""
    text = json.dumps([record.row, record.label], sort_keys=True, ensure_ascii=False)
    return "r" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def protected(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula; `unprotected` gives it back."""
    return f"'{cell}" if _FORMULA.match(cell) else cell


def unprotected(cell: str) -> str:
    """The cell as it was before `protected`."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def cell_of(label: Any) -> str:
    """A label as a sheet has it."""
    if isinstance(label, list):
        return BETWEEN.join(map(str, label)) or NONE
    return "" if label is None else str(label)


def _number(x: float | None) -> str:
    return "" if x is None else f"{x:.4f}"


# ------------------------------------------------------------------------------------------------------- in


def read_sheet(
    path: Path, records: Sequence[Record], names: Sequence[str], *, new_labels: bool = False
) -> Corrections:
    """What a person made of a sheet, every line of it checked.

    Args:
        records: that the sheet was made of · names: of the labels there are · new_labels: others are meant too
    Raises: DataError: no sheet of these rows, or a line that is not clear, with its number.
    """
    return _Sheet(path, records, names, new_labels).corrections()


class _Sheet:
    """A sheet that is being read."""

    def __init__(self, path: Path, records: Sequence[Record], names: Sequence[str], new_labels: bool) -> None:
        self.path, self.names, self.new_labels = path, list(names), new_labels
        self.kind = _labelled(records)
        self.records = {record.index: record for record in records}
        self.roles = ["text"] if self.kind == "tags" else _roles(records)
        # where a label is called so, a row is dropped by other words
        self.delete = f"{DELETE} row" if DELETE in names else DELETE
        self.line = 1

    def corrections(self) -> Corrections:
        seen: dict[tuple[int, int], int] = {}
        changes: list[tuple[Record, int, Any]] = []
        dropped: set[int] = set()
        comments: list[tuple[str, str]] = []
        unchanged = 0
        for cells in self._read():
            record, word = self._record(cells)
            if (record.index, word) in seen:
                self._refuse(
                    f"is about what line {seen[record.index, word]} is about; each stands there once"
                )
            seen[record.index, word] = self.line
            if comment := cells.get("comment", "").strip():
                comments.append((record.where + (f", word {word}" if word else ""), comment))
            said = cells["correction"].strip()
            if said == self.delete:
                dropped.add(record.index)
            elif not said or (new := self._label(said)) == _label_at(record, word):
                unchanged += 1
            else:
                changes.append((record, word, new))
        labels: dict[int, Any] = {}
        pairs: Counter[tuple[str, str]] = Counter()
        for record, word, new in changes:
            if record.index not in dropped:
                pairs[cell_of(_label_at(record, word)), cell_of(new)] += 1
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
                    f"{self.path}: lacks the column {missing[0]!r}; a review sheet of this part has "
                    f"{', '.join(needed)}, and this file has {', '.join(map(repr, head[:12])) or 'nothing'}"
                )
            if twice := [name for name in needed if head.count(name) > 1]:
                raise DataError(f"{self.path}: has the column {twice[0]!r} twice")
            behind = reader.line_num
            for cells in reader:
                self.line, behind = behind + 1, reader.line_num
                if any(cell.strip() for cell in cells):
                    if any(cell.strip() for cell in cells[len(head) :]):
                        self._refuse(f"has {len(cells)} cells, and the first line {len(head)}")
                    padded = [*cells, *[""] * (len(head) - len(cells))]
                    yield {name: unprotected(cell) for name, cell in zip(head, padded, strict=False)}
        except csv.Error as error:
            self.line = reader.line_num
            self._refuse(f"cannot be read as a row: {error}")

    def _text(self) -> str:
        stream, _ = open_regular(self.path, DataError)
        with stream:
            content = stream.read()
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            what = "a spreadsheet's own file" if content.startswith(b"PK") else "no UTF-8 text"
            raise DataError(
                f"{self.path}: is {what}; save it as CSV, with the character set UTF-8"
            ) from error

    def _record(self, cells: Mapping[str, str]) -> tuple[Record, int]:
        """The row that a line is about, and which of its words; 0 for the row itself."""
        index = cells["index"].strip()
        if not index.isascii() or not index.isdigit() or int(index) not in self.records:
            self._refuse(f"has {shown(index)} as index; no such row was judged")
        record = self.records[int(index)]
        if cells["row"].strip() != fingerprint(record):
            self._refuse(
                f"is about another row than {record.where}, or its data were changed since: the fingerprint is "
                f"{shown(cells['row'].strip())} and should be {fingerprint(record)}; make a new sheet"
            )
        word = 0
        if self.kind == "tags":
            number = cells["word"].strip()
            if not number.isascii() or not number.isdigit() or not 1 <= int(number) <= len(record.label):
                self._refuse(f"has {shown(number)} as word; the row has words 1 to {len(record.label)}")
            word = int(number)
        for role in self.roles:
            text = str(record.row["tokens"][word - 1] if word else record.row.get(role) or "")[:LONGEST]
            if not _same(text, cells[role]):
                self._refuse(
                    f"has another {role} than the row: {shown(cells[role])} instead of {shown(text)}; texts are not "
                    "corrected here, only labels"
                )
        label = cell_of(_label_at(record, word))
        if not _same(label, cells["label"]):
            self._refuse(
                f"has {shown(cells['label'])} as label, which was {shown(label)}; leave it, and write the right one "
                "into the column 'correction'"
            )
        return record, word

    def _label(self, said: str) -> Any:
        """The label that a correction means."""
        if self.kind == "number":
            try:
                number = float(said.replace(",", "."))
            except ValueError:
                number = math.nan
            if not math.isfinite(number):
                self._refuse(f"has the correction {shown(said)}; it must be a number, or {self.delete!r}")
            return number
        if self.kind == "labels":
            parts = [part.strip() for part in said.split(BETWEEN)]
            return [] if said == NONE else [self._name(part) for part in parts if part]
        return self._name(said)

    def _name(self, name: str) -> str:
        if name not in self.names and not self.new_labels:
            self._refuse(
                f"has the correction {shown(name)}, which is no label{nearest(name, self.names)}; there are "
                f"{', '.join(self.names[:20])}; {self.delete!r} drops the row, and --new-labels allows others"
            )
        return name

    def _refuse(self, what: str) -> NoReturn:
        """Raises: DataError: what is wrong with the line under way."""
        raise DataError(f"{self.path}: line {self.line} {what}")


def _label_at(record: Record, word: int) -> Any:
    """The label of a row, or of one of its words, counted from 1."""
    return record.label[word - 1] if word else record.label


def _same(was: str, cell: str) -> bool:
    """Is a cell as it was? But for white space, and for numbers and dates, which spreadsheets rewrite."""
    one, other = (" ".join(text.split()) for text in (was, cell))
    return one == other or not any(map(str.isalpha, one))


def _labelled(records: Sequence[Record]) -> Kind:
    """The kind of labels. Raises: UnsupportedError: what is true is a text."""
    kind = kind_of(records)
    if kind == "texts":
        raise UnsupportedError("a review sheet is about labels: of texts (classify) or of words (tag)")
    return kind


# --------------------------------------------------------------------------------------------------- applied


def applied(
    rows: Sequence[Mapping[str, Any]],
    records: Sequence[Record],
    found: Corrections,
    column: str,
    separator: str | None = None,
) -> Iterator[dict[str, Any]]:
    """The rows with their labels corrected, without those that are dropped; all else stays as it is.

    Labels are written as the rows write them, such as by number.

    Args:
        records: of these rows, one each · column: of the labels · separator: of several in a text
    """
    spelt: dict[str, Any] = {}
    for record in records if found.labels else ():
        spelt.update(_spelling(record, rows[record.index][column]))
    for index, row in enumerate(rows):
        if index in found.dropped:
            continue
        if index not in found.labels:
            yield dict(row)
        else:
            yield {**row, column: _as(row[column], found.labels[index], spelt, separator)}


def _spelling(record: Record, value: Any) -> Iterator[tuple[str, Any]]:
    """How a row writes the labels it has, where it is plain which is which."""
    label = record.label
    if isinstance(label, str):
        yield label, value
    elif isinstance(value, list | tuple) and ("tokens" in record.row or len(label) == len(value) == 1):
        yield from zip(label, value, strict=True)  # several labels of a text may stand in any order


def _as(old: Any, new: Any, spelt: Mapping[str, Any], separator: str | None) -> Any:
    """A label in the form of the one that it replaces: a list, texts with a sign between, a text, a number."""
    if isinstance(new, list):
        joined = isinstance(old, str)
        return (separator or BETWEEN).join(new) if joined else [spelt.get(name, name) for name in new]
    if isinstance(new, str):
        return spelt.get(new, new)
    return f"{new:g}" if isinstance(old, str) else new
