"""Event log of a run: an append-only file of JSON lines, which a resumed run continues as if it had never stopped.

    {"event": "begin", "time": …, "options": {…}}
    {"event": "step", "time": …, "step": 1, "epoch": 0.02, "loss": 2.31, "lr": 1e-05, "grad_norm": 3.4, …}
                                                  ^ offset, saved in a checkpoint: a resumed run truncates here
    {"event": "skipped", "time": …, "step": 2, "loss": "nan", …}

A line is written in one call, so a reader sees all of it or none, but for one that a kill has cut: readers skip it, and
the next writer drops it. Numbers that are not finite are written as "nan", "inf", "-inf", which JSON does not have.

    journal.jsonl ──read_event_log──> records ──read_run──> RunHistory, for pages, plots and costs
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from glassformer.deprecation import former_names
from glassformer.errors import DataError
from glassformer.files import error_reason, open_regular_file
from glassformer.files.parsing import json_value
from glassformer.runs.folder import no_run, stored_config

NONFINITE = ("nan", "inf", "-inf")
MAX_LINE_BYTES = 16 << 20


def event_log_path(folder: Path, rank: int = 0) -> Path:
    """The path of the event log of one process: `journal.jsonl` of rank 0, then `journal-1.jsonl`, …"""
    return folder / (f"journal-{rank}.jsonl" if rank else "journal.jsonl")


class EventLog:
    """The event log of one process, to be written.

        with EventLog(event_log_path(folder)) as log:
            log.write("step", step=1, loss=2.31)

    Events of a run: begin (options), resumed (step), step (step, epoch, loss, lr, grad_norm, tokens read so far,
    tokens_per_s; loss and speed are means since the last one), validation (step, figures, best), checkpoint (step),
    skipped (step, loss, indices, module), memory (step, …), end (steps, …).

    A disk that refuses stops no run: the line is lost, the file stays intact, and the first time there is a warning.

    Args:
        path: created where it is missing, else continued after its last complete line.
    Raises: DataError: the file cannot be opened.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self._file = open(self.path, "a+b", buffering=0)  # noqa: SIM115  closed by `close`
        except OSError as problem:
            raise DataError(f"{self.path}: the log cannot be opened: {error_reason(problem)}") from problem
        self._warned = False
        self._truncate_to_whole_line(self._file.seek(0, os.SEEK_END))

    @property
    def offset(self) -> int:
        """Number of bytes written: a checkpoint saves it, for `truncate`."""
        return self._offset

    def write(self, event: str, **values: Any) -> None:
        """Append an event: its name, the time, and values (numbers, strings, lists or mappings)."""
        record = {"event": event, "time": round(time.time(), 3), **values}
        line = json.dumps(json_value(record), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        data = line.encode("utf-8", "backslashreplace") + b"\n"
        try:
            written = self._file.write(data)
            if written < len(data):  # a disk that fills up writes a part, and fails the next time
                self._file.write(data[written:])
        except OSError as problem:
            self._file.truncate(self._offset)
            self._warn(f"cannot be written: {error_reason(problem)}; training goes on, and the log has a gap")
        else:
            self._offset += len(data)

    def truncate(self, offset: int) -> None:
        """Drop what was written after a checkpoint, so that a resumed run does not write it twice."""
        size = self._offset
        if offset > size:
            self._warn(f"has {size} bytes, {offset} when the checkpoint was saved: the difference is lost")
        self._truncate_to_whole_line(min(offset, size))

    def sync(self) -> None:
        """Flush the file to the disk, so that the log has everything that precedes a checkpoint."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> EventLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.close()

    def _truncate_to_whole_line(self, size: int) -> None:
        """Truncate to the complete lines within the first `size` bytes."""
        while size and self._read_at(size - 1, 1) != b"\n":
            start = max(size - 65_536, 0)
            size = start + self._read_at(start, size - start).rfind(b"\n") + 1
        self._file.truncate(size)
        self._offset = size

    def _read_at(self, start: int, count: int) -> bytes:
        self._file.seek(start)
        return self._file.read(count)

    def _warn(self, what: str) -> None:
        if not self._warned:
            warnings.warn(f"{self.path}: {what}", RuntimeWarning, stacklevel=3)
            self._warned = True


def read_event_log(path: str | Path) -> Iterator[dict[str, Any]]:
    """Read the events of a log, which a run may still be writing; an incomplete last line is skipped.

    Returns: records with `event` and `time`; "nan", "inf", "-inf" are numbers again, except in the options of `begin`.
    Raises: DataError: no such file, or an invalid line, by its number.
    """
    path = Path(path)
    stream, _ = open_regular_file(path, DataError)
    with stream:
        for number, line in enumerate(iter(lambda: stream.readline(MAX_LINE_BYTES), b""), 1):
            if line.endswith(b"\n"):
                yield _record(line, f"{path}: line {number}")
            elif len(line) == MAX_LINE_BYTES:
                raise DataError(f"{path}: line {number} is longer than {MAX_LINE_BYTES} bytes: this is no event log")


def _record(line: bytes, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise DataError(f"{where} is invalid JSON, so the log is damaged: {problem}; delete that line") from None
    if not isinstance(record, dict) or not isinstance(record.get("event"), str):
        raise DataError(f'{where} is no record of a log: an object with a text "event"; delete that line')
    return record if record["event"] == "begin" else {name: _parse_nonfinite(value) for name, value in record.items()}


def _parse_nonfinite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _parse_nonfinite(x) for name, x in value.items()}
    return float(value) if value in NONFINITE else value


STEPS = ("epoch", "loss", "lr", "grad_norm", "tokens", "tokens_per_s", "time")
HALF_LIVES_PER_RUN = 60
"""The half-life of smoothing is a 60th of the steps."""


@dataclass(frozen=True)
class RunHistory:
    """The history of a run.

    options: its effective configuration · steps: columns of the logged steps by name, `step` among them. [N]
    validation: metric → steps and values · best: the step of the best validation
    skipped: steps that were not applied · checkpoints: steps · ended: whether the log has its end
    """

    name: str
    options: dict[str, Any]
    steps: dict[str, np.ndarray]
    validation: dict[str, tuple[np.ndarray, np.ndarray]]
    best: int | None
    skipped: list[dict[str, Any]]
    checkpoints: list[int]
    ended: bool

    @property
    def last(self) -> int:
        """The last step; 0 before the first."""
        return int(self.steps["step"][-1]) if len(self.steps["step"]) else 0

    @property
    def tokens(self) -> int:
        """Number of tokens read."""
        return int(np.nan_to_num(self.steps["tokens"])[-1]) if self.last else 0

    @property
    def seconds(self) -> float:
        """Computing time: tokens divided by their speed, so that pauses between sessions do not count."""
        tokens, speed = np.diff(self.steps["tokens"], prepend=0), self.steps["tokens_per_s"]
        timed = speed > 0
        return float((tokens[timed] / speed[timed]).sum())

    @property
    def half_life(self) -> float:
        """Half-life of smoothing, in steps."""
        return max(self.last / HALF_LIVES_PER_RUN, self._spacing)

    @property
    def _spacing(self) -> float:
        """Steps between two logged steps."""
        return self.last / max(len(self.steps["step"]), 1)

    def smoothed(self, name: str) -> np.ndarray:
        """A column of the steps, smoothed. [N]"""
        average = ExponentialAverage(0.5 ** (self._spacing / (self.half_life or 1)))
        return np.array([average.add(x) for x in self.steps[name].tolist()])

    def best_metrics(self) -> dict[str, float]:
        """The metrics of the best validation, or of the last one."""
        metrics = {}
        for name, (steps, values) in self.validation.items():
            at = [i for i, step in enumerate(steps) if step == self.best] or [-1]
            metrics[name] = float(values[at[-1]])
        return metrics


def read_run(folder: str | Path, name: str | None = None) -> RunHistory:
    """Read the log of a run.

    Args: folder: of a run, or a log in it · name: of the run, else that of the folder
    Raises: DataError: there is no log, or it is damaged.
    """
    path = Path(folder) if Path(folder).is_file() else event_log_path(Path(folder))
    if not path.is_file():
        raise DataError(no_run(folder, f"holds no run: {path.name} is missing; give the folder that a training wrote"))
    options: dict[str, Any] = {}
    rows: dict[int, list[float]] = {}
    validations: dict[int, tuple[Mapping[str, float], bool]] = {}
    checkpoints: dict[int, None] = {}
    skipped: list[dict[str, Any]] = []
    event = ""
    for number, record in enumerate(read_event_log(path), 1):
        event = record["event"]
        try:
            match event:
                case "begin":
                    options = dict(record.get("options") or {})
                case "step":
                    step = int(record["step"])
                    # After a rollback the log has steps twice: what the run went back over is dropped.
                    for column in (rows, validations, checkpoints):
                        while column and next(reversed(column)) >= step:
                            column.popitem()
                    rows[step] = [float(record.get(name, "nan")) for name in STEPS]
                case "validation":
                    validations[int(record["step"])] = dict(record["figures"]), bool(record.get("best"))
                case "checkpoint" | "resumed":  # resuming truncates the event of the checkpoint itself
                    checkpoints[int(record["step"])] = None
                case "skipped":
                    skipped.append({**record, "step": int(record["step"])})
        except (KeyError, TypeError, ValueError, OverflowError) as error:  # the last: a step of 1e400
            raise DataError(f"{path}: line {number} is no {event} of a run: {error}") from None
    table = np.array(list(rows.values()), dtype=np.float64).reshape(len(rows), len(STEPS))
    return RunHistory(
        name=name or path.absolute().parent.name,
        options=stored_config(path.parent) or options,
        steps={"step": np.array(list(rows), np.int64), **{x: table[:, i] for i, x in enumerate(STEPS)}},
        validation=_by_metric({step: metrics for step, (metrics, _) in validations.items()}),
        best=next((step for step, (_, best) in reversed(validations.items()) if best), None),
        skipped=skipped,
        checkpoints=list(checkpoints),
        ended=event == "end",
    )


def read_runs(folders: Sequence[str | Path]) -> list[RunHistory]:
    """Read several runs, each under a name of its own.

    Raises: DataError: a folder holds no run.
    """
    runs: dict[str, RunHistory] = {}
    for folder in folders:
        run = read_run(folder)
        names = chain([run.name], (f"{run.name} ({number})" for number in count(2)))
        name = next(name for name in names if name not in runs)
        runs[name] = replace(run, name=name)
    return list(runs.values())


def _by_metric(validations: Mapping[int, Mapping[str, float]]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Metric → its steps and values."""
    columns: dict[str, dict[int, float]] = {}
    for step, metrics in validations.items():
        for name, value in metrics.items():
            if isinstance(value, int | float):
                columns.setdefault(str(name), {})[step] = float(value)
    return {name: (np.array(list(x)), np.array(list(x.values()))) for name, x in columns.items()}


class ExponentialAverage:
    """Exponential moving average, with bias correction: each value weighs `decay` times as much as the next.

        mean_n = Σ decay^(n-i)·x_i / Σ decay^(n-i)          so that the first values are not biased towards zero

    Values that are not finite are left out. Source: Kingma and Ba 2015, "Adam", section 3 (bias correction).
    """

    def __init__(self, decay: float = 0.98) -> None:
        self.decay = decay
        self._sum = self._weight = 0.0

    def add(self, value: float) -> float:
        """Add a value; the mean, NaN while there is no finite value."""
        if value - value == 0:  # finite
            self._sum = self.decay * self._sum + value
            self._weight = self.decay * self._weight + 1
        return self._sum / self._weight if self._weight else float("nan")


__getattr__ = former_names(__name__)
