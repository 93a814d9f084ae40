"""Studies of factors: each combination of levels is evaluated once, and compared with the others on the same rows.

    factors   method: [prompt, knn]   labels: [8, 16, 32]   seed: 0, 1
        ↓     their product
    cells     {method: prompt, labels: 8}, seed 0   …       evaluate(cell) → scores of the rows, and costs
        ↓     each is kept in its folder, and never evaluated again
    report    a table, paired differences with intervals, curves over labels, quality by cost    (report.py)

    def score(cell):
        right = classify(cell["method"], cell["labels"], cell.seed)          # an array: is each test row right?
        return scored({"accuracy": right}, {"seconds": 12.0})

    Study({"method": ["prompt", "knn"], "labels": [8, 16, 32]}, score, "runs/methods", seeds=[0, 1]).run()

runs/methods/study.json                    runs/methods/knn-16-labels/seed-0/cell.json      a cell
             study.html

A file names the function: `evaluate: "few_labels.py:score"`. Without one the cells are trainings (training.py).
"""

from __future__ import annotations

import ast
import hashlib
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

from glassformer.errors import ConfigError, DataError, GlassformerError, nearest
from glassformer.files import as_path, counted, nan_from_null, read_json_object, safe_repr
from glassformer.files.atomic import write_json
from glassformer.files.lock import FolderLock
from glassformer.files.schema import check, parse
from glassformer.reports.report import plain
from glassformer.runs.folder import seed_folder
from glassformer.runs.unfinished import ProgressFile
from glassformer.studies.cells import Cell, CellResult, NamedLevel, changed, folder_name, label_of, scored
from glassformer.studies.plan import StudyPlan
from glassformer.studies.report import PlannedCell, PlannedStudy, ReportOptions, StudyReport
from glassformer.studies.summary import Factors, check_comparable, study_report
from glassformer.tasks.metrics.metric import Bootstrap
from glassformer.training.callbacks import Callback

CELL = "cell.json"


class StudyProgress:
    """Callbacks of a running study; each does nothing until a subclass overrides it."""

    def start(self, what: str) -> None:
        """Before all of it: what will be done, in a sentence."""

    def training(self, number: int, count: int, what: str) -> None:
        """Before each training: its number, of how many."""

    def making(self, what: str) -> None:
        """Before what is to be evaluated is made: which cell."""

    def evaluating(self, what: str) -> None:
        """Before each evaluation: of which cell."""

    def rows(self, what: str, total: int | None) -> AbstractContextManager[Callable[[int], None]]:
        """Around work on this many rows; the function it gives is called with how many more are done."""
        return nullcontext(lambda done: None)

    def callbacks(self) -> list[Callback]:
        """Callbacks for the trainer of the next training."""
        return []


class Evaluator(ABC):
    """What the cells of a study are, and how one is evaluated.

    REPEATS: whether a cell is evaluated again where its result is of other settings; else they are refused
    factors: name → levels, the first being what the others are compared with
    """

    REPEATS: ClassVar[bool] = False
    factors: Factors

    @abstractmethod
    def cells(self, seeds: Sequence[int] | None) -> list[Cell]:
        """The cells in the order in which they are evaluated; seeds: None = those of the configuration."""

    @abstractmethod
    def planned(self, seeds: Sequence[int] | None) -> PlannedStudy:
        """What would be done, which may read all data, and evaluates nothing."""

    def check_inputs(self) -> None:  # noqa: B027 - most have checked them when they were made
        """Errors before the output folder is made, so that a refusal leaves none. Raises: ConfigError, DataError."""

    @abstractmethod
    def check(self, cells: Sequence[Cell]) -> str:
        """Errors before hours of work, and what will be done in a sentence. Raises: ConfigError, DataError."""

    @abstractmethod
    def made_of(self, cell: Cell) -> dict[str, Any]:
        """All that the result of a cell depends on."""

    @abstractmethod
    def evaluate(self, cell: Cell, progress: StudyProgress) -> CellResult:
        """Evaluate a cell."""

    def completed(self, report: StudyReport, cells: Sequence[Cell]) -> StudyReport:
        """The report with what this evaluator knows in addition."""
        return report


