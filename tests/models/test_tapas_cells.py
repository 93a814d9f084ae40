"""Cell selection: pooling of tokens by cell, and the selected column. Parity is in tests/models/test_tapas.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.core import Flow
from glassformer.errors import ConfigError
from glassformer.models.tapas.cells import (
    MASKED_LOGIT,
    CellSelection,
    CellSelectionOutput,
    CellSelectionSpec,
    CellSelectionWithAggregation,
    Grid,
)
from tests.core.small import assert_close, perturbed

SPEC = CellSelectionSpec(width=8, rows=3, columns=4)
#                        question   header    two rows of two columns, the last cell of two tokens
ROWS = torch.tensor([[0, 0, 0, 0, 0, 1, 1, 2, 2, 2]])
COLUMNS = torch.tensor([[0, 0, 0, 1, 2, 1, 2, 1, 2, 2]])
X = torch.randn(1, 10, 8, generator=torch.Generator().manual_seed(3))


def selected(spec: CellSelectionSpec = SPEC, x: Tensor = X, keep: Tensor | None = None) -> Any:
    torch.manual_seed(1)
    return perturbed(CellSelection(spec)).eval().select(x, ROWS, COLUMNS, Flow(keep=keep))


def test_a_grid_gathers_tokens_and_spreads_cells() -> None:
    grid = Grid(ROWS * 4 + COLUMNS, 3, 4)
    x = torch.arange(10.0)[None]
    means, sums, maxima = (grid.pool_cells(x, how) for how in ("mean", "sum", "amax"))
    assert means.shape == (1, 3, 4)
    assert (means[0, 0, 0], means[0, 2, 2], means[0, 1, 3]) == (1.0, 8.5, 0.0)
    assert (sums[0, 0, 0], maxima[0, 2, 2]) == (3.0, 9.0)
    assert grid.spread_to_tokens(means)[0].tolist() == [1.0, 1.0, 1.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.5, 8.5]


def test_logits_are_a_cell_s_mean_in_one_column_and_never_elsewhere() -> None:
    output = selected()
    column = int(output.column_logits.argmax())
    chosen = COLUMNS[0] == column
    means = Grid(output.cells, 3, 4)
    spread = means.spread_to_tokens(means.pool_cells(output.token_logits, "mean"))
    assert_close(output.logits[0, chosen], spread[0, chosen], 1e-6)
    assert_close(output.logits[0, ~chosen], spread[0, ~chosen] + MASKED_LOGIT, 1e-3)
    assert output.column_logits[0, 3] < MASKED_LOGIT / 2, "a column that is not there"


def test_choosing_nothing_has_to_be_allowed() -> None:
    assert selected().column_logits[0, 0] < MASKED_LOGIT / 2
    allowed = selected(replace(SPEC, may_be_empty=True))
    assert allowed.column_logits[0, 0] > MASKED_LOGIT / 2
    to_question = X.clone()
    to_question[0, :3] = 100 * perturbed_column()
    nothing = selected(replace(SPEC, may_be_empty=True), x=to_question)
    assert int(nothing.column_logits.argmax()) == 0
    assert (nothing.logits < MASKED_LOGIT / 2).all()


def perturbed_column() -> Tensor:
    torch.manual_seed(1)
    return perturbed(CellSelection(SPEC)).column.weight.detach()


def test_any_column_keeps_the_tokens_own_logits_unless_they_are_averaged() -> None:
    free = replace(SPEC, one_column=False)
    assert torch.equal(selected(free).logits, selected(free).token_logits)
    averaged = selected(replace(free, average=True)).logits
    assert averaged[0, 8] == averaged[0, 9] != selected(free).logits[0, 8]
    assert_close(averaged[0, 3:8], selected(free).logits[0, 3:8], 1e-6)


def test_temperature_divides() -> None:
    assert_close(selected(replace(SPEC, temperature=0.5)).token_logits, 2 * selected().token_logits, 1e-5)


def test_a_table_beyond_the_grid_ends_in_its_last_cells() -> None:
    small = selected(CellSelectionSpec(width=8, rows=2, columns=2))
    assert small.cells[0].tolist() == [0, 0, 0, 1, 1, 3, 3, 3, 3, 3]


def test_cells_of_padding_cannot_be_chosen() -> None:
    keep = torch.ones(1, 1, 10, dtype=torch.bool)
    keep[..., 5:] = False
    output = selected(keep=keep)
    assert (output.logits[0, 5:] < MASKED_LOGIT / 2).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_16_bits_choose_the_same_column(dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    head = perturbed(CellSelection(SPEC)).eval().to(dtype)
    output = head.select(X.to(dtype), ROWS, COLUMNS, Flow())
    assert bool(output.column_logits.isfinite().all())
    assert output.column_logits.argmax() == selected().column_logits.argmax()


def test_the_loss_is_that_of_the_column_and_of_its_cells() -> None:
    output = selected()
    labels = torch.zeros(1, 10, dtype=torch.int64)
    labels[0, 6] = 1  # column 2, row 1
    head = CellSelection(SPEC)
    grid = Grid(output.cells, 3, 4)
    cells = grid.pool_cells(output.token_logits, "mean")[0, :, 2]
    own = torch.nn.functional.binary_cross_entropy_with_logits(cells, torch.tensor([0.0, 1.0, 0.0]))
    column = -output.column_logits.log_softmax(dim=-1)[0, 2]
    assert_close(head.loss(output, labels), own + column, 1e-5)
    nothing = head.loss(output, torch.zeros_like(labels))
    assert_close(nothing, -output.column_logits.log_softmax(dim=-1)[0, 0], 1e-3)


def test_an_operator_beside_the_cells() -> None:
    torch.manual_seed(1)
    head = perturbed(CellSelectionWithAggregation(replace(SPEC, operator_weight=2.0), 4)).eval()
    output = head.select(X, ROWS, COLUMNS, Flow())
    assert isinstance(output, CellSelectionOutput) and output.logits_aggregation is not None
    assert output.logits_aggregation.shape == (1, 4)
    cells, operators = torch.zeros(1, 10, dtype=torch.int64), torch.tensor([3])
    both = head.loss(output, {"labels": cells, "aggregation_labels": operators})
    operator = -output.logits_aggregation.log_softmax(dim=-1)[0, 3]
    assert_close(both - CellSelection.output_loss_sums(head, output, cells)["loss"], 2 * operator, 1e-3)
    assert head.reads_first_token


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"rows": 0}, "rows is 0"),
        ({"columns": 0}, "columns is 0"),
        ({"temperature": 0.0}, "temperature is 0.0; it must be a number above 0"),
        ({"positive_weight": -1.0}, "positive_weight is -1.0"),
        ({"dropout": 1.0}, "dropout is 1.0"),
    ],
)
def test_specs_check_themselves(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        replace(SPEC, **changes)
