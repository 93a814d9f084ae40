"""Model compression as a study: variants of a model, each made by a way, and what each costs on the same rows.

    original ──int8──> OUTPUT/int8            quality with a paired interval, size on disk and in RAM, latency (median,
             ──distilled──> OUTPUT/distilled  p95), throughput, FLOPs, bytes read
                  └──int8──> OUTPUT/distilled+int8

Every folder is a model that `glassformer.load` loads. The same command resumes: what was measured is not made again,
unless a setting, the model or the rows have changed. A gate (`max_drop`, `under`, `within`) refuses to write a variant
that loses too much, or is too large or too slow; what was measured of it is in the report nevertheless.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

from glassformer.data.sequence import RowSequence
from glassformer.engine.prepare import PRECISIONS, usual_precision
from glassformer.errors import ConfigError, DataError, UnsupportedError, nearest
from glassformer.evaluation.bench_models import Measured, TimedSystem, measure
from glassformer.evaluation.compare.best_value import Costed, best_value, is_faster
from glassformer.evaluation.compare.costs import WARM_UP
from glassformer.evaluation.error_analysis.errors import lost_tables
from glassformer.evaluation.runs import check_network, open_run
from glassformer.files import as_path, file_sha256, nan_from_null, read_json_object, safe_repr
from glassformer.files.schema import Allowed, Count, NonNegative, Schema, parse
from glassformer.hub import resolve
from glassformer.reports.report import plain
from glassformer.reports.table import byte_amount
from glassformer.runs.config import RunConfig, as_list, config_values, parse_config
from glassformer.runs.data import read_splits, read_usable, sample_rows
from glassformer.runs.folder import CONFIG, MODEL, read_config, run_name, seed_folder
from glassformer.studies.cells import Cell, CellResult, scored
from glassformer.studies.options import ShrinkOptions
from glassformer.studies.report import PlannedCell, PlannedStudy, ReportOptions, StudyReport
from glassformer.studies.study import CELL, Evaluator, Study, StudyProgress
from glassformer.studies.ways import WAYS, Source, Way, find_way
from glassformer.tasks.base import Task
from glassformer.tasks.columns import RowTask, check_columns
from glassformer.tasks.metrics.metric import Interval, greater_is_better
from glassformer.tasks.registry import task_class
from glassformer.tasks.types import Prediction

ORIGINAL, VARIANT = "original", "variant"
WORK = ".work"
"""Folder of trainings that are not finished, in the output."""
VARIANT_NAME = re.compile(r"\w[\w.+-]*")
"""Of a variant, and of its folder."""
UNITS: Mapping[str, float] = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
TIMES: Mapping[str, float] = {"MS": 1.0, "S": 1e3}
AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]*)")


def _amount_in(units: Mapping[str, float], text: object) -> float | None:
    """A number with a unit as a number, such as `25MB`; None = it is none."""
    match = AMOUNT.fullmatch(str(text).strip())
    size = None if match is None else units.get(match[2].upper())
    return None if match is None or size is None else float(match[1]) * size


Size = Annotated[str | float, Allowed("a size with its unit, such as 25MB", lambda x: (_amount_in(UNITS, x) or 0) > 0)]
Latency = Annotated[
    str | float, Allowed("a time with its unit, such as 5ms", lambda x: (_amount_in(TIMES, x) or 0) > 0)
]


@dataclass(frozen=True, kw_only=True)
class Variant(Schema):
    """How a variant is made.

    way: which way; None = that of its name, of `a+b` b
    begin: a variant before it that it is made of; None = the model, of `a+b` a
    options: of the way
    precision: of inference: fp32, fp16, bf16 or int8; None = as its weights are stored
    """

    way: str | None = None
    begin: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    precision: str | None = None


@dataclass(frozen=True, kw_only=True)
class ShrinkPlan(Schema):
    """The section `shrink` of a recipe.

    variants: name → how it is made; left out = each way by itself that has the rows it needs and suits the model
    max_drop: gate: points (hundredths) of the task's metric that a variant may lose; None = any
    under, within: gate: size on disk and median latency of a row; of those that pass, the best alone is kept
    limit: a random sample of this many validation rows
    calibration: how many training rows ways that observe activations get
    runs: how many single rows are timed, after 10 more
    report: what the report shows
    """

    variants: dict[str, Variant | None] | list[str] | None = None
    max_drop: NonNegative | None = None
    under: Size | None = None
    within: Latency | None = None
    limit: Count | None = None
    calibration: Count = 512
    runs: Count = 100
    report: ReportOptions = field(default_factory=lambda: ReportOptions(cost="latency", area="bytes"))

    @property
    def named(self) -> dict[str, Variant]:
        """The variants in their order; those that a name such as `a+b` begins with are added before it."""
        given = self.variants if isinstance(self.variants, dict) else dict.fromkeys(self.variants or ())
        named: dict[str, Variant] = {}
        for name, variant in given.items():
            own = variant or Variant()
            first, _, last = name.rpartition("+")
            if own.begin is None and own.way is None and first:
                parts = first.split("+")
                for i in range(len(parts)):  # a+b+c begins with a+b, which begins with a
                    before = "+".join(parts[: i + 1])
                    named.setdefault(before, Variant(way=parts[i], begin="+".join(parts[:i]) or None))
                own = replace(own, begin=first, way=last)
            named[name] = replace(own, way=own.way or name)
        return named

    @property
    def keeps_best(self) -> bool:
        """Are variants tried until one is small or fast enough?"""
        return self.under is not None or self.within is not None

    def validate(self) -> None:
        if self.variants is not None and not self.variants:
            raise ConfigError("shrink.variants names no variant; name one, such as half, or leave it out for all ways")
        if isinstance(self.variants, list) and (twice := [x for x in self.variants if self.variants.count(x) > 1]):
            raise ConfigError(
                f"shrink.variants names {safe_repr(twice[0])} twice; a way with other options needs another name: "
                f"{twice[0]}-2: {{way: {twice[0]}, options: …}}"
            )
        named = self.named
        for name, variant in named.items():
            path, before = f"shrink.variants.{name}", list(named)[: list(named).index(name)]
            if not VARIANT_NAME.fullmatch(name) or name == ORIGINAL:
                raise ConfigError(f"{path}: is no name for a variant; take letters, digits, and + - . _ within")
            if variant.begin is not None and variant.begin not in before:
                raise ConfigError(
                    f"{path}.begin is {safe_repr(variant.begin)}{nearest(variant.begin, before)}; variants before it: "
                    f"{', '.join(before) or 'none'}"
                )
            find_way(variant.way or name).parse(variant.options, f"{path}.options")
            if variant.precision not in (None, *PRECISIONS):
                raise ConfigError(
                    f"{path}.precision is {safe_repr(variant.precision)}{nearest(str(variant.precision), PRECISIONS)}; "
                    f"allowed: {', '.join(PRECISIONS)}"
                )


class UnsuitableWay(UnsupportedError):
    """A way that cannot shrink this model.

    name: of the variant
    """

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


class ShrinkEvaluator(Evaluator):
    """Cells that are variants of a model.

    Args:
        folder: of the model
        config: of its run, or one with defaults; `output` is where the variants go
        rows: train, validation; None = there are none
    Raises: ConfigError: a gate, or a table, without validation rows; a way that lacks the rows it needs.
    """

    REPEATS = True

    def __init__(
        self,
        folder: Path,
        config: RunConfig,
        plan: ShrinkPlan,
        rows: tuple[RowSequence | None, RowSequence | None],
    ) -> None:
        self.folder, self.config, self.output = folder, config, Path(config.output)
        train, validation = rows
        if validation is None or not len(validation):
            what = "the gate max_drop" if plan.max_drop is not None else "quality"
            raise ConfigError(f"{what} is measured on validation rows, and {folder} has none; name them: data= FILE")
        _check_output(folder, self.output)
        self.tries_all = plan.variants is None
        self.left_out: dict[str, str] = {}
        if self.tries_all:
            usable = [name for name in WAYS if train is not None or not find_way(name).needs(find_way(name).parse({}))]
            plan = replace(plan, variants=usable)
        self.plan, self.variants = plan, plan.named
        self.train, self.validation = train, sample_rows(validation, plan.limit, config.training.seed)
        self.factors = {VARIANT: [ORIGINAL, *self.variants]}

    def cells(self, seeds: Sequence[int] | None) -> list[Cell]:
        several = len(seeds or ()) > 1
        cells = []
        for seed in seeds or [self.config.training.seed]:
            for name in (ORIGINAL, *self.variants):
                folder = self.output / name
                cells.append(Cell({VARIANT: name}, seed, seed_folder(folder, seed) if several else folder))
        return cells

    def planned(self, seeds: Sequence[int] | None) -> PlannedStudy:
        cells = self.cells(seeds)
        return PlannedStudy([PlannedCell(cell[VARIANT], cell.seed, (cell.folder / CELL).is_file()) for cell in cells])

    def check(self, cells: Sequence[Cell]) -> str:
        for cell in cells:  # a variant takes the place of its folder
            if cell.folder.is_dir() and any(cell.folder.iterdir()) and not (cell.folder / CELL).is_file():
                raise ConfigError(
                    f"{cell.folder}: holds files that are not of `glassformer shrink`; choose another output"
                )
        return f"{', '.join(self.variants)} of {self.folder}, measured on {len(self.validation):,} rows"

    def check_inputs(self) -> None:
        """Check by the model's sizes what can be made of it.

        Raises: ConfigError, DataError, UnsupportedError: a variant that was named cannot be made; of all ways those
            that can are left.
        """
        source = self._source(self.folder, self.cells(None)[0])
        assert source.outline  # which is refused for all ways where it is of a model that none can shrink
        for name in list(self.variants):
            try:
                self._check_variant(name, source)
            except (ConfigError, DataError, UnsupportedError) as error:
                if not self.tries_all:
                    raise
                self.leave_out(name, f"{name}: {error}")

    def _check_variant(self, name: str, source: Source) -> None:
        """Raises: ConfigError, DataError, UnsupportedError: it cannot be made, as far as that can be known now."""
        variant, way, options = self.variants[name], self._way(name), self._options(name)
        needed = {rows: source.needed(rows, variant.way or name) for rows in way.needs(options)}
        if "calibration" in needed:
            self._original.encode(needed["calibration"])  # rows of another task, or with other labels, are refused
        elif needed and isinstance(self._original, RowTask):
            check_columns(needed["train"], self._original.columns_read())
        if variant.begin is None:
            way.check(source, options)
        elif last := [x for x in self._chain(name)[:-1] if self._way(x).LAST]:
            raise ConfigError(
                f"{name} begins with {last[-1]}, {self._way(last[-1]).LAST}, of which no way makes another model; put "
                f"{self.variants[last[-1]].way} last"
            )

    def _way(self, name: str) -> Way[Any]:
        return find_way(self.variants[name].way or name)

    def _options(self, name: str) -> Any:
        return self._way(name).parse(self.variants[name].options, f"shrink.variants.{name}.options")

    @cached_property
    def _digest(self) -> str:
        """SHA-256 of the model's config and weights."""
        files = sorted(path for path in self.folder.iterdir() if path.suffix in (".json", ".safetensors", ".bin"))
        digests = [f"{path.name} {file_sha256(path)}" for path in files]
        return hashlib.sha256("\n".join(digests).encode()).hexdigest()

    def made_of(self, cell: Cell) -> dict[str, Any]:
        name: str = cell[VARIANT]
        measured = {
            "model": self._digest, "rows": self.validation.fingerprint, "runs": self.plan.runs, "seed": cell.seed,
        }  # fmt: skip
        if name == ORIGINAL:
            return measured
        gate = {name: getattr(self.plan, name) for name in ("max_drop", "under", "within")}
        return {**measured, "gate": gate, "steps": [self._step(name, cell) for name in self._chain(name)]}

    def _step(self, name: str, cell: Cell) -> dict[str, Any]:
        """All that one way on the path to a variant depends on."""
        variant, source = self.variants[name], self._source(self.folder, cell)
        given = self._options(name)
        rows = {needed: source.needed(needed, name).fingerprint for needed in self._way(name).needs(given)}
        trained = {"training": plain(self.config.training)} if "train" in rows else {}
        options = plain(given)
        return {"way": variant.way, "options": options, "precision": variant.precision, **rows, **trained}

    def _chain(self, name: str) -> list[str]:
        """The variants on the path from the model to a variant, it last."""
        begin = self.variants[name].begin
        return [*([] if begin is None else self._chain(begin)), name]

    def _folder(self, name: str, cell: Cell) -> Path:
        """The folder of another variant with the seed of a cell."""
        return self.output / name / cell.folder.relative_to(self.output / cell[VARIANT])

    def _source(self, folder: Path, cell: Cell) -> Source:
        calibration = None if self.train is None else sample_rows(self.train, self.plan.calibration, cell.seed)
        config = replace(self.config, training=replace(self.config.training, seed=cell.seed))
        work = self.output / WORK
        return Source(folder, config, self.train, calibration, self.validation, cell.seed, work)

    @cached_property
    def _original(self) -> Task:
        """The original with its task, next to which the others are timed."""
        return self._source(self.folder, self.cells(None)[0]).task

    @cached_property
    def _predictions(self) -> Sequence[Prediction]:
        """What the original predicts: as it was measured, or again, where that was done before."""
        return list(self._original.predict(self.validation))

    # ------------------------------------------------------------------------------------------------- a variant

    def evaluate(self, cell: Cell, progress: StudyProgress) -> CellResult:
        name: str = cell[VARIANT]
        if name == ORIGINAL:
            cell.folder.mkdir(parents=True, exist_ok=True)
            progress.evaluating(name)
            measured = self._measured(self._original, None, progress, cell)
            self._predictions = measured.predictions
            return self._result(measured)
        self.output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".making-", dir=self.output) as made:
            start = perf_counter()
            try:
                result = self._made_and_measured(cell, Path(made), progress)
            except (ConfigError, DataError, UnsupportedError) as error:
                if self.tries_all:  # the caller has not named this way, and it does not suit every model
                    raise UnsuitableWay(f"{name}: {error}", name) from error
                raise
            result = replace(result, costs={**result.costs, "seconds": perf_counter() - start})
            shutil.rmtree(cell.folder, ignore_errors=True)  # of other settings
            if result.note:
                cell.folder.mkdir(parents=True)
            else:
                cell.folder.parent.mkdir(parents=True, exist_ok=True)
                os.replace(Path(made) / name, cell.folder)
        return result

    def _made_and_measured(self, cell: Cell, made: Path, progress: StudyProgress) -> CellResult:
        name: str = cell[VARIANT]
        tables = self._make(name, cell, made, progress)
        progress.evaluating(name)
        measured = self._measured(self._source(made / name, cell).task, self.variants[name].precision, progress, cell)
        result, lost = self._result(measured), lost_tables(self._predictions, measured.predictions)
        return replace(result, tables=[*tables, *lost], note=self._refusal(name, cell, result))

    def leave_out(self, name: str, why: str) -> None:
        """Try a variant no more. Raises: ConfigError: there is no other."""
        self.left_out[name] = why
        self.variants = {other: x for other, x in self.variants.items() if other != name}
        self.factors = {VARIANT: [ORIGINAL, *self.variants]}
        if not self.variants:
            raise ConfigError(f"no way suits {self.folder}: {'; '.join(self.left_out.values())}")

    def _make(self, name: str, cell: Cell, made: Path, progress: StudyProgress) -> Sequence[Any]:
        """Write the folder of a variant into `made`; what it begins with is taken from the output, or made as well."""
        source, begin = self.folder, self.variants[name].begin
        if begin is not None:
            source = self._folder(begin, cell)
            # Where the gate has refused it, it has no folder: it is made again for this one.
            if not (source / "config.json").is_file():
                self._make(begin, cell, made, progress)
                source = made / begin
        progress.making(name)
        way, options, given = self._way(name), self._options(name), self._source(source, cell)
        if begin is not None:  # the sizes of what it begins with are known only now
            way.check(given, options)
        return way(given, options, made / name, progress.rows)

    def _measured(self, task: Task, precision: str | None, progress: StudyProgress, cell: Cell) -> Measured:
        name, timed = cell[VARIANT], None
        if name != ORIGINAL:
            known = self._measured_before(cell).costs["latency"]
            timed = TimedSystem(self._original, usual_precision(self._original.model.network), known)
        total = WARM_UP + self.plan.runs + len(self.validation)
        settings: dict[str, Any] = {"runs": self.plan.runs, "seed": self.config.training.seed, "timed": timed}
        with progress.rows(f"measuring {name}", total) as advance:
            precision = precision or usual_precision(task.model.network)
            return measure(task, precision, self.validation, advance=advance, **settings)

    def _measured_before(self, cell: Cell) -> CellResult:
        """The result of the original with the seed of a cell."""
        return parse(CellResult, _saved(self._folder(ORIGINAL, cell) / CELL))

    def _result(self, measured: Measured) -> CellResult:
        cost, latency = measured.cost, measured.latency
        costs = {
            "bytes": cost.bytes,
            "latency": latency.p50,
            "speed": measured.speed.value,
            "p95": latency.p95,
            "throughput": 1 / measured.seconds,
            "ram": cost.weights,
            "read": cost.read,
            "flops": cost.flops,
        }  # what a narrow terminal shows first
        known = {name: float(value) for name, value in costs.items() if value is not None}
        result = scored(measured.metrics, known, rows=self.validation.fingerprint)
        return replace(result, intervals={"speed": measured.speed})

    # ---------------------------------------------------------------------------------------------------- the gate

    def _refusal(self, name: str, cell: Cell, result: CellResult) -> str:
        """Why a variant is not written, in a sentence; "" = it passes."""
        plan, reasons = self.plan, list[str]()
        metric = plan.report.metric or next(iter(result.scores))
        original = self._measured_before(cell)
        if plan.max_drop is not None:
            if metric not in result.scores:
                raise ConfigError(f"shrink.report.metric is {safe_repr(metric)}; there are: {', '.join(result.scores)}")
            lost = points_lost(original, result, metric)
            if lost.value > plan.max_drop:
                reasons.append(
                    f"it loses {lost.written(2)} points of {metric}, above the {plan.max_drop:g} of --max-drop"
                )
        size, slow = _amount_in(UNITS, plan.under), _amount_in(TIMES, plan.within)
        if size is not None and result.costs["bytes"] > size:
            reasons.append(f"it takes {byte_amount(result.costs['bytes'])} on disk, above the {plan.under} of --under")
        if slow is not None and result.costs["latency"] > slow:
            reasons.append(f"a row takes {result.costs['latency']:.3g} ms, above the {plan.within} of --within")
        return f"{name} was not written: {'; '.join(reasons)}" if reasons else ""

    def completed(self, report: StudyReport, cells: Sequence[Cell]) -> StudyReport:
        passed = [
            cell.folder for cell in cells if cell[VARIANT] != ORIGINAL and (cell.folder / "config.json").is_file()
        ]
        facts = {
            "model": str(self.folder),
            "title": f"{self._name}, smaller and faster",
            "finding": self._finding(report, passed),
            "refused": list(report.notes),
            "refused_variants": [
                cell[VARIANT] for cell in cells if cell[VARIANT] != ORIGINAL and cell.folder not in passed
            ],
            "written": [str(path) for path in passed],
            "keeps_best": self.plan.keeps_best,
            "page": str(self.output / "study.html"),
        }
        notes = [
            *report.notes,
            *(f"left out: {why}" for why in self.left_out.values()),
            "speed: how many times as fast as the original. Each variant is timed in turn with it, row by row; "
            "latency, p95 and rows/s are as the machine was when the original was measured, so all can be compared",
            *self._slower(report),
            "RAM, read: bytes of the weights, and of those that a row reads; FLOPs: of a row alone",
        ]
        return replace(report, facts=facts, notes=notes)

    def _slower(self, report: StudyReport) -> list[str]:
        """Which variants are not faster than the original, with the figures, in a sentence."""
        speeds = {x.levels[VARIANT]: x.costs["speed"] for x in report.points if x.levels[VARIANT] != ORIGINAL}
        slow = [f"{name} ({speed.written(2)} ×)" for name, speed in speeds.items() if not is_faster(speed)]
        return [f"no faster than the original on this machine: {', '.join(slow)}"] * bool(slow)

    @property
    def _name(self) -> str:
        """What the model is called: its run, or its folder."""
        return run_name(self.folder.parent if self.folder.name == MODEL else self.folder)

    def _finding(self, report: StudyReport, passed: Sequence[Path]) -> str:
        """The smallest and the fastest variant that are written and not worse than the original."""
        costs = {x.levels[VARIANT]: x.costs for x in report.points}
        written = {name for name in self.variants if any(x.relative_to(self.output).parts[0] == name for x in passed)}
        differences = {x.second: x.difference for x in report.effects if x.metric == report.metric}
        own = [
            Costed(str(name), differences.get(str(name)), x["bytes"].value, x["latency"].value, x["speed"])
            for name, x in costs.items()
            if name == ORIGINAL or name in written
        ]
        return best_value(own[0], own[1:], report.metric, higher=report.higher)


