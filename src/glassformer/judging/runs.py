"""Folders of runs: a trained model with the task, the data and the options that it was trained with.

run = open_run("runs/mood")
run.evaluate().report                          on the run's own validation rows
run.evaluate("test.csv", baselines=False)      on others

runs/mood/evaluation/validation/   report.json   examples.jsonl   errors.html   …
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from glassformer.data.rows import Rows, read_rows
from glassformer.errors import ConfigError, DataError
from glassformer.judging.evaluate import Evaluation, evaluate
from glassformer.judging.judge import Judge, judge_of
from glassformer.model import Model, load
from glassformer.training.folder import CONFIG, MODEL
from glassformer.training.objective import Objective
from glassformer.training.run import Config, config_of, objective_class, read_config, rows_of

EVALUATION, VALIDATION = "evaluation", "validation"


@dataclass(frozen=True)
class Run:
    """A folder that `glassformer train` made."""

    folder: Path
    config: Config

    @cached_property
    def model(self) -> Model:
        """The best model of the run. Raises: WeightsError: there is none (yet)."""
        return load(self.folder / MODEL, task=objective_class(self.config.task).TASK)

    @cached_property
    def objective(self) -> Objective:
        kind = objective_class(self.config.task)
        return kind(self.model, columns=self.config.data.columns or None, **self.config.objective)  # type: ignore[call-arg]

    @cached_property
    def parts(self) -> tuple[Rows, Rows | None]:
        """The rows it was trained and validated on."""
        return rows_of(self.config, objective_class(self.config.task))

    def place(self, part: str = VALIDATION) -> Path:
        """Where an evaluation of this name is kept."""
        return self.folder / EVALUATION / part

    def judge(self, **options: Any) -> Judge:
        """The judge of its task. Raises: UnsupportedError: the task has none."""
        return judge_of(self.config.task, self.objective, **options)

    def evaluate(
        self,
        files: str | list[str] | None = None,
        *,
        format: dict[str, Any] | None = None,
        baselines: bool = True,
        resamples: int | None = None,
        progress: Callable[[int], None] | None = None,
        **options: Any,
    ) -> Evaluation:
        """Judge it on its validation rows, or on other files.

        Args:
            files: as they are, whatever `data.folder` is · format: how these are read; None = as the run's own
            options: of the judge
        Raises: DataError: a run without validation rows, and no files.
        """
        data = self.config.data
        said: str | list[str] | float | None = files
        if files is not None:
            rows = read_rows(files, **(data.format if format is None else format))
        elif (held_out := self.parts[1]) is not None:
            rows = held_out
            said = data.train if isinstance(data.validation, float) else data.validation
        else:
            raise DataError(f"{self.folder}: was trained without validation rows; give files to judge it on")
        names = [said] if isinstance(said, str) else said if isinstance(said, list) else []
        more = {} if resamples is None else {"resamples": resamples}
        return evaluate(
            self.config.task,
            self.judge(**options),
            rows,
            train=self.parts[0] if baselines else None,
            name=self.folder.name,
            files=[Path(name).name for name in names],
            seed=self.config.training.seed,
            baselines=baselines,
            progress=progress,
            **more,
        )


def open_run(folder: str | Path) -> Run:
    """The run of a folder.

    Raises: ConfigError: the folder holds no run.
    """
    path = Path(folder)
    if not (path / CONFIG).is_file():
        raise ConfigError(
            f"{folder}: holds no run; that is a folder that `glassformer train` made, with its {CONFIG}"
        )
    return Run(path, config_of(read_config(path / CONFIG)))
