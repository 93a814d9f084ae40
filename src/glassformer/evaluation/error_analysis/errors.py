"""Where a model goes wrong: the rows with the highest and the lowest loss, and which classes, labels and words have it.

records ──> worst, best        rows by loss, both ways
        ──> confident          rows it got wrong, the surest first
        ──> labels             loss of each class, or of each tag of a word
        ──> words              where words are tagged: which of them cost most, wherever they stand

High losses have two causes: what the model has not learnt, and labels that are wrong (review.py mends those).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from glassformer.pages.tables import html_table
from glassformer.tasks.predictions import Record

Kind = Literal["classes", "labels", "number", "tags", "texts"]

TOP = 10
LABELS = 20
"""So many labels are told, those with the highest loss first; some tasks have hundreds."""
WIDTH = 72
"""Characters of a text in a line of a table."""


@dataclass(frozen=True)
class Group:
    """The loss of all rows or words that have something in common: a class, a tag, a word.

    total: the sum of their losses, in nats · wrong: of how many something else was said
    """

    name: str
    count: int
    total: float
    wrong: int

    @property
    def mean(self) -> float:
        return self.total / self.count


@dataclass(frozen=True, repr=False)
class Errors:
    """What is wrong, looked at from all sides.

    kind: of the labels · count, wrong: rows judged, and rows of which something else was said
    worst, best: highest and lowest loss first · confident: wrong, what was said of them held for likeliest first
    labels, words: see `Group`, the highest mean loss first, of words the highest sum
    """

    kind: Kind
    count: int
    wrong: int
    worst: list[Record]
    best: list[Record]
    confident: list[Record]
    labels: list[Group]
    words: list[Group]

    def to_dict(self) -> dict[str, Any]:
        """Names and values for JSON."""
        found = asdict(self)
        for name in ("labels", "words"):
            found[name] = [{**asdict(group), "mean": group.mean} for group in getattr(self, name)]
        return found

    def table(self, records: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
        """Headings, and a line a record."""
        rows = [
            [
                _number(loss_of(x)),
                _line(said(x.label), 24),
                _said_surely(x),
                x.where,
                _line(text_of(x), WIDTH),
            ]
            for x in records
        ]
        return ["loss", "true", "said", "where", "text"], rows

    def groups(self, groups: Sequence[Group], called: str) -> tuple[list[str], list[list[str]]]:
        """Headings, and a line a group."""
        rows = [
            [_line(x.name, 24), f"{x.mean:.3f}", f"{x.total:.1f}", f"{x.count:,}", f"{x.wrong:,}"]
            for x in groups
        ]
        return [called, "mean loss", "sum", "count", "wrong"], rows

    def tables(self) -> list[tuple[str, list[str], list[list[str]]]]:
        """All that is told, as tables: a title, headings, rows."""
        found = [("Highest loss", *self.table(self.worst)), ("Lowest loss", *self.table(self.best))]
        if self.confident:
            found.insert(1, ("Wrong, and sure of it", *self.table(self.confident)))
        if self.labels:
            called = "tag" if self.kind == "tags" else "label"
            title = (
                f"By {called}"
                if len(self.labels) <= LABELS
                else f"By {called}, {LABELS} of {len(self.labels)}"
            )
            found.append((title, *self.groups(self.labels[:LABELS], called)))
        if self.words:
            found.append(("Words that cost most", *self.groups(self.words[:TOP], "word")))
        return found

    def __str__(self) -> str:
        said = [f"{self.count:,} rows, {self.wrong:,} of them wrong"]
        for title, headings, rows in self.tables():
            said += ["", title, *_lines(headings, rows)]
        return "\n".join(said)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return "".join(html_table(headings, rows, title) for title, headings, rows in self.tables())


def errors_of(records: Sequence[Record], top: int = TOP) -> Errors:
    """Look at what was said.

    Args: top: how many rows of each kind
    """
    ranked = by_loss(records)
    sure = [x for x in ranked if x.right is False and surely(x) is not None]
    return Errors(
        kind=kind_of(records),
        count=len(records),
        wrong=sum(x.right is False for x in records),
        worst=ranked[:top],
        best=ranked[::-1][:top],
        confident=sorted(sure, key=lambda x: -(surely(x) or 0.0))[:top],
        labels=sorted(_grouped(_by_label(records)), key=lambda group: -group.mean),
        words=sorted(_grouped(_by_word(records)), key=lambda group: -group.total),
    )


# ------------------------------------------------------------------------------------------ what a record says


def kind_of(records: Sequence[Record]) -> Kind:
    """What kind of labels the records have."""
    first = records[0]
    if "tokens" in first.row:
        return "tags"
    if isinstance(first.label, list) and isinstance(first.said, list):
        return "labels"
    if isinstance(first.label, int | float):
        return "number"
    return "classes" if isinstance(first.label, str) and "source" not in first.row else "texts"


def loss_of(record: Record) -> float | None:
    """The loss of a row; where words are tagged, the sum of theirs."""
    losses = record.details.get("losses")
    return record.loss if losses is None else sum(x for x in losses if x is not None)


def by_loss(records: Iterable[Record]) -> list[Record]:
    """The rows that have a loss, the highest first; of texts without one, those with the lowest figure first."""
    held = list(records)
    found = [x for x in held if loss_of(x) is not None]
    if not found:
        found = [x for x in held if x.details.get("figures")]
        return sorted(found, key=lambda x: next(iter(x.details["figures"].values())))
    return sorted(found, key=lambda x: -(loss_of(x) or 0.0))


def surely(record: Record) -> float | None:
    """How likely the model held what it said, where one class was said."""
    scores = record.details.get("scores")
    return scores.get(record.said) if scores and isinstance(record.said, str) else None


def text_of(record: Record) -> str:
    """What was read, as one text."""
    return " ".join(" ".join(map(str, x)) if isinstance(x, list) else str(x) for x in record.row.values())


def said(value: Any) -> str:
    """A label as people read it."""
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "(none)"
    return f"{value:.4g}" if isinstance(value, float) else "(nothing)" if value is None else str(value)


def judged_words(record: Record) -> Iterable[tuple[str, str, str, float]]:
    """Of a row whose words are tagged: each word that was judged, its tag, what was said, its loss."""
    losses = record.details.get("losses") or []
    for word, tag, answer, loss in zip(record.row["tokens"], record.label, record.said, losses, strict=False):
        if loss is not None and answer is not None:
            yield word, tag, answer, loss


# ------------------------------------------------------------------------------------------------- groups

Counted = Iterable[tuple[str, float, bool]]


def _by_label(records: Sequence[Record]) -> Counted:
    """A label, a loss and whether it was missed, for each row or word that has the label."""
    kind = kind_of(records)
    if kind == "tags":
        for record in records:
            for _, tag, answer, loss in judged_words(record):
                yield tag, loss, tag != answer
    elif kind in ("classes", "labels"):
        for record in records:
            answers = record.said if kind == "labels" else [record.said]
            for label in record.label if kind == "labels" else [record.label]:
                yield label, loss_of(record) or 0.0, label not in answers


def _by_word(records: Sequence[Record]) -> Counted:
    if kind_of(records) == "tags":
        for record in records:
            for word, tag, answer, loss in judged_words(record):
                yield word, loss, tag != answer


def _grouped(counted: Counted) -> list[Group]:
    kept: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0])
    for name, loss, wrong in counted:
        group = kept[name]
        group[0], group[1], group[2] = group[0] + 1, group[1] + loss, group[2] + wrong
    return [Group(name, int(count), total, int(wrong)) for name, (count, total, wrong) in kept.items()]


# ------------------------------------------------------------------------------------------------- as lines


def _said_surely(record: Record) -> str:
    sure = surely(record)
    return _line(said(record.said), 24) + ("" if sure is None else f" {sure:.0%}")


def _number(loss: float | None) -> str:
    return "" if loss is None else f"{loss:.2f}"


def _line(text: str, width: int) -> str:
    """A text in one line that cannot steer a terminal."""
    flat = "".join(c if c.isprintable() else "·" for c in " ".join(text.split()))
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def _lines(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in [headings, *rows]) for i in range(len(headings))]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in [headings, *rows]]