def _check_output(folder: Path, output: Path) -> None:
    """Raises: ConfigError: variants would be written into the run or model that they are made of."""
    source = folder.parent if (folder.parent / CONFIG).is_file() and folder.name == MODEL else folder
    if output.resolve().is_relative_to(source.resolve()):
        raise ConfigError(f"output is {output}, in the folder of the original, {source}; give another folder")


def points_lost(before: CellResult, after: CellResult, metric: str) -> Interval:
    """How many points (hundredths) of a metric a variant loses, with the interval of the same resamples of the rows."""
    was, now = before.scores[metric], after.scores[metric]
    difference = now.minus(was).interval if now.paired_with(was) else Interval(now.value - was.value)
    lost = -difference if greater_is_better(metric) else difference
    return Interval(100 * lost.value, *(None if x is None else 100 * x for x in (lost.low, lost.high)))


def _saved(path: Path) -> Mapping[str, Any]:
    """The result of a cell that was kept."""
    values = dict(read_json_object(path, DataError))
    values.pop("made_of", None)
    result: Mapping[str, Any] = nan_from_null(values)
    return result


# ------------------------------------------------------------------------------------------------------- from a recipe


def shrink_study(source: str | Path, options: ShrinkOptions | None = None, **reading: Any) -> Study:
    """A study of variants of a model.

    Args:
        source: a run folder, a model folder or name, or a recipe (YAML): a configuration of a run with a section
            `shrink`, whose `model` is a run folder or a model
        options: in place of what the recipe says
        reading: options of reading the files of `data`, as those of `read_rows`
    Raises: ConfigError: an invalid key or value; a model that is no run, without a task. DataError: no such rows.
    """
    options = options or ShrinkOptions()
    path = as_path(source, "source")
    recipe = path.suffix in (".yaml", ".yml") and path.is_file()
    if options.model is not None and not recipe:
        raise ConfigError(f"model= is of a recipe, and {source} is none; name one model, or a recipe and model=")
    values = read_config(path) if recipe else {"model": str(source), "shrink": {}}
    if "shrink" not in values:
        raise ConfigError(f"{source}: has no section `shrink`; name its variants there: shrink: {{variants: [int8]}}")
    options.apply(values)
    plan = parse(ShrinkPlan, values.pop("shrink") or {}, "shrink")
    model = values.get("model")
    if not isinstance(model, str):
        raise ConfigError(f"model is {safe_repr(model)}; it must be the run folder or the model to shrink")
    folder, config, has_train = _configured(model, values, options, reading)
    kind = task_class(config.task)
    if has_train:
        rows: tuple[RowSequence | None, RowSequence | None] = read_splits(config, kind)
    else:
        held_out = config.data.validation
        rows = None, None if held_out is None else read_usable(config.data.for_validation, kind, held_out)  # type: ignore[arg-type]
    return Study({}, ShrinkEvaluator(folder, config, plan, rows), config.output, options=plan.report)


