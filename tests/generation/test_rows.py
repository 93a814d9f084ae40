"""Rows become copies of rows: the same numbers as from the start, and nothing is copied that is shared."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from glassformer import Model
from glassformer.core.cache import KeyValueCache
from glassformer.core.flow import Batch
from glassformer.generation.rows import Rows
from glassformer.models import FAMILIES, Network

IDS = torch.tensor([[0, 0, 9, 4], [7, 2, 61, 30]])
KEEP = torch.tensor([[False, False, True, True], [True] * 4])


def network_of(family: str) -> Network:
    torch.manual_seed(4)
    task = "text-generation" if "text-generation" in FAMILIES[family].tasks else "translation"
    network = Model.from_config(FAMILIES[family].tiny, task=task).eval().network
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return network.double()


def rows_of(network: Network, cached: bool = True) -> Rows:
    if "decoder_input_ids" not in network.READS:
        return Rows(network, IDS, keep=KEEP, cached=cached)
    begun = torch.tensor([[2], [2]])
    return Rows(network, begun, encoder_batch=Batch(input_ids=IDS), encoder_keep=KEEP[:, None], cached=cached)


families = pytest.mark.parametrize("family", ["gpt2", "llama", "t5", "bart"])

PICKS = [
    [0, 0, 0, 1, 1, 1],
    [1, 0, 0, 3, 5, 4],
    [0, 1, 2, 3, 4, 5],
    [2, 2, 1, 3, 3, 3],
    [5, 4, 0],
    [2, 2, 0, 1],
]
"""Twice three beams, reordered within their prompts; then rows across prompts, fewer and more."""


@families
def test_picked_rows_go_on_as_if_they_had_always_been(family: str) -> None:
    network, draw = network_of(family), torch.Generator().manual_seed(1)
    rows, whole = rows_of(network), rows_of(network, cached=False)
    for pick in PICKS:
        torch.testing.assert_close(rows.logits(), whole.logits(), atol=1e-10, rtol=1e-10)
        new = torch.randint(3, 60, (len(pick),), generator=draw)
        for each in (rows, whole):
            each.pick(torch.tensor(pick))
            each.append(new)
        assert rows.ids.equal(whole.ids) and len(rows) == len(pick)
    torch.testing.assert_close(rows.logits(), whole.logits(), atol=1e-10, rtol=1e-10)


def grown(network: Network, *tokens: list[int]) -> Rows:
    """Three beams of each of two prompts that have said these tokens."""
    rows = rows_of(network)
    rows.logits()
    rows.pick(torch.tensor([0, 0, 0, 1, 1, 1]))
    for columns in tokens:
        rows.append(torch.tensor(columns))
        rows.logits()
    return rows


def overwritten(rows: Rows, pick: list[int]) -> list[tuple[list[int], list[int], int]]:
    """Which places of the cache a pick writes, with what, and from which token on."""
    calls: list[tuple[list[int], list[int], int]] = []

    def overwrite(cache: KeyValueCache, indices: Tensor, rows: Tensor, start: int) -> None:
        calls.append((indices.tolist(), rows.tolist(), start))

    with (
        patch.object(KeyValueCache, "copy_rows", overwrite),
        patch.object(KeyValueCache, "reorder_rows", lambda *_: pytest.fail("everything was copied")),
    ):
        rows.pick(torch.tensor(pick))
    return calls


def test_only_what_differs_is_copied() -> None:
    network = network_of("gpt2")
    columns = [5, 5, 5, 8, 8, 8], [6, 6, 9, 8, 9, 9], [1, 2, 3, 1, 2, 3]
    assert overwritten(grown(network, *columns), [0, 1, 2, 3, 4, 5]) == []
    assert overwritten(grown(network, *columns), [1, 1, 2, 3, 4, 5]) == [([0], [1], 6)]
    assert overwritten(grown(network, *columns), [0, 2, 2, 3, 5, 4]) == [([1, 4, 5], [2, 5, 4], 5)]
    same = [5, 5, 5, 8, 8, 8], [6, 6, 9, 8, 9, 9]
    assert overwritten(grown(network, *same), [1, 0, 2, 3, 5, 4]) == []  # they have said the same


@pytest.mark.parametrize("family", ["t5", "bart"])
def test_beams_share_what_was_read(family: str) -> None:
    """The encoder runs once, each layer's keys of its memory are made once, and reordering beams copies neither."""
    network, calls = network_of(family), {"memory": 0, "keys": 0}
    kv: Any = next(module for name, module in network.named_modules() if name.endswith("cross.kv"))
    kv.register_forward_hook(lambda *_: calls.update(keys=calls["keys"] + 1))
    encoder: Any = network.encoder
    encoder.register_forward_hook(lambda *_: calls.update(memory=calls["memory"] + 1))
    rows = grown(network, [5, 6, 7, 8, 9, 10], [5, 5, 5, 6, 6, 6])
    assert rows._memory is not None and rows._cache is not None
    assert len(rows._memory.states) == 2 and len(rows) == 6  # a prompt's beams read one row
    before = [x.data_ptr() for pair in rows._cache._encoder_buffers.values() for x in pair]
    states = rows._memory.states
    rows.pick(torch.tensor([1, 0, 0, 3, 5, 4]))
    rows.append(torch.tensor([3] * 6))
    rows.logits()
    assert [x.data_ptr() for pair in rows._cache._encoder_buffers.values() for x in pair] == before
    assert rows._memory.states is states
    assert calls == {"memory": 1, "keys": 1}


# ---------------------------------------------------------------------------------------------------------- guesses


@families
@pytest.mark.parametrize("cached", [True, False])
def test_what_is_taken_back_was_never_read(family: str, cached: bool) -> None:
    """Guesses are read several at a time, and then the rows say something else from where they differ."""
    network, draw = network_of(family), torch.Generator().manual_seed(3)
    rows, whole = rows_of(network, cached), rows_of(network, cached=False)
    for remaining, new in [(0, 2), (3, 1), (1, 4), (0, 1), (2, 1), (5, 2)]:
        columns = whole.ids
        rows.append(torch.randint(3, 60, (2, 5), generator=draw))
        guessed = rows.ids
        speculation = rows.read(last=6).logits
        assert speculation is not None
        torch.testing.assert_close(speculation[:, 0], whole.logits(), atol=1e-10, rtol=1e-10)
        kept_part, other = (
            guessed[:, : columns.shape[1] + remaining],
            torch.randint(3, 60, (2, new), generator=draw),
        )
        ids = torch.cat([kept_part, other], dim=1)
        rows.rewrite(ids)
        whole.append(ids[:, columns.shape[1] :])
        assert rows.ids.equal(whole.ids)
        assert rows.filter_ids.equal(whole.filter_ids)


def test_only_what_is_new_is_read_again() -> None:
    rows, fed = grown(network_of("gpt2"), [5, 5, 5, 8, 8, 8]), []
    rows.network.register_forward_pre_hook(lambda _, given: fed.append(given[0].input_ids.shape[1]))
    rows.append(torch.full((6, 3), 9))
    rows.read(last=4)
    ids = rows.ids.clone()
    ids[4, -3] = 1  # what stands behind is the same, but it was read behind something else
    rows.rewrite(ids)
    rows.logits()
    rows.rewrite(ids[:, :-1])  # all of it was read, and its logits are wanted again
    rows.logits()
    assert fed == [3, 3, 1]
