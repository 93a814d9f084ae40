"""What is told of a model: figures with intervals, beside what simple means reach on the same rows.

Report.to_dict / from_dict      strict JSON, in report.json of an evaluation's folder
print(report), a notebook       a table: the model, its baselines, and how far it lies above the best of them
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, DataError
from glassformer.evaluation.intervals import Interval
from glassformer.evaluation.tables import html_table
from glassformer.judging.judge import Classes
from glassformer.training.options import read_record
from glassformer.weights.strict_json import read_object
from glassformer.weights.write import write_json

FORMAT = 1


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
        if values.get("format") != FORMAT:
            raise ConfigError(f"this is no report of format {FORMAT}; evaluate the model again")
        return read_record(cls, values)

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
        files = ", ".join(self.data.get("files", [])) or "rows"
        return f"{self.name} on {self.data['rows']:,} rows of {files}; in brackets 95 % intervals"

    def table(self, digits: int = 3) -> tuple[list[str], list[list[str]]]:
        """Headings and rows: a figure a row, the model and each baseline a column."""
        headings = ["", self.name, *self.baselines]
        rows = []
        for name, figure in self.figures.items():
            others = [standing.figures.get(name) for standing in self.baselines.values()]
            shown = [figure.written(digits), *("" if x is None else x.written(digits) for x in others)]
            rows.append([f"{name} *" if name == self.metric else name, *shown])
        if self.baselines:
            apart = [
                "" if s.difference is None else s.difference.written(digits, signed=True)
                for s in self.baselines.values()
            ]
            rows.append([f"{self.metric}: above it by", "", *apart])
        return headings, rows

    def __str__(self) -> str:
        headings, rows = self.table()
        widths = [max(len(row[i]) for row in [headings, *rows]) for i in range(len(headings))]
        written = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in [headings, *rows])
        return "\n".join([self.headed, *written, *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(*self.table(), self.headed)


def _strict(value: Any) -> Any:
    """A value without what JSON has no number for: NaN and infinity become None."""
    if isinstance(value, Mapping):
        return {str(name): _strict(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
