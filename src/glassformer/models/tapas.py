"""TAPAS: BERT for table question answering: it reads a question and a table, and selects cells.

    token      [CLS] who won ? [SEP]   year winner   1896 spiridon louis
    column       0    0   0  0   0       1    2        1     2      2         seven types a token: segment, column,
    row          0    0   0  0   0       0    0        1     1      1         row, earlier answer, rank from below and
    position     0    1   2  3   4       0    0        0     0      1         from above, relation to the question

    ids + positions + an embedding of each type ─ norm ─ [ attention ─ add, norm ─ feed-forward ─ add, norm ] × L ─ head

Source: Herzig et al. 2020, section 2; positions that restart in each cell are in the released code.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.core import init
from glassformer.core.cells import CellScore, CellSelection, CellSelectionWithAggregation
from glassformer.core.flow import Batch, Flow, Output
from glassformer.core.heads import Head
from glassformer.core.specs import CellSelectionSpec
from glassformer.errors import ConfigError
from glassformer.files import safe_repr
from glassformer.models import bert
from glassformer.models._config import MAX_ROWS, ConfigReader
from glassformer.models._family import Family
from glassformer.models._network import Network, TextSpec, require_ids
from glassformer.weights.names import WeightNames

COLUMN, ROW = 1, 2
"""The token types that are the column and the row in the table; 0 outside it."""
MAX_TABLE_SIZE = 1024
"""Limit on rows and columns. No published model has more; each text has a score for every cell."""
UNUSED_KEYS = """aggregation_labels no_aggregation_label_index softmax_temperature type_vocab_size
    aggregation_temperature answer_loss_cutoff answer_loss_importance average_approximation_function
    cell_selection_preference huber_loss_delta use_gumbel_for_aggregation use_gumbel_for_cells
    use_normalized_answer_loss""".split()
"""Names of operators, repeated keys, and weak supervision by the answer alone, which the loss rejects."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TapasSpec(TextSpec):
    """BERT's spec, and more.

    type_sizes: the number of values of each token type · restarts: positions restart in each cell
    operators: number of aggregation operators; 0 = none · zero_init_selection: a new head gives all cells a
    probability of one half
    """

    type_sizes: tuple[int, ...]
    restarts: bool
    selection: CellSelectionSpec
    operators: int
    zero_init_selection: bool


def spec(reader: ConfigReader) -> TapasSpec:
    """config.json → spec."""
    like_bert = bert.spec(reader, token_types=0)
    as_bert = {field.name: getattr(like_bert, field.name) for field in fields(like_bert)}
    dropout = like_bert.embed.dropout
    reader.used.update(UNUSED_KEYS)
    return TapasSpec(
        **as_bert | {"classifier_dropout": dropout},
        type_sizes=_type_sizes(reader.get("type_vocab_sizes", default=[3, 256, 256, 2, 256, 256, 10])),
        restarts=reader.flag("reset_position_index_per_cell", default=True),
        operators=reader.integer("num_aggregation_labels", default=0, minimum=0, maximum=MAX_ROWS),
        zero_init_selection=reader.flag("init_cell_selection_weights_to_zero", default=False),
        selection=CellSelectionSpec(
            width=like_bert.embed.width,
            rows=reader.integer("max_num_rows", default=64, maximum=MAX_TABLE_SIZE),
            columns=reader.integer("max_num_columns", default=32, maximum=MAX_TABLE_SIZE),
            one_column=reader.flag("select_one_column", default=True),
            may_be_empty=reader.flag("allow_empty_column_selection", default=False),
            average=reader.flag("average_logits_per_cell", default=False),
            temperature=reader.number("temperature", default=1.0),
            dropout=dropout,
            positive_weight=reader.number("positive_label_weight", default=10.0),
            learns_cells=not reader.flag("disable_per_token_loss", default=False),
            operator_weight=reader.number("aggregation_loss_weight", default=1.0),
            supervised_operator=not reader.flag("use_answer_as_supervision", default=False),
        ),
    )


