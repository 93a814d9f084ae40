"""Cells: pointing at the cells of a table that answer a question.

    tokens ─ grouped by row and column ─ a logit for each cell, a logit for each column ─ the likeliest column's cells

A token's row and column are whole numbers from 0; row 0 is the header, column 0 the question.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.core.flow import Flow, Output
from glassformer.core.heads import Classifier, Head, Labels, one_tensor
from glassformer.core.losses import unsmoothed
from glassformer.core.specs import CellSelectionSpec
from glassformer.errors import ConfigError, DataError, UnsupportedError

if TYPE_CHECKING:
    from jaxtyping import Float, Int

NEVER = -10_000.0
"""Added to the logits of what cannot be chosen."""
TINY = 1e-10
"""Added to counts that may be 0."""


@dataclass(frozen=True, slots=True)
class Grid:
    """The cells of a table, and in which of them each token stands.

    numbers: of each token's cell, row · columns + column. [B, T]
    """

    numbers: Tensor
    rows: int
    columns: int

    def gathered(
        self, x: Float[Tensor, "B T"], how: Literal["mean", "sum", "amax"]
    ) -> Float[Tensor, "B R C"]:
        """What the tokens of each cell have, made one number; 0 where a cell has no token."""
        cells = x.new_zeros(len(x), self.rows * self.columns)
        made = cells.scatter_reduce(1, self.numbers, x, how, include_self=False)
        return made.view(len(x), self.rows, self.columns)

    def spread(self, cells: Float[Tensor, "B R C"]) -> Float[Tensor, "B T"]:
        """What the cell of each token has."""
        return cells.flatten(1).gather(1, self.numbers)


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection(Output):
    """The logits, and what they were made from, which training needs.

    token_logits: before a column is chosen [B, T] · column_logits: by which it is [B, C]
    cells: the number of each token's cell [B, T] · shown: which tokens are no padding, 1 or 0 [B, T]
    """

    token_logits: Tensor
    column_logits: Tensor
    cells: Tensor
    shown: Tensor


class Score(nn.Module):
    """x · weight + bias: one number a vector."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T"]:
        return x @ self.weight + self.bias


