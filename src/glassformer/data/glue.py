"""GLUE: the files of its nine tasks, as rows with `text`, `text_pair` and `label` whatever each calls its columns.

    read_rows("CoLA/train.tsv", kind="glue", task="cola")      {"text": "…", "label": "acceptable"}
    read_rows("MRPC/train.tsv", kind="glue", task="mrpc")      {"text": "…", "text_pair": "…", "label": "equivalent"}
    read_rows("STS-B/dev.tsv", kind="glue", task="stsb")       {"text": "…", "text_pair": "…", "label": 4.75}

Rows of a file without labels, as those of the test parts, have no `label`.

    task                   published metric                  here
    cola                   Matthews correlation              `matthews`
    sst2 mnli qnli rte     accuracy (mnli: of each of two    `accuracy`
    wnli                   validation files)
    mrpc qqp               F1 of the class that holds, and   `per_class` of "equivalent", "duplicate"; `accuracy`
                           accuracy
    stsb                   Pearson and Spearman correlation  `pearson`, `spearman`

Source: Wang et al. 2019, "GLUE: A Multi-Task Benchmark and Analysis Platform", table 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from glassformer.data.lines import Format, LineReader, ParsedRow
from glassformer.data.sequence import Row, missing_column
from glassformer.data.tables import TSV_OPTIONS, Table, parse_number
from glassformer.errors import ConfigError, DataError, nearest
from glassformer.files import safe_repr


@dataclass(frozen=True)
class GlueTask:
    """The columns of a task's files.

    pair: None = single sentences · labels: as the files have them → their names; empty = as they are
    names: of the columns, where the files have no header · number: whether the label is one
    on_bad_rows: see `Table`; "skip" where the published files have rows with too few fields
    """

    text: str
    pair: str | None = None
    label: str = "label"
    labels: Mapping[str, str] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    number: bool = False
    on_bad_rows: str = "error"


_ENTAILMENT = {"entailment": "entailment", "not_entailment": "not_entailment"}

TASKS = {
    "cola": GlueTask(
        "sentence",
        labels={"0": "unacceptable", "1": "acceptable"},
        names=("source", "label", "original", "sentence"),
    ),
    "sst2": GlueTask("sentence", labels={"0": "negative", "1": "positive"}),
    "mrpc": GlueTask("#1 String", "#2 String", "Quality", {"0": "not_equivalent", "1": "equivalent"}),
    "stsb": GlueTask("sentence1", "sentence2", "score", number=True),
    "qqp": GlueTask(
        "question1", "question2", "is_duplicate", {"0": "not_duplicate", "1": "duplicate"}, on_bad_rows="skip"
    ),
    "mnli": GlueTask(
        "sentence1", "sentence2", "gold_label", {label: label for label in ("entailment", "neutral", "contradiction")}
    ),
    "qnli": GlueTask("question", "sentence", labels=_ENTAILMENT),
    "rte": GlueTask("sentence1", "sentence2", labels=_ENTAILMENT),
    "wnli": GlueTask("sentence1", "sentence2", labels={"0": "not_entailment", "1": "entailment"}),
}


@dataclass(frozen=True)
class GlueTable(Format):
    """A tab-separated file of a GLUE task.

    Args:
        task: one of `TASKS`
        on_bad_rows: see `Table`; None = as the task needs: the published files of qqp have rows with too few fields
    """

    task: str = ""
    on_bad_rows: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.task, str) or self.task not in TASKS:
            raise ConfigError(
                f"task is {safe_repr(self.task)}{nearest(self.task, TASKS)}; it is one of: {', '.join(TASKS)}"
            )
        self._table()  # checks on_bad_rows

    def read_header(self, lines: LineReader) -> tuple[str, ...]:
        task = TASKS[self.task]
        names = self._table().read_header(lines)
        for column in (task.text, task.pair):
            if names and column is not None and column not in names:
                raise DataError(f"{lines.name}: {missing_column(column, names)}; is it a file of the task {self.task}?")
        return names

    def rows(self, lines: LineReader, header: tuple[str, ...]) -> Iterator[ParsedRow]:
        table = self._table()
        for parsed in table.rows(lines, header):
            row = lines.row_or_skip(table.on_bad_rows, self._row, parsed.row, lines)
            if row is not None:
                yield parsed._replace(row=row)

    def _row(self, columns: Row, lines: LineReader) -> Row:
        task = TASKS[self.task]
        row = {"text": columns[task.text]}
        if task.pair is not None:
            row["text_pair"] = columns[task.pair]
        if task.label in columns:
            row["label"] = self._label(columns[task.label], lines)
        return row

    def _table(self) -> Table:
        task = TASKS[self.task]
        return Table(
            **TSV_OPTIONS,
            header=not task.names,
            names=task.names,
            on_bad_rows=task.on_bad_rows if self.on_bad_rows is None else self.on_bad_rows,
        )

    def _label(self, value: str, lines: LineReader) -> Any:
        task = TASKS[self.task]
        if task.number:
            return parse_number(value, task.label, "float", lines)
        if value not in task.labels:
            lines.fail(f"has {safe_repr(value)} as {task.label!r}; it must be one of: {', '.join(task.labels)}")
        return task.labels[value]
