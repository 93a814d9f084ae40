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
from glassformer.data.sequence import missing_column
from glassformer.data.tables import TSV_OPTIONS, Table, parse_number
from glassformer.errors import ConfigError, DataError, nearest
from glassformer.files import safe_repr


@dataclass(frozen=True)
class GlueTask:
    """The columns of a task's files.

    pair: None = single sentences · labels: as the files have them → their names; empty = as they are
    names: of the columns, where the files have no header · number: whether the label is one
    """

    text: str
    pair: str | None = None
    label: str = "label"
    labels: Mapping[str, str] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    number: bool = False


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
    "qqp": GlueTask("question1", "question2", "is_duplicate", {"0": "not_duplicate", "1": "duplicate"}),
    "mnli": GlueTask(
        "sentence1", "sentence2", "gold_label", {label: label for label in ("entailment", "neutral", "contradiction")}
    ),
    "qnli": GlueTask("question", "sentence", labels=_ENTAILMENT),
    "rte": GlueTask("sentence1", "sentence2", labels=_ENTAILMENT),
    "wnli": GlueTask("sentence1", "sentence2", labels={"0": "not_entailment", "1": "entailment"}),
}


@dataclass(frozen=True)
class GlueTable(Format):
    """A tab-separated file of a GLUE task. Args: task: one of `TASKS`"""

    task: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.task, str) or self.task not in TASKS:
            raise ConfigError(
                f"task is {safe_repr(self.task)}{nearest(self.task, TASKS)}; it is one of: {', '.join(TASKS)}"
            )

    def read_header(self, lines: LineReader) -> tuple[str, ...]:
        task = TASKS[self.task]
        names = self._table().read_header(lines)
        for column in (task.text, task.pair):
            if names and column is not None and column not in names:
                raise DataError(f"{lines.name}: {missing_column(column, names)}; is it a file of the task {self.task}?")
        return names

    def rows(self, lines: LineReader, header: tuple[str, ...]) -> Iterator[ParsedRow]:
        task = TASKS[self.task]
        for parsed in self._table().rows(lines, header):
            row = {"text": parsed.row[task.text]}
            if task.pair is not None:
                row["text_pair"] = parsed.row[task.pair]
            if task.label in parsed.row:
                row["label"] = self._label(parsed.row[task.label], lines)
            yield parsed._replace(row=row)

    def _table(self) -> Table:
        names = TASKS[self.task].names
        return Table(**TSV_OPTIONS, header=not names, names=names)

    def _label(self, value: str, lines: LineReader) -> Any:
        task = TASKS[self.task]
        if task.number:
            return parse_number(value, task.label, "float", lines)
        if value not in task.labels:
            lines.fail(f"has {safe_repr(value)} as {task.label!r}; it must be one of: {', '.join(task.labels)}")
        return task.labels[value]
