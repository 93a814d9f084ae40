"""The trials of a search: each of them, the best, a table, and files of all that."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path
from typing import Any, Literal

from glassformer.errors import DataError
from glassformer.files import reason
from glassformer.files.parsing import strict
from glassformer.pages.tables import html_table
from glassformer.runs.charts import number

Direction = Literal["minimize", "maximize"]


@dataclass(frozen=True)
class Trial:
    """One try. state: complete, pruned (it fell behind) or failed · figures: its last ones · error: why it failed"""

    number: int
    settings: dict[str, Any]
    figures: dict[str, float]
    state: Literal["complete", "pruned", "failed"]
    seconds: float
    error: str | None = None


@dataclass(frozen=True)
class Search:
    """What a search has found so far; shown in a notebook as its table."""

    metric: str
    direction: Direction
    trials: list[Trial] = field(default_factory=list)

    @property
    def best(self) -> Trial | None:
        """The trial with the best figure, of those that came to their end."""
        done = [trial for trial in self.trials if trial.state == "complete"]
        sign = 1 if self.direction == "minimize" else -1
        return min(done, key=lambda trial: sign * trial.figures[self.metric], default=None)

    def ranked(self) -> list[Trial]:
        """Trials from the best to the worst; then those that were pruned, then those that failed."""
        sign = 1 if self.direction == "minimize" else -1
        kinds = ("complete", "pruned", "failed")
        return sorted(
            self.trials,
            key=lambda t: (
                kinds.index(t.state),
                sign * t.figures.get(self.metric, math.inf) if t.state != "failed" else 0,
            ),
        )

    def table(self) -> tuple[list[str], list[list[str]]]:
        """The headings, and a row a trial, the best first."""
        names = list(dict.fromkeys(name for trial in self.trials for name in trial.settings))
        rows = [
            [
                str(trial.number),
                *(_shown(trial.settings.get(name)) for name in names),
                _shown(trial.figures.get(self.metric)),
                trial.state + (f": {trial.error}" if trial.error else ""),
                f"{trial.seconds:.1f}",
            ]
            for trial in self.ranked()
        ]
        return ["trial", *names, self.metric, "state", "seconds"], rows

    def to_dict(self) -> dict[str, Any]:
        """All of it, as JSON can hold it."""
        best = self.best
        found: dict[str, Any] = strict(
            {
                "metric": self.metric,
                "direction": self.direction,
                "best": None if best is None else asdict(best),
                "trials": [asdict(trial) for trial in self.trials],
            }
        )
        return found

    def save(self, folder: str | Path) -> None:
        """Write `trials.json`, `trials.html`, and of the best trial `best.yaml`, its settings alone.

        Raises: DataError: the folder cannot be written.
        """
        import yaml

        from glassformer.training.trials_page import trials_page
        from glassformer.weights.write import atomic_file

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
            raise DataError(f"{folder}: the trials cannot be written: {reason(problem)}") from problem

    def _repr_html_(self) -> str:
        return html_table(*self.table(), caption=f"Trials, by {escape(self.metric)}")


def _shown(value: Any) -> str:
    return number(value) if isinstance(value, float) else "–" if value is None else str(value)
