"""TAPAS: BERT for table question answering: it reads a question and a table, and selects cells.

    token      [CLS] who won ? [SEP]   year winner   1896 spiridon louis
    column       0    0   0  0   0       1    2        1     2      2         seven types a token: segment, column,
    row          0    0   0  0   0       0    0        1     1      1         row, earlier answer, rank from below and
    position     0    1   2  3   4       0    0        0     0      1         from above, relation to the question

    ids + positions + an embedding of each type ─ norm ─ [ attention ─ add, norm ─ feed-forward ─ add, norm ] × L ─ head

Source: Herzig et al. 2020, section 2; positions that restart in each cell are in the released code.
"""

from __future__ import annotations

from typing import Any

from glassformer.errors import ConfigError
from glassformer.files import safe_repr
from glassformer.models import bert
from glassformer.models._config import MAX_ROWS, Values, constant, flag, number, probability, size, size_or_zero
from glassformer.models._family import Family, architectures
from glassformer.models.tapas.cells import CellSelectionSpec
from glassformer.models.tapas.names import weight_names
from glassformer.models.tapas.network import MAX_TABLE_SIZE, ROW, TapasSpec, build, initialise

UNUSED_KEYS = """aggregation_labels no_aggregation_label_index softmax_temperature type_vocab_size
    aggregation_temperature answer_loss_cutoff answer_loss_importance average_approximation_function
    cell_selection_preference huber_loss_delta use_gumbel_for_aggregation use_gumbel_for_cells
    use_normalized_answer_loss"""
"""Names of operators, repeated keys, and weak supervision by the answer alone, which the loss rejects."""

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
    names=weight_names,
    tiny=KEYS.tiny(
        "tapas",
        type_vocab_sizes=[3, 4, 5, 2, 4, 4, 3],
        max_num_rows=4,
        max_num_columns=4,
        num_aggregation_labels=3,
    ),
    initialise=initialise,
)
