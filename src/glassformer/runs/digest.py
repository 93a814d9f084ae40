"""The digest of a log: what a run has logged, its steps as columns.

The digest of a log has its steps as columns; of a long log the minimum, maximum and mean of blocks of steps:

    journal.jsonl ──read_digest──> Digest: at most 2 · MAX_BLOCKS blocks, and the other events
         └ journal.digest          keeps it next to the log: next time, only what is new in the log is read

Up to 2 · MAX_BLOCKS logged steps, a block is a step, and nothing is lost; in longer logs it is a power of two of them.
Source: O'Neil et al. 1996, "The log-structured merge-tree": recent rows as they are, older ones merged.

Each block has a checksum of the log's bytes before its end. A log that was truncated and continued, as a resumed run
does, keeps the blocks whose bytes are still there; another log in its place keeps none.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from glassformer.errors import DataError
from glassformer.files import open_regular_file
from glassformer.files.atomic import atomic_file
from glassformer.runs.folder import parse_nonfinite, problem_of, read_lines, unreadable

CURVES = ("loss", "lr", "grad_norm", "tokens_per_s")
STEPS = (*CURVES, "epoch", "tokens", "time")
MAX_BLOCKS = 8192
"""More than a chart has pixels from left to right on any screen."""
MIN_NEW_STEPS = 2048
"""Steps beyond the stored digest from which it is written again."""
CHECKED_BYTES = 256  # before the end of what was digested: a log that was replaced or cut differs there
MAX_UNREADABLE = 100
"""Lines of a log that are left out with a note; of more, this is another file."""
STEP_EVENTS = ("validation", "checkpoint", "resumed")  # what a rollback undoes besides the steps


@dataclass(frozen=True)
class Blocks:
    """Blocks of consecutive logged steps, N of them.

    step: the last step of each
    count: steps in it
    end, line: offset and number of its last line in the log
    check: checksum of the bytes before `end`, 0 where not computed yet
    seconds: computing time. [N]
    last: the columns STEPS at its last step. [N, 7]
    low, high: minimum and maximum of CURVES, the finite ones, at the steps low_step, high_step. [N, 4]
    total, finite: sum and number of the finite values of CURVES. [N, 4]
    """

    step: np.ndarray
    count: np.ndarray
    end: np.ndarray
    line: np.ndarray
    check: np.ndarray
    seconds: np.ndarray
    last: np.ndarray
    low: np.ndarray
    low_step: np.ndarray
    high: np.ndarray
    high_step: np.ndarray
    total: np.ndarray
    finite: np.ndarray

    def __len__(self) -> int:
        return len(self.step)

    def __getitem__(self, rows: slice) -> Blocks:
        return self.each(lambda name: getattr(self, name)[rows])

    @classmethod
    def each(cls, make: Callable[[str], np.ndarray]) -> Blocks:
        """Blocks whose arrays a function makes, by their names."""
        return cls(**{part.name: make(part.name) for part in fields(cls)})

    @classmethod
    def of_steps(cls, step: np.ndarray, end: np.ndarray, line: np.ndarray, last: np.ndarray, before: float) -> Blocks:
        """Steps as blocks of one; `before`: tokens read before the first of them."""
        values = last[:, : len(CURVES)]
        finite = np.isfinite(values)
        tokens, speed = np.diff(last[:, STEPS.index("tokens")], prepend=before), last[:, STEPS.index("tokens_per_s")]
        with np.errstate(all="ignore"):
            seconds = np.where(speed > 0, tokens / speed, 0.0)
        steps = np.broadcast_to(step[:, None], values.shape)
        ones, zeros = np.ones_like(step), np.zeros_like(step)
        total = np.where(finite, values, 0.0)
        return cls(step, ones, end, line, zeros, seconds, last, values, steps, values, steps, total, finite * 1)

    def __add__(self, other: Blocks) -> Blocks:
        return self.each(lambda name: np.concatenate([getattr(self, name), getattr(other, name)]))

    def merged(self, size: int) -> Blocks:
        """Blocks of `size` steps, a power of two; those after the last whole one stay as they are."""
        until = np.cumsum(self.count)
        whole = int(np.searchsorted(until, until[-1] // size * size, side="right"))
        if not whole:
            return self
        few, rest = self[:whole], self[whole:]
        starts = np.flatnonzero(np.diff((until[:whole] - 1) // size, prepend=-1))
        ends = np.append(starts[1:], whole) - 1
        parts = {name: getattr(few, name)[ends] for name in ("step", "end", "line", "check", "last")}
        parts |= {name: np.add.reduceat(getattr(few, name), starts) for name in ("count", "seconds", "total", "finite")}
        for name, extreme in (("low", np.fmin), ("high", np.fmax)):
            values = np.where(np.isfinite(getattr(few, name)), getattr(few, name), np.nan)
            parts[name] = extreme.reduceat(values, starts)
            reached = values == np.repeat(parts[name], np.diff(np.append(starts, whole)), axis=0)
            first = np.minimum.reduceat(np.where(reached, np.arange(whole)[:, None], whole - 1), starts)
            parts[f"{name}_step"] = np.take_along_axis(getattr(few, f"{name}_step"), first, axis=0)
        return Blocks(**parts) + rest

    def compact(self) -> Blocks:
        """At most 2 · MAX_BLOCKS blocks."""
        steps = int(self.count.sum())
        return self if len(self) <= 2 * MAX_BLOCKS else self.merged(1 << math.ceil(math.log2(steps / MAX_BLOCKS)))


WIDTHS = dict.fromkeys(("low", "low_step", "high", "high_step", "total", "finite"), len(CURVES)) | {"last": len(STEPS)}
FLOATS = ("seconds", "last", "low", "high", "total")


def _shape(name: str, rows: int) -> tuple[int, ...]:
    return (rows, WIDTHS[name]) if name in WIDTHS else (rows,)


NO_BLOCKS = Blocks.each(lambda name: np.zeros(_shape(name, 0), np.float64 if name in FLOATS else np.int64))


@dataclass
class Digest:
    """What an event log says.

    blocks: of its steps
    first: its first logged step, by name
    last_event: the last readable line's event
    events: (offset of its end, number of its line, record) of every event that is no step, and of unreadable lines
    """

    blocks: Blocks = NO_BLOCKS
    first: dict[str, float] = field(default_factory=dict)
    events: list[tuple[int, int, dict[str, Any]]] = field(default_factory=list)
    last_event: str = ""

    @property
    def offset(self) -> int:
        """Where the last line of a step ends: what is before need not be read again."""
        return int(self.blocks.end[-1]) if len(self.blocks) else 0

    def leave_out(self, end: int, line: int, problem: str, path: Path) -> None:
        """Leave a line out that cannot be read. Raises: DataError: so many that this is no log."""
        left_out = self.left_out
        if len(left_out) >= MAX_UNREADABLE:
            raise DataError(f"{path}: line {line} {problem}, as {MAX_UNREADABLE} lines before: this is no event log")
        if line not in left_out:  # a block that is read again has it a second time
            self.events.append((end, line, unreadable(problem)))

    @property
    def left_out(self) -> set[int]:
        """The numbers of the lines that cannot be read."""
        return {line for _, line, record in self.events if problem_of(record) is not None}


def digest_path(log: Path) -> Path:
    """The path of the digest of an event log: `journal.digest` of `journal.jsonl`."""
    return log.with_suffix(".digest")


def read_digest(path: Path) -> Digest:
    """Read the digest of an event log, which may still be written: the stored one, then the rest of the log.

    A digest that is missing, damaged or of another log is made again; where the folder can be written, it is stored.
    A line that cannot be read is left out, and is among the events.
    Raises: DataError: no such log, or another file.
    """
    stream, size = open_regular_file(path, DataError)
    with stream:
        digest = _stored(path, stream, size)
        known = int(digest.blocks.count.sum())
        _read_tail(digest, stream, path)
        if abs(int(digest.blocks.count.sum()) - known) >= MIN_NEW_STEPS:
            with suppress(OSError, SafetensorError):  # a folder that cannot be written: it is read again next time
                _store(digest, path, stream)
    return digest


def update_digest(path: Path) -> None:
    """Bring the stored digest of a long event log up to date, so that its page opens at once."""
    with suppress(DataError):  # a damaged log has none
        read_digest(path)


def _read_tail(digest: Digest, stream: BinaryIO, path: Path) -> None:
    """Add the lines of a log after the digest's offset."""
    line = int(digest.blocks.line[-1]) if len(digest.blocks) else 0
    rows: list[tuple[int, int, int, list[Any]]] = []

    def flush() -> None:
        if rows:
            added = _as_blocks(rows, digest, path)
            if len(added) and not len(digest.blocks):
                digest.first = {"step": int(added.step[0]), **dict(zip(STEPS, added.last[0].tolist(), strict=True))}
            digest.blocks = (digest.blocks + added).compact()
            rows.clear()

    newest = max([*digest.blocks.step[-1:].tolist(), *(_step_of(x) for _, _, x in digest.events)], default=-math.inf)
    for end, record in read_lines(stream, digest.offset, line, path):
        line, event = line + 1, record["event"]
        if (problem := problem_of(record)) is not None:
            digest.leave_out(end, line, problem, path)
            continue
        try:
            if event == "step":
                step = _step(record)
                if step <= newest:
                    flush()
                    _go_back(digest, step, stream, path)
                get, newest = record.get, step
                rows.append((step, end, line, [get(name, math.nan) for name in STEPS]))
                if len(rows) >= MAX_BLOCKS:
                    flush()
            else:
                record = record if event == "begin" else parse_nonfinite(record)
                newest = max(newest, _step_of(record))
                digest.events.append((end, line, record))
            digest.last_event = event
        except DataError:  # of a line before this one
            raise
        except (KeyError, TypeError, ValueError, OverflowError) as error:  # the last: a step of 1e400
            digest.leave_out(end, line, f"is no {event} of a run: {error}", path)
    flush()