class FunctionEvaluator(Evaluator):
    """Cells that a function evaluates: the product of all levels, for each seed.

    Args:
        function: called with a `Cell`; gives what `scored` gives, or its metrics alone
        name: of the function, in a file
        code: a digest of its file: cells of another one are not mixed with these
        options: of the study, which the function finds in the cell
    Raises: ConfigError: no factor, one without levels, or with a level twice.
    """

    def __init__(
        self,
        factors: Factors,
        function: Callable[[Cell], Any],
        output: Path,
        *,
        name: str = "",
        code: str = "",
        seeds: Sequence[int] = (0,),
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if not factors:
            raise ConfigError("study.factors names no factor; give at least one, such as labels: [8, 16, 32]")
        for factor, levels in factors.items():
            check(list[NamedLevel], list(levels), f"study.factors.{factor}")
            if len(levels) != len(set(levels)) or not levels:
                raise ConfigError(f"study.factors.{factor} is {safe_repr(levels)}; it must be levels, each once")
        self.factors, self.function, self.output, self.seeds = factors, function, output, seeds
        self.name = name or getattr(function, "__qualname__", type(function).__name__)
        self.code, self.options = code, options or {}

    def cells(self, seeds: Sequence[int] | None) -> list[Cell]:
        cells = []
        for seed in seeds or self.seeds:
            for levels in product(*self.factors.values()):
                named = dict(zip(self.factors, levels, strict=True))
                cells.append(Cell(named, seed, seed_folder(self.output / folder_name(named), seed), self.options))
        return cells

    def planned(self, seeds: Sequence[int] | None) -> PlannedStudy:
        planned = []
        for cell in self.cells(seeds):
            saved = read_json_object(cell.folder / CELL, DataError) if (cell.folder / CELL).is_file() else None
            otherwise = "" if saved is None else changed(saved.get("made_of"), self.made_of(cell))
            planned.append(
                PlannedCell(label_of(cell.levels), cell.seed, saved is not None and not otherwise, otherwise=otherwise)
            )
        return PlannedStudy(planned)

    def check(self, cells: Sequence[Cell]) -> str:
        done = sum((cell.folder / CELL).is_file() for cell in cells)
        return f"{counted(len(cells), 'cell')} of {self.name}" + (f" ({done} finished before)" if done else "")

    def made_of(self, cell: Cell) -> dict[str, Any]:
        made = {"evaluate": self.name, "options": plain(self.options), "levels": dict(cell.levels), "seed": cell.seed}
        return made | ({"code": self.code} if self.code else {})

    def evaluate(self, cell: Cell, progress: StudyProgress) -> CellResult:
        progress.evaluating(str(cell))
        cell.folder.mkdir(parents=True, exist_ok=True)
        try:
            answer = self.function(cell)
            result = scored(answer) if isinstance(answer, Bootstrap | Mapping) else answer
        except Exception as error:  # the function is the caller's own, and may raise anything
            raise self._failure(cell, error) from error
        if not isinstance(result, CellResult) or not result.scores:
            raise ConfigError(
                f"{self.name} gave {safe_repr(answer)} for {cell}; it must give metrics, such as {{'accuracy': …}}, a "
                "number for each row or one; with costs: scored({'accuracy': …}, {'seconds': …})"
            )
        return result

    def _failure(self, cell: Cell, error: Exception) -> Exception:
        """What the function raised, in a sentence: where, for which cell, and what."""
        own = isinstance(error, GlassformerError)
        if (
            isinstance(error, GlassformerError) and error.exit_code != GlassformerError.exit_code
        ):  # a training of the function was stopped, or diverged
            return error
        frames = traceback.extract_tb(error.__traceback__)[1:]  # the first is ours
        checked = frames and frames[0].filename == scored.__code__.co_filename  # what it gave, behind its end
        within = [x for x in frames if x.filename == frames[0].filename]  # it may be NumPy that raised it
        where = f" ({Path(within[-1].filename).name}:{within[-1].lineno})" if within and not checked else ""
        kind = ConfigError if isinstance(error, ConfigError) else DataError
        return kind(f"{self.name}{where}, for {cell}: {'' if own else f'{type(error).__name__}: '}{error}")


class Study:
    """Factors, what evaluates their cells, and a folder for the results.

    Args:
        factors: name → levels; of the others each is compared with the first
        evaluate: called with a `Cell`, see `FunctionEvaluator`; or an `Evaluator`, which has the factors
        output: folder of the results
        seeds: each cell is evaluated with each of them
        options: what the report shows
        settings: for the function, the same for all cells
        name: of the function, in a file
    """

    def __init__(
        self,
        factors: Factors,
        evaluate: Callable[[Cell], Any] | Evaluator,
        output: str | Path,
        *,
        seeds: Sequence[int] = (0,),
        options: ReportOptions | None = None,
        settings: Mapping[str, Any] | None = None,
        name: str = "",
    ) -> None:
        self.output, self.options = as_path(output, "output"), options or ReportOptions()
        if not isinstance(evaluate, Evaluator):
            evaluate = FunctionEvaluator(factors, evaluate, self.output, name=name, seeds=seeds, options=settings)
        self.evaluator = evaluate
        self.options.check(evaluate.factors)

    def plan(self, seeds: Sequence[int] | None = None) -> PlannedStudy:
        """What would be done; evaluates nothing."""
        self.options.check_against([cell.levels for cell in self.evaluator.cells(seeds)])
        return self.evaluator.planned(seeds)

    def run(self, seeds: Sequence[int] | None = None, progress: StudyProgress | None = None) -> StudyReport:
        """Evaluate the cells that are missing; the report is written after each.

        Args:
            seeds: None = those of the study
        Raises: ConfigError: the folder holds results of other settings. DataError: rows or results that cannot be
            read. TrainingStopped: by Ctrl-C; what was trained is kept.
        """
        progress, evaluator = progress or StudyProgress(), self.evaluator
        if self.output.exists() and not self.output.is_dir():
            raise ConfigError(f"{self.output}: is a file; give a folder for the study")
        evaluator.check_inputs()
        self.output.mkdir(parents=True, exist_ok=True)
        with FolderLock(self.output / "lock"):  # two studies in one folder would evaluate the same cells
            cells, done = evaluator.cells(seeds), dict[str, tuple[Cell, CellResult]]()
            _check_folders(cells)
            self.options.check_against([cell.levels for cell in cells])
            progress.start(evaluator.check(cells))
            saved = [self._saved(cell) for cell in cells]
            finished = sum(result is not None for result in saved)
            file = ProgressFile(self.output, "cell", len(cells))
            for cell, result in zip(cells, saved, strict=True):
                if result is None:
                    file.begin(str(cell), finished)
                    finished += 1
                known = self._evaluated(cell, done, progress) if result is None else result
                if result is not None:
                    self._check_with(cell, known, done)
                done[str(cell.folder.relative_to(self.output))] = cell, known
                if result is None or len(done) == len(cells):
                    report = study_report(evaluator.factors, done, len(cells), self.options)
                    report = evaluator.completed(report, cells[: len(done)])
                    report.write(self.output)
            file.end()
        return report

    def _saved(self, cell: Cell) -> CellResult | None:
        """The result of a cell that was evaluated before; None = it was not, or is to be evaluated again."""
        path = cell.folder / CELL
        if not path.is_file():
            return None
        saved = dict(read_json_object(path, DataError))
        if what := changed(saved.pop("made_of", None), self.evaluator.made_of(cell)):
            if self.evaluator.REPEATS:
                return None
            raise ConfigError(
                f"{cell.folder}: was evaluated otherwise: {what}; choose another output, or remove that folder to "
                "evaluate it again"
            )
        try:
            result = parse(CellResult, nan_from_null(saved))
        except ConfigError as error:
            raise DataError(f"{path}: {error}; remove it to evaluate the cell again") from error
        return self._with_metrics(cell, result)

    def _evaluated(
        self, cell: Cell, done: Mapping[str, tuple[Cell, CellResult]], progress: StudyProgress
    ) -> CellResult:
        result = self._with_metrics(cell, self.evaluator.evaluate(cell, progress))
        self._check_with(cell, result, done)  # before it is kept
        write_json(cell.folder / CELL, {**plain(result), "made_of": self.evaluator.made_of(cell)}, DataError)
        return result

    def _check_with(self, cell: Cell, result: CellResult, done: Mapping[str, tuple[Cell, CellResult]]) -> None:
        """Raises: ConfigError, DataError: it cannot be in one report with those that are done."""
        if not done:
            return
        try:
            check_comparable(self.evaluator.factors, cell, result, done, self.options)
        except (ConfigError, DataError) as error:
            saved = [str(x.folder) for x in (cell, *(each for each, _ in done.values())) if (x.folder / CELL).is_file()]
            raise type(error)(f"{error}; remove the folders of cells to evaluate again, such as {saved[0]}") from None

    def _with_metrics(self, cell: Cell, result: CellResult) -> CellResult:
        """A result that has the metrics that the report shows. Raises: ConfigError: it has not."""
        for name in filter(None, [self.options.metric, *self.options.more]):
            if name not in result.scores:
                raise ConfigError(
                    f"study.report names the metric {safe_repr(name)}{nearest(name, result.scores)}; {cell} has: "
                    f"{', '.join(result.scores)}"
                )
        return result


def _check_folders(cells: Sequence[Cell]) -> None:
    """Raises: ConfigError: two cells would have one folder."""
    first: dict[Path, Cell] = {}
    for cell in cells:
        other = first.setdefault(cell.folder, cell)
        if other is not cell:
            pairs = [(safe_repr(other[name]), safe_repr(level)) for name, level in cell.levels.items()]
            levels = ", ".join(f"{one} and {two}" for one, two in pairs if one != two)
            raise ConfigError(f"two cells of the study would have one folder, {cell.folder}: rename one of {levels}")


# ------------------------------------------------------------------------------------------------ from a file

EVALUATORS: dict[str, Callable[[Cell], Any]] = {}
"""Functions that a file may name, by their names: see `register`."""


def register(name: str, function: Callable[[Cell], Any]) -> None:
    """Let files name a function that evaluates a cell: `evaluate: NAME`."""
    EVALUATORS[name] = function


def cell_function(name: str) -> Callable[[Cell], Any]:
    """The function of a name that was registered, of `package.module:function`, or of `folder/file.py:function`.

    Raises: ConfigError: there is none.
    """
    if name in EVALUATORS:
        return EVALUATORS[name]
    module, _, function = name.rpartition(":")
    problem = f"study.evaluate is {safe_repr(name)}"
    if not module or not function:
        known = f"; registered: {', '.join(EVALUATORS) or 'none'}{nearest(name, EVALUATORS)}"
        raise ConfigError(f"{problem}; it must be module:function, or file.py:function{known}")
    try:
        made = _module_of_file(module) if module.endswith(".py") else import_module(module)
    except Exception as error:  # the file is the caller's own, and may raise anything
        raise ConfigError(f"{problem}, which cannot be imported: {error}") from error
    functions: dict[str, Callable[[Cell], Any]] = {each: x for each, x in vars(made).items() if callable(x)}
    if function not in functions:
        raise ConfigError(f"{problem}; {module} has no function {safe_repr(function)}{nearest(function, functions)}")
    return functions[function]


def code_digest(name: str) -> str:
    """The file of an imported function, and the SHA-256 of its code without comments; "" = of one that was registered.

    `few_labels.py, sha256 3f2a8c01d2e4`; what the file itself imports is not in it.
    """
    module, _, _ = name.rpartition(":")
    file = None if name in EVALUATORS else getattr(sys.modules[module], "__file__", None)
    if file is None or not file.endswith(".py"):
        return ""
    code = ast.unparse(ast.parse(Path(file).read_bytes()))  # comments and line breaks change no result
    return f"{Path(file).name}, sha256 {hashlib.sha256(code.encode()).hexdigest()[:12]}"


def _module_of_file(path: str) -> Any:
    spec = spec_from_file_location(path, path)  # by its path, which no other module is called
    assert spec is not None and spec.loader is not None  # its name ends in .py
    module = sys.modules[path] = module_from_spec(spec)  # where its dataclasses look for it
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True, kw_only=True)
class FunctionPlan:
    """The options under `study` of cells that a function evaluates.

    evaluate: a registered name, package.module:function, or file.py:function
    factors: name → levels
    options: for the function
    report: what the report shows
    """

    evaluate: str
    factors: dict[str, list[NamedLevel]]
    options: dict[str, Any] = field(default_factory=dict)
    report: ReportOptions = field(default_factory=ReportOptions)


