"""What was said of each row, kept for whoever asks why: a line of JSON a row.

{"index": 17, "where": "val.txt: line 18", "row": {"text": "i feel numb"}, "label": "sadness", "said": "joy",
 "right": false, "loss": 3.21, "details": {"scores": {"joy": 0.81, "sadness": 0.04}}}
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from glassformer.data.records import read_value
from glassformer.errors import ConfigError, DataError
from glassformer.files import open_regular, shown
from glassformer.files.parsing import read_record
from glassformer.weights.write import atomic_file


@dataclass(frozen=True, kw_only=True)
class Record:
    """A row, what is true of it, and what was said.

    index: of the row among those judged · where: its file and line
    row: what was read of it, by role: {"text": …}, {"tokens": […]}, {"source": …}
    label, said: as the task has them: a class, a list of labels, a number; a tag a word; a text
    right: whether both agree, where that can be said · loss: of this row alone, in nats
    details: what else the task tells: `scores` of the likeliest classes, `losses` of each word, …
    """

    index: int
    where: str
    row: dict[str, Any]
    label: Any
    said: Any
    right: bool | None = None
    loss: float | None = None
    details: dict[str, Any] = field(default_factory=dict)


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Write a line for each."""
    with atomic_file(path) as stream:
        for record in records:
            stream.write(json.dumps(asdict(record), ensure_ascii=False).encode("utf-8", "replace") + b"\n")


def read_records(path: Path) -> list[Record]:
    """The records of a file.

    Raises: DataError: no such file, or a line that is no record.
    """
    stream, _ = open_regular(path, DataError)
    found = []
    with stream:
        for number, line in enumerate(stream, start=1):
            try:
                found.append(read_record(Record, read_value(line.decode("utf-8"))))
            except (ValueError, RecursionError, ConfigError) as error:
                raise DataError(f"{path}: line {number} is no record: {shown(str(error))}") from error
    return found
