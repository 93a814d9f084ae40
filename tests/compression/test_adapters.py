"""Adapters: nothing changes at first, only they learn, merging is exact and can be undone to the bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer import Model
from glassformer.compression.adapter_names import BaseConfig
from glassformer.compression.adapters import AdaptedLinear, AdapterSpec, adapt, target_modules
from glassformer.core.flow import Batch, Flow
from glassformer.engine.prepare import prepare
from glassformer.errors import ConfigError
from glassformer.models import FAMILIES, Network
from glassformer.training.optimiser import decays, make_optimiser

IDS = torch.randint(5, 90, (2, 12), generator=torch.Generator().manual_seed(0))
BATCH = Batch(input_ids=IDS, decoder_input_ids=IDS.flip(0))


def tiny(family: str, task: str | None = None) -> Model:
    torch.manual_seed(0)
    return Model.from_config(FAMILIES[family].tiny, task=task).eval()


def base_of(model: Model) -> tuple[Network, BaseConfig]:
    return model.network, model.adapters.base


def output_of(model: Model) -> Tensor:
    with torch.no_grad():
        output = model.network(
            Batch(input_ids=IDS, decoder_input_ids=BATCH.decoder_input_ids if "t5" in str(model) else None),
            Flow(),
        )
    return next(x for x in (output.logits, output.last_hidden_state) if x is not None)


def bits(model: Model) -> dict[str, Tensor]:
    return {name: x.detach().clone() for name, x in model.network.named_parameters()}


def shaken(adapters: Any) -> None:
    """Adapters as training might leave them."""
    with torch.no_grad():
        for number, adapter in enumerate(adapters.by_target.values()):
            adapter.up.weight.copy_(
                0.3 * torch.randn(adapter.up.weight.shape, generator=torch.Generator().manual_seed(number))
            )


FAMILIES_HERE = ["bert", "gpt2", "llama", "phi3", "t5", "mixtral", "albert"]


@pytest.mark.parametrize("family", FAMILIES_HERE)
def test_at_first_nothing_changes_and_merging_can_be_undone(family: str) -> None:
    model = tiny(family, "translation" if family == "t5" else None)
    before, plain = bits(model), output_of(model)
    adapters = adapt(model.network, AdapterSpec(rank=3, alpha=7.0, target_modules=("q", "v", "out", "down")))
    assert torch.equal(output_of(model), plain)
    shaken(adapters)
    changed = output_of(model)
    assert float((changed - plain).abs().max()) > 0.01
    adapters.merge()
    assert not any(isinstance(module, AdaptedLinear) for module in model.network.modules())
    torch.testing.assert_close(output_of(model), changed, atol=1e-4, rtol=1e-4)
    adapters.unmerge()
    assert torch.equal(output_of(model), changed)
    adapters.remove()
    assert torch.equal(output_of(model), plain)
    after = bits(model)
    assert after.keys() == before.keys() and all(torch.equal(after[name], before[name]) for name in before)
    assert all(parameter.requires_grad for parameter in model.network.parameters())


def test_an_adapter_is_its_formula_on_the_rows_of_its_own_matrix() -> None:
    model = tiny("llama")
    attention = model.network.get_submodule("blocks.1.attn")
    x, plain = torch.randn(2, 5, 32), attention.qkv
    expected = plain(x)
    adapters = adapt(model.network, AdapterSpec(rank=2, alpha=6.0, target_modules=("blocks.1.attn.v",)))
    shaken(adapters)
    ((name, adapter),) = adapters.by_target.items()
    known = target_modules(model.network)
    assert name == "blocks.1.attn.v" and known[name].rows == adapter.rows
    H, K, E = attention.spec.heads, attention.spec.K, attention.spec.E
    assert (adapter.rows.start, adapter.rows.stop) == ((H + K) * E, (H + 2 * K) * E)
    output = attention.qkv(x)
    delta = 3.0 * x @ adapter.down.weight.T @ adapter.up.weight.T
    assert torch.equal(output[..., : adapter.rows.start], expected[..., : adapter.rows.start])
    torch.testing.assert_close(output[..., adapter.rows], expected[..., adapter.rows] + delta)


@pytest.mark.parametrize("family", ["bert", "gpt2", "t5", "albert"])
def test_only_adapters_and_what_is_asked_for_learn(family: str) -> None:
    model = tiny(family, "text-classification").train()
    network = model.network
    before = bits(model)
    adapters = adapt(network, AdapterSpec(rank=2, dropout=0.1, modules_to_save=("head",)))
    learning = {name for name, p in network.named_parameters() if p.requires_grad}
    assert learning == {n for n, _ in network.named_parameters() if ".adapters." in n or n.startswith("head.")}
    assert {name.rpartition(".")[2] for name in adapters.by_target} == {"q", "v"}
    assert any("cross" in name for name in adapters.by_target) == (family == "t5")
    optimiser = make_optimiser(network, learning_rate=0.01, weight_decay=0.1)
    assert all(decays(network)[name] for name in learning if ".adapters." in name)
    ids = IDS.clone()
    ids[:, -1] = 1  # T5's classifier reads the end token
    for _ in range(3):
        optimiser.zero_grad()
        network.head.loss(network(Batch(input_ids=ids), Flow()), torch.tensor([0, 1])).backward()
        optimiser.step()
    after = bits(model)
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved and moved <= learning
    assert all(bool(adapter.up.weight.any()) for adapter in adapters.by_target.values())


def test_layers_that_share_their_parameters_share_an_adapter() -> None:
    model = tiny("albert")
    layers = [model.network.get_submodule(f"blocks.{i}.attn") for i in range(3)]
    assert {name.split(".")[1] for name in target_modules(model.network) if "blocks" in name} == {"0"}
    adapters = adapt(model.network, AdapterSpec(target_modules=("q",)))
    shaken(adapters)
    assert len(adapters.by_target) == 1
    for merged in (False, True):
        adapters.merge() if merged else None
        x = torch.randn(2, 5, 32)
        assert all(torch.equal(layer.qkv(x), layers[0].qkv(x)) for layer in layers)
    adapters.remove()
    assert len({id(layer.qkv.weight) for layer in layers}) == 1
    with pytest.raises(ConfigError, match=r"'blocks.1.attn.q'; nearest: 'blocks.0.attn.q'"):
        adapt(model.network, AdapterSpec(target_modules=("blocks.1.attn.q",)))
    with pytest.raises(ConfigError, match=r"no module matches 'blocks.1'; nearest: 'blocks.0'"):
        adapt(model.network, AdapterSpec(modules_to_save=("blocks.1",)))
    saved = adapt(model.network, AdapterSpec(modules_to_save=("blocks.0.attn.qkv",))).full_parameters
    assert set(saved) == {f"blocks.0.attn.qkv.{name}" for name in ("weight", "bias")}


def test_dropout_is_of_training_alone() -> None:
    model = tiny("bert")
    adapters = adapt(model.network, AdapterSpec(dropout=0.5))
    shaken(adapters)
    assert torch.equal(output_of(model), output_of(model))
    layer = model.network.get_submodule("blocks.0.attn.qkv").train()
    x = torch.randn(1, 4, 32)
    assert not torch.equal(layer(x), layer(x))


def test_a_merged_model_is_a_plain_folder(tmp_path: Path) -> None:
    import glassformer

    model = tiny("llama")
    adapters = adapt(model.network, AdapterSpec(rank=2))
    shaken(adapters)
    changed = output_of(model)
    with pytest.raises(ConfigError, match=r"has adapters; merge\(\)"):
        model.save_pretrained(tmp_path)
    assert not any(tmp_path.iterdir())
    adapters.merge()
    model.save_pretrained(tmp_path)
    adapters.unmerge()
    torch.testing.assert_close(output_of(glassformer.load(tmp_path)), changed, atol=1e-5, rtol=1e-5)


def test_prepared_and_adapted_do_not_mix() -> None:
    model = tiny("llama").prepare("fp32")
    with pytest.raises(ConfigError, match="prepared for inference in fp32; unprepare"):
        adapt(model.network)
    adapters = adapt(model.unprepare().network)
    shaken(adapters)
    changed = output_of(model)
    adapters.merge()
    prepare(model.network, "fp32")
    torch.testing.assert_close(output_of(model), changed, atol=1e-4, rtol=1e-4)
    for refused in (adapters.unmerge, adapters.remove):
        with pytest.raises(ConfigError, match="prepared for inference in fp32"):
            refused()
    model.unprepare()
    adapters.unmerge()
    assert torch.equal(output_of(model), changed)


def test_a_layer_with_two_paths_stays_one_layer() -> None:
    shared = nn.Linear(4, 4)
    network = nn.Sequential(nn.Sequential(shared), nn.Sequential(shared))
    assert list(target_modules(network)) == ["0.0"]
    adapters = adapt(network, AdapterSpec(rank=1, target_modules=("0",)))
    assert network[0][0] is network[1][0] is adapters.layers["0.0"]
    adapters.merge()
    network.double()
    adapters.unmerge()
    assert network[1][0].weight.dtype == torch.float64 and network(torch.ones(4).double()).isfinite().all()


def test_layers_that_share_their_matrix_are_no_targets() -> None:
    """A head over a vocabulary is the embedding too; LXMERT's sides read each other by the same weights."""
    assert not any(name.startswith("head.decoder") for name in target_modules(tiny("gpt2", "text-generation").network))
    known = target_modules(tiny("lxmert", "pre-training").network)
    assert "text.crossed.0.attn.q" in known and not any(".cross." in name for name in known)
    routers = [name for name in target_modules(tiny("mixtral").network) if "router" in name]
    assert not routers


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"rank": 0}, "rank is 0"),
        ({"alpha": 0.0}, r"alpha is 0\.0"),
        ({"dropout": 1.0}, r"dropout is 1\.0"),
        ({"target_modules": ("attn.w",)}, r"no target module matches 'attn\.w'"),
        ({"modules_to_save": ("haed",)}, "no module matches 'haed'; nearest: 'head'"),
    ],
)
def test_what_cannot_be_adapted_is_refused(options: dict[str, Any], says: str) -> None:
    network = tiny("bert", "text-classification").network
    with pytest.raises(ConfigError, match=says):
        adapt(network, AdapterSpec(**options))
    assert not any(isinstance(module, AdaptedLinear) for module in network.modules())


def test_what_is_done_twice_is_refused() -> None:
    network = tiny("bert").network
    adapters = adapt(network)
    with pytest.raises(ConfigError, match="the model has adapters"):
        adapt(network)
    with pytest.raises(ConfigError, match="the adapters are not merged"):
        adapters.unmerge()
    adapters.merge()
    with pytest.raises(ConfigError, match="the adapters are merged"):
        adapters.merge()
