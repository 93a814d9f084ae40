"""Heat maps: masks, positions and attention as shaded tables with names."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from glassformer.core import AttentionPattern
from glassformer.errors import DataError
from glassformer.reports.heat_map import HeatMap


def test_a_mask_of_twenty_equals_its_tensor() -> None:
    mask = AttentionPattern(causal=True, window=4).keep(20, 20)
    (table,) = HeatMap(mask, caption="a window").tables()
    assert [[cell == "■" for cell in row[1:]] for row in table.rows] == mask.tolist()
    assert np.array_equal(np.array(table.shades), mask.numpy()) and [*table.headings] == ["", *map(str, range(20))]
    html = HeatMap(mask, caption="a window")._repr_html_()
    assert "<p>a window</p>" in html and html.count("■") == int(mask.sum()) and len(html) < 60_000
    assert repr(HeatMap(mask, caption="a window")) == "HeatMap(20 × 20: a window)"


def test_numbers_are_shaded_by_the_largest() -> None:
    values = torch.tensor([[0.5, -1.0], [float("nan"), 0.25]], dtype=torch.bfloat16, requires_grad=True)
    (table,) = HeatMap(values, ["a", "b"], ["<c>", "d"]).tables()
    assert [list(row) for row in table.rows] == [["a", "0.5", "-1"], ["b", "NaN", "0.25"]]
    assert table.shades is not None and table.shades[0] == [0.5, -1.0]
    assert "&lt;c&gt;" in table.html()
    assert HeatMap(np.zeros((2, 0))).tables()[0].headings == [""]


def test_what_is_no_matrix_is_said() -> None:
    with pytest.raises(DataError, match=r"shape \[3\]; a heat map is of a matrix"):
        HeatMap(torch.ones(3))
    with pytest.raises(DataError, match="3 names of columns, and the matrix has 2 columns"):
        HeatMap(torch.ones(1, 2), columns=["a", "b", "c"])
