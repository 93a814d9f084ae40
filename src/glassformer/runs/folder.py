"""Run folder: the names of its files, its configuration, its event log, and the runs of several seeds in one folder.

config.yaml       the effective configuration        checkpoints/   training states to resume from
journal.jsonl     event log, a line a step           model/         the best model so far, which anyone can load
lock              held by the process that trains    seed-N/        the run of a seed, in a folder of several

The event log is an append-only file of JSON lines, which a resumed run continues as if it had never stopped:

    {"event": "begin", "time": …, "options": {…}}
    {"event": "step", "time": …, "step": 1, "epoch": 0.02, "loss": 2.31, "lr": 1e-05, "grad_norm": 3.4, …}
                                                  ^ offset, saved in a checkpoint: a resumed run truncates here
    {"event": "skipped", "time": …, "step": 2, "loss": "nan", …}

A line is written in one call, so a reader sees all of it or none, but for one that a kill has cut: readers skip it, and
the next writer drops it. A crash of the machine, or a hand, may leave a damaged line further up. The history of a run
leaves it out with a note, as the model and the evaluation are whole; `read_event_log` raises, as its caller counts on
each line. A run that resumes reads its checkpoint, and nothing of the log. Numbers that are not finite are written as
"nan", "inf", "-inf", which JSON does not have.

    journal.jsonl ──read_event_log──> records      history.py: what they say of a run
"""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.errors import ConfigError, DataError, GlassformerError
from glassformer.files import as_path, nearest_path, read_bytes, safe_repr
from glassformer.version import __version__

if TYPE_CHECKING:
    import torch


import json
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import BinaryIO

from glassformer.files import append_handle, drop_cut_line, error_reason, json_value, open_regular_file

