"""TAPAS: BERT that reads a question and a table, and answers by pointing at cells.

    token      [CLS] who won ? [SEP]   year winner   1896 spiridon louis
    column       0    0   0  0   0       1    2        1     2      2         seven numbers a token: segment, column,
    row          0    0   0  0   0       0    0        1     1      1         row, earlier answer, rank from below and
    position     0    1   2  3   4       0    0        0     0      1         from above, relation to the question

    ids + positions + a table for each number ─ norm ─ [ attention ─ add, norm ─ feed-forward ─ add, norm ] × L ─ head

Source: Herzig et al. 2020, section 2; positions that begin anew in each cell are in the released code.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.core import init
from glassformer.core.cells import CellsAndOperator, CellSelection, Score
from glassformer.core.flow import Batch, Flow, Output
from glassformer.core.heads import Head
from glassformer.core.specs import CellSelectionSpec
from glassformer.errors import ConfigError
from glassformer.files import shown
from glassformer.models import bert
from glassformer.models._family import MOST_ROWS, Family, Network, Reader, TextSpec, reads_ids
from glassformer.weights.names import Names

COLUMN, ROW = 1, 2
"""Which of a token's numbers say where in the table it stands."""
MOST_CELLS = 1024
"""No published model has more rows or columns; each text has a number for every cell."""
UNREAD = """aggregation_labels no_aggregation_label_index softmax_temperature type_vocab_size
    aggregation_temperature answer_loss_cutoff answer_loss_importance average_approximation_function
    cell_selection_preference huber_loss_delta use_gumbel_for_aggregation use_gumbel_for_cells
    use_normalized_answer_loss""".split()
