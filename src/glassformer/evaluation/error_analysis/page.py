"""Error analysis of an evaluation as a report: its metrics, confusion matrix and rows. Its page, or part of another.

metrics     next to baselines, per class and per group
confusion   a cell chooses the rows of its pair of classes     loss by label, by token: a name chooses its rows
rows        by loss, filtered, searched; each with its prediction, and a link to look inside the model
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from glassformer.evaluation.error_analysis.confusion import ConfusionMatrix, confusion_matrix
from glassformer.evaluation.error_analysis.errors import (
    ErrorAnalysis,
    analyse_errors,
    label_kind,
    label_text,
)
from glassformer.evaluation.error_analysis.review import fingerprint
from glassformer.evaluation.evaluate import EvaluationReport, beside_baselines, chance_remark
from glassformer.files import counted
from glassformer.reports.charts import BrowserRow, PairCounts, RowBrowser, RowKind
from glassformer.reports.page import shown_command, shown_path
from glassformer.reports.report import Display
from glassformer.reports.table import Table
from glassformer.tasks.predictions import sort_by_loss, total_loss
from glassformer.tasks.types import Prediction

MAX_ROWS = 100_000
"""A browser filters and sorts this many rows without a delay; of more, the page has the worst and the best."""
MAX_CHARACTERS = 20_000_000
"""Of all texts together; of rows longer than their share of it, the page has the beginning."""
MIN_CHARACTERS = 200
"""Of a row, however many there are: enough to know it by."""
MAX_GROUPS = 200
"""Labels or tokens that a reader can scroll through."""


@dataclass(frozen=True, repr=False)
class EvaluatedRows(Display):
    """The error analysis of an evaluation.

    report, records: of one evaluation
    model: a folder or a run, as shown in commands; "" = rows have no such command
    pages: index of a prediction → its explorer page, relative to the page
    groups: of each record, as the report groups them
    first: how many rows are shown until one asks for all; None = a page of them
    whole: with the metrics; else it is part of a page that has them
    review: the command that reads corrections of labels; "" = labels are not corrected on the page
    explorer: the address of the explorer of the model, where it is served next to the page
    """

    report: EvaluationReport
    records: Sequence[Prediction]
    model: str = "MODEL"
    pages: Mapping[int, str] = field(default_factory=dict)
    groups: Sequence[Sequence[str]] = ()
    first: int | None = None
    whole: bool = True
    review: str = ""
    explorer: str = ""

    @property
    def title(self) -> str:
        return f"Where {self.report.name} goes wrong" if self.whole else "Errors"

    @property
    def caption(self) -> str:
        files = ", ".join(map(shown_path, self.report.data.get("files", ()))) or "rows"
        of, omitted = len(self.records), len(self.records) - len(self._shown)
        left_out = (
            f". The page holds those with the highest and the lowest loss; {omitted:,} between them are left out"
            if omitted
            else ""
        )
        return f"{counted(of, 'row')} of {files} · task {self.report.task}{left_out}"

    @property
    def finding(self) -> str:
        """`7 of 300 rows are wrong (2.3%), most often balance as transfer (2 rows). f1 0.977 […]; better than …`"""
        of, wrong, confused = len(self.records), self.errors.wrong, self.confusion and self.confusion.pairs(1)
        sentences = []
        if any(row.correct is not None for row in self.records):
            most = ""
            if self.confusion is not None and confused:
                true, predicted, count, _ = confused[0]
                most = f", most often {true} as {predicted} ({counted(count, self.confusion.unit[:-1])})"
            sentences.append(f"{wrong:,} of {counted(of, 'row')} are wrong ({wrong / of:.1%}){most}.")
        if self.whole:
            sentences.append(f"{beside_baselines(self.report)}.")
        return " ".join(sentences)

    @cached_property
    def errors(self) -> ErrorAnalysis:
        return analyse_errors(self.records)

    @cached_property
    def confusion(self) -> ConfusionMatrix | None:
        classes = self.report.classes
        names = classes.names if classes is not None and self.kind == "classes" else None
        return confusion_matrix(self.records, names)

    @property
    def kind(self) -> RowKind:
        return label_kind(self.records)

    @cached_property
    def _shown(self) -> list[Prediction]:
        """The rows of the page, the worst first."""
        ranked = sort_by_loss(self.records)
        rows = ranked if len(ranked) == len(self.records) else list(self.records)
        return rows if len(rows) <= MAX_ROWS else rows[: MAX_ROWS // 2] + rows[-MAX_ROWS // 2 :]

    def tables(self) -> list[Table]:
        """Metrics, confusion and rows, as the terminal has them."""
        confusion = [] if self.confusion is None else self.confusion.tables()
        return [*(self.report.tables() if self.whole else ()), *confusion, *self.errors.tables()]

    def charts(self) -> list[PairCounts]:
        """The confusion matrix, where rows have one class each."""
        return [] if self.confusion is None else self.confusion.charts()

    def page_tables(self) -> list[Table]:
        """Metrics, and losses by label and by token, which choose their rows."""
        metrics = self.report.page_tables() if self.whole else ()
        tables = [replace(table, folded=True) if i and not table.chooses else table for i, table in enumerate(metrics)]
        label = "tag" if self.kind == "tags" else "label"
        if self.errors.labels:
            table = self.errors.group_table(label, MAX_GROUPS)
            tables.append(replace(table, note="Highest mean loss first.", chooses="true"))
        if self.errors.words:
            table = self.errors.group_table("word", MAX_GROUPS)
            tables.append(replace(table, note="Highest total loss first.", chooses="find"))
        return tables

    def browser(self) -> RowBrowser:
        """The rows."""
        return self._browser

    @cached_property
    def _browser(self) -> RowBrowser:
        # rows of a book each would make a page that no browser opens
        limit = max(MIN_CHARACTERS, MAX_CHARACTERS // len(self._shown))
        corrects = bool(self.review) and self.kind != "texts"
        groups = dict(zip((record.index for record in self.records), self.groups, strict=False))
        return RowBrowser(
            kind=self.kind,
            names=self._names,
            grouped_by=self.report.groups.column if self.report.groups and self.groups else "",
            command=f"glassformer look {shown_command([self.model])}" if self.model and not self.explorer else "",
            explorer=self.explorer,
            first=self.first,
            review=self.review if corrects else "",
            doubt=chance_remark(self.report),
            rows=[
                replace(
                    browser_row(record, limit, self.pages.get(record.index, ""), groups.get(record.index, ())),
                    fingerprint=fingerprint(record) if corrects else "",
                )
                for record in self._shown
            ],
        )

    @property
    def _names(self) -> list[str]:
        """Of classes, labels or tags."""
        if self.confusion is not None:
            return self.confusion.names
        return sorted({group.name for group in self.errors.labels}) if self.kind == "labels" else []

    def remarks(self) -> list[str]:
        return self.report.remarks() if self.whole else []


def browser_row(record: Prediction, limit: int, page: str = "", groups: Sequence[str] = ()) -> BrowserRow:
    """A prediction as a row of a browser.

    Args:
        limit: characters of its texts
    """
    details, tokens = record.details, record.row.get("tokens", ())
    texts = {} if tokens else {name: x for name, x in record.row.items() if isinstance(x, str)}
    length = sum(map(len, texts.values()))
    return BrowserRow(
        index=record.index,
        where=record.where,
        texts={name: text[:limit] for name, text in texts.items()},
        words=[str(token) for token in tokens],
        true=_labels(record.label),
        predicted=_labels(record.predicted),
        correct=record.correct,
        loss=_finite(total_loss(record)),
        scores={str(name): share for name, share in details.get("scores", {}).items()},
        losses=details.get("losses", ()) if tokens else (),
        values=details.get("metrics", {}),
        groups=groups,
        whole=length if length > limit else None,
        look=() if length > limit else explorer_texts(record),
        page=page,
    )


def true_label(record: Prediction) -> str:
    """The true label of a row in words: of tags those that mark something, each with its word."""
    tokens, labels = record.row.get("tokens", ()), _labels(record.label)
    if tokens:
        return ", ".join(f"{word} {tag}" for word, tag in zip(tokens, labels, strict=False) if tag != "O") or "O"
    return ", ".join(labels)


def _labels(value: object) -> list[str]:
    """Classes, labels, tags or texts; a number as text."""
    if isinstance(value, list):
        return list(map(str, value))
    return [] if value is None else [label_text(value)]


def _finite(x: float | None) -> float | None:
    return None if x is None or not math.isfinite(x) else x


def explorer_texts(record: Prediction) -> list[str]:
    """The inputs of the explorer for a row: a text, a pair, or a source and the generated text."""
    row = record.row
    if "tokens" in row:
        return [" ".join(map(str, row["tokens"]))]
    if "source" in row:
        return [
            str(row["source"]),
            *([record.predicted] if isinstance(record.predicted, str) and record.predicted else []),
        ]
    return [str(text) for text in row.values() if isinstance(text, str) and text][:2]
