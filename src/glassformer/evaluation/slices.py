"""Which rows are judged: all, or a part of them that is drawn once for all."""

from __future__ import annotations

from glassformer.data.sequence import Rows
from glassformer.data.splits import sample
from glassformer.errors import ConfigError


def drawn(rows: Rows, count: int | None, seed: int = 0) -> Rows:
    """So many of the rows, drawn by a seed, in the order in which they lie; the fewer are among the more.

        drawn(rows, 1_000, seed=42)

    Args: count: None, or more than there are = all of them
    Raises: ConfigError: no rows, or a seed below 0.
    """
    if count is not None and count < 1:
        raise ConfigError(f"limit is {count}; it must be a whole number from 1 up")
    if seed < 0:
        raise ConfigError(f"a seed is a whole number from 0 on; got {seed}")
    if count is None or count >= len(rows):
        return rows
    return rows.select(sample(len(rows), count, seed=seed))
