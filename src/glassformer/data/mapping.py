"""Examples of rows by a function, some rows at a time, and kept: the second time they are found.

rows ──1,000 at a time──> function ──examples──> Store     key: rows' fingerprint · function and its arguments
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from glassformer.data.digest import digest_of
from glassformer.data.sequence import Row, Rows
from glassformer.data.store import Store
from glassformer.errors import ConfigError

Function = Callable[[list[Row]], Iterable[Mapping[str, Any]]]

PATIENCE = 1.0  # seconds until a bar appears


def mapped(
    rows: Rows, function: Function, *, batch: int = 1_000, cache: Path | None = None, key: str | None = None
) -> Store:
    """The examples that a function makes of rows.

        mapped(rows, lambda some: [{"input_ids": ids} for ids in encode([row["text"] for row in some])])

    Args:
        function: some rows → their examples, as many as it likes
        batch: rows that it is given at once
        cache: a folder where the examples are kept, and found again; None = in memory
        key: what the function depends on; None = seen from the function itself, see `digest_of`
    Raises: ConfigError: the function cannot be seen through, and there is no key. DataError: no example; no space.
    """
    if batch < 1:
        raise ConfigError(f"batch is {batch} rows; take at least 1")
    made = _made(rows, function, batch)
    if cache is None:
        return Store.make(made)
    depends = digest_of(function) if key is None else f"{_name(function)} {key}"
    return Store.make(made, cache, f"{rows.fingerprint} {batch} {depends}")


def _made(rows: Rows, function: Function, batch: int) -> Iterator[Mapping[str, Any]]:
    """The examples, and a bar on standard error where someone waits for them."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
    task, begun, shown = bar.add_task("rows", total=len(rows)), time.monotonic(), False
    stream = iter(rows)
    try:
        while some := list(islice(stream, batch)):
            yield from function(some)
            if not shown and time.monotonic() - begun > PATIENCE:
                bar.start()
                shown = True
            bar.advance(task, len(some))
    finally:
        if shown:
            bar.stop()


def _name(function: Any) -> str:
    return (
        f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__name__)}"
    )
