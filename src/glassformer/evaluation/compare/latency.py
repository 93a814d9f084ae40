"""How fast a model answers one question, how large it is, and how often it is right: a row each model and precision.

    runs/small   fp32   ┐   10 rows to warm up, then 100 others, one at a time: text in, answer out
    runs/small   int8   ├─  bytes of its files, bytes of its weights in this precision
    runs/large   fp32   ┘   all rows, judged as by `glassformer evaluate`; the difference on the same rows

Each question is another row, as long as rows are, and every variant is asked the same ones in the same order. A mean
hides the slow ones, so the median and the 95th percentile stand beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from glassformer.data.rows import Rows, read_rows
from glassformer.engine.prepare import PackedLinear, prepare, unprepare
from glassformer.errors import ConfigError, nearest
from glassformer.evaluation.runs import Run, open_run
from glassformer.evaluation.slices import drawn
from glassformer.files import shown
from glassformer.files.parsing import strict
from glassformer.model import load
from glassformer.runs.folder import CONFIG, name_of_run
from glassformer.tasks.evaluator import OBJECTIVES, Judge, judge_of, objective_class
from glassformer.tasks.metrics.bootstrap import differences, intervals
from glassformer.tasks.metrics.intervals import Interval

WARM_UP, RUNS = 10, 100
NARROW = {"fp32": 4, "fp16": 2, "bf16": 2, "int8": 1}
"""Bytes of a weight in a linear layer."""


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Milliseconds from text to answer, of one row at a time."""

    mean: float
    std: float
    p50: float
    p95: float
    runs: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Latency:
        each = 1000 * np.asarray(seconds)
        p50, p95 = np.quantile(each, [0.5, 0.95])
        spread = float(each.std(ddof=1)) if len(each) > 1 else 0.0
        return cls(mean=float(each.mean()), std=spread, p50=float(p50), p95=float(p95), runs=len(each))


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A model in a precision.

    disk: bytes of the files of its weights · weights: bytes that its weights have in this precision
    figure: the main figure on the rows · difference: how far it lies above that of the first variant
    """

    model: str
    precision: str
    latency: Latency
    disk: int
    weights: int
    metric: str
    rows: int
    figure: Interval
    difference: Interval | None = None

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = strict(asdict(self))
        return found


@dataclass(frozen=True)
class Contender:
    """A model that can be judged. run: where it is of one"""

    name: str
    folder: Path
    judge: Judge
    run: Run | None = None


def contender(
    place: str,
    *,
    task: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> Contender:
    """A run's folder, or a model whose head is for the task.

    Args: task: as in `glassformer train`; a run knows its own
    Raises: ConfigError: a model without a task, a run of another, a model without the head.
    """
    if (Path(place) / CONFIG).is_file():
        run = open_run(place)
        if task is not None and task != run.config.task:
            raise ConfigError(f"{place}: is a run of {run.config.task!r}, not of {task!r}; leave --task out")
        name, folder = name_of_run(run.folder), run.model.folder
        return Contender(name, Path(folder or run.folder), run.judge(), run)
    if task is None:
        raise ConfigError(f"{place}: is no run; say what the model is asked for: --task classify")
    if task not in OBJECTIVES:
        raise ConfigError(
            f"task is {shown(task)}{nearest(task, OBJECTIVES)}; allowed: {', '.join(OBJECTIVES)}"
        )
    kind = objective_class(task)
    model = load(place, task=kind.TASK)
    if model.report.new:
        raise ConfigError(f"{place}: has no head for {task!r}, so there is nothing to judge; train it first")
    return Contender(
        Path(place).name, Path(model.folder or place), judge_of(task, kind(model, columns=columns)), None  # type: ignore[call-arg]
    )  # fmt: skip


def rows_for(contenders: Sequence[Contender], files: list[str] | None) -> Rows:
    """The rows that all are asked: of files, read as those of the first run, or those that it was validated on.

    Raises: ConfigError: neither.
    """
    run = next((each.run for each in contenders if each.run is not None), None)
    if files:
        return read_rows(files, **({} if run is None else run.config.data.format))
    if run is None or run.parts[1] is None:
        raise ConfigError("there are no rows to ask about; give --data")
    return run.parts[1]


def compare_variants(
    contenders: Sequence[Contender],
    rows: Rows,
    precisions: Sequence[str],
    *,
    runs: int = RUNS,
    warm_up: int = WARM_UP,
    seed: int = 0,
    progress: Callable[[str], None] = lambda said: None,
) -> Iterator[Variant]:
    """A row for each model in each precision, as it comes; each network is given back plain.

    Args: runs, warm_up: rows that are timed, and before them not · seed: which rows
    Raises: ConfigError: an unknown precision, or models that are judged by different figures.
    """
    if len({each.judge.METRIC for each in contenders}) > 1:
        said = ", ".join(f"{each.name} by {each.judge.METRIC}" for each in contenders)
        raise ConfigError(f"these models are judged by different figures: {said}")
    asked = drawn(rows, runs + warm_up, seed)
    order = np.random.default_rng(seed).permutation(len(asked))  # as rows come, not as they lie in a file
    first = None
    for each in contenders:
        for precision in precisions:
            progress(f"{each.name} in {precision}")
            network = each.judge.model.network
            try:
                prepare(network, precision)
                seconds = [
                    _answered(each.judge, asked, int(order[i % len(asked)])) for i in range(warm_up + runs)
                ]
                judged = each.judge.judged(list(each.judge.records(rows)))
                weights = weight_bytes(network)
            finally:
                unprepare(network)
            metric = each.judge.METRIC
            yield Variant(
                model=each.name,
                precision=precision,
                latency=Latency.of(seconds[warm_up:]),
                disk=disk_bytes(each.folder),
                weights=weights,
                metric=metric,
                rows=len(rows),
                figure=intervals(judged)[metric],
                difference=None if first is None else differences(judged, first)[metric],
            )
            first = first or judged


def _answered(judge: Judge, rows: Rows, index: int) -> float:
    """Seconds from the row to the answer."""
    one = rows.select([index])
    began = time.perf_counter()
    list(judge.records(one))
    return time.perf_counter() - began


def disk_bytes(folder: Path) -> int:
    """What the files of a model's weights take."""
    return sum(path.stat().st_size for path in folder.glob("*") if path.suffix in (".safetensors", ".bin"))


def weight_bytes(network: nn.Module) -> int:
    """What the weights take as they are prepared: those of packed layers are narrow, all others as they are."""
    narrow = {
        id(module.weight): NARROW[module.precision]
        for module in network.modules()
        if isinstance(module, PackedLinear) and module.fast
    }
    return sum(x.numel() * narrow.get(id(x), x.element_size()) for x in network.parameters())


def table(variants: Sequence[Variant]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows, for people."""
    headings = ["model", "precision", "ms\n(p50, p95)", "MB\n(weights)"]
    rows = [
        [
            each.model,
            each.precision,
            f"{each.latency.mean:.1f} ±{each.latency.std:.1f}\n({each.latency.p50:.1f}, {each.latency.p95:.1f})",
            f"{each.disk / 1e6:.1f}\n({each.weights / 1e6:.1f})",
            each.figure.written(3),
            "" if each.difference is None else each.difference.written(3, signed=True),
        ]
        for each in variants
    ]
    return [*headings, variants[0].metric if variants else "", "above the first"], rows
