"""Reports read back from their JSON: of any kind, by its `kind`.

    read_reports("study.json")      a StudyReport
    read_reports("lens.json")       a PlainReport: its class computes with tensors, which JSON does not hold

A file holds what `--json` of a command printed, or what `Report.save` wrote: one report, or a list of several.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, DataError
from glassformer.files import as_path, is_number, parse_json_object, read_bytes
from glassformer.files.lazy import imported
from glassformer.reports.report import Display, Report
from glassformer.reports.table import Table, number

KINDS = {
    "advice": "glassformer.few_labels.advice:Advice",
    "bleu": "glassformer.tasks.metrics.bleu:Bleu",
    "chrf": "glassformer.tasks.metrics.bleu:Score",
    "comparison": "glassformer.evaluation.compare.comparison:Comparison",
    "encoding-bench": "glassformer.evaluation.bench:EncodingBench",
    "evaluation": "glassformer.evaluation.evaluate:EvaluationReport",
    "fusion-tuning": "glassformer.tasks.transcribe.tuning:FusionTuning",
    "generated-texts": "glassformer.inspect.generation_trace:TraceResult",
    "generation-bench": "glassformer.evaluation.bench_generation:GenerationBench",
    "memory": "glassformer.inspect.ram:RamEstimate",
    "model-summary": "glassformer.inspect.summary:ModelSummary",
    "planned-study": "glassformer.studies.report:PlannedStudy",
    "reproduction": "glassformer.evaluation.reproduce:Reproduction",
    "retrieval-evaluation": "glassformer.retrieval.evaluation:RetrievalEvaluation",
    "rouge": "glassformer.tasks.metrics.rouge:Rouge",
    "search": "glassformer.training.trials:SearchResult",
    "runs": "glassformer.runs.run_list:RunList",
    "seeds": "glassformer.evaluation.compare.seeds:SeedSummary",
    "semantic-change": "glassformer.inspect.embeddings.semantic_change:SemanticChange",
    "study": "glassformer.studies.report:StudyReport",
}
"""Kind → its class, where all that its page shows is in its JSON."""
MAX_CELL, MAX_ROWS = 2_000, 5_000
"""Characters of a cell, and rows of a table, of a report whose class does not read it."""
MAX_REPORT_BYTES = 200_000_000
BEGINNING = re.compile(rb'(\xef\xbb\xbf)?[\s\[]*\{\s*"kind"\s*:\s*"[^"]*"\s*,\s*"version"\s*:')
"""Of the JSON of a report; rows of data may have a column `kind` too."""


def is_report(path: Path) -> bool:
    """Whether a file is JSON that begins as a report, or as a list of reports, does."""
    if path.suffix.lower() != ".json" or not path.is_file():
        return False
    with path.open("rb") as stream:
        return BEGINNING.match(stream.read(4096)) is not None


def read_reports(path: str | Path) -> list[Display]:
    """Read the report of a file, or the list of reports.

    Raises: DataError: no such file, invalid JSON, or no report of its kind and version.
    """
    path = as_path(path)
    data = read_bytes(path, DataError, MAX_REPORT_BYTES)
    try:
        # Strict JSON, as a report is written, is an object: so is that of a list.
        several = data.lstrip()[:1] == b"["
        values = parse_json_object(b'{"all":' + data + b"}" if several else data, str(path), DataError)
        return [report_of(each) for each in (values["all"] if several else [values])]
    except ConfigError as error:
        raise DataError(f"{path}: {error}") from error


def report_of(values: Mapping[str, Any]) -> Display:
    """The report of JSON, by its kind. Raises: ConfigError: no report, or one of another version."""
    kind = values.get("kind") if isinstance(values, Mapping) else None
    if not isinstance(kind, str):
        raise ConfigError("this JSON is no report: it has no 'kind'")
    if kind not in KINDS:
        return PlainReport(values)
    cls: Any = imported(KINDS[kind])
    fields = {field.name for field in dataclasses.fields(cls)}
    known = fields.union(cls.KEYS, ("kind", "version"))  # a command adds keys of its own, such as the file it wrote
    report: Report = cls.from_dict({name: value for name, value in values.items() if name in known})
    return report


class PlainReport(Display):
    """A report as its JSON has it: names and values, and a table for each list of objects.

    values: the JSON of a report of any kind
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    @property
    def title(self) -> str:
        return f"Report: {self.values['kind']}"

    @property
    def caption(self) -> str:
        return _cell(self.values.get("caption") or "")

    @property
    def finding(self) -> str:
        """What it says that it found."""
        return _cell(self.values.get("finding") or "")

    @property
    def notes(self) -> list[str]:
        notes = self.values.get("notes")
        return list(map(_cell, notes)) if isinstance(notes, list) else []

    def tables(self) -> Iterator[Table]:
        """The single values, then each list and each mapping of objects."""
        shown = {name: x for name, x in self.values.items() if name not in ("kind", "version", "caption", "notes")}
        parts = {name: rows for name, x in shown.items() if (rows := _records(x))}
        if single := [[name, _cell(x)] for name, x in shown.items() if name not in parts]:
            yield Table(["", "value"], single, left=2)
        for name, rows in parts.items():
            headings = list(dict.fromkeys(key for row in rows for key in row))
            cells = [[_cell(row.get(key, "")) for key in headings] for row in rows[:MAX_ROWS]]
            more = f", the first {MAX_ROWS:,} of {len(rows):,}" if len(rows) > MAX_ROWS else ""
            yield Table(headings, cells, name + more)


def _records(value: Any) -> list[Mapping[str, Any]]:
    """A list of objects, or objects by name, as rows; empty: it is neither."""
    if isinstance(value, Mapping) and value and all(isinstance(x, Mapping) for x in value.values()):
        return [{"": name, **x} for name, x in value.items()]
    if isinstance(value, list) and value and all(isinstance(x, Mapping) for x in value):
        return value
    return []


def _cell(value: Any) -> str:
    if is_number(value):
        return f"{value:,}" if isinstance(value, int) else number(value)
    text = value if isinstance(value, str) else "–" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_CELL else f"{text[: MAX_CELL - 1]}…"