def _check_kind(section: Mapping[str, Any]) -> None:
    """Check that a study of trainings is meant. Raises: ConfigError: a misspelt option of one of a function."""
    of_function = [x.name for x in fields(FunctionPlan)]
    of_trainings = [x.name for x in fields(StudyPlan)]
    both = f"of cells that a function evaluates: {', '.join(of_function)}; of trainings: {', '.join(of_trainings)}"
    only = [x for x in of_function if x not in of_trainings]
    for name in section:
        if name not in (*of_function, *of_trainings) and (meant := nearest(name, only)):
            raise ConfigError(f"study: {safe_repr(name)} is no option{meant}; {both}")
    if misplaced := [name for name in only if name in section]:
        raise ConfigError(f"study.{misplaced[0]} is for a function, which study.evaluate does not name; {both}")


def parse_study(
    values: Mapping[str, Any], output: str | None = None, folder: str | None = None, baseline: str | None = None
) -> Study:
    """A study from the keys and values of its YAML file.

    Args:
        output, folder: of the study and of its data files, where they are others than the file says
        baseline: as `report.baseline`, where it is another than the file says
    Raises: ConfigError: an invalid key or value.
    """
    section = values.get("study")
    if baseline is not None and isinstance(section, Mapping):
        section = {**section, "report": {**(section.get("report") or {}), "baseline": baseline}}
        values = {**values, "study": section}
    if not isinstance(section, Mapping):
        raise ConfigError(
            "a study needs a section `study` with what to train on and to evaluate on, as in examples/transfer.yaml, "
            "or with factors and a function that evaluates a cell; to train one model: glassformer train"
        )
    if "evaluate" not in section:
        from glassformer.studies.training import trained_study  # which knows models, and this module

        _check_kind(section)
        return trained_study(values, output, folder)
    plan = parse(FunctionPlan, section, "study")
    if unknown := [name for name in values if name not in ("study", "output")]:
        raise ConfigError(
            f"{safe_repr(unknown[0])} is no key of a study whose cells a function evaluates; allowed: output, study; "
            "what the function needs goes under study.options"
        )
    settings = plan.options if folder is None else {**plan.options, "data": folder}
    target = output or values.get("output") or "runs/study"
    check(str, target, "output")
    function = cell_function(plan.evaluate)  # which imports its module
    code = code_digest(plan.evaluate)
    evaluator = FunctionEvaluator(
        plan.factors, function, as_path(target, "output"), name=plan.evaluate, code=code, options=settings
    )
    return Study({}, evaluator, target, options=plan.report)
