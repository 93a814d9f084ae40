"""Costs of a model: the time of its training, its size on disk and in RAM, and its latency."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from glassformer.core.quantised import QUANTISED, QuantisedEmbedding, count_weights
from glassformer.data.rows import RowSequence
from glassformer.engine.packed_linear import PackedLinear
from glassformer.errors import DataError
from glassformer.files import read_json_object
from glassformer.files.schema import parse
from glassformer.loaded_model import LoadedModel
from glassformer.runs.folder import METRICS, MODEL, event_log_path
from glassformer.runs.history import read_run
from glassformer.tasks.base import Task

WARM_UP, TIMED_ROWS = 10, 100
WEIGHT_FILES = (".safetensors", ".bin", ".onnx", ".onnx_data", ".data", ".gguf")
FLOPS_ROWS = 8
"""Rows over which floating-point operations are averaged: each is a plain forward pass, of a generator many."""
BYTES_PER_WEIGHT = {"fp32": 4, "fp16": 2, "bf16": 2, "int8": 1}
"""Bytes of a weight in a linear layer."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The costs of a run; None = unknown.

    seconds, cpu_seconds: wall-clock and CPU time of training
    steps, precision: of training
    parameters: of the model
    bytes: of its files on disk
    weights: bytes of its weights in RAM
    flops: floating-point operations of a row, on average
    read: bytes of weights that a row reads, on average
    """

    seconds: float | None = None
    cpu_seconds: float | None = None
    steps: int | None = None
    precision: str | None = None
    parameters: int | None = None
    bytes: int | None = None
    weights: int | None = None
    flops: float | None = None
    read: float | None = None


@dataclass(frozen=True, kw_only=True)
class LatencySummary:
    """Latency of one row at a time, from its text to the prediction, in milliseconds.

    mean, std: over the rows that were timed
    p50, p95: the median and the 95th percentile
    runs: how many rows
    """

    mean: float
    std: float
    p50: float
    p95: float
    runs: int

    @classmethod
    def of(cls, milliseconds: Sequence[float], *, sample: bool = False) -> LatencySummary:
        """The latency of many timed rows.

        Args:
            sample: deviation of a sample (n - 1) instead of these rows (n)
        """
        times = np.array(milliseconds)
        p50, p95 = np.quantile(times, [0.5, 0.95])
        std = times.std(ddof=int(sample and len(times) > 1))
        return cls(mean=float(times.mean()), std=float(std), p50=float(p50), p95=float(p95), runs=len(times))

    @classmethod
    def measure(cls, calls: Iterable[Callable[[], Any]], warm_up: int, *, sample: bool = False) -> LatencySummary:
        """The latency of calls, the first of which are not counted; `sample` as of `of`."""
        milliseconds = []
        for call in calls:
            start = perf_counter()
            call()
            milliseconds.append(1000 * (perf_counter() - start))
        return cls.of(milliseconds[warm_up:], sample=sample)

    def __str__(self) -> str:
        return f"{self.mean:.1f} ± {self.std:.1f} ms (median {self.p50:.1f}, p95 {self.p95:.1f})"


def minutes(seconds: float | None) -> str:
    """A time in minutes: `3.4`."""
    return "" if seconds is None else f"{seconds / 60:.1f}"


def read_cost(folder: Path) -> Cost:
    """Read the costs of a run folder: from `metrics.json` of its model, else from its event log.

    Raises: DataError, ConfigError: one of them is damaged.
    """
    model = folder / MODEL
    known = read_json_object(model / METRICS, DataError) if (model / METRICS).is_file() else {}
    seconds, steps = known.get("seconds"), known.get("steps")
    if seconds is None and event_log_path(folder).is_file():
        log = read_run(folder)
        seconds, steps = round(log.seconds, 1), log.last
    values = {name: known.get(name) for name in ("cpu_seconds", "parameters")}
    precision: Any = known
    for name in ("config", "training", "precision"):
        precision = precision.get(name) if isinstance(precision, dict) else None
    sizes = {"bytes": _folder_bytes(model), "precision": precision}
    return parse(Cost, {**values, "seconds": seconds, "steps": steps, **sizes})


def model_cost(model: LoadedModel) -> Cost:
    """The costs of a model that is no run: its parameters, and the bytes of its files."""
    size = None if model.folder is None else _folder_bytes(model.folder)
    return Cost(parameters=count_weights(model.network), bytes=size)


def _folder_bytes(folder: Path) -> int | None:
    """The size of all files of a folder; None = there are none."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) or None


