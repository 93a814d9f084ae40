"""Cell selection heads for table question answering (TAPAS).

    tokens ─ pooled by row and column ─ a logit for each cell and each column ─ the cells of the most probable column

A token's row and column are integers from 0; row 0 is the header, column 0 the question.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.core.checks import Count, NonNegative, Positive, Probability, Spec
from glassformer.core.classification_heads import SequenceClassifier
from glassformer.core.flow import Flow, Output
from glassformer.core.heads import Head, Labels, single_tensor
from glassformer.core.losses import refuse_smoothing
from glassformer.errors import ConfigError, DataError, UnsupportedError

if TYPE_CHECKING:
    from jaxtyping import Float, Int


@dataclass(frozen=True, kw_only=True, slots=True)
class CellSelectionSpec(Spec):
    """Cell selection head (TAPAS).

    width: D
    rows, columns: of the largest table; cells beyond it count as its last
    one_column: all selected cells are in one column
    may_be_empty: or none is selected
    average: the tokens of a cell share one logit, also without `one_column`
    temperature: divides the tokens' logits
    positive_weight: loss weight of selected tokens, without `one_column`
    learns_cells: cell selection has a loss
    operator_weight: loss weight of the aggregation operator
    supervised_operator: labels hold the operator (strong supervision); else only its result (weak supervision)
    """

    width: Count
    rows: Count = 64
    columns: Count = 32
    one_column: bool = True
    may_be_empty: bool = False
    average: bool = False
    temperature: Positive = 1.0
    dropout: Probability = 0.0
    positive_weight: NonNegative = 10.0
    learns_cells: bool = True
    operator_weight: NonNegative = 1.0
    supervised_operator: bool = True


MASKED_LOGIT = -10_000.0
"""Added to the logits of cells and columns that cannot be chosen. The released code has this finite number."""
EPSILON = 1e-10
"""Added to counts that may be 0, before dividing by them."""


@dataclass(frozen=True, slots=True)
class Grid:
    """The cells of a table, and the cell of each token.

    cell_ids: row · columns + column. [B, T]
    """

    cell_ids: Tensor
    rows: int
    columns: int

    def pool_cells(self, x: Float[Tensor, "B T"], how: Literal["mean", "sum", "amax"]) -> Float[Tensor, "B R C"]:
        """Reduce the numbers of each cell's tokens to one; 0 where a cell has no token."""
        cells = x.new_zeros(x.shape[0], self.rows * self.columns)
        pooled = cells.scatter_reduce(1, self.cell_ids, x, how, include_self=False)
        return pooled.view(x.shape[0], self.rows, self.columns)

    def spread_to_tokens(self, cells: Float[Tensor, "B R C"]) -> Float[Tensor, "B T"]:
        """The number of each token's cell."""
        return cells.flatten(1).gather(1, self.cell_ids)


@dataclass(frozen=True, kw_only=True, slots=True)
class CellSelectionOutput(Output):
    """Output of cell selection: the logits, and what the loss needs.

    token_logits: before a column is chosen [B, T]
    column_logits: scores of the columns [B, C]
    cells: each token's cell id [B, T]
    visible: 1 for tokens, 0 for padding [B, T]
    """

    OWN: ClassVar[frozenset[str]] = Output.OWN | {"token_logits", "column_logits", "cells", "visible"}

    token_logits: Tensor
    column_logits: Tensor
    cells: Tensor
    visible: Tensor


