"""Activation checkpointing: the same gradients, less memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from glassformer import Model
from glassformer.compression.adapters import AdapterSpec, adapt
from glassformer.core import Flow, KeyValueCache, Tape, blocks
from glassformer.core.flow import Batch
from glassformer.models import FAMILIES, Network
from tests.models.test_learn import build
from tests.parity.families import ROWS, Row

IDS = torch.randint(5, 90, (2, 12), generator=torch.Generator().manual_seed(0))


DROPPED = {"bert": {"attention_probs_dropout_prob": 0.3}, "gpt2": {"attn_pdrop": 0.3}}


def dropping(family: str, task: str) -> Network:
    """A tiny network that drops a lot."""
    torch.manual_seed(0)
    network = Model.from_config({**FAMILIES[family].tiny, **DROPPED.get(family, {})}, task=task).network
    for module in network.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.3
    return network.train()


def gradients(network: Network, batch: Batch, labels: Tensor, *, recompute: bool) -> dict[str, Tensor]:
    network.zero_grad()
    torch.manual_seed(4)
    (loss,) = network.loss_sums(batch, Flow(recompute=recompute), labels).values()
    loss.backward()
    return {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(
    ("family", "task"),
    [
        ("bert", "fill-mask"),
        ("gpt2", "text-generation"),
        ("llama", "text-generation"),
        ("mixtral", "text-generation"),
        ("phi", "text-generation"),
        ("t5", "translation"),
        ("marian", "translation"),
    ],
)
def test_gradients_are_the_same_to_the_bit(family: str, task: str) -> None:
    network = dropping(family, task)
    batch = Batch(input_ids=IDS, decoder_input_ids=IDS.flip(0) if task == "translation" else None)
    stored, computed = (gradients(network, batch, IDS, recompute=recompute) for recompute in (False, True))
    assert stored.keys() == computed.keys() and any(bool(grad.any()) for grad in stored.values())
    for name, grad in stored.items():
        assert torch.equal(grad, computed[name]), name


@pytest.mark.parametrize(("row", "architecture"), [(row, row.main) for row in ROWS], ids=[row.family for row in ROWS])
def test_every_block_of_every_family_is_asked(row: Row, architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpointed: list[nn.Module] = []

    def counting(block: nn.Module, *inputs: Any, **options: Any) -> Any:
        checkpointed.append(block)
        return checkpoint(block, *inputs, **options)

    monkeypatch.setattr(blocks, "checkpoint", counting)
    network, batch, flow, _ = build(row, architecture)
    network.states(batch, replace(flow, recompute=True))
    has = [module for module in network.modules() if isinstance(module, (blocks.Block, blocks.ParallelBlock))]
    assert {id(block) for block in checkpointed} == {id(block) for block in has}


def test_adapters_on_frozen_weights_learn_the_same() -> None:
    """Nothing that enters the first block asks for a gradient then."""
    network = dropping("llama", "text-generation")
    adapters = adapt(network, AdapterSpec(rank=2, dropout=0.2, target_modules=("q", "v", "up", "down")))
    for adapter in adapters.by_target.values():
        nn.init.normal_(adapter.up.weight)
    stored, computed = (
        gradients(network, Batch(input_ids=IDS), IDS, recompute=recompute) for recompute in (False, True)
    )
    assert len(stored) == 2 * len(adapters.by_target)
    assert all(torch.equal(grad, computed[name]) for name, grad in stored.items())


def test_a_tape_and_a_cache_see_each_tensor_once() -> None:
    network = dropping("gpt2", "text-generation").eval()
    tape, cache = Tape("blocks.*.out").attach(network), KeyValueCache()
    for flow in (Flow(recompute=True, tape=tape), Flow(recompute=True, cache=cache)):
        expected = network(Batch(input_ids=IDS), Flow()).logits
        logits = network(Batch(input_ids=IDS), flow).logits
        assert torch.equal(logits, expected)
        logits.sum().backward()
    assert cache.length == 12 and len(tape.taps) == 3