def measure_latency(task: Task, rows: RowSequence) -> LatencySummary:
    """Measure the latency of `TIMED_ROWS`, one at a time: another row each time, after a warm-up.

    Raises: DataError: no rows.
    """
    if not len(rows):
        raise DataError("there is no row to measure latency on")
    order = (i % len(rows) for i in range(WARM_UP + TIMED_ROWS))
    return LatencySummary.measure(single_rows(task, rows, order), WARM_UP)


def single_rows(task: Task, rows: RowSequence, order: Iterable[int]) -> Iterator[Callable[[], Any]]:
    """The predictions of single rows, each to be called for."""
    for index in order:
        row = rows.select([index])
        yield lambda row=row: list(task.predict(row))  # type: ignore[misc]


def weight_bytes(network: nn.Module) -> int:
    """Size of the weights in RAM as they are prepared: packed layers in their precision, all others as they are."""
    return sum(_tensor_bytes(network).values())


def _tensor_bytes(network: nn.Module) -> dict[int, int]:
    """The bytes of each parameter and buffer, by its id."""
    narrow = {
        id(module.weight): BYTES_PER_WEIGHT[module.precision]
        for module in network.modules()
        if isinstance(module, PackedLinear) and module.fast
    }
    # Levels of quantised layers are buffers; so are tables that are computed, such as of positions.
    tensors = [*network.parameters(), *network.buffers()]
    return {id(x): x.numel() * narrow.get(id(x), x.element_size()) for x in tensors}


def read_bytes(network: nn.Module, tokens: float) -> float:
    """Bytes of weights that a row of this many tokens reads: of a table of embeddings a row a token, of others all.

    A table that a head uses too is read whole.
    """
    sizes = _tensor_bytes(network)
    owners = Counter(id(x) for module in network.modules() for x in module._parameters.values() if x is not None)
    total = float(sum(sizes.values()))
    layers = [module for module in network.modules() if isinstance(module, QUANTISED)]
    holders = Counter(id(layer.stored) for layer in layers)
    for module in network.modules():
        if isinstance(module, QuantisedEmbedding):
            if holders[id(module.stored)] == 1:
                total -= module.stored.nbytes * (1 - min(1.0, tokens / module.num_embeddings))
        elif isinstance(module, nn.Embedding) and owners[id(module.weight)] == 1:
            total -= sizes[id(module.weight)] * (1 - min(1.0, tokens / module.num_embeddings))
    return total


def row_flops(task: Task, rows: RowSequence) -> float:
    """Floating-point operations of a row on average, each alone: products of matrices, and attention.

    Counted as torch counts them: two for a multiplication and an addition. The network must not be prepared.
    """
    chosen = range(min(len(rows), FLOPS_ROWS))
    attention = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention_flops}  # which torch leaves out
    with FlopCounterMode(display=False, custom_mapping=attention) as counter:
        for call in single_rows(task, rows, chosen):
            call()
    return float(counter.get_total_flops() / len(chosen))


def _attention_flops(query: Any, key: Any, value: Any, *others: Any, **options: Any) -> int:
    """Operations of attention by the shapes of q [B, H, T, D], k [B, H, S, D] and v: scores, and the weighted sum."""
    return int(sdpa_flop_count(query, key, value))