class CellScore(nn.Module):
    """Linear score: x · weight + bias, one number for each token."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T"]:
        return x @ self.weight + self.bias


class CellSelection(Head):
    """Cell selection: which cells of a table answer the question, as a logit for each token.

        token     u(x) / temperature
        cell      mean of its tokens
        column    mean of v(x) over a cell's tokens, then over the column's cells
        logits    the cell's in the most probable column; MASKED_LOGIT is added in all others

    Column 0 stands for an empty selection: its cells are never chosen.
    Source: Herzig et al. 2020, section 2, "Cell selection"; the losses: section 4.
    """

    LOGIT_A_TOKEN = True

    def __init__(self, spec: CellSelectionSpec) -> None:
        super().__init__()
        self.spec = spec
        self.dropout = nn.Dropout(spec.dropout)
        self.token = CellScore(spec.width)
        self.column = CellScore(spec.width)

    def select(
        self, x: Float[Tensor, "B T D"], rows: Int[Tensor, "B T"], columns: Int[Tensor, "B T"], flow: Flow
    ) -> CellSelectionOutput:
        """Logits of a table's tokens, given the row and column of each.

        Raises: ConfigError: packed texts, whose cells could not be told apart.
        """
        if flow.packing is not None:
            raise ConfigError("a table needs a row of its own: cell selection does not work with packing")
        rows, columns = rows.long().clamp(max=self.spec.rows - 1), columns.clamp(max=self.spec.columns - 1)
        grid = Grid(rows * self.spec.columns + columns, self.spec.rows, self.spec.columns)
        visible = torch.ones_like(rows) if flow.keep is None else flow.keep[:, -1].expand_as(rows)
        visible = visible.to(torch.promote_types(x.dtype, torch.float32))  # EPSILON underflows in 16 bits
        x = self.dropout(x)
        selection = CellSelectionOutput(
            token_logits=self.token(x) / self.spec.temperature,
            column_logits=self._columns(self.column(x), visible, grid),
            cells=grid.cell_ids,
            visible=visible,
        )
        return replace(selection, logits=self._logits(selection, grid))

    def _columns(self, scores: Tensor, visible: Tensor, grid: Grid) -> Float[Tensor, "B C"]:
        """Column logits: the mean over each column's cells, padding aside."""
        cells, share = grid.pool_cells(scores, "mean"), grid.pool_cells(visible, "mean")
        count = share.sum(dim=1)
        absent = count < 0.5
        absent[:, 0] = not self.spec.may_be_empty
        return (cells * share).sum(dim=1) / (count + EPSILON) + MASKED_LOGIT * absent

    def _logits(self, selection: CellSelectionOutput, grid: Grid) -> Float[Tensor, "B T"]:
        cells = grid.pool_cells(selection.token_logits, "mean")
        if self.spec.one_column:
            chosen = F.one_hot(selection.column_logits.argmax(dim=-1), self.spec.columns)
            chosen[:, 0] = 0
            cells = cells + MASKED_LOGIT * (1 - chosen[:, None] * grid.pool_cells(selection.visible, "mean"))
        elif not self.spec.average:
            return selection.token_logits
        return grid.spread_to_tokens(cells)

    def label_counts(self, labels: Labels) -> dict[str, int]:
        """Number of tables: each has one loss for all its tokens."""
        return {"loss": len(single_tensor(labels))}

    def output_loss_sums(self, output: Output, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        """Labels are 1 for tokens of the cells that answer, 0 for all others. [B, T]"""
        refuse_smoothing(smoothing, "a cell is selected or not")
        assert isinstance(output, CellSelectionOutput)  # from `select`
        tokens = output.token_logits
        if not isinstance(labels, Tensor) or labels.shape != tokens.shape or not _zeros_and_ones(labels):
            raise DataError(
                f"labels must be a tensor of whole numbers of shape {list(tokens.shape)}: "
                "1 for tokens of the cells that answer, 0 for all others"
            )
        if not self.spec.learns_cells:
            return {"loss": tokens.new_zeros(())}
        targets = labels.to(tokens.dtype)
        losses = self._column_losses if self.spec.one_column else self._token_losses
        return {"loss": losses(output, targets).sum()}

    def _token_losses(self, output: CellSelectionOutput, targets: Float[Tensor, "B T"]) -> Float[Tensor, "B"]:
        """Binary cross-entropy of each token by itself, without padding."""
        assert output.logits is not None
        weights = torch.where(targets == 0, 1.0, self.spec.positive_weight)
        by_token = F.binary_cross_entropy_with_logits(output.logits, targets, weights, reduction="none")
        losses: Tensor = (by_token * output.visible).sum(dim=-1) / (output.visible.sum(dim=-1) + EPSILON)
        return losses

    def _column_losses(self, output: CellSelectionOutput, targets: Float[Tensor, "B T"]) -> Float[Tensor, "B"]:
        """Loss of the column, plus that of its cells; where no cell is selected, the column is 0 and has no cells."""
        grid = Grid(output.cells, self.spec.rows, self.spec.columns)
        answers = grid.pool_cells(targets, "sum").sum(dim=1)  # [B, C]
        column = answers.argmax(dim=-1)
        column_loss = F.cross_entropy(output.column_logits, column, reduction="none")
        in_column = F.one_hot(column, self.spec.columns)[:, None] * grid.pool_cells(output.visible, "mean")
        by_cell = F.binary_cross_entropy_with_logits(
            grid.pool_cells(output.token_logits, "mean"), grid.pool_cells(targets, "amax"), reduction="none"
        )
        cell_loss = (by_cell * in_column).sum(dim=(1, 2)) / (in_column.sum(dim=(1, 2)) + EPSILON)
        losses: Tensor = column_loss + cell_loss * (answers.amax(dim=-1) > 0)
        return losses


class CellSelectionWithAggregation(CellSelection):
    """Cell selection with an aggregation operator over the cells: none, sum, average, count.

        logits_aggregation = W pooled + b, of the first token

    Source: Herzig et al. 2020, section 2, "Aggregation operator prediction".
    """

    FIELDS = ("logits", "logits_aggregation")

    def __init__(self, spec: CellSelectionSpec, operators: int) -> None:
        super().__init__(spec)
        self.operator = SequenceClassifier(spec.width, operators, problem="single")

    def select(
        self, x: Float[Tensor, "B T D"], rows: Int[Tensor, "B T"], columns: Int[Tensor, "B T"], flow: Flow
    ) -> CellSelectionOutput:
        selection = CellSelection.select(self, x, rows, columns, flow)
        return replace(selection, logits_aggregation=self.operator(x, flow).logits)

    def label_counts(self, labels: Labels) -> dict[str, int]:
        cells, operator = self._split_labels(labels)
        return {
            "cells": super().label_counts(cells)["loss"],
            "operator": self.operator.label_counts(operator)["loss"],
        }

    def output_loss_sums(self, output: Output, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        cells, operator = self._split_labels(labels)
        operator_loss = self.operator.output_loss_sums(replace(output, logits=output.logits_aggregation), operator)[
            "loss"
        ]
        cell_loss = super().output_loss_sums(output, cells, smoothing=smoothing)["loss"]
        return {"cells": cell_loss, "operator": self.spec.operator_weight * operator_loss}

    def _split_labels(self, labels: Labels) -> tuple[Tensor, Tensor]:
        """The labels of cells, and of operators.

        Raises: UnsupportedError: weak supervision: the model is trained from the answer alone.
        """
        if not self.spec.supervised_operator:
            raise UnsupportedError(
                "use_answer_as_supervision = True (config.json) asks for a loss from the answer's number alone "
                "(float_answer, numeric_values, numeric_values_scale), which is not supported; set it to false, "
                "and give labels and aggregation_labels"
            )
        if not isinstance(labels, dict) or set(labels) != {"labels", "aggregation_labels"}:
            raise DataError("this head needs labels={'labels': [B, T], 'aggregation_labels': [B]}")
        return labels["labels"], labels["aggregation_labels"]


def _zeros_and_ones(labels: Tensor) -> bool:
    return not labels.is_floating_point() and bool(((labels == 0) | (labels == 1)).all())
