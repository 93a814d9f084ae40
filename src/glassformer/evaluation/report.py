"""Evaluation reports: the metrics of a model with 95 % confidence intervals, beside baselines on the same rows.

Report.to_dict / from_dict      strict JSON, in report.json of an evaluation's folder
print(report), a notebook       a table: the model, its baselines, and how much better it is
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from glassformer.deprecation import warn_former_attribute
from glassformer.errors import ConfigError, DataError
from glassformer.files import safe_repr
from glassformer.files.atomic import write_json
from glassformer.files.parsing import parse_dataclass
from glassformer.files.strict_json import read_json_object
from glassformer.pages.tables import html_table
from glassformer.tasks.base import PerClassReport
from glassformer.tasks.metrics.intervals import Interval

FORMAT = 1
CLASS_COLUMNS = ("precision", "recall", "f1", "support")
MAX_CLASSES, CLASSES_PER_END = 12, 5
"""So many classes are all shown; of more, so many from either end."""


@dataclass(frozen=True, kw_only=True)
class SystemResult:
    """The metrics of one system, such as a baseline, on the rows of an evaluation.

    about: what it is · metrics: by name · difference: the model's main metric minus its, on the same rows
    """

    about: str
    metrics: dict[str, Interval]
    difference: Interval | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class EvaluationReport:
    """The evaluation report of a model.

    task: as in `glassformer train` · name: of the model · data: files, rows, fingerprint of what it was evaluated on
    metric: the main metric · higher: whether more of it is better
    metrics: by name · methods: metric → how it was computed, by which package in which version
    baselines: name → their metrics · classes: metrics per class · notes: warnings and remarks
    seed: of the training, where it is known · seconds: that the model took for all rows
    environment: what it was computed with and on
    """

    task: str
    name: str
    data: dict[str, Any]
    metric: str
    higher: bool
    metrics: dict[str, Interval]
    methods: dict[str, str]
    baselines: dict[str, SystemResult] = field(default_factory=dict)
    classes: PerClassReport | None = None
    notes: list[str] = field(default_factory=list)
    seed: int | None = None
    seconds: float = 0.0
    environment: dict[str, Any] = field(default_factory=dict)
    format: int = FORMAT

    def to_dict(self) -> dict[str, Any]:
        """Names and values that strict JSON can hold."""
        values: dict[str, Any] = _null_for_nan(asdict(self))
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> EvaluationReport:
        """Raises: ConfigError: no report, or one of another version."""
        if not isinstance(values, Mapping) or values.get("format") != FORMAT:
            raise ConfigError(f"this is no report of format {FORMAT}; evaluate the model again")
        report = parse_dataclass(cls, _nan_from_null(rename_former_keys(values)))
        if type(report.data.get("rows")) is not int:
            raise ConfigError(f"data.rows is {safe_repr(report.data.get('rows'))}; it must be a whole number")
        if report.metric not in report.metrics:
            raise ConfigError(f"its main metric, {safe_repr(report.metric)}, is none of its metrics")
        return report

    @property
    def figures(self) -> dict[str, Interval]:
        """Deprecated: `metrics`."""
        warn_former_attribute("EvaluationReport.figures", "metrics")
        return self.metrics

    def save(self, path: str | Path) -> None:
        write_json(Path(path), self.to_dict())

    @classmethod
    def load(cls, path: str | Path) -> EvaluationReport:
        """Raises: DataError: no such file, or no report."""
        try:
            return cls.from_dict(read_json_object(Path(path), DataError))
        except ConfigError as error:
            raise DataError(f"{path}: {error}") from error

    @property
    def caption(self) -> str:
        """What was evaluated, in a sentence."""
        files = ", ".join(map(str, self.data.get("files") or ["rows of its own"]))
        return f"{self.name} on {self.data['rows']:,} rows of {files}; in brackets 95 % intervals"

    @property
    def method(self) -> str:
        """How the main metric was computed, and by which packages the others."""
        packages = dict.fromkeys(method.partition(",")[0] for method in self.methods.values())
        main = self.methods.get(self.metric, "a way that it does not say")
        others = [name for name in packages if not main.startswith(name)]
        return f"{self.metric} by {main}" + (f"; others by {', '.join(others)}" if others else "")

    def table(self, digits: int = 3) -> tuple[list[str], list[list[str]]]:
        """Headings and rows: a metric a row, the model and each baseline a column."""
        headings = ["", self.name, *self.baselines]
        rows = []
        for name, value in self.metrics.items():
            others = [baseline.metrics.get(name) for baseline in self.baselines.values()]
            cells = [value.written(digits), *("" if x is None else x.written(digits) for x in others)]
            rows.append([f"{name} *" if name == self.metric else name, *cells])
        if self.baselines:
            rows.append(
                [
                    f"{self.metric}: better by",
                    "",
                    *(self._better_by(s, digits) for s in self.baselines.values()),
                ]
            )
        return headings, rows

    def systems_table(self, digits: int = 3) -> tuple[list[str], list[list[str]]]:
        """Headings and rows: the model and each baseline a row, their main metric and how much better the model is."""
        own = [self.name, self.metrics[self.metric].written(digits)]
        if not self.baselines:
            return ["", self.metric], [own]
        rows = [[*own, "", "this model"]]
        for name, baseline in self.baselines.items():
            value = baseline.metrics.get(self.metric)
            written = "" if value is None else value.written(digits)
            rows.append([name, written, self._better_by(baseline, digits), baseline.about])
        return ["", self.metric, f"{self.name} better by", ""], rows

    def _better_by(self, baseline: SystemResult, digits: int) -> str:
        """How much better the model is; positive also where less of the metric is better."""
        if (difference := baseline.difference) is None:
            return ""
        return (difference if self.higher else -difference).written(digits, signed=True)

    def other_metrics_table(self, digits: int = 3) -> tuple[list[str], list[list[str]]]:
        """Headings and rows: every metric of the model but the main one."""
        rows = [[name, x.written(digits)] for name, x in self.metrics.items() if name != self.metric]
        return ["metric", self.name], rows

    def class_table(self, digits: int = 3) -> tuple[list[str], list[list[str]]] | None:
        """Headings and rows: scores per class, a class a row; of many the best and worst by F1. None = no classes."""
        if self.classes is None:
            return None
        classes = sorted(self.classes.scores.items(), key=_f1_order)
        if len(classes) > MAX_CLASSES:
            classes = [*classes[:CLASSES_PER_END], ("…", {}), *classes[-CLASSES_PER_END:]]
        rows = [[name, *(_cell(row, column, digits) for column in CLASS_COLUMNS)] for name, row in classes]
        return ["", *CLASS_COLUMNS], rows

    def card_comparison(self) -> dict[str, Any]:
        """The main metric beside those of the baselines, for a model card."""
        systems: dict[str, dict[str, Interval | None]] = {
            self.name: {"figure": self.metrics[self.metric]},
            **{
                name: {
                    "figure": s.metrics.get(self.metric),
                    "better": s.difference and (s.difference if self.higher else -s.difference),
                }
                for name, s in self.baselines.items()
            },
        }
        comparison: dict[str, Any] = _null_for_nan(
            {
                "metric": self.metric,
                "method": self.methods.get(self.metric),
                "rows": self.data.get("rows"),
                "systems": {
                    name: {key: x and asdict(x) for key, x in row.items()} for name, row in systems.items()
                },
            }
        )
        return comparison

    def __str__(self) -> str:
        parts = [_text_table(*self.systems_table()), _text_table(*self.other_metrics_table())]
        if (classes := self.class_table()) is not None:
            parts.append(_text_table(*classes))
        parts.append("\n".join([self.method, *(f"note: {note}" for note in self.notes)]))
        return "\n\n".join([self.caption, *parts])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        classes = self.class_table()
        notes = "".join(f"<p>{escape(text)}</p>" for text in (self.method, *self.notes))
        return (
            html_table(*self.table(), self.caption)
            + (html_table(*classes) if classes is not None else "")
            + notes
        )


def rename_former_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a saved report with the keys of today: `metrics` was `figures`, `scores` of classes was `each`."""
    renamed = {"metrics" if name == "figures" else name: value for name, value in values.items()}
    if isinstance(baselines := renamed.get("baselines"), Mapping):
        renamed["baselines"] = {
            name: rename_former_keys(baseline) if isinstance(baseline, Mapping) else baseline
            for name, baseline in baselines.items()
        }
    if isinstance(classes := renamed.get("classes"), Mapping) and "each" in classes:
        renamed["classes"] = {"scores" if name == "each" else name: value for name, value in classes.items()}
    return renamed


def _text_table(headings: list[str], rows: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in [headings, *rows]) for i in range(len(headings))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in [headings, *rows])


def _f1_order(of: tuple[str, Mapping[str, float | None]]) -> tuple[bool, float]:
    """Sort key: the best F1 first, and last the classes without one."""
    f1 = of[1].get("f1")
    return f1 is None, -(f1 or 0.0)


def _cell(row: Mapping[str, float | None], column: str, digits: int) -> str:
    if not row:
        return ""
    value = row.get(column)
    return "–" if value is None else f"{value:,.0f}" if column == "support" else f"{value:.{digits}f}"


def _nan_from_null(value: Any) -> Any:
    """What `_null_for_nan` wrote, with the values that JSON has no number for as NaN again."""
    if isinstance(value, Mapping):
        was_nan = set(value) == {"value", "low", "high"} and value["value"] is None
        return {
            name: math.nan if was_nan and name == "value" else _nan_from_null(item)
            for name, item in value.items()
        }
    return [_nan_from_null(item) for item in value] if isinstance(value, list) else value


def _null_for_nan(value: Any) -> Any:
    """A value for strict JSON, which has no NaN and no infinity: they become None."""
    if isinstance(value, Mapping):
        return {str(name): _null_for_nan(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_null_for_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
