"""Folders of runs: a trained model with the task, the data and the options that it was trained with.

run = open_run("runs/mood")
run.evaluate().report                          on the run's own validation rows
run.evaluate("test.csv", baselines=False)      on others
evaluate_model("a/model", "classify", "test.csv", columns={"label": "mood"})      a model that is no run

runs/mood/evaluation/validation/   report.json   examples.jsonl   errors.html   …
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from glassformer.data.rows import Rows
from glassformer.data.sequence import Headed
from glassformer.errors import ConfigError, DataError, WeightsError
from glassformer.evaluation.evaluate import REPORT, Evaluation, evaluate
from glassformer.files import shown
from glassformer.model import Model, load
from glassformer.runs.config import Config, check_options, config_of, read_config
from glassformer.runs.data import check_columns, rows_of
from glassformer.runs.folder import CONFIG, MODEL, name_of_run
from glassformer.tasks.base import Objective
from glassformer.tasks.columns import columns_of
from glassformer.tasks.evaluator import Judge, check_task, judge_of, objective_class

EVALUATION, VALIDATION = "evaluation", "validation"


@dataclass(frozen=True)
class Run:
    """A folder that `glassformer train` made.

    columns: role → column, where those of the rows it is judged on have other names than its own
    ignore: columns of the rows it is judged on that do not matter, beside those of its configuration
    """

    folder: Path
    config: Config
    columns: Mapping[str, str] = field(default_factory=dict)
    ignore: Sequence[str] = field(default=())

    @cached_property
    def model(self) -> Model:
        """The best model of the run. Raises: WeightsError: there is none (yet)."""
        if not (self.folder / MODEL).is_dir():
            raise WeightsError(
                f"{self.folder}: holds no model yet; train on: glassformer train {self.folder / CONFIG}"
            )
        return trained_model(self.folder / MODEL, self.config.task, self.config.device)

    @cached_property
    def objective(self) -> Objective:
        kind = objective_class(self.config.task)
        return kind(self.model, columns=self.config.data.columns or None, **self.config.objective)  # type: ignore[call-arg]

    @cached_property
    def parts(self) -> tuple[Rows, Rows | None]:
        """The rows it was trained and validated on."""
        try:
            return rows_of(self.config, objective_class(self.config.task))
        except DataError as error:
            raise DataError(
                f"{error} (the files of a run are looked for from the folder in which it was trained)"
            ) from error

    def place(self, part: str = VALIDATION) -> Path:
        """Where an evaluation of this name is kept. Raises: ConfigError: no name of a folder."""
        if Path(part).name != part or part in ("", ".", ".."):
            raise ConfigError(
                f"{shown(part)} cannot name an evaluation; take the name of a folder, such as test"
            )
        return self.folder / EVALUATION / part

    def is_judged(self) -> bool:
        """Is there a report on its validation rows that is not older than its model?"""
        report = self.place() / REPORT
        weights = [path.stat().st_mtime for path in (self.folder / MODEL).glob("*.safetensors")]
        return report.is_file() and report.stat().st_mtime >= max(weights, default=0)

    def judge(self, **options: Any) -> Judge:
        """The judge of its task, by the options that the run says, and these. Raises: UnsupportedError: it has none."""
        check_task(self.config.task)  # before the model is loaded
        judge = judge_of(self.config.task, self.objective, **{**self.config.judging, **options})
        if (began_with := self.config.model) is not None:
            judge.body = lambda: load(began_with, device=self.config.device, offline=True)
        return judge

    def rows(self, files: str | list[str] | None = None, *, format: Mapping[str, Any] | None = None) -> Rows:
        """Its validation rows, or those of other files, under the headings of its own.

        Args: files: as they are, whatever `data.folder` is · format: how these are read; None = as the run's own
        Raises: DataError: a run without validation rows, and no files; no such column. ConfigError: no such role.
        """
        data, usual = self.config.data, objective_class(self.config.task).COLUMNS
        columns_of(usual, self.columns)
        if files is not None:
            how = data.format if format is None else dict(format)
            found = replace(data, folder="", format=how, columns={**data.columns, **self.columns}).read(files)
        elif (held_out := self.parts[1]) is not None:
            found = held_out
        else:
            raise DataError(f"{self.folder}: was trained without validation rows; give files to judge it on")
        own = columns_of(usual, data.columns)
        names = {name: own[role] for role, name in self.columns.items() if name != own[role]}
        return Headed(found, names) if names else found

    def evaluate(
        self,
        files: str | list[str] | Rows | None = None,
        *,
        format: Mapping[str, Any] | None = None,
        baselines: bool = True,
        progress: Callable[[int], None] | None = None,
        resamples: int | None = None,
        **options: Any,
    ) -> Evaluation:
        """Judge it on its validation rows, or on others.

        Args:
            files, format: as in `rows`; or the rows themselves, under the headings of its own
            options: of the judge · else as in `evaluate` of evaluate.py
        Raises: DataError: no rows, or some that do not fit. ConfigError: a column that nothing reads.
            UnsupportedError: the task has no judge. WeightsError: there is no model.
        """
        judge, data = self.judge(**options), self.config.data
        rows = files if isinstance(files, Rows) else self.rows(files, format=format)
        check_columns(
            rows, self.objective, [*(x for x in data.ignore if x in ("*", *rows.columns)), *self.ignore]
        )
        names = files_of(rows)
        if files is None and isinstance(data.validation, float):
            names = [f"{name}, of which {100 * data.validation:g} % are held out" for name in names]
        return evaluate(
            self.config.task,
            judge,
            rows,
            train=self.parts[0] if baselines else None,
            name=name_of_run(self.folder),
            files=names,
            seed=self.config.training.seed,
            baselines=baselines,
            progress=progress,
            **({} if resamples is None else {"resamples": resamples}),
        )

    def evaluated(self, progress: Callable[[int], None] | None = None) -> Path:
        """The folder of the evaluation on its validation rows, which is made now where there is none yet."""
        if not self.is_judged():
            self.evaluate(progress=progress).save(self.place())
        return self.place()


def open_run(
    folder: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    ignore: Sequence[str] = (),
    device: str | None = None,
) -> Run:
    """The run of a folder.

    Args: columns, ignore: of the rows it is judged on, see `Run` · device: another than it was trained on
    Raises: ConfigError: the folder holds no run.
    """
    path = Path(folder)
    if not (path / CONFIG).is_file():
        raise ConfigError(
            f"{folder}: holds no run; that is a folder that `glassformer train` made, with its {CONFIG}"
        )
    config = config_of(read_config(path / CONFIG))
    return Run(path, replace(config, device=device or config.device), columns or {}, ignore)


def evaluate_model(
    model: str | Path,
    task: str,
    rows: Rows,
    *,
    train: Rows | None = None,
    columns: Mapping[str, str] | None = None,
    ignore: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    device: str = "cpu",
    baselines: bool = True,
    progress: Callable[[int], None] | None = None,
) -> Evaluation:
    """Judge a model that is no run of ours: a folder, or a name on the Hub.

    Args:
        task: of `glassformer train` · columns: role → column · options: of its objective, such as {"max_tokens": 128}
        train: what the baselines learn from · else as in `Run.evaluate`
    Raises: as `Run.evaluate`.
    """
    check_task(task)
    kind = objective_class(task)
    check_options(kind, options or {})
    objective = kind(trained_model(model, task, device), columns=columns or None, **(options or {}))  # type: ignore[call-arg]
    check_columns(rows, objective, ignore)
    return evaluate(
        task,
        judge_of(task, objective),
        rows,
        train=train,
        name=Path(model).name,
        files=files_of(rows),
        baselines=baselines,
        progress=progress,
    )


def trained_model(model: str | Path, task: str, device: str = "cpu") -> Model:
    """A model with the head that a task needs. Raises: WeightsError: it has none, or not all of it."""
    found = load(model, task=objective_class(task).TASK, device=device)
    if new := [name for name in found.report.new if name.startswith("head.")]:
        raise WeightsError(
            f"{model}: holds no head for the task {task!r} ({', '.join(new[:3])} would be drawn at random, and with it "
            "every answer); judge a model that was trained for it"
        )
    return found


def files_of(rows: Rows) -> list[str]:
    """The names of the files that rows are from."""
    return [Path(name).name for name in dict.fromkeys(map(rows.file, range(len(rows))))]


def name_of(file: str) -> str:
    """What an evaluation on a file is called: `test` of test.csv.gz, and never as that on the run's own rows."""
    whole = Path(file).name
    bare = whole.partition(".")[0]
    return whole if bare in ("", VALIDATION) else bare
