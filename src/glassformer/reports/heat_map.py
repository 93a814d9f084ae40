"""Heat maps: a matrix as a shaded table, with names of its rows and columns: a mask, positions, any attention.

from glassformer.reports.heat_map import HeatMap

HeatMap(AttentionPattern(causal=True).keep(20, 20), caption="causal")       True = may attend
HeatMap(session.head(4, 9).probs(), tokens, tokens)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.errors import DataError
from glassformer.reports.report import Display
from glassformer.reports.table import Table, number

ALLOWED, MASKED = "■", "·"


@dataclass(frozen=True, eq=False)
class HeatMap(Display):
    """A matrix whose cells are shaded by their numbers, the largest in full; of booleans True is in full.

    values: a tensor or an array. [R, C]
    rows, columns: their names; none = their numbers
    caption: a line above it
    Raises: DataError: no matrix, or other numbers of names.
    """

    values: Any
    rows: Sequence[str] = ()
    columns: Sequence[str] = ()
    caption: str = ""

    def __post_init__(self) -> None:
        if self._array.ndim != 2:
            raise DataError(f"the values have shape {list(self._array.shape)}; a heat map is of a matrix, [R, C]")
        for name, names, count in zip(("rows", "columns"), (self.rows, self.columns), self._array.shape, strict=True):
            if names and len(names) != count:
                raise DataError(f"there are {len(names)} names of {name}, and the matrix has {count} {name}")

    @property
    def _array(self) -> np.ndarray:
        """The values in memory, whatever made them."""
        values = self.values.detach().cpu() if hasattr(self.values, "detach") else self.values
        return np.asarray(values.float() if str(getattr(values, "dtype", "")) == "torch.bfloat16" else values)

    def tables(self) -> list[Table]:
        """The matrix."""
        values = self._array
        words = (ALLOWED if x else MASKED for x in values.flat) if values.dtype == bool else map(number, values.flat)
        cells = np.array(list(words), dtype=object).reshape(values.shape)
        largest = float(np.nanmax(np.abs(values), initial=0)) or 1.0
        rows = self.rows or list(map(str, range(values.shape[0])))
        columns = self.columns or list(map(str, range(values.shape[1])))
        return [
            Table(
                ["", *columns],
                [[name, *row] for name, row in zip(rows, cells.tolist(), strict=True)],
                shades=(values / largest).tolist(),
                as_picture=True,
            )
        ]

    def __repr__(self) -> str:
        return f"HeatMap({' × '.join(map(str, self._array.shape))}{f': {self.caption}' if self.caption else ''})"
