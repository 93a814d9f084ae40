"""Greedy search: the likeliest token each time, with or without a cache, alone or in a batch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from glassformer import Model
from glassformer.core.flow import Batch, Flow
from glassformer.generation.generate import greedy_search
from glassformer.models import FAMILIES, Network


def network_of(family: str) -> Network:
    torch.manual_seed(4)
    network = Model.from_config(FAMILIES[family].tiny, task="text-generation").eval().network
    with torch.no_grad():
        for parameter in network.parameters():  # so that the next token depends on the text
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return network


@torch.no_grad()
def by_hand(network: Network, ids: Tensor, steps: int) -> Tensor:
    for _ in range(steps):
        logits = network(Batch(input_ids=ids), Flow()).logits
        ids = torch.cat([ids, logits[:, -1].argmax(-1, keepdim=True)], dim=1)
    return ids


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_the_likeliest_token_each_time(family: str, cached: bool) -> None:
    network, ids = network_of(family), torch.tensor([[5, 17, 3], [8, 8, 40]])
    grown = greedy_search(network, ids, max_new_tokens=15, cached=cached)
    assert grown.equal(by_hand(network, ids, 15))
    assert len(grown[:, 3:].unique()) > 1  # the continuation depends on the text


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_row_does_not_depend_on_its_batch(family: str, cached: bool) -> None:
    network = network_of(family)
    ids = torch.tensor([[0, 0, 0, 9, 4], [7, 2, 61, 30, 11]])
    keep = torch.tensor([[False, False, False, True, True], [True] * 5])
    grown = greedy_search(network, ids, keep=keep, max_new_tokens=12, cached=cached)
    assert grown[0, 5:].equal(greedy_search(network, ids[:1, 3:], max_new_tokens=12)[0, 2:])
    assert grown[1].equal(greedy_search(network, ids[1:], max_new_tokens=12)[0])


def test_a_row_ends_at_its_stop_token_and_is_filled() -> None:
    network, ids = network_of("gpt2"), torch.tensor([[5, 17, 3], [8, 8, 40]])
    free = greedy_search(network, ids, max_new_tokens=12)
    stop = int(free[0, 6])
    end = int((free[0, 3:] == stop).nonzero()[0]) + 3
    grown = greedy_search(network, ids, max_new_tokens=12, stop_ids=(stop,), pad_id=98)
    assert grown[0, : end + 1].equal(free[0, : end + 1]) and (grown[0, end + 1 :] == 98).all()
    assert grown[1, 3:6].equal(free[1, 3:6])


def test_it_ends_when_all_rows_have() -> None:
    network, ids = network_of("gpt2"), torch.tensor([[5, 17, 3]])
    stop = int(greedy_search(network, ids, max_new_tokens=1)[0, -1])
    assert greedy_search(network, ids, max_new_tokens=30, stop_ids=(stop,)).shape == (1, 4)


def test_no_new_tokens_gives_the_prompt() -> None:
    ids = torch.tensor([[5, 17, 3]])
    assert greedy_search(network_of("llama"), ids, max_new_tokens=0).equal(ids)