def _step_of(record: dict[str, Any]) -> float:
    return _step(record) if record["event"] in STEP_EVENTS else -math.inf


def _step(record: dict[str, Any]) -> int:
    step = int(record["step"])
    if abs(step) >= 1 << 62:
        raise OverflowError("its step is too large")
    return step


def _as_blocks(rows: list[tuple[int, int, int, list[Any]]], digest: Digest, path: Path) -> Blocks:
    """Lines of steps as blocks of one, after those of a digest; one with a value that is no number is left out."""
    if not rows:
        return NO_BLOCKS
    steps, ends, lines, values = zip(*rows, strict=True)
    try:
        last = np.array(values, dtype=np.float64).reshape(len(rows), len(STEPS))
    except (TypeError, ValueError, OverflowError):
        numeric = [row for row in rows if _is_numeric(row, digest, path)]
        if len(numeric) == len(rows):
            raise
        return _as_blocks(numeric, digest, path)
    known = digest.blocks
    before = float(known.last[-1, STEPS.index("tokens")]) if len(known) else 0.0
    step, end, line = (np.array(column, dtype=np.int64) for column in (steps, ends, lines))
    return Blocks.of_steps(step, end, line, last, before)


def _is_numeric(row: tuple[int, int, int, list[Any]], digest: Digest, path: Path) -> bool:
    """Whether the values of a line are numbers; else the digest leaves it out."""
    _, end, line, values = row
    try:
        _ = [float(x) for x in values]
    except (TypeError, ValueError, OverflowError) as error:
        digest.leave_out(end, line, f"is no step of a run: {error}", path)
        return False
    return True


