"""TAPAS: BERT for table question answering: it reads a question and a table, and selects cells.

    token      [CLS] who won ? [SEP]   year winner   1896 spiridon louis
    column       0    0   0  0   0       1    2        1     2      2         seven types a token: segment, column,
    row          0    0   0  0   0       0    0        1     1      1         row, earlier answer, rank from below and
    position     0    1   2  3   4       0    0        0     0      1         from above, relation to the question

    ids + positions + an embedding of each type ─ norm ─ [ attention ─ add, norm ─ feed-forward ─ add, norm ] × L ─ head

Source: Herzig et al. 2020, section 2; positions that restart in each cell are in the released code.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.core import Batch, Flow, Head, Output, init
from glassformer.core.cells import CellScore, CellSelection, CellSelectionSpec, CellSelectionWithAggregation
from glassformer.errors import ConfigError
from glassformer.files import safe_repr
from glassformer.models import bert
from glassformer.models._config import MAX_ROWS
from glassformer.models._family import Family, architectures
from glassformer.models._keys import Values, constant, flag, number, probability, size, size_or_zero
from glassformer.models._network import Network, TextSpec, require_ids
from glassformer.models._text import Encoder
from glassformer.weights.names import WeightNames

COLUMN, ROW = 1, 2
"""The token types that are the column and the row in the table; 0 outside it."""
MAX_TABLE_SIZE = 1024
"""Limit on rows and columns. No published model has more; each text has a score for every cell."""
UNUSED_KEYS = """aggregation_labels no_aggregation_label_index softmax_temperature type_vocab_size
    aggregation_temperature answer_loss_cutoff answer_loss_importance average_approximation_function
    cell_selection_preference huber_loss_delta use_gumbel_for_aggregation use_gumbel_for_cells
    use_normalized_answer_loss"""
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


KEYS = bert.KEYS.extend(
    token_types=constant(0),
    classifier_dropout=probability("hidden_dropout_prob", 0.1),
    operators=size_or_zero("num_aggregation_labels", 0, maximum=MAX_ROWS),
    restarts=flag("reset_position_index_per_cell", True),
    zero_init_selection=flag("init_cell_selection_weights_to_zero", False),
    rows=size("max_num_rows", 64, maximum=MAX_TABLE_SIZE),
    columns=size("max_num_columns", 32, maximum=MAX_TABLE_SIZE),
    one_column=flag("select_one_column", True),
    may_be_empty=flag("allow_empty_column_selection", False),
    average=flag("average_logits_per_cell", False),
    temperature=number("temperature", 1.0),
    positive_weight=number("positive_label_weight", 10.0),
    ignores_cells=flag("disable_per_token_loss", False),
    operator_weight=number("aggregation_loss_weight", 1.0),
    weak_supervision=flag("use_answer_as_supervision", False),
    unused=f"{UNUSED_KEYS} classifier_dropout",
)


@KEYS.spec
def spec(c: Values) -> TapasSpec:
    """config.json → spec."""
    selection = CellSelectionSpec(
        **c("width rows columns one_column may_be_empty average temperature dropout"),
        **c("positive_weight operator_weight"),
        learns_cells=not c.ignores_cells,
        supervised_operator=not c.weak_supervision,
    )
    return bert.text_spec(
        c,
        TapasSpec,
        type_sizes=_type_sizes(c.reader.get("type_vocab_sizes", default=[3, 256, 256, 2, 256, 256, 10])),
        selection=selection,
        **c("restarts operators zero_init_selection"),
    )


def _type_sizes(sizes: Any) -> tuple[int, ...]:
    is_list = isinstance(sizes, (list, tuple)) and ROW < len(sizes) <= 100
    if not is_list or not all(type(size) is int and 1 <= size <= MAX_ROWS for size in sizes):
        raise ConfigError(
            f"config.json: type_vocab_sizes is {safe_repr(sizes)}; it must be a list of whole numbers from 1 to "
            f"{MAX_ROWS}, at least three: of token types, columns, rows"
        )
    return tuple(sizes)


class Tapas(Encoder):
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


NAMES = bert.NAMES.extend(
    """
    numbers.{i}                    embeddings.token_type_embeddings_{i}
    head.operator.pooler.dense     pooler.dense
    [head]
    head.token.weight              output_weights
    head.token.bias                output_bias
    head.column.weight             column_output_weights
    head.column.bias               column_output_bias
    head.operator.classifier       aggregation_classifier
    """,
    prefix="tapas",
)


def names(spec: TapasSpec, task: str) -> WeightNames:
    """Weight names; files of a head without operators have a pooler that it does not read."""
    unpooled = task == "table-question-answering" and not spec.operators
    pooler = ("pooler.dense.weight", "pooler.dense.bias") if unpooled else ()
    return replace(NAMES, ignored=(*NAMES.ignored, *pooler))(spec, task)


FAMILY = Family(
    model_type="tapas",
    distinction="seven token types: row, column, rank, …; selects cells of a table",
    architectures=architectures(
        "Tapas",
        "Model ForMaskedLM ForSequenceClassification ForQuestionAnswering",
        ForQuestionAnswering="table-question-answering",
    ),
    spec=spec,
    build=build,
    names=names,
    tiny=KEYS.tiny(
        "tapas",
        type_vocab_sizes=[3, 4, 5, 2, 4, 4, 3],
        max_num_rows=4,
        max_num_columns=4,
        num_aggregation_labels=3,
    ),
    initialise=initialise,
)
