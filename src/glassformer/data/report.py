"""Data reports and data cards: rows, classes, text lengths and problems of data files before training.

    inspect_rows({"train.csv": rows, "test.csv": more}, text="text", label="label") ──> DataReport
        files      of each file: columns and their types, rows a class, lengths
        findings   empty texts, one text with two labels, repeats, leaks between files, classes of one row, …

A file is read once; of each row only some counts and a 16-byte digest of its text stay in memory. A data card is a
report in Markdown with what only people know: source, licence, known biases.

Source: of data cards, Gebru et al. 2021, "Datasheets for datasets".
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from glassformer.data.findings import Finding, FindingCollector, label_findings
from glassformer.data.sequence import IDENTIFIERS, RowSequence, check_column, labels_of, type_name
from glassformer.errors import ConfigError, DataError
from glassformer.files import counted, safe_repr
from glassformer.reports.charts import Marks, Series, SeriesLine
from glassformer.reports.page import shown_label, shown_place
from glassformer.reports.report import Record, Report
from glassformer.reports.table import IntervalCell, Table, bar, markdown_table, markdown_text

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
"""99% too: a maximum length in tokens is usually chosen there."""
LENGTH_NAMES = ("min", *(f"{share:.0%}" for share in QUANTILES), "mean", "max")
"""What of the lengths of texts is computed: the columns of a table of lengths."""
TOKENISE_BATCH = 1_000  # texts that are tokenised together
PAIRS = (
    *(("text", "text_pair"), ("question", "context"), ("question", "sentence"), ("premise", "hypothesis")),
    *(("sentence1", "sentence2"), ("question1", "question2"), ("text1", "text2")),
    *(("query", "passage"), ("query", "document"), ("anchor", "positive")),
)
"""Columns that are read as pairs of texts, where a file has both."""
NOT_STATED = "Not stated."
MAX_CLASSES = 20  # classes in a table; the JSON and the page have all
MAX_LOCATIONS = 3  # examples of a finding in a remark
PAGE_LOCATIONS = 50  # examples of a finding on the page; the JSON has more
FIRST_ROWS = 20  # that show whether a column is one of texts
BINS = 50  # about as many bars has a histogram
FAR_OFF = (
    1.5  # a histogram leaves out the longest 0.5% of the texts where they are this many times as long as the others
)

CountTokens = Callable[[Sequence[str]], Sequence[int]]
"""Counts the tokens of each of some texts, special tokens included."""


@dataclass(frozen=True, slots=True)
class Lengths(Record, keys=("quantiles", "limit", "over_limit")):
    """The lengths of texts in one unit.

    values: of each text. [texts] int64
    """

    unit: str
    values: np.ndarray
    limit: int | None = None

    @property
    def over_limit(self) -> int:
        """Number of texts longer than the limit."""
        return 0 if self.limit is None else int((self.values > self.limit).sum())

    @property
    def quantiles(self) -> dict[str, float]:
        """Minimum, quantiles, mean and maximum of the lengths; empty without texts."""
        if not len(self.values):
            return {}
        quantiles = [np.quantile(self.values, share, method="inverted_cdf") for share in QUANTILES]
        lengths = [self.values.min(), *quantiles, self.values.mean(), self.values.max()]
        return dict(zip(LENGTH_NAMES, map(float, lengths), strict=True))

    def cells(self) -> list[str]:
        """The quantiles as text, for a table."""
        return [f"{value:,.1f}" if name == "mean" else f"{value:,.0f}" for name, value in self.quantiles.items()]


@dataclass(frozen=True, slots=True)
class FileReport(Record, keys=("name", "rows", "columns", "gaps", "classes", "lengths", "by_class")):
    """Statistics of one file.

    columns: name → type of its values
    gaps: name → rows without a value, where there are some
    classes: label → rows, the most frequent first
    class_index: class of each row, an index into `classes`; -1 where a row has none or several. [rows] int64
    """

    name: str
    rows: int
    columns: Mapping[str, str]
    gaps: Mapping[str, int]
    classes: Mapping[str, int]
    lengths: Mapping[str, Lengths]
    class_index: np.ndarray

    @property
    def class_total(self) -> int:
        """What the count of a class is a share of: the rows, or all tags of all rows, which are more."""
        return self.rows if max(self.classes.values(), default=0) <= self.rows else sum(self.classes.values())

    @property
    def unit(self) -> str:
        """The unit of lengths: tokens where a tokenizer counted them, else words."""
        return "tokens" if "tokens" in self.lengths else "words"

    @property
    def by_class(self) -> dict[str, Lengths]:
        """The lengths of the texts of each class, in `unit`."""
        if not self.classes:
            return {}
        whole = self.lengths[self.unit]
        return {
            name: Lengths(self.unit, whole.values[self.class_index == number], whole.limit)
            for number, name in enumerate(self.classes)
            if (self.class_index == number).any()
        }


@dataclass(frozen=True, slots=True, repr=False)
class DataReport(Report, kind="data"):
    """What `inspect_rows` measured of a data set, with its findings."""

    text: str
    label: str | None
    files: tuple[FileReport, ...]
    findings: tuple[Finding, ...]

    @property
    def title(self) -> str:
        return f"Data: {', '.join(file.name for file in self.files)}"

    @property
    def heading(self) -> str:
        return f"texts from the column {self.text!r}" + (f", labels from {self.label!r}" if self.label else "")

    @property
    def finding(self) -> str:
        """How many rows and classes there are, and whether something is wrong with them."""
        rows = " and ".join(f"{counted(file.rows, 'row')} in {shown_place(file.name)}" for file in self.files)
        classes = f", {len(self.classes):,} class{'es' * (len(self.classes) != 1)}" if self.classes else ""
        problems = f"{counted(len(self.findings), 'problem')} found" if self.findings else "no problems found"
        return f"{rows}{classes}: {problems}."

    @property
    def unit(self) -> str:
        """The unit of lengths: tokens where a tokenizer counted them, else words."""
        return self.files[0].unit

    @property
    def classes(self) -> list[str]:
        """The classes of all files, the most frequent first."""
        total = sum((Counter(file.classes) for file in self.files), Counter[str]())
        return [name for name, _ in total.most_common()]

    def tables(self) -> list[Table]:
        """Rows and columns of each file, the rows of each class, and quantiles of the lengths of texts."""
        columns = [[file.name, _columns_of(file), f"{file.rows:,}"] for file in self.files]
        return [
            Table(["file", "columns", "rows"], columns, left=2, longest=1_000),
            *([self._class_table()] if self.classes else []),
            self._lengths_table(),
        ]

    def _lengths_table(self) -> Table:
        """Quantiles of the lengths of texts, in each unit."""
        rows = [
            [f"{file.name}, {unit}", *cells]
            for file in self.files
            for unit, lengths in file.lengths.items()
            if (cells := lengths.cells())
        ]
        return Table(["lengths", *LENGTH_NAMES], rows, longest=300)

    def _class_table(self) -> Table:
        """The rows of each class in each file, and a bar for its frequency in the first."""
        names, first = self.classes, self.files[0].classes
        largest = max(first.values(), default=1)
        rows = [
            [
                shown_label(name),
                bar(first.get(name, 0) / largest, 16),
                *(_class_cell(file, name) for file in self.files),
            ]
            for name in names[:MAX_CLASSES]
        ]
        more = f"the {MAX_CLASSES} most frequent of {len(names):,} classes; the JSON and the page have all"
        caption = more if len(names) > MAX_CLASSES else ""
        return Table(["class", "", *(file.name for file in self.files)], rows, caption, left=2, longest=300)

    def charts(self) -> Iterator[Series]:
        """A histogram of the lengths of texts for each file, with the same bars."""
        step, count = bins([file.lengths[self.unit].values for file in self.files])
        for file in self.files:
            lengths, several = file.lengths[self.unit], len(self.files) > 1
            texts = np.bincount(np.minimum(lengths.values // step, count), minlength=count + 1).tolist()
            longer = f"{texts[count]:,} longer, up to {lengths.values.max():,}" if texts[count] else ""
            yield Series(
                title=f"Lengths in {self.unit}" + (f", {file.name}" if several else ""),
                x_label=self.unit,
                y_label="texts",
                lines=[SeriesLine("texts", [i * step for i in range(count)], texts[:count], bars=True)],
                marks=[Marks(f"limit {lengths.limit:,}", [lengths.limit + 1], alert=True)] if lengths.limit else [],
                wide=not several,
                note="; ".join(filter(None, [f"A bar for each {step} {self.unit}" if step > 1 else "", longer])),
            )

    def page_tables(self) -> Iterator[Table]:
        """The problems with their locations; classes with bars, lengths with boxes, and columns, all of them."""
        for finding in self.findings:
            places = [" · ".join(map(shown_place, each.split(" · "))) for each in finding.locations[:PAGE_LOCATIONS]]
            more = [f"… and {finding.count - len(places):,} more"] if places and finding.count > len(places) else []
            if places:
                yield Table(["where"], [[each] for each in places + more], finding.message, folded=True)
        if self.classes:
            rows = [[shown_label(name), *(_class_cell(file, name) for file in self.files)] for name in self.classes]
            names = [file.name for file in self.files] if len(self.files) > 1 else ["rows"]
            note = "A bar is the share of the rows" + (" of its file." if len(self.files) > 1 else ".")
            yield Table(["class", *names], rows, "Rows per class", note=note)
        if by_class := self.files[0].by_class:
            of = f", {self.files[0].name}" if len(self.files) > 1 else ""
            rows = [[shown_label(name), _length_cell(lengths)] for name, lengths in by_class.items()]
            note = "A box holds the middle half of the texts, its line is the median; lines reach from 5% to 95%."
            yield Table(["class", f"{self.unit}, median"], rows, f"Lengths by class{of}", note=note)
        yield replace(
            self._lengths_table(), caption="Lengths", note="95%: the length that 95% of the texts do not exceed."
        )
        columns = [
            [file.name, name, kind, f"{file.gaps.get(name, 0):,}"]
            for file in self.files
            for name, kind in file.columns.items()
        ]
        first = int(len(self.files) == 1)  # one file: its name is that of the page
        headings = ["file", "column", "holds", "rows without"]
        yield Table(headings[first:], [row[first:] for row in columns], "Columns", left=3 - first)

    def page_remarks(self) -> list[str]:
        """The problems that have no location."""
        return [finding.message for finding in self.findings if not finding.locations]

    def remarks(self) -> Iterator[str]:
        """The findings, each with the first of its locations."""
        for finding in self.findings:
            yield f"! {finding.message}"
            locations = finding.locations[:MAX_LOCATIONS]
            yield from (f"    {location}" for location in locations)
            if locations and finding.count > len(locations):
                yield f"    … and {finding.count - len(locations):,} more: --json or --html lists them"


def _columns_of(file: FileReport) -> str:
    gaps = {name: f", missing in {counted(count, 'row')}" for name, count in file.gaps.items()}
    return ", ".join(f"{name} ({kind}{gaps.get(name, '')})" for name, kind in file.columns.items())


def _class_cell(file: FileReport, name: str) -> IntervalCell:
    count = file.classes.get(name, 0)
    share = count / max(file.class_total, 1)
    return IntervalCell(f"{count:,} · {share:.1%}", share, from_zero=True)


def _length_cell(lengths: Lengths) -> IntervalCell:
    low, first, middle, third, high = (lengths.quantiles[name] for name in ("5%", "25%", "50%", "75%", "95%"))
    return IntervalCell(f"{middle:,.0f} [{low:,.0f}, {high:,.0f}]", middle, low, high, box=(first, third))


def bins(lengths: Sequence[np.ndarray]) -> tuple[int, int]:
    """Width and number of the bars of histograms that are compared.

    Where the longest 0.5% are far off, they have no bar.
    """
    largest = max((int(values.max(initial=1)) for values in lengths), default=1)
    usual = max((int(np.quantile(values, 0.995, method="lower")) for values in lengths if len(values)), default=1)
    end = largest if largest <= FAR_OFF * usual else usual
    step = max(1, math.ceil(end / BINS))
    return step, end // step + 1


def inspect_rows(
    files: Mapping[str, RowSequence],
    *,
    text: str,
    label: str | None = None,
    text_pair: str | None = None,
    tokens: CountTokens | None = None,
    limit: int | None = None,
) -> DataReport:
    """Compute statistics and find problems of data files, the training file first.

    Args:
        text: the column of the texts: a text, or the list of its words.
        label: the column of the labels: one, or a list: several of a text, or one for each of its words.
        text_pair: the column of second texts, where rows are pairs: only equal pairs are repeats. None = the usual one
            (`PAIRS`), where every file has it.
        tokens: counts tokens, for lengths in tokens
        limit: the maximum number of tokens of a model.

    Raises: DataError: no file, a missing column, a value that is not a text.
    """
    if not files:
        raise DataError("there is no file to look at; name one")
    collector = FindingCollector()
    texts = [text] if (pair := text_pair or usual_pair(text, list(files.values()))) is None else [text, pair]
    reports = tuple(_file_report(name, rows, texts, label, tokens, limit, collector) for name, rows in files.items())
    findings = [
        *collector.findings(list(files)),
        *label_findings({report.name: report.classes for report in reports}),
        *_over_limit_findings(reports),
    ]
    return DataReport(text, label, reports, tuple(findings))


# ── one file ─────────────────────────────────────────────────────────────────────────────────────────────


def usual_columns(files: Sequence[RowSequence]) -> dict[str, str]:
    """The columns to inspect that go without saying: role → column.

    tokens, tags    of CoNLL files
    text            or, where no file has that, Text, or the first column of texts of several words, such as the
                    question of question, context; without such texts the first one
    label           where every file has it, and the first row does not hold a fraction
    """
    if all("tokens" in rows.columns for rows in files):
        return {"text": "tokens", "label": "tags"}
    others = {*IDENTIFIERS, "label"}
    kinds = files[0].kinds if files else {}
    texts = [name for name, kind in kinds.items() if kind == "a text" and name.lower() not in others]
    texts.sort(key=lambda name: (name.lower() != "text", not _has_words(files[0], name)))
    absent = texts and not any("text" in rows.columns for rows in files)
    labelled = all("label" in rows.columns for rows in files)
    classes = labelled and not any(_is_fraction(rows[0]["label"]) for rows in files if len(rows))
    return {"text": texts[0] if absent else "text", **({"label": "label"} if classes else {})}


def _has_words(rows: RowSequence, column: str) -> bool:
    """Whether most of the first texts of a column have several words."""
    texts = [value for row in rows[:FIRST_ROWS] if isinstance(value := row.get(column), str) and value.strip()]
    return 2 * sum(len(text.split()) > 1 for text in texts) > len(texts)


def usual_pair(text: str, files: Sequence[RowSequence]) -> str | None:
    """The column that is read along with `text`, where every file has it."""
    others = [other for pair in PAIRS for one, other in (pair, pair[::-1]) if one == text]
    return next((each for each in others if all(rows.kinds.get(each) == "a text" for rows in files)), None)


def _is_fraction(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, str) and re.fullmatch(r"\s*-?\d*\.\d+\s*", value) is not None)


def _file_report(
    name: str,
    rows: RowSequence,
    texts: Sequence[str],
    label: str | None,
    tokens: CountTokens | None,
    limit: int | None,
    collector: FindingCollector,
) -> FileReport:
    for column in texts:
        check_column(name, column, rows.columns, "text")
    if label is not None:
        check_column(name, label, rows.columns, "label")
    gaps: Counter[str] = Counter()
    lengths: dict[str, list[int]] = {"words": [], "characters": [], **({"tokens": []} if tokens else {})}
    class_counts: Counter[str] = Counter()
    row_class: list[str | None] = []
    pending: list[str] = []
    for index, row in enumerate(rows):
        gaps.update(column for column in rows.columns if _is_null(row.get(column)))
        words = row.get(texts[0])
        content, *second = [_text_of(row.get(column), column, rows, index) for column in texts]
        value = None if label is None else row.get(label)
        labels = () if _is_null(value) else tuple(map(str, labels_of(value)))
        tags = isinstance(words, list) and isinstance(value, list)
        class_counts.update(labels)
        row_class.append(labels[0] if len(labels) == 1 and not tags else None)
        lengths["words"].append(len(words) if isinstance(words, list) else len(content.split()))
        lengths["characters"].append(len(content))
        collector.update(name, rows, index, (content, *second), labels if label else None)
        if tokens:
            pending.append(content)
            if len(pending) == TOKENISE_BATCH or index == len(rows) - 1:
                lengths["tokens"].extend(tokens(pending))
                pending = []
    classes = dict(class_counts.most_common())
    index_of = {name: i for i, name in enumerate(classes)}
    return FileReport(
        name,
        len(rows),
        dict(rows.kinds),
        dict(gaps),
        classes,
        {
            unit: Lengths(unit, np.array(values, dtype=np.int64), limit if unit == "tokens" else None)
            for unit, values in lengths.items()
        },
        np.array([-1 if name is None else index_of[name] for name in row_class], dtype=np.int64),
    )


def texts_of(rows: RowSequence, column: str) -> list[str]:
    """The texts of a column; of a list its words, and of a missing value an empty one.

    Raises: DataError: no such column, or a value that is not a text, with its line.
    """
    check_column(rows.file(0), column, rows.columns, "text")
    return [_text_of(row.get(column), column, rows, index) for index, row in enumerate(rows)]


def _text_of(value: Any, column: str, rows: RowSequence, index: int) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return " ".join(value)
    raise DataError(
        f"{rows.where(index)}: {column!r} is {safe_repr(value)}, {type_name(value)}; "
        "it must be a text, or the list of its words"
    )


def _is_null(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value)


def _over_limit_findings(reports: Sequence[FileReport]) -> list[Finding]:
    """Texts that a model would truncate."""
    return [
        Finding(
            "beyond",
            f"{lengths.over_limit:,} texts of {report.name} ({lengths.over_limit / report.rows:.1%}) beyond the "
            f"{lengths.limit:,} tokens that the model reads",
            lengths.over_limit,
        )
        for report in reports
        if (lengths := report.lengths.get("tokens")) and lengths.over_limit
    ]


# ── the data card ──────────────────────────────────────────────────────────────────────────────────────────


def data_card(
    report: DataReport, *, title: str, source: str = "", licence: str = "", biases: Sequence[str] = ()
) -> str:
    """Write a data card in Markdown; missing statements appear as "Not stated.".

    Raises: ConfigError: the title is empty.
    """
    if not title.strip():
        raise ConfigError("the title is empty; give the data set a name: --title Reviews")
    known = _markdown_list(biases) or NOT_STATED
    findings = _markdown_list([finding.message for finding in report.findings]) or "No problems found."
    files = [
        [file.name, f"{file.rows:,}", ", ".join(f"{name} ({kind})" for name, kind in file.columns.items())]
        for file in report.files
    ]
    sections = [
        f"# {markdown_text(title)}",
        f"## Source\n\n{source.strip() or NOT_STATED}",
        f"## Licence\n\n{licence.strip() or NOT_STATED}",
        f"## Known biases\n\n{known}",
        "## Rows\n\n" + markdown_table(["file", "rows", "columns"], files),
        *([_class_table(report)] if report.classes else []),
        _length_table(report),
        f"## What was found\n\n{findings}",
    ]
    return "\n\n".join(sections) + "\n"


def _class_table(report: DataReport) -> str:
    rows = [
        [
            shown_label(name),
            *(f"{(n := file.classes.get(name, 0)):,} ({n / file.class_total:.1%})" for file in report.files),
        ]
        for name in report.classes
    ]
    return "## Rows per class\n\n" + markdown_table(["class", *(file.name for file in report.files)], rows)


def _length_table(report: DataReport) -> str:
    rows = [
        [file.name, unit, *cells]
        for file in report.files
        for unit, lengths in file.lengths.items()
        if (cells := lengths.cells())
    ]
    return "## Lengths\n\n" + markdown_table(["file", "unit", *LENGTH_NAMES], rows)


def _markdown_list(texts: Sequence[str]) -> str:
    return "\n".join(f"- {markdown_text(text)}" for text in texts)
