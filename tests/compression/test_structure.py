"""Structured pruning: what remains computes what the network computes with the removed parts at zero; folders load."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from glassformer import Model, load
from glassformer.compression.prune import (
    apply_masks,
    magnitude_scores,
    prunable_weights,
    sparsity_masks,
    sparsity_of,
)
from glassformer.compression.quantise import Scheme
from glassformer.compression.quantised_network import quantise_network
from glassformer.compression.structure import (
    LayerChange,
    Parts,
    UnitImportance,
    keep_layers,
    keep_neurons,
    least_important,
    only_stack,
    remove_heads,
)
from glassformer.core.flow import Batch, Flow, Tape
from glassformer.core.masks import Packing
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.models import FAMILIES

IDS = torch.randint(5, 90, (2, 12), generator=torch.Generator().manual_seed(0))
FAMILIES_HERE = ["bert", "roberta", "distilbert", "gpt2", "gpt_neox", "llama", "phi3", "qwen2", "electra"]


def tiny(family: str, **changes: Any) -> Model:
    torch.manual_seed(0)
    return Model.from_config({**FAMILIES[family].tiny, **changes}).eval()


@torch.no_grad()
def output_of(model: Model, edit: Any = None) -> Tensor:
    tape = None if edit is None else Tape(edit=edit).attach(model.network)
    output = model.network(Batch(input_ids=IDS), Flow(tape=tape))
    return next(x for x in (output.logits, output.last_hidden_state) if x is not None)


def heads_at_zero(units: dict[int, list[int]], model: Model) -> dict[str, Any]:
    def zero(share: int, numbers: list[int], z: Tensor) -> Tensor:
        z = z.clone()
        for unit in numbers:
            z[:, unit * share : (unit + 1) * share] = 0
        return z

    edits = {}
    for layer, numbers in units.items():
        spec = only_stack(model.network)[layer].attn.spec
        edits[f"blocks.{layer}.attn.z"] = lambda z, s=spec, n=numbers: zero(s.heads // s.K, n, z)
    return edits


def saved(model: Model, folder: Path) -> Model:
    model.save_pretrained(folder)
    return load(folder)


@pytest.mark.parametrize("family", FAMILIES_HERE)
def test_without_heads_is_as_with_heads_at_zero(family: str, tmp_path: Path) -> None:
    model = tiny(family)
    units = {0: [0], 2: [1]}
    expected = output_of(model, heads_at_zero(units, model))
    before = sum(p.numel() for p in model.network.parameters())
    parts = remove_heads(Parts.of(model), units)
    assert output_of(model).shape == expected.shape  # the model itself is as it was
    assert not torch.allclose(output_of(model), expected)
    parts.put_into(model)
    assert sum(p.numel() for p in model.network.parameters()) < before
    torch.testing.assert_close(output_of(model), expected)
    again = saved(model, tmp_path / "pruned")
    assert torch.equal(output_of(again), output_of(model))
    config = json.loads((tmp_path / "pruned" / "config.json").read_text())
    share = only_stack(again.network)[1].attn.spec
    share = share.heads // share.K
    assert config["pruned_heads"] == {"0": list(range(share)), "2": list(range(share, 2 * share))}
    saved(again, tmp_path / "again")
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("pruned", "again")]
    assert weights[0] == weights[1]


def test_heads_pruned_twice_have_the_numbers_that_they_had_at_first() -> None:
    model = tiny("bert")
    expected = output_of(model, heads_at_zero({1: [0, 2, 3]}, model))
    once = remove_heads(Parts.of(model), {1: [0, 3]})
    twice = remove_heads(once, {1: [1]})  # what was head 2
    assert twice.config["pruned_heads"] == {"1": [0, 2, 3]}
    twice.put_into(model)
    torch.testing.assert_close(output_of(model), expected)


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "phi3"])
def test_without_neurons_is_as_with_neurons_at_zero(family: str, tmp_path: Path) -> None:
    model = tiny(family)
    total = only_stack(model.network)[0].ffn.down.in_features  # type: ignore[union-attr]
    stay = [sorted(torch.randperm(total, generator=torch.Generator().manual_seed(i))[:20].tolist()) for i in range(3)]

    def only(layer: int, x: Tensor) -> Tensor:
        mask = torch.zeros(total)
        mask[stay[layer]] = 1
        return x * mask

    expected = output_of(model, {f"blocks.{i}.ffn.neurons": lambda x, layer=i: only(layer, x) for i in range(3)})
    keep_neurons(Parts.of(model), stay).put_into(model)
    torch.testing.assert_close(output_of(model), expected)
    again = saved(model, tmp_path / "pruned")
    assert torch.equal(output_of(again), output_of(model))
    assert 20 in [again.config.get(key) for key in ("intermediate_size", "n_inner")]


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "albert"])
def test_without_a_layer(family: str, tmp_path: Path) -> None:
    model = tiny(family)
    states = output_of(model, {"blocks.1.out": lambda x: x})
    keep_layers(Parts.of(model), [0, 1, 2]).put_into(model)
    assert torch.equal(output_of(model), states)
    tape = Tape("blocks.1.before").attach(model.network)
    with torch.no_grad():
        model.network(Batch(input_ids=IDS), Flow(tape=tape))
    skipped = output_of(model, {"blocks.1.out": lambda x: tape.taps["blocks.1.before"]})
    keep_layers(Parts.of(model), [0, 2]).put_into(model)
    torch.testing.assert_close(output_of(model), skipped)
    assert torch.equal(output_of(saved(model, tmp_path)), output_of(model))


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
def test_the_reference_library_reads_what_is_left(family: str, tmp_path: Path) -> None:
    """Fewer neurons, fewer layers, and zeros; of fewer heads its version 5 has no place."""
    model = tiny(family)
    total = only_stack(model.network)[0].ffn.down.in_features  # type: ignore[union-attr]
    parts = keep_neurons(Parts.of(model), [range(i, total, 2) for i in (0, 1, 0)])
    keep_layers(parts, [0, 2]).put_into(model)
    weights = prunable_weights(model.network)
    with torch.no_grad():
        apply_masks(weights, sparsity_masks(magnitude_scores(weights), sparsity=0.6))
    model.save_pretrained(tmp_path)
    theirs = transformers.AutoModel.from_pretrained(tmp_path, attn_implementation="eager").eval()
    assert theirs.config.num_hidden_layers == 2
    ours = load(tmp_path, task="feature-extraction")
    assert sparsity_of(prunable_weights(ours.network)).sparsity == pytest.approx(0.6, abs=1e-3)
    with torch.no_grad():
        expected = theirs(input_ids=IDS).last_hidden_state
        torch.testing.assert_close(ours(input_ids=IDS).last_hidden_state, expected, atol=1e-5, rtol=1e-5)


def test_layers_take_their_pruned_heads_with_them() -> None:
    model = tiny("bert")
    parts = keep_layers(remove_heads(Parts.of(model), {0: [1], 2: [0, 3]}), [1, 2])
    assert parts.config["pruned_heads"] == {"1": [0, 3]}
    assert [block.attention.heads for block in only_stack(parts.network).spec.blocks] == [4, 2]


def test_a_pruned_model_writes_the_same_when_it_is_prepared() -> None:
    torch.manual_seed(0)
    model = Model.from_config(FAMILIES["gpt2"].tiny, task="text-generation").eval()
    remove_heads(Parts.of(model), {0: [0], 2: [1, 2]}).put_into(model)
    ids = IDS[:1, :5]
    free = model.generate(input_ids=ids, max_new_tokens=5, do_sample=False)
    model.prepare("fp32")
    assert torch.equal(
        torch.as_tensor(model.generate(input_ids=ids, max_new_tokens=5, do_sample=False)), torch.as_tensor(free)
    )


# ------------------------------------------------------------------------------------------------ importance


def test_importance_is_the_gradient_of_a_mask() -> None:
    model = tiny("bert")
    network = model.network
    masks = {layer: torch.ones(4, requires_grad=True) for layer in range(3)}
    edits = {
        f"blocks.{layer}.attn.z": lambda z, mask=mask: z * mask[None, :, None, None] for layer, mask in masks.items()
    }
    expected = [torch.zeros(4) for _ in range(3)]
    for row in IDS:  # by hand: text by text
        tape = Tape(edit=edits).attach(network)
        loss = network(Batch(input_ids=row[None]), Flow(tape=tape)).last_hidden_state.square().sum()
        for layer, gradient in enumerate(torch.autograd.grad(loss, list(masks.values()))):
            expected[layer] += gradient.abs() / 2
    packed = Batch(input_ids=IDS.reshape(1, -1)), Flow(packing=Packing((12, 12)))
    for batch, flow in ((Batch(input_ids=IDS), Flow()), packed):
        with UnitImportance(network) as importance:
            network(batch, flow).last_hidden_state.square().sum().backward()
        for value, by_hand in zip(importance.heads, expected, strict=True):
            torch.testing.assert_close(value, by_hand / by_hand.norm(), rtol=1e-4, atol=1e-5)
        assert [len(value) for value in importance.neurons] == [48] * 3
    assert not any(module._forward_pre_hooks for module in network.modules())


def test_a_head_whose_output_is_zero_has_no_importance_and_goes_first() -> None:
    model = tiny("gpt2")
    network = model.network
    E = only_stack(network)[1].attn.spec.E
    with torch.no_grad():
        only_stack(network)[1].attn.out.weight[:, 2 * E : 3 * E] = 0
    with UnitImportance(network) as importance:
        network(Batch(input_ids=IDS), Flow()).last_hidden_state.square().sum().backward()
    assert importance.heads[1][2] == 0
    assert least_important(importance.heads, 1) == {1: [2]}
    before = output_of(model)
    remove_heads(Parts.of(model), {1: [2]}).put_into(model)
    torch.testing.assert_close(output_of(model), before)


def test_a_layer_that_adds_nothing_changes_least() -> None:
    model = tiny("gpt2")
    block: Any = only_stack(model.network)[1]
    with torch.no_grad():
        for layer in (block.attn.out, block.ffn.down):
            layer.weight.zero_()
            layer.bias.zero_()
    keep = torch.ones(2, 1, 12, dtype=torch.bool)
    keep[1, 0, 5:] = False
    with LayerChange(model.network) as change, torch.no_grad():
        model.network(Batch(input_ids=IDS), Flow(keep=keep))
    assert change.values[1] == pytest.approx(0, abs=1e-6)
    assert min(change.values[0], change.values[2]) > 1e-4
    before = output_of(model)
    keep_layers(Parts.of(model), [0, 2]).put_into(model)
    torch.testing.assert_close(output_of(model), before)


def test_no_layer_loses_all_of_its_units() -> None:
    importance = [torch.tensor([0.0, 0.1, 0.2]), torch.tensor([0.9, 0.8, 0.7])]
    assert least_important(importance, 3) == {0: [0, 1], 1: [2]}
    with pytest.raises(ConfigError, match="at most 4 can"):
        least_important(importance, 5)


# ------------------------------------------------------------------------------------------------ mistakes


def test_what_cannot_be_removed() -> None:
    parts = Parts.of(tiny("bert"))
    with pytest.raises(ConfigError, match="all 4 heads of layer 1"):
        remove_heads(parts, {1: [0, 1, 2, 3]})
    with pytest.raises(ConfigError, match="heads 0 to 3"):
        remove_heads(parts, {1: [4]})
    with pytest.raises(ConfigError, match="layer 7 is not there; the model has layers 0 to 2"):
        remove_heads(parts, {7: [0]})
    with pytest.raises(ConfigError, match="layer 3 is not there"):
        keep_layers(parts, [0, 3])
    with pytest.raises(ConfigError, match="at least one, ascending"):
        keep_layers(parts, [])
    with pytest.raises(ConfigError, match="ascending"):
        keep_layers(parts, [1, 0])
    with pytest.raises(ConfigError, match="same number of neurons"):
        keep_neurons(parts, [[0], [0, 1], [0]])
    with pytest.raises(ConfigError, match="neurons 0 to 47"):
        keep_neurons(parts, [[48]] * 3)
    with pytest.raises(UnsupportedError, match="these share parameters"):
        remove_heads(Parts.of(tiny("albert")), {0: [0]})
    with pytest.raises(UnsupportedError, match="cannot be pruned"):
        keep_neurons(Parts.of(tiny("mixtral")), [[0]] * 3)
    with pytest.raises(UnsupportedError, match="one stack of blocks; this one has 2"):
        Parts.of(tiny("bart")) and remove_heads(Parts.of(tiny("bart")), {0: [0]})
    with pytest.raises(ConfigError, match="no loss was differentiated"):
        _ = UnitImportance(parts.network).heads
    with pytest.raises(ConfigError, match="calibration rows"):
        _ = LayerChange(parts.network).values


def test_a_period_of_layers_is_not_broken() -> None:
    model = tiny("modernbert", num_hidden_layers=6, global_attn_every_n_layers=3)
    keep_layers(Parts.of(model), [0, 1, 2])
    with pytest.raises(UnsupportedError, match="layer 1 of this 'modernbert' model would be layer 0"):
        keep_layers(Parts.of(model), [1, 2, 3])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"0": [9]}, "head 9 of layer 0"),
        ({"9": [0]}, "layer 9"),
        ({"0": [0, 1, 2, 3]}, "all 4 heads"),
        ({"x": [0]}, "pruned_heads"),
        ({"0": "all"}, "pruned_heads"),
    ],
)
def test_a_config_that_prunes_what_is_not_there(value: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        tiny("bert", pruned_heads=value)


def test_half_of_a_group_cannot_go() -> None:
    with pytest.raises(ConfigError, match="share their keys and go together"):
        tiny("llama", num_attention_heads=4, num_key_value_heads=2, pruned_heads={"0": [1]})


def test_a_quantised_model_is_not_pruned() -> None:
    model = tiny("bert")
    quantise_network(model.network, Scheme())
    with pytest.raises(ConfigError, match=r"quantised .* cannot be pruned"):
        Parts.of(model)
    with pytest.raises(ConfigError, match=r"quantised .* cannot be pruned"):
        prunable_weights(model.network)