class CellSelection(Head):
    """Which cells of a table answer the question: a logit for each token.

        token     u(x) / temperature
        cell      mean of its tokens
        column    mean of v(x) over a cell's tokens, then over the column's cells
        logits    the cell's in the likeliest column; NEVER is added in all others

    Column 0 stands for choosing nothing: its cells never are.
    Source: Herzig et al. 2020, section 2, "Cell selection"; the losses: section 4.
    """

    def __init__(self, spec: CellSelectionSpec) -> None:
        super().__init__()
        self.spec = spec
        self.dropout = nn.Dropout(spec.dropout)
        self.token = Score(spec.width)
        self.column = Score(spec.width)

    def select(
        self, x: Float[Tensor, "B T D"], rows: Int[Tensor, "B T"], columns: Int[Tensor, "B T"], flow: Flow
    ) -> Selection:
        """The logits of a table's tokens, each of which stands in a row and a column.

        Raises: ConfigError: several texts share a row of the batch, and so would their cells.
        """
        if flow.segments is not None:
            raise ConfigError("cells are told apart in one text a row; segments go with no table")
        rows, columns = rows.long().clamp(max=self.spec.rows - 1), columns.clamp(max=self.spec.columns - 1)
        grid = Grid(rows * self.spec.columns + columns, self.spec.rows, self.spec.columns)
        shown = torch.ones_like(rows) if flow.keep is None else flow.keep[:, -1].expand_as(rows)
        shown = shown.to(torch.promote_types(x.dtype, torch.float32))  # 16 bits have no room for TINY
        x = self.dropout(x)
        selection = Selection(
            token_logits=self.token(x) / self.spec.temperature,
            column_logits=self._columns(self.column(x), shown, grid),
            cells=grid.numbers,
            shown=shown,
        )
        return replace(selection, logits=self._logits(selection, grid))

    def _columns(self, scores: Tensor, shown: Tensor, grid: Grid) -> Float[Tensor, "B C"]:
        """The mean over each column's cells, as far as they are no padding."""
        cells, share = grid.gathered(scores, "mean"), grid.gathered(shown, "mean")
        count = share.sum(dim=1)
        absent = count < 0.5
        absent[:, 0] = not self.spec.may_be_empty
        return (cells * share).sum(dim=1) / (count + TINY) + NEVER * absent

    def _logits(self, selection: Selection, grid: Grid) -> Float[Tensor, "B T"]:
        cells = grid.gathered(selection.token_logits, "mean")
        if self.spec.one_column:
            chosen = F.one_hot(selection.column_logits.argmax(dim=-1), self.spec.columns)
            chosen[:, 0] = 0
            cells = cells + NEVER * (1 - chosen[:, None] * grid.gathered(selection.shown, "mean"))
        elif not self.spec.average:
            return selection.token_logits
        return grid.spread(cells)

    def counts(self, labels: Labels) -> dict[str, int]:
        """Tables count, each with all its tokens."""
        return {"loss": len(one_tensor(labels))}

    def sums(self, output: Output, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        """Labels are 1 for tokens of the cells that answer, 0 for all others. [B, T]"""
        unsmoothed(smoothing, "a cell answers or does not")
        assert isinstance(output, Selection)  # `select` makes it
        tokens = output.token_logits
        if not isinstance(labels, Tensor) or labels.shape != tokens.shape or not _zeros_and_ones(labels):
            raise DataError(
                f"labels must be a tensor of whole numbers of shape {list(tokens.shape)}: "
                "1 for tokens of the cells that answer, 0 for all others"
            )
        if not self.spec.learns_cells:
            return {"loss": tokens.new_zeros(())}
        wanted = labels.to(tokens.dtype)
        judge = self._column_losses if self.spec.one_column else self._token_losses
        return {"loss": judge(output, wanted).sum()}

    def _token_losses(self, output: Selection, wanted: Float[Tensor, "B T"]) -> Float[Tensor, "B"]:
        """Each token for itself, padding left out."""
        assert output.logits is not None
        weights = torch.where(wanted == 0, 1.0, self.spec.positive_weight)
        each = F.binary_cross_entropy_with_logits(output.logits, wanted, weights, reduction="none")
        losses: Tensor = (each * output.shown).sum(dim=-1) / (output.shown.sum(dim=-1) + TINY)
        return losses

    def _column_losses(self, output: Selection, wanted: Float[Tensor, "B T"]) -> Float[Tensor, "B"]:
        """First which column, then which of its cells; where no cell answers, the column is 0 and has no cells."""
        grid = Grid(output.cells, self.spec.rows, self.spec.columns)
        answers = grid.gathered(wanted, "sum").sum(dim=1)  # [B, C]
        column = answers.argmax(dim=-1)
        which = F.cross_entropy(output.column_logits, column, reduction="none")
        here = F.one_hot(column, self.spec.columns)[:, None] * grid.gathered(output.shown, "mean")
        each = F.binary_cross_entropy_with_logits(
            grid.gathered(output.token_logits, "mean"), grid.gathered(wanted, "amax"), reduction="none"
        )
        cells = (each * here).sum(dim=(1, 2)) / (here.sum(dim=(1, 2)) + TINY)
        losses: Tensor = which + cells * (answers.amax(dim=-1) > 0)
        return losses


class CellsAndOperator(CellSelection):
    """Which cells, and what to do with them: nothing, sum, average, count, as the model has learned to name them.

        logits_aggregation = W pooled + b, of the first token

    Source: Herzig et al. 2020, section 2, "Aggregation operator prediction".
    """

    FIELDS = ("logits", "logits_aggregation")

    def __init__(self, spec: CellSelectionSpec, operators: int) -> None:
        super().__init__(spec)
        self.operator = Classifier(spec.width, operators, problem="single")

    def select(
        self, x: Float[Tensor, "B T D"], rows: Int[Tensor, "B T"], columns: Int[Tensor, "B T"], flow: Flow
    ) -> Selection:
        selection = CellSelection.select(self, x, rows, columns, flow)
        return replace(selection, logits_aggregation=self.operator(x, flow).logits)

    def counts(self, labels: Labels) -> dict[str, int]:
        cells, operator = self._both(labels)
        return {"cells": super().counts(cells)["loss"], "operator": self.operator.counts(operator)["loss"]}

    def sums(self, output: Output, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        cells, operator = self._both(labels)
        named = self.operator.sums(replace(output, logits=output.logits_aggregation), operator)["loss"]
        chosen = super().sums(output, cells, smoothing=smoothing)["loss"]
        return {"cells": chosen, "operator": self.spec.operator_weight * named}

    def _both(self, labels: Labels) -> tuple[Tensor, Tensor]:
        """The labels of cells, and of operators.

        Raises: UnsupportedError: the model is one that learns from the answer alone.
        """
        if not self.spec.told:
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
