"""The row of padding in an embedding table is not trained by look-up, as in the reference library.

A loss over all positions, as of answer spans, reads padding, and its gradient would reach the row.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers
from torch import nn

import glassformer
from tests.parity.families import ROWS, Row
from tests.parity.inputs import draw_inputs
from tests.parity.sides import load_ours, load_theirs, make, read_config

WITH_TEXT = [row for row in ROWS if "vocab_size" in row.record.tiny]
SIZES = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}


def rows_of_padding(model: nn.Module) -> list[int]:
    """The rows that no look-up trains, of each table of the model."""
    tables = {id(x.weight): x for x in model.modules() if isinstance(x, nn.Embedding)}
    return sorted(x.padding_idx for x in tables.values() if x.padding_idx is not None)


@pytest.mark.parametrize("row", WITH_TEXT, ids=[row.family for row in WITH_TEXT])
def test_the_same_tables_have_a_row_of_padding(row: Row, tmp_path: Path) -> None:
    make(row, row.main, tmp_path, **({} if row.family == "mpnet" else {"pad_token_id": 3}))
    assert rows_of_padding(load_ours(tmp_path).network) == rows_of_padding(load_theirs(tmp_path, row))


@pytest.mark.parametrize("row", WITH_TEXT, ids=[row.family for row in WITH_TEXT])
def test_where_the_config_is_silent(row: Row) -> None:
    """The default of the reference's config, in a vocabulary that has it."""
    config = {**row.config(), "vocab_size": 60_000, "architectures": [row.main]}
    config.pop("pad_token_id", None)
    kind = getattr(transformers, row.main)
    with torch.device("meta"):
        theirs = kind(kind.config_class.from_dict(dict(config)))
    ours = glassformer.Model.from_config(config, device="meta")
    assert rows_of_padding(ours.network) == rows_of_padding(theirs)


@pytest.mark.parametrize(("stated", "row"), [(3, [3]), (0, [0]), (None, []), (-1, []), (40, [])])
def test_ids_that_are_no_row(stated: int | None, row: list[int], tmp_path: Path) -> None:
    """null, -1 (in old configs) and an id beyond the table mean that there is none."""
    model = glassformer.Model.from_config({**TINY, "pad_token_id": stated})
    assert rows_of_padding(model.network) == row
    for place in row:
        assert not model.network.embedding.tokens.weight[place].any(), "and begins with zeros"
    assert model.network.embedding.tokens.weight[1].any()


TINY = {
    **SIZES,
    **{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "max_position_embeddings": 32},
    "tie_word_embeddings": False,
}


@pytest.mark.parametrize("name", ["Bert", "DistilBert", "Roberta", "Albert", "Electra", "MPNet"])
def test_trained_by_a_loss_that_reads_padding(name: str, tmp_path: Path) -> None:
    """Three steps of SGD: every weight as the reference's, and the row of padding as it was."""
    row = next(row for row in ROWS if f"{name}ForQuestionAnswering" in row.record.architectures)
    make(row, f"{name}ForQuestionAnswering", tmp_path, **row.no_dropout, pad_token_id=1)
    theirs, ours = load_theirs(tmp_path, row).train(), load_ours(tmp_path).train()
    batch = draw_inputs(read_config(tmp_path), "none").theirs
    ids, mask = batch["input_ids"].clone(), torch.ones_like(batch["input_ids"])
    ids[0, -4:], mask[0, -4:] = 1, 0
    ids[1, -2:], mask[1, -2:] = 1, 0
    given = {"input_ids": ids, "attention_mask": mask}
    labels = {"start_positions": torch.tensor([1, 2, 4]), "end_positions": torch.tensor([2, 5, 6])}
    before = ours.network.embedding.tokens.weight[1].clone()
    steps = [torch.optim.SGD(side.parameters(), lr=0.05) for side in (ours, theirs)]
    for _ in range(3):
        for side, optimizer in zip((ours, theirs), steps, strict=True):
            optimizer.zero_grad()
            side(**given, **labels).loss.backward()
            optimizer.step()
    ours.save_pretrained(tmp_path / "trained")
    trained = load_theirs(tmp_path / "trained", row)
    for (path, mine), expected in zip(trained.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, expected, atol=1e-5, rtol=1e-5, msg=lambda text, path=path: f"{path}: {text}")
    assert ours.network.embedding.tokens.weight[1].equal(before)


def test_a_resized_table_keeps_its_row() -> None:
    """A padding token that is set later is trained, until the model is loaded again; as in the reference library."""
    model = glassformer.Model.from_config({**TINY, "pad_token_id": 3})
    model.config.pad_token_id = 40
    model.resize_token_embeddings(44)
    assert rows_of_padding(model.network) == [3]
    model.resize_token_embeddings(2)
    assert rows_of_padding(model.network) == []