def _configured(
    model: str, values: dict[str, Any], options: ShrinkOptions, reading: Mapping[str, Any]
) -> tuple[Path, RunConfig, bool]:
    """The folder of the model, the configuration of its run with the values of the recipe; are there training rows?"""
    check_network(model)
    if is_run := (Path(model) / CONFIG).is_file():
        run = open_run(model)
        folder, known = run.folder / MODEL, config_values(run.config)
    else:
        folder, known = Path(resolve(model)), {}
    merged = {**known, **values, "model": str(folder), "scratch": None, "method": None}
    merged["output"] = values.get("output") or f"runs/{Path(model).name}-shrunk"
    merged["data"] = {**known.get("data", {}), **(values.get("data") or {})}
    if _hold_data_sets(merged["data"], options.data):
        merged["data"]["folder"] = options.data[0]
    elif options.data:
        merged["data"] |= {"validation": list(options.data), "validation_format": dict(reading)}
    if not is_run and "task" not in merged:
        raise ConfigError(f"{model}: is no run folder; name the task of the model: task= classify")
    if not (has_train := merged["data"].get("train") is not None):
        merged["data"]["train"] = merged["data"].get("validation") or []
    return folder, parse_config({name: x for name, x in merged.items() if x is not None}), has_train


def _hold_data_sets(data: Mapping[str, Any], files: Sequence[str]) -> bool:
    """Whether the files of an option are one folder, with the data sets of a configuration in it."""
    names = as_list(data.get("fetch") or [])
    return len(files) == 1 and bool(names) and all((Path(files[0]) / name).is_dir() for name in names)


