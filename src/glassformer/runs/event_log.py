"""The log of a run: a file of JSON lines that only grows, and that a resumed run continues as if it had never stopped.

    {"event": "begin", "time": …, "options": {…}}
    {"event": "step", "time": …, "step": 1, "epoch": 0.02, "loss": 2.31, "lr": 1e-05, "grad_norm": 3.4, …}
                                                  ^ offset, kept in a checkpoint: a resumed run cuts here
    {"event": "skipped", "time": …, "step": 2, "loss": "nan", …}

A line is written in one call, so a reader sees all of it or none, but for one that a kill has cut: readers pass over
it, and the next writer drops it. What is not finite stands as "nan", "inf", "-inf": JSON has no such numbers.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from glassformer.errors import DataError
from glassformer.files import open_regular, reason
from glassformer.files.parsing import strict

NOT_FINITE = ("nan", "inf", "-inf")
MAX_LINE_BYTES = 16 << 20


def journal_path(folder: Path, rank: int = 0) -> Path:
    """The log of one process of a run: `journal.jsonl` of the first, then `journal-1.jsonl`, …"""
    return folder / (f"journal-{rank}.jsonl" if rank else "journal.jsonl")


class Journal:
    """The log of one process, to be written.

        with Journal(journal_path(folder)) as journal:
            journal.write("step", step=1, loss=2.31)

    Events of a run: begin (options), resumed (step), step (step, epoch, loss, lr, grad_norm, tokens read so far,
    tokens_per_s; loss and speed are means since the last one), validation (step, figures, best), checkpoint (step),
    skipped (step, loss, indices, module), memory (step, …), end (steps, …).

    A disk that refuses stops no run: the line is lost, the file stays whole, and the first time it is said.

    Args:
        path: made where it is missing, else continued behind its last whole line.
    Raises: DataError: the file cannot be opened.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self._file = open(self.path, "a+b", buffering=0)  # noqa: SIM115  closed by `close`
        except OSError as problem:
            raise DataError(f"{self.path}: the log cannot be opened: {reason(problem)}") from problem
        self._warned = False
        self._cut(self._file.seek(0, os.SEEK_END))

    @property
    def offset(self) -> int:
        """How many bytes are written: what a checkpoint keeps, so that `truncate` can come back here."""
        return self._offset

    def write(self, event: str, **values: Any) -> None:
        """One more line: what happened, when, and numbers, texts, lists or mappings that say more."""
        record = {"event": event, "time": round(time.time(), 3), **values}
        line = json.dumps(strict(record), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        data = line.encode("utf-8", "backslashreplace") + b"\n"
        try:
            written = self._file.write(data)
            if written < len(data):  # a disk that fills up takes what it can, and refuses the next time
                self._file.write(data[written:])
        except OSError as problem:
            self._file.truncate(self._offset)
            self._warn(f"cannot be written: {reason(problem)}; training goes on, and the log has a gap")
        else:
            self._offset += len(data)

    def truncate(self, offset: int) -> None:
        """Forget what was written behind a checkpoint, so that the resumed run does not say it twice."""
        size = self._offset
        if offset > size:
            self._warn(f"has {size} bytes, {offset} when the checkpoint was saved: what is missing is lost")
        self._cut(min(offset, size))

    def sync(self) -> None:
        """Wait until all of it is on the disk, so that no checkpoint outlives what its log said before."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """No more is written."""
        self._file.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.close()

    def _cut(self, size: int) -> None:
        """Keep the whole lines within the first `size` bytes."""
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


def read_journal(path: str | Path) -> Iterator[dict[str, Any]]:
    """The records of a log from its beginning, while a run may be writing it; a cut last line is passed over.

    Returns: records with `event` and `time`; "nan", "inf", "-inf" are numbers again, but in the options of `begin`,
        which stand as they were written.
    Raises: DataError: no such file, or a line that is no record, by its number.
    """
    path = Path(path)
    stream, _ = open_regular(path, DataError)
    with stream:
        for number, line in enumerate(iter(lambda: stream.readline(MAX_LINE_BYTES), b""), 1):
            if line.endswith(b"\n"):
                yield _record(line, f"{path}: line {number}")
            elif len(line) == MAX_LINE_BYTES:
                raise DataError(
                    f"{path}: line {number} is longer than {MAX_LINE_BYTES} bytes: not a log of ours"
                )


def _record(line: bytes, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise DataError(f"{where} is not JSON, so the log is damaged: {problem}; delete that line") from None
    if not isinstance(record, dict) or not isinstance(record.get("event"), str):
        raise DataError(f'{where} is no record of a log: an object with a text "event"; delete that line')
    return record if record["event"] == "begin" else {name: _read(value) for name, value in record.items()}


def _read(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _read(x) for name, x in value.items()}
    return float(value) if value in NOT_FINITE else value