CHECKPOINTS, MODEL, CONFIG, CARD, METRICS = "checkpoints", "model", "config.yaml", "README.md", "metrics.json"
RESULTS, PROGRESS = {"cell": "study.json", "trial": "trials.json"}, "progress.json"
"""The file of results, by what they consist of, of a study and of a search; and the file that says how far it is."""
MAX_FOLDERS, MAX_DEPTH = 100_000, 6
"""Folders that are searched for runs, and how deep."""
EVENTS, WANDB_LOG, WANDB_SUMMARY = "events.out.tfevents.", ".wandb", Path("files", "wandb-summary.json")
"""Logs of TensorBoard, by the beginning of their names, and of Weights & Biases."""
DATA_SUFFIXES = {".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".conll", ".conllu", ".txt", ".gz"}


def seed_folder(folder: str | Path, seed: int) -> Path:
    """The folder of one seed, in the folder of several."""
    return as_path(folder, "folder") / f"seed-{seed}"


def seed_of(folder: Path) -> int | None:
    """The seed that a folder is named after; None where it is not `seed-N`."""
    number = folder.name.removeprefix("seed-")
    return int(number) if number.isdigit() and number != folder.name else None


def seed_folders(folder: str | Path) -> list[Path]:
    """The run folders of several seeds in a folder, in the order of the seeds; an empty list where there are none."""
    folders = {
        seed: path
        for path in as_path(folder, "folder").glob("seed-*")
        if (seed := seed_of(path)) is not None and (path / CONFIG).is_file()
    }
    return [folders[seed] for seed in sorted(folders)]


def iterate_runs(folder: Path) -> Iterator[Path]:
    """The run folders in a folder and its folders, in no order: not within a run, nor by links."""
    waiting, looked = [(folder, 0)], 0
    while waiting and looked < MAX_FOLDERS:
        path, depth = waiting.pop()
        looked += 1
        if is_run(path):
            yield path
            continue
        with suppress(OSError), os.scandir(path) as entries:  # a folder that may not be read has no run for us
            waiting += [
                (Path(entry.path), depth + 1)
                for entry in entries
                if depth < MAX_DEPTH and not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
            ]


def saved_steps(folder: Path) -> list[int]:
    """The steps of which a run has a training state to resume from."""
    names = (path.name.removeprefix("step-") for path in (folder / CHECKPOINTS).glob("step-*"))
    return sorted(int(name) for name in names if name.isdigit())


def run_log(path: Path) -> Path | None:
    """The log of a run folder: ours, the last event file of TensorBoard, or that of Weights & Biases; None = none."""
    own = event_log_path(path)
    if own.is_file() or not path.is_dir():
        return own if own.is_file() else None
    events, logs = sorted(path.glob(f"{EVENTS}*")), sorted(path.glob(f"*{WANDB_LOG}"))
    summary = path / WANDB_SUMMARY
    return next(iter([*events[-1:], *logs, *([summary] if summary.is_file() else [])]), None)


def log_kind(log: Path) -> str:
    """Whose log a file is."""
    if log.name.startswith(EVENTS):
        return "TensorBoard"
    return "Weights & Biases" if log.suffix == WANDB_LOG or log.name == WANDB_SUMMARY.name else "glassformer"


def is_run(path: Path) -> bool:
    """Whether a folder is that of a run: it has an event log, or the configuration that a training writes first."""
    if run_log(path) is not None:
        return True
    config = path / CONFIG
    if not config.is_file():
        return False
    with suppress(OSError), config.open("rb") as stream:
        return stream.read(5) == b"task:"  # of another program, a configuration may have the same name
    return False


def run_name(folder: str | Path) -> str:
    """The display name of a run: `mood` in runs/mood, `mood, seed 1` in runs/mood/seed-1."""
    path = as_path(folder, "folder").absolute()
    seed = seed_of(path)
    return path.name if seed is None else f"{path.parent.name}, seed {seed}"


def describe_environment(device: torch.device) -> dict[str, Any]:
    """Versions, hardware and threads: what decides, besides the seed, whether a training is reproducible to the bit."""
    import torch

    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    return {
        "glassformer": __version__,
        "torch": torch.__version__,
        "numpy": version("numpy"),
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "processor": _processor_name(),
        "device": gpu or device.type,
        "threads": torch.get_num_threads(),
    }


def _processor_name() -> str:
    """The name of the CPU, with its model where the system knows it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def check_run(folder: str | Path) -> None:
    """Raises: ConfigError: there is no such folder, or it holds no run."""
    if not (as_path(folder, "folder") / CONFIG).is_file():
        problem = no_run(folder, "holds no run")
        raise ConfigError(f"{problem}; a run folder is what `glassformer train` writes, with its {CONFIG}")


def log_of(folder: str | Path) -> Path:
    """The log of a run, or a log itself. Raises: DataError: there is none."""
    given = as_path(folder, "folder")
    path = given if given.is_file() else run_log(given)
    if path is None:
        problem = no_run(folder, f"holds no run: {event_log_path(given).name} is missing")
        raise DataError(f"{problem}; give the folder that a training wrote")
    return path


def check_logs(folder: str | Path) -> None:
    """Raises: DataError: there is no such folder of runs, and no such log."""
    if not as_path(folder, "folder").exists():
        log_of(folder)


def no_run(folder: str | Path, problem: str) -> str:
    """The message for a folder that is no run: what is wrong, with the runs in it; or no such folder, the nearest."""
    path = as_path(folder, "folder")
    if not path.exists():
        return f"{folder}: no such folder{nearest_path(path)}"
    inside = sorted(str(config.parent) for config in path.glob(f"*/{CONFIG}"))
    more = f" and {len(inside) - 5} more" if len(inside) > 5 else ""
    return f"{folder}: {problem}" + (f"; name one of those in it: {', '.join(inside[:5])}{more}" if inside else "")


def read_config(path: Path, error: type[GlassformerError] = ConfigError) -> dict[str, Any]:
    """Read a YAML or JSON file.

    Raises: ConfigError, or another `error`: no such file, a data file, invalid YAML, or not a mapping.
    """
    if path.suffix.lower() in DATA_SUFFIXES:  # whose first line YAML would call a wrong mapping
        raise error(f"{path}: is a data file, and a configuration was expected; give rows with --data {path}")
    from glassformer.files.yaml_text import MAX_BYTES, parse_yaml  # imported late: few read YAML

    values = parse_yaml(read_bytes(path, error, MAX_BYTES), str(path), error)
    if not isinstance(values, dict):
        raise error(f"{path}: must hold names and values, such as `task: classify`; got {safe_repr(values)}")
    return values


def stored_config(folder: Path) -> dict[str, Any]:
    """The effective configuration of a run folder; empty where it has none.

    Raises: DataError: invalid YAML.
    """
    path = folder / CONFIG
    return read_config(path, DataError) if path.is_file() else {}


NONFINITE = ("nan", "inf", "-inf")
UNREADABLE = "\0unreadable"
"""The event of a line that cannot be read: none that a program writes."""
MAX_LINE_BYTES, CHUNK_BYTES = 16 << 20, 1 << 20
"""An event has below 10 kB: a file of longer lines is another file, and is not read into memory whole."""


def event_log_path(folder: Path, rank: int = 0) -> Path:
    """The path of the event log of one process: `journal.jsonl` of rank 0, then `journal-1.jsonl`, …"""
    return folder / (f"journal-{rank}.jsonl" if rank else "journal.jsonl")


class EventLog:
    """The event log of one process, to be written.

        with EventLog(event_log_path(folder)) as log:
            log.write("step", step=1, loss=2.31)

    Events of a run: begin (options), resumed (step), step (step, epoch, loss, lr, grad_norm, tokens read so far,
    tokens_per_s; loss and speed are means since the last one), validation (step, metrics, best), checkpoint (step),
    skipped (step, loss, indices, module), memory (step, …), end (steps, …).

    A disk that refuses stops no run: the line is lost, the file stays intact, and the first time there is a warning.

    Args:
        path: created where it is missing, else continued after its last complete line.
    Raises: DataError: the file cannot be opened.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = as_path(path)
        try:
            self._file = open(append_handle(self.path), "a+b", buffering=0)  # noqa: SIM115  closed by `close`
        except OSError as problem:
            raise DataError(f"{self.path}: the log cannot be opened: {error_reason(problem)}") from problem
        self._warned = False
        self._offset = drop_cut_line(self._file)

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
            self._warn(f"cannot be written: {error_reason(problem)}; training continues, and the log has a gap")
        else:
            self._offset += len(data)

    def truncate(self, offset: int) -> None:
        """Drop what was written after a checkpoint, so that a resumed run does not write it twice."""
        size = self._offset
        if offset > size:
            self._warn(f"has {size} bytes, {offset} when the checkpoint was saved: the difference is lost")
        self._offset = drop_cut_line(self._file, min(offset, size))

    def sync(self) -> None:
        """Flush the file to the disk, so that the log has everything that precedes a checkpoint."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> EventLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.close()

    def _warn(self, what: str) -> None:
        if not self._warned:
            warnings.warn(f"{self.path}: {what}", RuntimeWarning, stacklevel=3)
            self._warned = True


def read_event_log(path: str | Path) -> Iterator[dict[str, Any]]:
    """Read the events of a log, which a run may still be writing; an incomplete last line is skipped.

    Returns: records with `event` and `time`; "nan", "inf", "-inf" are numbers again, except in the options of `begin`.
    Raises: DataError: no such file, or an invalid line, by its number.
    """
    path = as_path(path)
    stream, _ = open_regular_file(path, DataError)
    with stream:
        for number, (_, record) in enumerate(read_lines(stream, 0, 0, path), start=1):
            if (problem := problem_of(record)) is not None:
                raise DataError(f"{path}: line {number} {problem}, so the log is damaged; delete that line")
            yield record if record["event"] == "begin" else parse_nonfinite(record)


def read_lines(stream: BinaryIO, offset: int, line: int, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read the complete lines of a log from an offset on, many at a time.

    Args:
        line: number of the lines before it
        path: for errors
    Returns: the offset of the end of each line, and its record as it is written; of an invalid line that of
        `unreadable`.
    Raises: DataError: a line so long that this is another file.
    """
    stream.seek(offset)
    rest = b""
    while data := stream.read(CHUNK_BYTES):
        whole, newline, rest = (rest + data).rpartition(b"\n")
        if newline:
            lines = whole.split(b"\n")
            # The reader of the records may move the stream.
            position = stream.tell()
            for text, record in zip(lines, _records(lines), strict=True):
                offset += len(text) + 1
                yield offset, record
            stream.seek(position)
            line += len(lines)
        if len(rest) >= MAX_LINE_BYTES:
            raise DataError(f"{path}: line {line + 1} is longer than {MAX_LINE_BYTES} bytes: this is no event log")


def _records(lines: list[bytes]) -> list[dict[str, Any]]:
    """Parse lines: all at once where they are valid, else one by one, to tell which is not."""
    try:
        records = json.loads(b"[" + b",".join(lines) + b"]")
    except (ValueError, RecursionError):
        records = []
    valid = len(records) == len(lines) and all(type(x) is dict and type(x.get("event")) is str for x in records)
    return records if valid else [_record(x) for x in lines]


def _record(line: bytes) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except UnicodeDecodeError:
        return unreadable("is no text")
    except json.JSONDecodeError as problem:  # its own text counts lines within this one
        return unreadable(f"is invalid JSON ({problem.msg}: character {problem.pos + 1})")
    except (ValueError, RecursionError) as problem:
        return unreadable(f"is invalid JSON ({problem})")
    if not isinstance(record, dict) or not isinstance(record.get("event"), str):
        return unreadable('is no record of a log: an object with a text "event"')
    return record


def unreadable(problem: str) -> dict[str, Any]:
    """The record in place of a line that cannot be read; `problem`: why."""
    return {"event": UNREADABLE, "problem": problem}


def problem_of(record: dict[str, Any]) -> str | None:
    """Why a line cannot be read; None = it can."""
    return str(record.get("problem", "is damaged")) if record["event"] == UNREADABLE else None


def parse_nonfinite(value: Any) -> Any:
    """A value of a log in which "nan", "inf" and "-inf" are numbers again."""
    if isinstance(value, dict):
        return {name: parse_nonfinite(x) for name, x in value.items()}
    return float(value) if value in NONFINITE else value


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