def _go_back(digest: Digest, step: int, stream: BinaryIO, path: Path) -> None:
    """Undo what the log says from a step on: after a rollback it has these steps twice."""
    whole = int(np.searchsorted(digest.blocks.step, step))
    cut, digest.blocks = digest.blocks[whole : whole + 1], digest.blocks[:whole]
    if len(cut) and cut.count[0] > 1:  # the steps of this block that are before are read again
        offset, line = digest.offset, int(digest.blocks.line[-1]) if whole else 0
        left_out = digest.left_out
        rows: list[tuple[int, int, int, list[Any]]] = []
        for number, (end, record) in enumerate(read_lines(stream, offset, line, path), line + 1):
            if end > cut.end[0]:
                break
            if record["event"] == "step" and number not in left_out:
                while rows and rows[-1][0] >= int(record["step"]):
                    rows.pop()
                rows.append((int(record["step"]), end, number, [record.get(name, math.nan) for name in STEPS]))
        if rows := [row for row in rows if row[0] < step]:
            digest.blocks += _as_blocks(rows, digest, path)
    digest.events = [event for event in digest.events if _step_of(event[2]) < step]


# ------------------------------------------------------------------------------------------------ the stored digest


def _store(digest: Digest, path: Path, log: BinaryIO) -> None:
    """Write the digest next to its log, atomically. Raises: OSError: as the system refuses."""
    blocks = digest.blocks
    check = [int(at) or _checksum(log, int(end)) for at, end in zip(blocks.check, blocks.end, strict=True)]
    digest.blocks = replace(blocks, check=np.array(check, np.int64))
    events = [event for event in digest.events if event[0] <= digest.offset]
    about = {"format": "1", "events": json.dumps(events), "first": json.dumps(digest.first)}
    arrays = {part.name: np.ascontiguousarray(getattr(digest.blocks, part.name)) for part in fields(Blocks)}
    with atomic_file(digest_path(path)) as stream:
        stream.write(save(arrays, about))