"""Names of operators, what is said twice, and how to learn from the answer alone, which is refused by the loss."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TableSpec(TextSpec):
    """numbers: how many values each of a token's numbers has · restarts: positions begin anew in each cell

    operators: what may be done with cells; 0 = nothing · starts_even: a new head chooses each cell half of the time
    """

    numbers: tuple[int, ...]
    restarts: bool
    selection: CellSelectionSpec
    operators: int
    starts_even: bool


def spec(reader: Reader) -> TableSpec:
    """config.json → spec."""
    like_bert = bert.spec(reader, segments=0)
    as_bert = {field.name: getattr(like_bert, field.name) for field in fields(like_bert)}
    dropout = like_bert.embed.dropout
    reader.used.update(UNREAD)
    return TableSpec(
        **as_bert | {"classifier_dropout": dropout},
        numbers=_numbers(reader.get("type_vocab_sizes", default=[3, 256, 256, 2, 256, 256, 10])),
        restarts=reader.flag("reset_position_index_per_cell", default=True),
        operators=reader.integer("num_aggregation_labels", default=0, least=0, most=MOST_ROWS),
        starts_even=reader.flag("init_cell_selection_weights_to_zero", default=False),
        selection=CellSelectionSpec(
            width=like_bert.embed.width,
            rows=reader.integer("max_num_rows", default=64, most=MOST_CELLS),
            columns=reader.integer("max_num_columns", default=32, most=MOST_CELLS),
            one_column=reader.flag("select_one_column", default=True),
            may_be_empty=reader.flag("allow_empty_column_selection", default=False),
            average=reader.flag("average_logits_per_cell", default=False),
            temperature=reader.number("temperature", default=1.0),
            dropout=dropout,
            positive_weight=reader.number("positive_label_weight", default=10.0),
            learns_cells=not reader.flag("disable_per_token_loss", default=False),
            operator_weight=reader.number("aggregation_loss_weight", default=1.0),
            told=not reader.flag("use_answer_as_supervision", default=False),
        ),
    )


def _numbers(sizes: Any) -> tuple[int, ...]:
    is_list = isinstance(sizes, (list, tuple)) and ROW < len(sizes) <= 100
    if not is_list or not all(type(size) is int and 1 <= size <= MOST_ROWS for size in sizes):
        raise ConfigError(
            f"config.json: type_vocab_sizes is {shown(sizes)}; it must be a list of whole numbers from 1 to "
            f"{MOST_ROWS}, at least three: of segments, columns, rows"
        )
    return tuple(sizes)


class Tapas(bert.Bert):
    """BERT whose tokens bring several numbers each; without any, all are 0."""

    def __init__(self, spec: TableSpec, task: str) -> None:
        super().__init__(spec, task)
        self.numbers = nn.ModuleList(nn.Embedding(size, spec.blocks.width) for size in spec.numbers)
        self.restarts = spec.restarts
        self.name_nodes()

    @property
    def segments(self) -> tuple[int, ...]:
        return tuple(table.weight.shape[0] for table in self._tables())

    def _tables(self) -> list[nn.Embedding]:
        return [table for table in self.numbers if isinstance(table, nn.Embedding)]

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        ids, numbers = reads_ids(batch), self.numbers_of(batch)
        placed = (
            flow if flow.positions is not None else replace(flow, positions=self.positions(numbers, flow))
        )
        vectors = [table(numbers[..., i]) for i, table in enumerate(self._tables())]
        x: Tensor = self.embed(ids, placed, others=torch.stack(vectors).sum(dim=0))
        x = self.blocks(x, flow)
        return x

    def numbers_of(self, batch: Batch) -> Tensor:
        """Each token's numbers. [B, T, numbers]"""
        ids = reads_ids(batch)
        if batch.token_type_ids is None:
            return ids.new_zeros(*ids.shape, len(self.numbers))
        return batch.token_type_ids.expand(len(ids), -1, -1)

    def positions(self, numbers: Tensor, flow: Flow) -> Tensor:
        """Where tokens with these numbers [B, T, numbers] stand: in their text, or in their cell. [B, T]

        Within cells, all that are beyond the position table stand at its end. Padding stands behind the text: a cell's
        logit is the mean over its tokens, as in the reference library, and padding is in the question's cell.
        """
        counted = flow.where(numbers).expand(numbers.shape[:2])
        if flow.keep is not None:
            seen = flow.keep[:, -1]
            behind = seen.sum(dim=-1, keepdim=True) + (~seen).cumsum(dim=-1) - 1
            counted = counted.where(seen, behind)
        if not self.restarts:
            self.embed.check_length(counted, flow)
            return counted
        cells = numbers[..., COLUMN] * self.segments[ROW] + numbers[..., ROW]
        if flow.segments is not None:  # a cell belongs to one text
            texts = counted.eq(0).cumsum(dim=1)
            cells = cells + texts * self.segments[COLUMN] * self.segments[ROW]
        _, cells = torch.unique(cells, return_inverse=True)
        firsts = counted.new_zeros(len(counted), int(cells.max()) + 1)
        firsts = firsts.scatter_reduce(1, cells, counted, "amin", include_self=False)
        assert self.max_tokens is not None  # BERT's positions are learned
        return (counted - firsts.gather(1, cells)).clamp(max=self.max_tokens - 1)


class TableReader(Tapas):
    """With a head that points at cells."""

    head: CellSelection

    def _head(self, spec: TextSpec, task: str) -> Head:
        assert isinstance(spec, TableSpec)  # `build` gives it
        if spec.operators:
            return CellsAndOperator(spec.selection, spec.operators)
        return CellSelection(spec.selection)

    def forward(self, batch: Batch, flow: Flow) -> Output:
        x = self.tap(flow, "final", self.states(batch, flow))
        numbers = self.numbers_of(batch)
        return self.shown(self.head.select(x, numbers[..., ROW], numbers[..., COLUMN], flow), x, flow)

    learn = Network.learn_from_output


def build(spec: TableSpec, task: str) -> Tapas:
    """The network of a task."""
    return TableReader(spec, task) if task == "table-question-answering" else Tapas(spec, task)


def initialise(network: nn.Module, spec: TableSpec) -> None:
    """BERT's start; cells may start with the same chance, all of them."""
    init.normal(network, spec.init_std)
    for module in network.modules():
        if isinstance(module, Score):
            nn.init.normal_(module.weight, std=0.0 if spec.starts_even else spec.init_std)
            nn.init.zeros_(module.bias)


def names(spec: TableSpec, task: str) -> Names:
    """Their tensor names: BERT's in the body, and the cells' in the head."""
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
    oddity="seven kinds of segments: row, column, rank, …; chooses the cells of a table",
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
