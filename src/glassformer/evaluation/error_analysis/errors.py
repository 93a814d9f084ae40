"""Error analysis: examples by loss, and the loss by class, label, tag and token.

records ──> worst, best        rows by loss, both ways
        ──> confident          wrong rows of which it was sure
        ──> labels             loss by class, label or tag
        ──> words              where tokens are tagged: loss by token

High losses have two causes: what the model has not learnt, and wrong labels (review.py corrects those).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from glassformer.reports.charts import RowKind
from glassformer.reports.report import Record, Report
from glassformer.reports.table import Table, percent
from glassformer.tasks.predictions import sort_by_loss, total_loss
from glassformer.tasks.types import Prediction

TOP = 10
"""Rows of each list on the terminal, so that all of them fit on two screens; the page has every row."""
MAX_LABELS = 20
"""Maximum labels in a table, those with the highest loss; some tasks have hundreds."""
TEXT_WIDTH, NAME_WIDTH = 72, 24
"""Characters of a text and of a name in a table."""
GROUP_COLUMNS = ("mean loss", "total loss", "count", "wrong")


@dataclass(frozen=True)
class ErrorGroup(Record, keys=("name", "count", "total", "mean", "wrong")):
    """The loss of all rows or tokens of one class, label, tag or token.

    total: the sum of their losses, in nats
    wrong: number of wrong predictions
    """

    name: str
    count: int
    total: float
    wrong: int

    @property
    def mean(self) -> float:
        return self.total / self.count

    def cells(self) -> list[str]:
        """Its row of a table, without its name."""
        return [f"{self.mean:.3f}", f"{self.total:,.1f}", f"{self.count:,}", f"{self.wrong:,}"]


@dataclass(frozen=True, repr=False)
class ErrorAnalysis(Report, kind="errors"):
    """The errors of a model.

    label_kind: classes, labels (several a row), number, tags or texts
    count, wrong: number of rows, and of wrong predictions
    worst, best: rows by loss, highest and lowest first
    confident: wrong rows with a confidence of `sure_from` or more, the highest first
    sure_from: half way from chance to certainty, (1 + 1/n) / 2 of n classes: 75% of two, 55% of ten; None = no classes
    labels, words: groups by label and by token, the highest mean loss first, of words the highest sum
    """

    label_kind: RowKind
    count: int
    wrong: int
    worst: list[Prediction]
    best: list[Prediction]
    confident: list[Prediction]
    labels: list[ErrorGroup]
    words: list[ErrorGroup]
    sure_from: float | None = None

    @property
    def caption(self) -> str:
        return f"{self.count:,} rows, {self.wrong:,} of them wrong"

    def tables(self) -> list[Table]:
        """Rows by loss, and groups of labels and of tokens."""
        tables = [_record_table("Highest loss", self.worst)]
        if self.confident:
            tables.append(_record_table(f"Wrong and confident: {self.sure_from or 0:.0%} or more", self.confident))
        tables.append(_record_table("Lowest loss", self.best))
        if self.labels:
            tables.append(self.group_table("tag" if self.label_kind == "tags" else "label", MAX_LABELS))
        if self.words:
            tables.append(replace(self.group_table("word", TOP), caption="Tokens with the highest loss"))
        return tables

    def group_table(self, called: str, most: int) -> Table:
        """The loss by label, by tag or by word, the highest first.

        Args:
            most: rows
        """
        groups = self.words if called == "word" else self.labels
        part = f", {most} of {len(groups):,}" if len(groups) > most else ""
        rows = [[group.name, *group.cells()] for group in groups[:most]]
        return Table([called, *GROUP_COLUMNS], rows, f"By {called}{part}", longest=NAME_WIDTH)


def analyse_errors(records: Sequence[Prediction], top: int = TOP) -> ErrorAnalysis:
    """Analyse the errors of predictions.

    Args:
        top: number of rows in each list
    """
    ranked = sort_by_loss(records)
    threshold = _sure_from(records)
    sure = [x for x in ranked if x.correct is False and (confidence(x) or 0.0) >= (threshold or math.inf)]
    return ErrorAnalysis(
        label_kind=label_kind(records),
        count=len(records),
        wrong=sum(x.correct is False for x in records),
        worst=ranked[:top],
        best=ranked[::-1][:top],
        confident=sorted(sure, key=lambda x: -(confidence(x) or 0.0))[:top],
        labels=sorted(_group(_losses_by_label(records)), key=lambda group: -group.mean),
        words=sorted(_group(_losses_by_token(records)), key=lambda group: -group.total),
        sure_from=threshold,
    )


def lost_tables(before: Sequence[Prediction], after: Sequence[Prediction], top: int = TOP) -> list[Table]:
    """What another model loses: rows that the first predicts correctly and the second does not, and their labels.

    Args:
        before, after: of the same rows in the same order
        top: number of rows in each table
    Returns: labels, the most lost first, and rows, those whose loss rises most first; nothing where no row is lost, or
        no prediction is right or wrong.
    """
    pairs = list(zip(before, after, strict=True))
    lost = [(was, now) for was, now in pairs if was.correct and now.correct is False]
    if not lost:
        return []
    gained = [was for was, now in pairs if was.correct is False and now.correct]
    tables = []
    if label_kind(before) == "classes":
        by_label = Counter(str(was.label) for was, _ in lost)
        back, every = Counter(str(was.label) for was in gained), Counter(str(was.label) for was in before)
        rows = [[one_line(x), str(n), str(back[x]), str(every[x])] for x, n in by_label.most_common(top)]
        caption = f"What is lost, by label: {len(lost):,} of {len(pairs):,} rows; {len(gained):,} others are gained"
        tables.append(Table(["label", "lost", "gained", "rows"], rows, caption))
    lost.sort(key=lambda pair: (total_loss(pair[0]) or 0.0) - (total_loss(pair[1]) or 0.0))
    some = f", {top} of {len(lost):,}" if len(lost) > top else ""
    return [*tables, _record_table(f"Rows that are lost{some}", [now for _, now in lost[:top]])]


# ------------------------------------------------------------------------------------------ what a record says


def label_kind(records: Sequence[Prediction]) -> RowKind:
    """The kind of labels that predictions have."""
    first = records[0]
    if "tokens" in first.row:
        return "tags"
    if isinstance(first.label, list) and isinstance(first.predicted, list):
        return "labels"
    if isinstance(first.label, int | float):
        return "number"
    return "classes" if isinstance(first.label, str) and "source" not in first.row else "texts"


def confidence(record: Prediction) -> float | None:
    """Probability of the predicted class, where one class was predicted."""
    scores = record.details.get("scores")
    return scores.get(record.predicted) if scores and isinstance(record.predicted, str) else None


def _sure_from(records: Sequence[Prediction]) -> float | None:
    """The confidence from which on a prediction is sure: of the classes that occur, which may be fewer than there are.

    An equal share of each is no confidence at all, so a fixed number would be chance for two classes or unreachable for
    a hundred.
    """
    # A row with several right answers, such as an image with captions, has no class.
    scored = [record for record in records if isinstance(record.label, str) and confidence(record) is not None]
    if not scored:
        return None
    classes = {name for record in scored for name in (record.label, *record.details["scores"])}
    return (1 + 1 / max(len(classes), 2)) / 2


def input_text(record: Prediction) -> str:
    """The input as one text."""
    return " ".join(" ".join(map(str, x)) if isinstance(x, list) else str(x) for x in record.row.values())


def label_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "(none)"
    return f"{value:.4g}" if isinstance(value, float) else "(nothing)" if value is None else str(value)


def scored_tokens(record: Prediction) -> Iterable[tuple[str, str, str, float]]:
    """Of a row whose tokens are tagged: each token that has a loss, its true and predicted tag, and the loss."""
    losses = record.details.get("losses") or []
    for word, tag, answer, loss in zip(record.row["tokens"], record.label, record.predicted, losses, strict=False):
        if loss is not None and answer is not None:
            yield word, tag, answer, loss


# ------------------------------------------------------------------------------------------------- groups

Losses = Iterable[tuple[str, float, bool]]
"""Label or token, loss, and whether the prediction is wrong, for each row or token."""


def _losses_by_label(records: Sequence[Prediction]) -> Losses:
    kind = label_kind(records)
    if kind == "tags":
        for record in records:
            for _, tag, answer, loss in scored_tokens(record):
                yield tag, loss, tag != answer
    elif kind in ("classes", "labels"):
        for record in records:
            answers = record.predicted if kind == "labels" else [record.predicted]
            for label in record.label if kind == "labels" else [record.label]:
                yield label, total_loss(record) or 0.0, label not in answers


def _losses_by_token(records: Sequence[Prediction]) -> Losses:
    if label_kind(records) == "tags":
        for record in records:
            for word, tag, answer, loss in scored_tokens(record):
                yield word, loss, tag != answer


def _group(losses: Losses) -> list[ErrorGroup]:
    by_name: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    for name, loss, wrong in losses:
        by_name[name].append((loss, wrong))
    return [
        ErrorGroup(name, len(group), sum(loss for loss, _ in group), sum(wrong for _, wrong in group))
        for name, group in by_name.items()
    ]


# ------------------------------------------------------------------------------------------------- as tables


def _record_table(caption: str, records: Sequence[Prediction]) -> Table:
    """A prediction a row; files of one folder without it."""
    folders = {record.where[: record.where.rfind("/") + 1] for record in records}
    folder = folders.pop() if len(folders) == 1 else ""
    rows = []
    for record in records:
        loss, sure = total_loss(record), confidence(record)
        predicted = one_line(label_text(record.predicted)) + ("" if sure is None else f" {percent(sure)}")
        true, text = one_line(label_text(record.label)), one_line(input_text(record), TEXT_WIDTH)
        rows.append(["" if loss is None else f"{loss:.2f}", true, predicted, record.where.removeprefix(folder), text])
    return Table(["loss", "true", "predicted", "where", "text"], rows, caption, left=5)


def one_line(text: str, width: int = NAME_WIDTH) -> str:
    """A text in one line, cut to a width, without control characters, which would steer a terminal."""
    flat = "".join(c if c.isprintable() else "·" for c in " ".join(text.split()))
    return flat if len(flat) <= width else flat[: width - 1] + "…"
