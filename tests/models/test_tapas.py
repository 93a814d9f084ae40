"""TAPAS: positions within cells, keys of its head against the reference library, and its losses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from glassformer.core.flow import Batch, Flow
from glassformer.core.masks import Packing
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.evaluation.reference import fp64_arithmetic
from glassformer.model import Model, load
from glassformer.models import FAMILIES
from tests.parity.sides import perturb

TINY = FAMILIES["tapas"].tiny
QUESTION = "table-question-answering"


def model_of(task: str = "feature-extraction", **changes: Any) -> Any:
    torch.manual_seed(0)
    return Model.from_config({**TINY, **changes}, task=task).eval()


def table(cells: list[tuple[int, int]]) -> Tensor:
    """Token types of one text from the column and row of each token. [1, T, 7]"""
    numbers = torch.zeros(1, len(cells), 7, dtype=torch.int64)
    numbers[0, :, 1:3] = torch.tensor(cells)
    return numbers


# -------------------------------------------------------------------------------------------------- the embedding


@pytest.mark.parametrize(
    ("cells", "positions"),
    [
        ([(0, 0)] * 4, [0, 1, 2, 3]),
        ([(0, 0), (0, 0), (1, 0), (2, 0), (1, 1), (1, 1), (2, 1)], [0, 1, 0, 0, 0, 1, 0]),
        (
            [(1, 2), (2, 1), (1, 2)],
            [0, 0, 2],
        ),  # counted from the first of the cell, wherever the others stand
    ],
)
def test_positions_begin_anew_in_each_cell(cells: list[tuple[int, int]], positions: list[int]) -> None:
    assert model_of().network.positions(table(cells), Flow()).tolist() == [positions]
    positions = model_of(reset_position_index_per_cell=False).network.positions(table(cells), Flow())
    assert positions.tolist() == [list(range(len(cells)))]


def test_the_last_position_serves_all_that_are_beyond() -> None:
    network = model_of(max_position_embeddings=3).network
    assert network.positions(table([(0, 0)] * 5), Flow()).tolist() == [[0, 1, 2, 2, 2]]
    network = model_of(max_position_embeddings=3, reset_position_index_per_cell=False).network
    with pytest.raises(DataError, match="5 tokens, the model has 3 positions"):
        network.positions(table([(0, 0)] * 5), Flow())


@pytest.mark.parametrize("keep", [[0, 1, 1, 1], [1, 1, 1, 0], [1, 0, 1, 1]])
def test_padding_stands_behind_the_text(keep: list[int]) -> None:
    flow = Flow(keep=torch.tensor(keep)[None, None].bool())
    positions = model_of().network.positions(table([(0, 0)] * 4), flow)[0]
    assert positions[torch.tensor(keep).bool()].tolist() == [0, 1, 2]
    assert positions[~torch.tensor(keep).bool()].tolist() == [3]


def test_positions_that_are_given_stay() -> None:
    model, ids = model_of(), torch.tensor([[5, 6, 7]])
    numbers = table([(0, 0), (1, 1), (1, 1)])
    explicit = model(ids, token_type_ids=numbers, position_ids=torch.tensor([[0, 0, 1]])).last_hidden_state
    assert torch.equal(explicit, model(ids, token_type_ids=numbers).last_hidden_state)
    moved = model(ids, token_type_ids=numbers, position_ids=torch.tensor([[0, 1, 2]])).last_hidden_state
    assert not torch.allclose(explicit, moved, atol=1e-4)


@torch.no_grad()
def test_tables_in_one_row_do_not_share_their_cells() -> None:
    network = model_of().network
    ids = torch.randint(1, 99, (1, 9))
    numbers = table([(0, 0), (1, 1), (1, 1), (2, 1), (0, 0), (0, 0), (1, 1), (1, 1), (2, 1)])
    batch = Batch(input_ids=ids, token_type_ids=numbers)
    packed = network.states(batch, Flow(packing=Packing((4, 5))))
    alone = [
        network.states(Batch(input_ids=ids[:, part], token_type_ids=numbers[:, part]), Flow())
        for part in (slice(0, 4), slice(4, 9))
    ]
    torch.testing.assert_close(packed, torch.cat(alone, dim=1), atol=1e-5, rtol=1e-5)


def test_without_numbers_all_are_0() -> None:
    model, ids = model_of(), torch.tensor([[5, 6, 7], [8, 9, 1]])
    zeros = torch.zeros(2, 3, 7, dtype=torch.int64)
    assert torch.equal(model(ids).last_hidden_state, model(ids, token_type_ids=zeros).last_hidden_state)
    one_for_all = model(ids, token_type_ids=zeros[:1]).last_hidden_state
    assert torch.equal(one_for_all, model(ids).last_hidden_state)


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        (torch.zeros(1, 3, dtype=torch.int64), r"must be a tensor of shape \[B, T, 7\]"),
        (torch.zeros(1, 3, 6, dtype=torch.int64), r"must be a tensor of shape \[B, T, 7\]"),
        (
            table([(0, 0), (3, 0), (4, 0)]),
            r"column 1 of token_type_ids holds numbers from 0 to 4; allowed: 0 to 3",
        ),
        (table([(0, 0), (3, 0), (0, -1)]), r"column 2 of token_type_ids holds numbers from -1 to 0"),
    ],
)
def test_each_number_has_its_own_range(numbers: Tensor, says: str) -> None:
    with pytest.raises(DataError, match=says):
        model_of()(torch.tensor([[5, 6, 7]]), token_type_ids=numbers)


# ------------------------------------------------------------------------------------- the head and the reference

KEYS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "no operators": {"num_aggregation_labels": 0},
    "choosing nothing is a choice": {"allow_empty_column_selection": True},
    "sharp": {"temperature": 0.0352513},
    "small grid": {"max_num_rows": 2, "max_num_columns": 3},
    "large grid": {"max_num_rows": 64, "max_num_columns": 32},
    "average": {"average_logits_per_cell": True},
    "any column": {"select_one_column": False, "positive_label_weight": 3.0},
    "any column, average": {"select_one_column": False, "average_logits_per_cell": True},
    "operators alone": {"disable_per_token_loss": True},
    "operators count double": {"aggregation_loss_weight": 2.0},
    "positions of the whole text": {"reset_position_index_per_cell": False},
}


@pytest.mark.parametrize("changes", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])
@torch.no_grad()
def test_the_head_is_the_reference_s(changes: dict[str, Any], dtype: torch.dtype, tmp_path: Path) -> None:
    """On tables whose last rows are padding, wholly in the question's cell, as its tokenizer pads."""
    config = {**TINY, **changes}
    torch.manual_seed(7)
    kind = transformers.TapasForQuestionAnswering
    theirs = kind(kind.config_class.from_dict(dict(config)))
    perturb(theirs)
    theirs.save_pretrained(tmp_path)
    ours = load(tmp_path, strict=True, dtype=dtype)
    ids, keep, numbers, labels = random_tables()
    fields = {"input_ids": ids, "attention_mask": keep, "token_type_ids": numbers}
    operators = {"aggregation_labels": torch.tensor([0, 2, 1, 1])} if config["num_aggregation_labels"] else {}
    output = ours(**fields, labels={"labels": labels, **operators} if operators else labels)
    one_column = config.get("select_one_column", True)
    with fp64_arithmetic(dtype):
        theirs = kind.from_pretrained(tmp_path, local_files_only=True, dtype=dtype)
        expected = theirs(**fields, labels=labels if one_column else labels.to(dtype), **operators)
        plain = theirs(**fields).logits if one_column else expected.logits  # without labels it would raise
    within = 1e-5 if dtype == torch.float32 else 1e-9
    torch.testing.assert_close(output.loss, expected.loss, atol=within, rtol=within)
    torch.testing.assert_close(output.logits, expected.logits, atol=within, rtol=within)
    assert list(output) == list(expected)
    torch.testing.assert_close(ours(**fields).logits, plain, atol=within, rtol=within)
    if operators:
        operator = output.logits_aggregation
        torch.testing.assert_close(operator, expected.logits_aggregation, atol=within, rtol=within)


