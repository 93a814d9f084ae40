"""TAPAS's network: BERT with several token types for each token, and a head that selects cells."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from glassformer.core import Batch, Flow, Head, Output, init
from glassformer.models._network import Encoder, Network, Sizes, TextSpec, require_ids
from glassformer.models.tapas.cells import (
    CellScore,
    CellSelection,
    CellSelectionSpec,
    CellSelectionWithAggregation,
)

COLUMN, ROW = 1, 2
"""The token types that are the column and the row in the table; 0 outside it."""
MAX_TABLE_SIZE = 1024
"""Limit on rows and columns. No published model has more; each text has a score for every cell."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TapasSpec(TextSpec):
    """BERT's spec, and more.

    type_sizes: the number of values of each token type
    restarts: positions restart in each cell
    operators: number of aggregation operators; 0 = none
    zero_init_selection: a new head gives all cells a probability of one half
    """

    type_sizes: tuple[int, ...]
    restarts: bool
    selection: CellSelectionSpec
    operators: int
    zero_init_selection: bool


class Tapas(Encoder):
    """TAPAS: BERT with several token types for each token; where none are given, all are 0."""

    def __init__(self, spec: TapasSpec, task: str) -> None:
        super().__init__(spec, task)
        self.numbers = nn.ModuleList(nn.Embedding(size, spec.blocks.width) for size in spec.type_sizes)
        self.restarts = spec.restarts
        self.rows, self.columns = spec.type_sizes[ROW], spec.type_sizes[COLUMN]
        self.name_nodes()

    def sizes_of(self, spec: TapasSpec) -> Sizes:
        return replace(super().sizes_of(spec), token_types=spec.type_sizes)

    def _tables(self) -> list[nn.Embedding]:
        return [table for table in self.numbers if isinstance(table, nn.Embedding)]

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        ids, types = require_ids(batch), self.types_of(batch)
        positioned = flow if flow.positions is not None else replace(flow, positions=self.positions(types, flow))
        vectors = [table(types[..., i]) for i, table in enumerate(self._tables())]
        x: Tensor = self.embed(ids, positioned, extra=torch.stack(vectors).sum(dim=0))
        x = self.blocks(x, flow)
        return x

    def types_of(self, batch: Batch) -> Tensor:
        """The token types of each token. [B, T, types]"""
        ids = require_ids(batch)
        if batch.token_type_ids is None:
            return ids.new_zeros(*ids.shape, len(self.numbers))
        return batch.token_type_ids.expand(ids.shape[0], -1, -1)

    def positions(self, types: Tensor, flow: Flow) -> Tensor:
        """Position ids of tokens with these types [B, T, types]: in their text, or in their cell. [B, T]

        Within cells, positions beyond the table are clamped to its end. Padding gets positions behind the text, since a
        cell's logit is the mean over its tokens, as in the reference library, and padding is in the question's cell.
        """
        positions = flow.token_positions(types).expand(types.shape[:2])
        if flow.keep is not None:
            visible = flow.keep[:, -1]
            padding = visible.sum(dim=-1, keepdim=True) + (~visible).cumsum(dim=-1) - 1
            positions = positions.where(visible, padding)
        if not self.restarts:
            self.embed.check_length(positions, flow)
            return positions
        cells = types[..., COLUMN] * self.rows + types[..., ROW]
        if flow.packing is not None:  # a cell belongs to one text
            texts = positions.eq(0).cumsum(dim=1)
            cells = cells + texts * self.columns * self.rows
        # Cells numbered from 0 in each text: T columns of `firsts` are enough, whatever the table's size.
        ordered, order = cells.sort(dim=1)
        ranks = ordered.diff(dim=1, prepend=ordered[:, :1]).ne(0).cumsum(dim=1)
        cells = torch.empty_like(ranks).scatter(1, order, ranks)
        firsts = torch.zeros_like(positions).scatter_reduce(1, cells, positions, "amin", include_self=False)
        assert self.max_tokens is not None  # BERT's positions are learned
        return (positions - firsts.gather(1, cells)).clamp(max=self.max_tokens - 1)


class TapasCellSelection(Tapas):
    """TAPAS with a head that selects cells."""

    head: CellSelection

    def make_head(self, spec: TextSpec, task: str) -> Head:
        assert isinstance(spec, TapasSpec)  # `build` passes it
        if spec.operators:
            return CellSelectionWithAggregation(spec.selection, spec.operators)
        return CellSelection(spec.selection)

    def read_states(self, x: Tensor, batch: Batch, flow: Flow) -> Output:
        types = self.types_of(batch)
        return self.tap_output(self.head.select(x, types[..., ROW], types[..., COLUMN], flow), x, flow)

    loss_sums = Network.loss_sums_from_output


def build(spec: TapasSpec, task: str) -> Tapas:
    """The network of a task."""
    return TapasCellSelection(spec, task) if task == "table-question-answering" else Tapas(spec, task)


def initialise(network: nn.Module, spec: TapasSpec) -> None:
    """Initialise as BERT; a new head may give all cells the same probability."""
    init.normal(network, spec.init_std)
    for module in network.modules():
        if isinstance(module, CellScore):
            nn.init.normal_(module.weight, std=0.0 if spec.zero_init_selection else spec.init_std)
            nn.init.zeros_(module.bias)