def _type_sizes(sizes: Any) -> tuple[int, ...]:
    is_list = isinstance(sizes, (list, tuple)) and ROW < len(sizes) <= 100
    if not is_list or not all(type(size) is int and 1 <= size <= MAX_ROWS for size in sizes):
        raise ConfigError(
            f"config.json: type_vocab_sizes is {safe_repr(sizes)}; it must be a list of whole numbers from 1 to "
            f"{MAX_ROWS}, at least three: of token types, columns, rows"
        )
    return tuple(sizes)


class Tapas(bert.Bert):
    """TAPAS: BERT with several token types for each token; where none are given, all are 0."""

    def __init__(self, spec: TapasSpec, task: str) -> None:
        super().__init__(spec, task)
        self.numbers = nn.ModuleList(nn.Embedding(size, spec.blocks.width) for size in spec.type_sizes)
        self.restarts = spec.restarts
        self.name_nodes()

    @property
    def token_types(self) -> tuple[int, ...]:
        return tuple(table.weight.shape[0] for table in self._tables())

    def _tables(self) -> list[nn.Embedding]:
        return [table for table in self.numbers if isinstance(table, nn.Embedding)]

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        ids, types = require_ids(batch), self.types_of(batch)
        positioned = (
            flow if flow.positions is not None else replace(flow, positions=self.positions(types, flow))
        )
        vectors = [table(types[..., i]) for i, table in enumerate(self._tables())]
        x: Tensor = self.embed(ids, positioned, extra=torch.stack(vectors).sum(dim=0))
        x = self.blocks(x, flow)
        return x

    def types_of(self, batch: Batch) -> Tensor:
        """The token types of each token. [B, T, types]"""
        ids = require_ids(batch)
        if batch.token_type_ids is None:
            return ids.new_zeros(*ids.shape, len(self.numbers))
        return batch.token_type_ids.expand(len(ids), -1, -1)

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
        cells = types[..., COLUMN] * self.token_types[ROW] + types[..., ROW]
        if flow.packing is not None:  # a cell belongs to one text
            texts = positions.eq(0).cumsum(dim=1)
            cells = cells + texts * self.token_types[COLUMN] * self.token_types[ROW]
        # Dense cell ids, so that `firsts` has a column for each cell in use instead of for each pair of row and column.
        _, cells = torch.unique(cells, return_inverse=True)
        firsts = positions.new_zeros(len(positions), int(cells.max()) + 1)
        firsts = firsts.scatter_reduce(1, cells, positions, "amin", include_self=False)
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

    def forward(self, batch: Batch, flow: Flow) -> Output:
        x = self.tap(flow, "final", self.states(batch, flow))
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


def names(spec: TapasSpec, task: str) -> WeightNames:
    """Weight names: BERT's, and those of the heads that select cells."""
    like_bert = bert.names(spec, task)
    head = {
        **like_bert.head,
        "head.token.weight": "output_weights",
        "head.token.bias": "output_bias",
        "head.column.weight": "column_output_weights",
        "head.column.bias": "column_output_bias",
        "head.operator.classifier": "aggregation_classifier",
    }
    unpooled = task == "table-question-answering" and not spec.operators
    pooler = ("pooler.dense.weight", "pooler.dense.bias")  # saved with that head, read or not
    return replace(
        like_bert,
        prefix="tapas",
        body={
            **like_bert.body,
            "numbers.{i}": "embeddings.token_type_embeddings_{i}",
            "head.operator.pooler.dense": "pooler.dense",
        },
        head=head,
        ignored=(*like_bert.ignored, *pooler) if unpooled else like_bert.ignored,
    )


FAMILY = Family(
    model_type="tapas",
    distinction="seven token types: row, column, rank, …; selects cells of a table",
    architectures={
        "TapasModel": "feature-extraction",
        "TapasForMaskedLM": "fill-mask",
        "TapasForSequenceClassification": "text-classification",
        "TapasForQuestionAnswering": "table-question-answering",
    },
    spec=spec,
    build=build,
    names=names,
    tiny={
        **{key: value for key, value in bert.FAMILY.tiny.items() if key != "type_vocab_size"},
        "model_type": "tapas",
        "type_vocab_sizes": [3, 4, 5, 2, 4, 4, 3],
        "max_num_rows": 4,
        "max_num_columns": 4,
        "num_aggregation_labels": 3,
    },
    initialise=initialise,
)
