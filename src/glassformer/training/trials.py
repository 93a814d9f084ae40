"""Trials of a hyperparameter search: the results of each, the best, a table, and their files."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path
from typing import Any, Literal

from glassformer.errors import DataError
from glassformer.files import error_reason
from glassformer.files.parsing import json_value
from glassformer.pages.tables import html_table
from glassformer.runs.charts import number

Direction = Literal["minimize", "maximize"]


@dataclass(frozen=True)
class Trial:
    """One trial. state: complete, pruned (worse than others) or failed · metrics: the last · error: why it failed"""

    number: int
    settings: dict[str, Any]
    metrics: dict[str, float]
    state: Literal["complete", "pruned", "failed"]
    seconds: float
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Names and values for JSON, where the metrics are called `figures`."""
        return {"figures" if name == "metrics" else name: value for name, value in asdict(self).items()}


@dataclass(frozen=True)
class SearchResult:
    """The results of a hyperparameter search so far; shown in a notebook as its table."""

    metric: str
    direction: Direction
    trials: list[Trial] = field(default_factory=list)

    @property
    def best(self) -> Trial | None:
        """The complete trial with the best value of the metric."""
        complete = [trial for trial in self.trials if trial.state == "complete"]
        sign = 1 if self.direction == "minimize" else -1
        return min(complete, key=lambda trial: sign * trial.metrics[self.metric], default=None)

    def ranked(self) -> list[Trial]:
        """Trials from the best to the worst; then the pruned ones, then the failed ones."""
        sign = 1 if self.direction == "minimize" else -1
        states = ("complete", "pruned", "failed")
        return sorted(
            self.trials,
            key=lambda t: (
                states.index(t.state),
                sign * t.metrics.get(self.metric, math.inf) if t.state != "failed" else 0,
            ),
        )

    def table(self) -> tuple[list[str], list[list[str]]]:
        """The headings, and a row a trial, the best first."""
        names = list(dict.fromkeys(name for trial in self.trials for name in trial.settings))
        rows = [
            [
                str(trial.number),
                *(_cell(trial.settings.get(name)) for name in names),
                _cell(trial.metrics.get(self.metric)),
                trial.state + (f": {trial.error}" if trial.error else ""),
                f"{trial.seconds:.1f}",
            ]
            for trial in self.ranked()
        ]
        return ["trial", *names, self.metric, "state", "seconds"], rows

    def to_dict(self) -> dict[str, Any]:
        """All results, as strict JSON can hold them."""
        best = self.best
        values: dict[str, Any] = json_value(
            {
                "metric": self.metric,
                "direction": self.direction,
                "best": None if best is None else best.to_dict(),
                "trials": [trial.to_dict() for trial in self.trials],
            }
        )
        return values

    def save(self, folder: str | Path) -> None:
        """Write `trials.json`, `trials.html`, and of the best trial `best.yaml`, its settings alone.

        Raises: DataError: the folder cannot be written.
        """
        import yaml

        from glassformer.files.atomic import atomic_file
        from glassformer.training.trials_page import trials_page

        best = self.best
        files = {
            "trials.json": json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False, indent=2) + "\n",
            "trials.html": trials_page(self),
            **({} if best is None else {"best.yaml": yaml.safe_dump(best.settings, sort_keys=False)}),
        }
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            for name, text in files.items():
                with atomic_file(Path(folder) / name) as stream:
                    stream.write(text.encode("utf-8", "replace"))
        except OSError as problem:
            raise DataError(f"{folder}: the trials cannot be written: {error_reason(problem)}") from problem

    def _repr_html_(self) -> str:
        return html_table(*self.table(), caption=f"Trials, by {escape(self.metric)}")


def _cell(value: Any) -> str:
    return number(value) if isinstance(value, float) else "–" if value is None else str(value)
