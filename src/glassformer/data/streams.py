"""Streaming: rows read lazily and shuffled within a buffer, with a state to resume from.

    rows   0 1 2 3 4 5 6 7 8 9 …      windows of at most `buffer` rows, each shuffled by a function of
           └─────┘└───────┘└── …      (seed, epoch, window); the first is shorter, by another length in each epoch,
           2 0 1  6 3 5 4  9 …        so that window borders move

The state is where the current window begins and how many of its rows were returned: it holds no rows, and stays small
whatever the buffer size is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from glassformer.data.lines import MAX_ROW_BYTES
from glassformer.data.order import ShuffledOrder
from glassformer.data.rows import Source, open_sources
from glassformer.data.sequence import Row, RowSchema, RowSource, ScannedRow
from glassformer.errors import ConfigError, DataError

VERSION = 1


def stream_rows(
    source: Source,
    *,
    columns: Sequence[str] | None = None,
    kind: str | None = None,
    buffer: int = 1_000,
    seed: int = 0,
    epoch: int = 0,
    limit: int = MAX_ROW_BYTES,
    **options: Any,
) -> RowStream:
    """Stream rows: read them lazily, in a shuffled order.

        stream = stream_rows("shards/*.jsonl.gz", buffer=10_000, seed=1)
        for row in stream: …
        saved = stream.state()      later: stream_rows(…).restore(saved) continues with the next row

    Args:
        source, columns, kind, limit, options: as for `read_rows`
        buffer: shuffle buffer size in rows; 1 = no shuffling
        seed, epoch: of the shuffled order
    Raises: ConfigError: a buffer below 1, an unknown option of the format. DataError: as `read_rows`, as each
        row is reached.
    """
    if buffer < 1 or limit < 1:
        raise ConfigError(f"buffer is {buffer} rows and limit {limit} bytes; each is at least 1")
    if seed < 0 or epoch < 0:
        raise ConfigError(f"seed is {seed} and epoch {epoch}; each is at least 0")
    sources = open_sources(source, kind, options)
    return RowStream(sources, columns=columns, buffer=buffer, seed=seed, epoch=epoch, limit=limit)


class RowStream(Iterator[Row]):
    """An iterator over rows with a state to resume from.

    where: the location of the last row.
    """

    def __init__(
        self,
        sources: Sequence[RowSource],
        *,
        columns: Sequence[str] | None,
        buffer: int,
        seed: int,
        epoch: int,
        limit: int,
    ) -> None:
        self._sources, self._columns, self._limit = sources, columns, limit
        self._buffer, self._seed, self._epoch = buffer, seed, epoch
        self.where = "before the first row"
        self._start(0, [0, None], {})

    def __next__(self) -> Row:
        if self._returned == len(self._rows):
            self._window += bool(self._rows)
            self._read_window()
        row, self.where = self._rows[self._order[self._returned]]
        self._returned += 1
        return row

    def state(self) -> dict[str, Any]:
        """The state from which `restore` continues with the next row: plain values for JSON."""
        return {
            "version": VERSION,
            "source": self._source_stamp(),
            "buffer": self._buffer,
            "seed": self._seed,
            "epoch": self._epoch,
            "window": self._window,
            "begins": self._window_start,
            "given": self._returned,
            "kinds": dict(self._kinds),
        }

    def restore(self, state: Mapping[str, Any]) -> RowStream:
        """Resume from the state of another stream of the same source, buffer and seed. Returns: itself.

        Raises: DataError: the state is of another stream.
        """
        if state.get("version") != VERSION:
            raise DataError("this is not the state of a stream; give the result of RowStream.state()")
        expected = {"buffer": self._buffer, "seed": self._seed, "source": self._source_stamp()}
        for name, value in expected.items():
            if state[name] != value:
                raise DataError(
                    f"the state is of a stream with another {name}: {state[name]!r}, and here it is {value!r}; "
                    "resume with the same files and options"
                )
        self._epoch = int(state["epoch"])
        self._start(int(state["window"]), state["begins"], state["kinds"])
        if state["given"]:
            self._read_window()
            if len(self._rows) < state["given"]:
                raise DataError("the state is of longer data: the window it was in has become shorter")
            self._returned = int(state["given"])
            self.where = self._rows[self._order[self._returned - 1]][1]
        return self

    def _start(self, window: int, start: list[Any], kinds: Mapping[str, str]) -> None:
        """Prepare to read a window; `start`: index of its source, and the resume position there."""
        self._window, self._window_start, self._window_end = window, start, start
        self._schema, self._kinds = RowSchema(self._columns, kinds), dict(kinds)
        self._rows: list[tuple[Row, str]] = []
        self._order: list[int] = []
        self._returned = 0
        self._scan = self._scan_sources(*start)

    def _read_window(self) -> None:
        """Read the next window. Raises: StopIteration: there is none."""
        self._window_start, self._kinds = self._window_end, dict(self._schema.kinds)
        size = self._buffer
        if self._window == 0:
            size = 1 + int(np.random.SeedSequence([self._seed, self._epoch]).generate_state(1)[0]) % size
        items = list(islice(self._scan, size))
        self._rows, self._returned = [(item.row, item.where) for _, item in items], 0
        if not items:
            raise StopIteration
        self._window_end = [items[-1][0], items[-1][1].next_position]
        order = ShuffledOrder(len(items), seed=self._seed, shuffled=self._buffer > 1)
        self._order = order.at((self._epoch << 32) + self._window, range(len(items))).tolist()

    def _scan_sources(self, first: int, position: Any) -> Iterator[tuple[int, ScannedRow]]:
        """The rows of all sources from a resume position on, validated, each with the index of its source."""
        for index, source in enumerate(self._sources[first:], start=first):
            empty = position is None
            for item in source.scan(position, self._columns, self._limit):
                empty = False
                yield index, item._replace(row=self._schema.validate(item.row, item.where))
            if empty:
                raise DataError(f"{source.name}: holds no row")
            position = None

    def _source_stamp(self) -> str:
        stamps = json.dumps([part.stamp() for part in self._sources])
        return hashlib.sha256(stamps.encode()).hexdigest()
