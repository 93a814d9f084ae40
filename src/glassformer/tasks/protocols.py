"""What a task reads and makes, as it needs them: rows by number, and examples by number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from glassformer.tasks.microbatch import Example


class Examples(Protocol):
    """Examples by number: in memory, or mapped from files (`data/store.py`).

    lengths: tokens of each, which decide who shares a micro-batch. [N]
    fingerprint: another for other content
    """

    lengths: np.ndarray
    fingerprint: str

    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> Example: ...


class Dataset(Protocol):
    """Rows by number, each a mapping from column to value (`data/rows.py`)."""

    columns: Sequence[str]
    fingerprint: str

    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> Mapping[str, Any]: ...
    def where(self, index: int) -> str:
        """The file and line of a row, for messages: `train.csv: line 17`."""