def _stored(path: Path, log: BinaryIO, size: int) -> Digest:
    """The stored digest of a log, as far as the log still has what it says; an empty one where there is none."""
    try:
        with safe_open(digest_path(path), framework="numpy") as stored:
            about = stored.metadata() or {}
            if about.get("format") != "1":
                return Digest()
            blocks = Blocks.each(lambda name: _checked(name, stored.get_tensor(name)))
            digest = Digest(blocks, json.loads(about["first"]), [tuple(x) for x in json.loads(about["events"])])
        low, high = 0, len(blocks)
        if high and _matches(blocks, high - 1, log, size):
            low = high
        while low < high:  # the most blocks that are there: those before an intact one are intact
            middle = (low + high) // 2
            low, high = (middle + 1, high) if _matches(blocks, middle, log, size) else (low, middle)
        digest.blocks = blocks[:low]
        digest.events = [event for event in digest.events if event[0] <= digest.offset]
        digest.first = digest.first if low else {}
        return digest
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, IndexError, RecursionError):
        return Digest()


def _checked(name: str, array: np.ndarray) -> np.ndarray:
    """An array of a stored digest. Raises: ValueError: not of the shape and type that it must have."""
    if array.shape != _shape(name, len(array)) or array.dtype != (np.float64 if name in FLOATS else np.int64):
        raise ValueError(name)
    return array


def _matches(blocks: Blocks, index: int, log: BinaryIO, size: int) -> bool:
    end = int(blocks.end[index])
    return 0 < end <= size and _checksum(log, end) == int(blocks.check[index])


def _checksum(log: BinaryIO, end: int) -> int:
    """Checksum of the bytes of a log before an offset; never 0."""
    start = max(end - CHECKED_BYTES, 0)
    log.seek(start)
    return zlib.crc32(log.read(end - start)) or 1
