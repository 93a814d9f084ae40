"""Rows one after the other, shuffled within a buffer: for data too large to be gone through first.

    rows   0 1 2 3 4 5 6 7 8 9 …      windows of at most `buffer` rows, each put in an order that is a function of
           └─────┘└───────┘└── …      (seed, epoch, window); the first is shorter, by another length in each epoch,
           2 0 1  6 3 5 4  9 …        so that borders between windows do not stand still

The state is where the window under way begins and how many of its rows were given: it holds no rows, and stays small
whatever the buffer is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from glassformer.data.lines import LIMIT
from glassformer.data.order import Order
from glassformer.data.parts import Mark, Part, Seen, Source, parts_of
from glassformer.data.schema import Schema
from glassformer.data.sequence import Row
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
    limit: int = LIMIT,
    **options: Any,
) -> Stream:
    """Rows one after the other, read as they are asked for.

        stream = stream_rows("shards/*.jsonl.gz", buffer=10_000, seed=1)
        for row in stream: …
        saved = stream.state()      later: stream_rows(…).restore(saved) goes on with the next row

    Args:
        source, columns, kind, limit, options: as for `read_rows`
        buffer: how many rows are held and shuffled; 1 = they come as they lie
        seed, epoch: another gives another order
    Raises: ConfigError: a buffer below 1, an option that the kind does not have. DataError: as `read_rows`, as each
        row is reached.
    """
    if buffer < 1 or limit < 1:
        raise ConfigError(f"buffer is {buffer} rows and limit {limit} bytes; each is at least 1")
    if seed < 0 or epoch < 0:
        raise ConfigError(f"seed is {seed} and epoch {epoch}; each is at least 0")
    parts = parts_of(source, kind, options)
    return Stream(parts, columns=columns, buffer=buffer, seed=seed, epoch=epoch, limit=limit)


class Stream(Iterator[Row]):
    """Rows one after the other, with a state from which another stream goes on. `where`: the place of the last row."""

    def __init__(
        self,
        parts: Sequence[Part],
        *,
        columns: Sequence[str] | None,
        buffer: int,
        seed: int,
        epoch: int,
        limit: int,
    ) -> None:
        self._parts, self._columns, self._limit = parts, columns, limit
        self._buffer, self._seed, self._epoch = buffer, seed, epoch
        self.where = "before the first row"
        self._start(0, [0, None], {})

    def __next__(self) -> Row:
        if self._given == len(self._held):
            self._window += bool(self._held)
            self._fill()
        row, self.where = self._held[self._order[self._given]]
        self._given += 1
        return row

    def state(self) -> dict[str, Any]:
        """What `restore` needs to go on with the next row: plain numbers and names, for JSON."""
        return {
            "version": VERSION,
            "source": self._stamp(),
            "buffer": self._buffer,
            "seed": self._seed,
            "epoch": self._epoch,
            "window": self._window,
            "begins": self._begins,
            "given": self._given,
            "kinds": dict(self._kinds),
        }

    def restore(self, state: Mapping[str, Any]) -> Stream:
        """Go on where another stream of the same source, buffer and seed was; it gives itself back.

        Raises: DataError: the state is of something else.
        """
        if state.get("version") != VERSION:
            raise DataError("this is no state of a stream; give what Stream.state() gave")
        mine = {"buffer": self._buffer, "seed": self._seed, "source": self._stamp()}
        for name, value in mine.items():
            if state[name] != value:
                raise DataError(
                    f"the state is of a stream with another {name}: {state[name]!r}, and here it is {value!r}; "
                    "resume with the same files and options"
                )
        self._epoch = int(state["epoch"])
        self._start(int(state["window"]), state["begins"], state["kinds"])
        if state["given"]:
            self._fill()
            if len(self._held) < state["given"]:
                raise DataError("the state is of longer data: the window it was in has become shorter")
            self._given = int(state["given"])
            self.where = self._held[self._order[self._given - 1]][1]
        return self

    def _start(self, window: int, begins: list[Any], kinds: Mapping[str, str]) -> None:
        """Stand before a window that begins at a mark of a part."""
        self._window, self._begins, self._ends = window, begins, begins
        self._schema, self._kinds = Schema(self._columns, kinds), dict(kinds)
        self._held: list[tuple[Row, str]] = []
        self._order: list[int] = []
        self._given = 0
        self._scan = self._scanned(*begins)

    def _fill(self) -> None:
        """Read the next window. Raises: StopIteration: there is none."""
        self._begins, self._kinds = self._ends, dict(self._schema.kinds)
        size = self._buffer
        if self._window == 0:
            size = 1 + int(np.random.SeedSequence([self._seed, self._epoch]).generate_state(1)[0]) % size
        found = list(islice(self._scan, size))
        self._held, self._given = [(seen.row, seen.where) for _, seen in found], 0
        if not found:
            raise StopIteration
        self._ends = [found[-1][0], found[-1][1].behind]
        order = Order(len(found), seed=self._seed, shuffled=self._buffer > 1)
        self._order = order.at((self._epoch << 32) + self._window, range(len(found))).tolist()

    def _scanned(self, number: int, mark: Mark) -> Iterator[tuple[int, Seen]]:
        """The rows of all parts from a mark on, looked at, each with the number of its part."""
        for place in range(number, len(self._parts)):
            part, empty = self._parts[place], mark is None
            for seen in part.scan(mark, self._columns, self._limit):
                empty = False
                yield place, seen._replace(row=self._schema.checked(seen.row, seen.where))
            if empty:
                raise DataError(f"{part.name}: holds no row")
            mark = None

    def _stamp(self) -> str:
        stamps = json.dumps([part.stamp() for part in self._parts])
        return hashlib.sha256(stamps.encode()).hexdigest()
