"""What is told of a model: figures with intervals, beside what simple means reach on the same rows.

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

from glassformer.errors import ConfigError, DataError
from glassformer.files import shown
from glassformer.files.parsing import read_record
from glassformer.files.strict_json import read_object
from glassformer.pages.tables import html_table
from glassformer.tasks.evaluator import Classes
from glassformer.tasks.metrics.intervals import Interval
from glassformer.weights.write import write_json

FORMAT = 1
CLASS_COLUMNS = ("precision", "recall", "f1", "support")
MOST_CLASSES, ENDS = 12, 5
"""So many classes are all shown; of more, so many from either end."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How something did on the rows.

    about: what it is · figures: by name · difference: how far the model's main figure lies above its, on the same rows
    """

    about: str
    figures: dict[str, Interval]
    difference: Interval | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Report:
    """How a model did.

    task: as in `glassformer train` · name: of the model · data: files, rows, fingerprint of what it was judged on
    metric: the main figure · higher: whether more of it is better
    figures: by name · methods: figure → how it was computed, by which package in which version
    baselines: name → how they did · classes: of each class · notes: what should be known beside
    seed: of the training, where it is known · seconds: that the model took for all rows
    environment: what it was computed with and on
    """

    task: str
    name: str
    data: dict[str, Any]
    metric: str
    higher: bool
    figures: dict[str, Interval]
    methods: dict[str, str]
    baselines: dict[str, Standing] = field(default_factory=dict)
    classes: Classes | None = None
    notes: list[str] = field(default_factory=list)
    seed: int | None = None
    seconds: float = 0.0
    environment: dict[str, Any] = field(default_factory=dict)
    format: int = FORMAT

    def to_dict(self) -> dict[str, Any]:
        """Names and values that strict JSON can hold."""
        found: dict[str, Any] = _strict(asdict(self))
        return found

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Report:
        """Raises: ConfigError: no report, or one of another version."""
        if not isinstance(values, Mapping) or values.get("format") != FORMAT:
            raise ConfigError(f"this is no report of format {FORMAT}; evaluate the model again")
        found = read_record(cls, _numbers(values))
        if type(found.data.get("rows")) is not int:
            raise ConfigError(f"data.rows is {shown(found.data.get('rows'))}; it must be a whole number")
        if found.metric not in found.figures:
            raise ConfigError(f"its main figure, {shown(found.metric)}, is none of its figures")
        return found

    def save(self, path: str | Path) -> None:
        write_json(Path(path), self.to_dict())

    @classmethod
    def load(cls, path: str | Path) -> Report:
        """Raises: DataError: no such file, or no report."""
        try:
            return cls.from_dict(read_object(Path(path), DataError))
        except ConfigError as error:
            raise DataError(f"{path}: {error}") from error

    @property
    def headed(self) -> str:
        """What was judged, in a sentence."""
        files = ", ".join(map(str, self.data.get("files") or ["rows of its own"]))
        return f"{self.name} on {self.data['rows']:,} rows of {files}; in brackets 95 % intervals"

    @property
    def method(self) -> str:
        """How the main figure was computed, and by what the others."""
        packages = dict.fromkeys(method.partition(",")[0] for method in self.methods.values())
        main = self.methods.get(self.metric, "a way that it does not say")
        others = [name for name in packages if not main.startswith(name)]
        return f"{self.metric} by {main}" + (f"; others by {', '.join(others)}" if others else "")

    def table(self, digits: int = 3) -> tuple[list[str], list[list[str]]]:
        """Headings and rows: a figure a row, the model and each baseline a column."""
        headings = ["", self.name, *self.baselines]
        rows = []
        for name, figure in self.figures.items():
            others = [standing.figures.get(name) for standing in self.baselines.values()]
            cells = [figure.written(digits), *("" if x is None else x.written(digits) for x in others)]
            rows.append([f"{name} *" if name == self.metric else name, *cells])
        if self.baselines:
            rows.append(
                [f"{self.metric}: better by", "", *(self._better(s, digits) for s in self.baselines.values())]
            )
        return headings, rows

    def standings(self, digits: int = 3) -> tuple[list[str], list[list[str]]]:
        """Headings and rows: the model and each baseline a row, their main figure and how much better the model is."""
        own = [self.name, self.figures[self.metric].written(digits)]
        if not self.baselines:
            return ["", self.metric], [own]
        rows = [[*own, "", "this model"]]
        for name, standing in self.baselines.items():
            figure = standing.figures.get(self.metric)
            written = "" if figure is None else figure.written(digits)
            rows.append([name, written, self._better(standing, digits), standing.about])
        return ["", self.metric, f"{self.name} better by", ""], rows

    def _better(self, standing: Standing, digits: int) -> str:
        """How much better the model is, whichever way its main figure counts."""
        if (apart := standing.difference) is None:
            return ""
        return (apart if self.higher else -apart).written(digits, signed=True)

    def others(self, digits: int = 3) -> tuple[list[str], list[list[str]]]:
        """Headings and rows: every other figure of the model."""
        rows = [[name, x.written(digits)] for name, x in self.figures.items() if name != self.metric]
        return ["figure", self.name], rows

    def class_table(self, digits: int = 3) -> tuple[list[str], list[list[str]]] | None:
        """Headings and rows: a class a row; of many only the best and the worst by F1. None = there are no classes."""
        if self.classes is None:
            return None
        each = sorted(self.classes.each.items(), key=_by_f1)
        if len(each) > MOST_CLASSES:
            each = [*each[:ENDS], ("…", {}), *each[-ENDS:]]
        rows = [[name, *(_cell(row, column, digits) for column in CLASS_COLUMNS)] for name, row in each]
        return ["", *CLASS_COLUMNS], rows

    def beside(self) -> dict[str, Any]:
        """Its main figure beside those of the baselines, in few words, for a model's card."""
        systems: dict[str, dict[str, Interval | None]] = {
            self.name: {"figure": self.figures[self.metric]},
            **{
                name: {
                    "figure": s.figures.get(self.metric),
                    "better": s.difference and (s.difference if self.higher else -s.difference),
                }
                for name, s in self.baselines.items()
            },
        }
        found: dict[str, Any] = _strict(
            {
                "metric": self.metric,
                "method": self.methods.get(self.metric),
                "rows": self.data.get("rows"),
                "systems": {
                    name: {key: x and asdict(x) for key, x in row.items()} for name, row in systems.items()
                },
            }
        )
        return found

    def __str__(self) -> str:
        parts = [_aligned(*self.standings()), _aligned(*self.others())]
        if (classes := self.class_table()) is not None:
            parts.append(_aligned(*classes))
        parts.append("\n".join([self.method, *(f"note: {note}" for note in self.notes)]))
        return "\n\n".join([self.headed, *parts])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        classes = self.class_table()
        told = "".join(f"<p>{escape(text)}</p>" for text in (self.method, *self.notes))
        return (
            html_table(*self.table(), self.headed)
            + (html_table(*classes) if classes is not None else "")
            + told
        )


def _aligned(headings: list[str], rows: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in [headings, *rows]) for i in range(len(headings))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in [headings, *rows])


def _by_f1(of: tuple[str, Mapping[str, float | None]]) -> tuple[bool, float]:
    """The best first, and last those without a figure."""
    f1 = of[1].get("f1")
    return f1 is None, -(f1 or 0.0)


def _cell(row: Mapping[str, float | None], column: str, digits: int) -> str:
    if not row:
        return ""
    value = row.get(column)
    return "–" if value is None else f"{value:,.0f}" if column == "support" else f"{value:.{digits}f}"


def _numbers(value: Any) -> Any:
    """What `_strict` wrote, with the figures that JSON has no number for as NaN again."""
    if isinstance(value, Mapping):
        lost = set(value) == {"value", "low", "high"} and value["value"] is None
        return {
            name: math.nan if lost and name == "value" else _numbers(each) for name, each in value.items()
        }
    return [_numbers(each) for each in value] if isinstance(value, list) else value


def _strict(value: Any) -> Any:
    """A value without what JSON has no number for: NaN and infinity become None."""
    if isinstance(value, Mapping):
        return {str(name): _strict(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