def shrink(
    source: str | Path, options: ShrinkOptions | None = None, progress: StudyProgress | None = None, **reading: Any
) -> StudyReport:
    """Make variants of a model, measure each, and keep those that pass the gates; with `under` or `within` the best.

        shrink("runs/mood", ShrinkOptions(to=["half", "int8"], output="runs/mood-small", max_drop=0.5))

    Args:
        source, options, reading: as those of `shrink_study`
    Returns: the report, whose facts say which folders were written, and which were refused and why.
    """
    options = options or ShrinkOptions()
    study = shrink_study(source, options, **reading)
    evaluator = study.evaluator
    assert isinstance(evaluator, ShrinkEvaluator)
    while True:
        try:
            report = study.run(options.seeds, progress)
            break
        except UnsuitableWay as error:  # the others continue; what they have is not made again
            evaluator.leave_out(error.name, str(error))
    shutil.rmtree(study.output / WORK, ignore_errors=True)  # all are finished
    return _best_alone(report, study.output) if evaluator.plan.keeps_best else report


def _best_alone(report: StudyReport, output: Path) -> StudyReport:
    """Remove all variants but the best of those that passed, of equal ones the smallest."""
    written = report.facts["written"]
    passed = [x for x in report.cells if str(output / x.folder) in written]
    sign = 1 if report.higher else -1
    best = max(passed, key=lambda x: (sign * x.metrics[report.metric].value, -x.costs["bytes"].value), default=None)
    for cell in passed:
        if cell is not best:
            for path in (output / cell.folder).iterdir():
                if path.name != CELL:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
    report = replace(report, facts={**report.facts, "written": [str(output / best.folder)] if best else []})
    report.write(output)
    return report
