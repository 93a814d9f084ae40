"""Quantisation-aware training: the saved weights lie on their grid, and lose less than weights rounded afterwards."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer import load
from glassformer.compression.quantisation_aware import FakeQuantisedLinear, QuantisationAware, QuantisationSpec
from glassformer.compression.quantise import Scheme, round_to_nearest
from glassformer.compression.quantised_network import quantisable_layers, quantise_network
from glassformer.core.levels import dequantise
from glassformer.errors import ConfigError
from glassformer.runs.config import parse_config
from glassformer.training.callbacks import Callback
from tests.training.tiny import BERT, digest, some, trainer_of

SPEC = QuantisationSpec(bits=4, group_size=4)


class Fail(Callback):
    """Something else at a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, trainer: Any, report: Any) -> None:
        if report.step == self.step:
            raise RuntimeError("the power went")


@pytest.mark.parametrize("validation", [True, False])
def test_saved_weights_lie_on_their_grid(validation: bool, tmp_path: Path) -> None:
    held_out = some(9, seed=3) if validation else None
    trainer = trainer_of(tmp_path / "run", config=BERT, quantisation=SPEC, validation=held_out)
    trainer.train()
    saved = load(tmp_path / "run" / "model")
    for network in (saved.network, trainer.model.network):
        layers = quantisable_layers(network)
        assert layers and not any(isinstance(module, FakeQuantisedLinear) for module in network.modules())
        for path, layer in layers.items():
            made = round_to_nearest(layer.weight, Scheme(4, 4))
            assert torch.allclose(dequantise(made.levels, made.scale), layer.weight, atol=1e-6), path
            assert len(layer.weight.unique()) > 15  # not all levels are 0
    ids = torch.tensor([[3, 4, 5, 6]])
    with torch.inference_mode():
        before = saved(input_ids=ids)[0]
        quantise_network(saved.network, Scheme(4, 4))
        assert torch.allclose(saved(input_ids=ids)[0], before, atol=1e-5)


def test_cut_and_resumed_it_is_the_same_to_the_last_bit(tmp_path: Path) -> None:
    options: dict[str, Any] = {"quantisation": SPEC, "steps": 12, "save_every": 3}
    straight = trainer_of(tmp_path / "straight", **options)
    straight.train()
    with pytest.raises(RuntimeError, match="the power went"):
        trainer_of(tmp_path / "cut", callbacks=[Fail(7)], **options).train()
    resumed = trainer_of(tmp_path / "cut", **options)
    resumed.train()
    assert digest(resumed) == digest(straight)
    with pytest.raises(ConfigError, match="quantisation"):
        trainer_of(
            tmp_path / "cut", quantisation=QuantisationSpec(bits=8, group_size=4), steps=12, save_every=3
        ).train()


def fit(network: nn.Module, x: Tensor, y: Tensor, steps: int = 500) -> float:
    """Train with a learning rate that falls to 0. Returns: the loss at the end."""
    optimizer = torch.optim.Adam(network.parameters())
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 1e-2 * (1 - step / steps)
        optimizer.zero_grad()
        (network(x) - y).square().mean().backward()
        optimizer.step()
    return float((network(x) - y).square().mean().detach())


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_four_bits_lose_less_where_training_knows_of_them(seed: int) -> None:
    torch.manual_seed(seed)
    x = torch.randn(256, 16)
    y = torch.sin(x @ torch.randn(16, 8) / 4)
    network = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 8))
    fit(network, x, y)
    plain, rounded = copy.deepcopy(network), network
    fit(plain, x, y)  # both are trained equally long
    QuantisationAware(plain, spec := QuantisationSpec(bits=4, group_size=0)).remove()
    aware = QuantisationAware(rounded, spec)
    fit(rounded, x, y)
    aware.remove()
    after, within = (float((each(x) - y).square().mean().detach()) for each in (plain, rounded))
    assert within < 0.8 * after


def test_inputs_are_rounded_too(tmp_path: Path) -> None:
    torch.manual_seed(0)
    layer = FakeQuantisedLinear(nn.Linear(8, 4), Scheme(8), "dynamic")
    x = torch.randn(3, 8, requires_grad=True)
    y = layer(x)
    assert not torch.equal(y, nn.functional.linear(x, layer.rounded, layer.bias))
    y.sum().backward()
    assert x.grad is not None and torch.allclose(x.grad, layer.rounded.sum(0).expand(3, 8))
    assert layer.weight.grad is not None and bool((layer.weight.grad != 0).any())


def test_what_does_not_go_together(tmp_path: Path) -> None:
    values = {
        "task": "classify",
        "model": "some",
        "output": "out",
        "data": {"train": "a.csv"},
        "quantisation": {"bits": 4},
    }
    assert parse_config(values).quantisation == QuantisationSpec()
    with pytest.raises(ConfigError, match="does not go with adapter, pruning or sharded"):
        parse_config({**values, "pruning": {"sparsity": 0.5}})
    with pytest.raises(ConfigError, match="bits"):
        parse_config({**values, "quantisation": {"bits": 3}})
    with pytest.raises(ConfigError, match=r"named 'blocks\.9'"):
        trainer_of(tmp_path, quantisation=QuantisationSpec(keep=("blocks.9",)))
    with pytest.raises(ConfigError, match="do not divide"):
        trainer_of(tmp_path, quantisation=QuantisationSpec(group_size=7))