def random_tables() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Four questions about tables of 3 × 3, some cells of two tokens; the last has no answer among the cells."""
    draw = torch.Generator().manual_seed(3)
    rows = [(0, 0)] * 4 + [(c, r) for r in range(4) for c in (1, 2, 3, 3)]
    numbers = table(rows).repeat(4, 1, 1)
    numbers[..., 3:] = torch.randint(0, 2, numbers[..., 3:].shape, generator=draw)
    numbers[:, 4:, 0] = 1
    keep = torch.arange(len(rows))[None] < torch.tensor([20, 16, 12, 20])[:, None]
    numbers *= keep[..., None]
    ids = torch.randint(1, 99, keep.shape, generator=draw) * keep
    labels = torch.zeros_like(ids)
    labels[0, [9, 13]] = 1  # column 2
    labels[1, [10, 11, 12]] = 1  # most in column 3
    labels[2, 8] = 1
    return ids, keep.long(), numbers, labels


def test_tokens_of_a_cell_share_a_logit_and_other_columns_have_none() -> None:
    ids, keep, numbers, _ = random_tables()
    logits = model_of(QUESTION)(ids, keep, numbers).logits
    assert torch.equal(logits[0, 6], logits[0, 7])
    possible = logits[0] > -5_000
    assert len(set(numbers[0, possible, 1].tolist())) == 1, "one column"
    assert not possible[:4].any(), "never the question"


# -------------------------------------------------------------------------------------------------- losses, refusals


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (torch.zeros(1, 4), "must be a tensor of whole numbers"),
        (torch.zeros(1, 3, dtype=torch.int64), r"of shape \[1, 4\]"),
        (torch.tensor([[0, 1, 2, 0]]), "1 for tokens of the cells that answer, 0 for all others"),
        (torch.tensor([[0, 1, -100, 0]]), "0 for all others"),
        ({"labels": torch.zeros(1, 4, dtype=torch.int64)}, r"must be a tensor"),
    ],
)
def test_labels_of_cells(labels: Any, says: str) -> None:
    model = model_of(QUESTION, num_aggregation_labels=0)
    with pytest.raises(DataError, match=says):
        model(torch.tensor([[5, 6, 7, 8]]), labels=labels)


def test_labels_of_operators() -> None:
    model, ids = model_of(QUESTION), torch.tensor([[5, 6, 7, 8]])
    with pytest.raises(DataError, match="aggregation_labels"):
        model(ids, labels=torch.zeros(1, 4, dtype=torch.int64))
    with pytest.raises(DataError, match="0 to 2"):
        model(ids, labels={"labels": torch.zeros_like(ids), "aggregation_labels": torch.tensor([3])})


def test_learning_from_the_answer_alone_is_refused_by_name_and_its_logits_are_there() -> None:
    model, ids = model_of(QUESTION, use_answer_as_supervision=True), torch.tensor([[5, 6, 7, 8]])
    labels = {"labels": torch.zeros_like(ids), "aggregation_labels": torch.tensor([1])}
    assert model(ids).logits_aggregation.shape == (1, 3)
    with pytest.raises(UnsupportedError, match=r"use_answer_as_supervision = True.*float_answer, numeric_values"):
        model(ids, labels=labels)


def test_tables_that_share_a_row_have_no_cells_of_their_own() -> None:
    with pytest.raises(ConfigError, match="does not work with packing"):
        model_of(QUESTION).network(Batch(input_ids=torch.tensor([[5, 6]])), Flow(packing=Packing((1, 1))))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"type_vocab_sizes": [3, 4]}, "at least three: of token types, columns, rows"),
        ({"type_vocab_sizes": [3, 4, 0]}, "whole numbers from 1"),
        ({"type_vocab_sizes": [3, 4, True]}, "whole numbers from 1"),
        ({"type_vocab_sizes": 7}, "type_vocab_sizes is 7"),
        ({"temperature": 0.0}, "temperature is 0.0; it must be a number above 0"),
        ({"max_num_rows": 5000}, "max_num_rows is 5000; it must be a whole number from 1 to 1024"),
    ],
)
def test_configs_that_make_no_table(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        model_of(**changes)


@pytest.mark.parametrize("even", [True, False])
def test_a_new_head_may_choose_every_cell_half_of_the_time(even: bool) -> None:
    head = model_of(QUESTION, init_cell_selection_weights_to_zero=even).network.head
    assert (head.token.weight.abs().sum() == 0) == even
    assert (head.column.weight.abs().sum() == 0) == even
