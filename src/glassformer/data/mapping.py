"""Map a function over rows in batches, with a cache on disk.

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
from glassformer.data.sequence import Row, RowSequence
from glassformer.data.store import ExampleStore
from glassformer.deprecation import former_names
from glassformer.errors import ConfigError

Function = Callable[[list[Row]], Iterable[Mapping[str, Any]]]

PROGRESS_DELAY = 1.0  # seconds until a progress bar appears


def map_rows(
    rows: RowSequence,
    function: Function,
    *,
    batch: int = 1_000,
    cache: Path | None = None,
    key: str | None = None,
) -> ExampleStore:
    """Apply a function to batches of rows and store the examples that it returns.

        mapped(rows, lambda batch: [{"input_ids": ids} for ids in encode([row["text"] for row in batch])])

    Args:
        function: a batch of rows → examples, any number of them
        batch: batch size in rows
        cache: cache folder; None = in memory
        key: cache key of the function; None = a hash of the function itself, see `digest_of`
    Raises: ConfigError: the function cannot be hashed, and there is no key. DataError: no example; disk full.
    """
    if batch < 1:
        raise ConfigError(f"batch is {batch} rows; take at least 1")
    examples = _examples(rows, function, batch)
    if cache is None:
        return ExampleStore.make(examples)
    function_key = digest_of(function) if key is None else f"{_name(function)} {key}"
    return ExampleStore.make(examples, cache, f"{rows.fingerprint} {batch} {function_key}")


def _examples(rows: RowSequence, function: Function, batch: int) -> Iterator[Mapping[str, Any]]:
    """The examples, with a progress bar on standard error if it is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
    task, start, visible = bar.add_task("rows", total=len(rows)), time.monotonic(), False
    stream = iter(rows)
    try:
        while chunk := list(islice(stream, batch)):
            yield from function(chunk)
            if not visible and time.monotonic() - start > PROGRESS_DELAY:
                bar.start()
                visible = True
            bar.advance(task, len(chunk))
    finally:
        if visible:
            bar.stop()


def _name(function: Any) -> str:
    return (
        f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__name__)}"
    )


__getattr__ = former_names(__name__)
