"""Adapters alone in a folder, in the layout of the field, and what is refused of others' folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from glassformer import Model, load
from glassformer.compression.adapter_files import COLUMNS, CONFIG, WEIGHTS, load_adapters, save_adapters
from glassformer.compression.adapters import AdapterSpec, adapt
from glassformer.errors import ConfigError, UnsupportedError, WeightsError
from tests.compression.test_adapters import IDS, base_of, output_of, shaken, tiny


def saved(model: Model, folder: Path, **options: Any) -> Any:
    """Adapters after some training, in a folder; the head is moved too where it is trained in full."""
    adapters = adapt(model.network, AdapterSpec(rank=2, alpha=5.0, **options))
    shaken(adapters)
    with torch.no_grad():
        for parameter in adapters.full_parameters.values():
            parameter.add_(0.5)
    save_adapters(adapters, *base_of(model), folder)
    return adapters


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "phi3", "t5", "roberta", "albert"])
def test_saved_and_loaded_they_say_the_same(family: str, tmp_path: Path) -> None:
    task = "translation" if family == "t5" else "text-classification"
    model = tiny(family, task)
    saved(model, tmp_path, modules_to_save=() if family == "t5" else ("head",))
    assert (tmp_path / WEIGHTS).stat().st_size < 200_000
    fresh = tiny(family, task)
    assert not torch.equal(output_of(fresh), output_of(model))
    adapters = load_adapters(*base_of(fresh), tmp_path)
    assert torch.equal(output_of(fresh), output_of(model))
    assert (adapters.spec.rank, adapters.spec.alpha) == (2, 5.0)
    learning = {name for name, p in fresh.network.named_parameters() if p.requires_grad}
    assert learning == {name for name, p in model.network.named_parameters() if p.requires_grad}


@pytest.mark.parametrize(
    ("family", "layer"),
    [
        ("bert", "bert.encoder.layer.1.attention.self.query"),
        ("albert", "albert.encoder.albert_layer_groups.0.albert_layers.0.attention.query"),
        ("llama", "model.layers.1.self_attn.q_proj"),
    ],
)
def test_the_files_speak_of_the_layers_of_the_reference_library(family: str, layer: str, tmp_path: Path) -> None:
    """Added up by hand on the reference's modules of these names, they give our numbers."""
    import transformers

    model = tiny(family, "text-classification")
    model.save_pretrained(tmp_path / "base")
    saved(model, tmp_path / "adapters", modules_to_save=("head.classifier",))
    config = json.loads((tmp_path / "adapters" / CONFIG).read_text())
    assert config["peft_type"] == "LORA" and (config["r"], config["lora_alpha"]) == (2, 5.0)
    layers = 1 if family == "albert" else 3
    assert layer in config["target_modules"] and len(config["target_modules"]) == 2 * layers
    reference = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "base").eval()
    tensors = load_file(tmp_path / "adapters" / WEIGHTS)
    rest = dict(tensors)
    with torch.no_grad():
        for target in config["target_modules"]:
            down, up = (rest.pop(f"base_model.model.{target}.lora_{side}.weight") for side in "AB")
            reference.get_submodule(target).weight += 2.5 * up @ down
        for name, tensor in rest.items():
            reference.get_parameter(name.removeprefix("base_model.model.")).copy_(tensor)
        assert {name.removeprefix("base_model.model.").rpartition(".")[0] for name in rest} == set(
            config["modules_to_save"]
        )
        if family == "llama":
            reference.config.pad_token_id = 0
        torch.testing.assert_close(reference(input_ids=IDS).logits, output_of(model), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("family", ["gpt2", "phi3"])
def test_a_layer_that_holds_several_target_modules_has_one_adapter(family: str, tmp_path: Path) -> None:
    """q, k and v of GPT-2 are one matrix in its files, and so are those of Phi-3, and its gate and up."""
    model = tiny(family, "text-generation")
    targets = ("q", "v", "up") if family == "phi3" else ("q", "v")
    saved(model, tmp_path / "adapters", target_modules=targets)
    model.network.eval()
    config = json.loads((tmp_path / "adapters" / CONFIG).read_text())
    fused = "model.layers.0.self_attn.qkv_proj" if family == "phi3" else "transformer.h.0.attn.c_attn"
    assert fused in config["target_modules"] and config["fan_in_fan_out"] == (family == "gpt2")
    tensors = load_file(tmp_path / "adapters" / WEIGHTS)
    down, up = (tensors[f"base_model.model.{fused}.lora_{side}.weight"] for side in "AB")
    (stack,) = model.network.stacks().values()
    queries, keys = (count * stack[0].attn.spec.E for count in (stack[0].attn.spec.heads, stack[0].attn.spec.K))
    assert down.shape == (4, model.network.width) and not up[queries : queries + keys].any()
    expected = output_of(model)

    # Without what only we write: all target modules of a layer read all of its adapter.
    save_file(tensors, tmp_path / "adapters" / WEIGHTS)
    fresh = tiny(family, "text-generation")
    adapters = load_adapters(*base_of(fresh), tmp_path / "adapters")
    torch.testing.assert_close(output_of(fresh), expected, atol=1e-6, rtol=1e-5)
    # As they share one A, the layer's adapter grows no further.
    save_adapters(adapters, *base_of(fresh), tmp_path / "again")
    again = load_file(tmp_path / "again" / WEIGHTS)
    assert {name: x.shape for name, x in again.items()} == {name: x.shape for name, x in tensors.items()}


def test_ranks_and_alphas_of_their_own(tmp_path: Path) -> None:
    model = tiny("llama", "text-generation")
    saved(model, tmp_path, rank_pattern={"blocks.0.attn.q": 5}, alpha_pattern={"blocks.1.attn.v": 9.0})
    config = json.loads((tmp_path / CONFIG).read_text())
    assert config["rank_pattern"] == {"model.layers.0.self_attn.q_proj": 5}
    assert config["alpha_pattern"] == {"model.layers.1.self_attn.v_proj": 9.0}
    fresh = tiny("llama", "text-generation")
    adapters = load_adapters(*base_of(fresh), tmp_path)
    assert torch.equal(output_of(fresh), output_of(model))
    assert adapters.by_target["blocks.0.attn.q"].scale == 1.0
    (tmp_path / CONFIG).write_text(json.dumps(config | {"alpha_pattern": {"v_proj": 9.0}}))
    for_all = tiny("llama", "text-generation")
    assert {a.scale for a in load_adapters(*base_of(for_all), tmp_path).by_target.values()} == {2.5, 1.0, 4.5}


@pytest.mark.parametrize("start", ["rslora", "pissa", "olora"])
def test_other_ways_to_scale_and_to_begin(start: str, tmp_path: Path) -> None:
    """By hand on the base weight: rsLoRA divides by the root of r; PiSSA and OLoRA take their first B A out of it."""
    model = tiny("bert")
    saved(model, tmp_path, target_modules=("blocks.0.attn.q",))
    config = json.loads((tmp_path / CONFIG).read_text())
    changes = {"use_rslora": True} if start == "rslora" else {"init_lora_weights": start}
    (tmp_path / CONFIG).write_text(json.dumps(config | changes))
    layer = "encoder.layer.0.attention.self.query"
    layer = next(name for name in config["target_modules"] if name.endswith(layer))
    tensors = load_file(tmp_path / WEIGHTS)
    down, up = (tensors[f"base_model.model.{layer}.lora_{side}.weight"] for side in "AB")
    plain = tiny("bert")
    weight = plain.network.get_parameter("blocks.0.attn.qkv.weight").data
    q = weight[: weight.shape[1]]
    if start == "rslora":
        q += 5.0 / 2**0.5 * up @ down
    else:
        left, values, right = torch.linalg.svd(q)
        factors = torch.linalg.qr(q)
        first = left[:, :2] @ values[:2].diag() @ right[:2]
        q += 2.5 * up @ down - (first if start == "pissa" else 2.5 * factors.Q[:, :2] @ factors.R[:2])
    fresh = tiny("bert")
    adapters = load_adapters(*base_of(fresh), tmp_path)
    torch.testing.assert_close(output_of(fresh), output_of(plain), atol=1e-5, rtol=1e-4)
    adapters.remove()
    assert torch.equal(output_of(fresh), output_of(tiny("bert")))  # the base model is as it was


def test_a_fused_tensor_of_which_a_part_was_trained_in_full_is_saved_whole(tmp_path: Path) -> None:
    model = tiny("phi3", "text-generation")
    saved(model, tmp_path, modules_to_save=("blocks.0.ffn.gate",))
    assert "model.layers.0.mlp.gate_up_proj" in json.loads((tmp_path / CONFIG).read_text())["modules_to_save"]
    fresh = tiny("phi3", "text-generation")
    load_adapters(*base_of(fresh), tmp_path)
    assert torch.equal(output_of(fresh), output_of(model))


@pytest.mark.parametrize(
    ("changes", "kind", "says"),
    [
        ({"peft_type": "IA3"}, UnsupportedError, "peft_type is 'IA3'; supported: 'LORA'"),
        ({"use_dora": True}, UnsupportedError, "use_dora = True is not supported"),
        ({"bias": "all"}, UnsupportedError, "bias = 'all'"),
        ({"alora_invocation_tokens": [5]}, UnsupportedError, r"alora_invocation_tokens = \[5\] is not supported"),
        ({"of_next_year": {"a": 1}}, UnsupportedError, "of_next_year"),
        ({"init_lora_weights": "corda"}, UnsupportedError, "'corda' changes the base model"),
        ({"alpha_pattern": {"(a+)+$": 1}}, UnsupportedError, "regular expression"),
        ({"rank_pattern": {"query": 0}}, ConfigError, "r of query is 0"),
        ({"rank_pattern": [4]}, ConfigError, r"rank_pattern is \[4\]"),
        ({"r": "8"}, ConfigError, "r is '8'; it must be a number"),
        ({"r": 4}, WeightsError, r"lora_A\.weight' is \[2, 32\], needed \[4, 32\]"),
        ({"lora_alpha": None}, ConfigError, "lora_alpha is None"),
        ({"lora_alpha": 10**400}, ConfigError, r"it must be a number from 0 to 1000000000"),
        ({"r": 10**400}, ConfigError, r"it must be a number from 1 to 1000000"),
        ({"lora_dropout": 2}, ConfigError, r"lora_dropout is 2; it must be a number from 0 to 1"),
    ],
)
def test_other_kinds_of_adapters_are_refused(
    changes: dict[str, Any], kind: type[Exception], says: str, tmp_path: Path
) -> None:
    saved(tiny("bert"), tmp_path)
    config = json.loads((tmp_path / CONFIG).read_text())
    (tmp_path / CONFIG).write_text(json.dumps({**config, **changes}))
    fresh = tiny("bert")
    plain = output_of(fresh)
    with pytest.raises(kind, match=says):
        load_adapters(*base_of(fresh), tmp_path)
    assert torch.equal(output_of(fresh), plain)
    (tmp_path / CONFIG).write_text(json.dumps(config))
    load_adapters(*base_of(fresh), tmp_path)  # nothing of the failure is left on the network
    with pytest.raises(ConfigError, match="the model has adapters"):
        load_adapters(*base_of(fresh), tmp_path)


@pytest.mark.parametrize("ends", [[0, 200_000_000], [2, 1], [-1, 2], [0], 5, ["0", "2"]], ids=str)
def test_columns_that_the_adapter_has_not_are_refused(ends: Any, tmp_path: Path) -> None:
    model = tiny("gpt2")
    save_adapters(adapt(model.network, AdapterSpec(rank=2, target_modules=("q", "v"))), *base_of(model), tmp_path)
    with safe_open(tmp_path / WEIGHTS, "pt") as file:
        columns = json.loads(file.metadata()[COLUMNS])
    changed = {**columns, next(iter(columns)): ends}
    save_file(load_file(tmp_path / WEIGHTS), tmp_path / WEIGHTS, {"format": "pt", COLUMNS: json.dumps(changed)})
    with pytest.raises(WeightsError, match="glassformer_columns"):
        load_adapters(*base_of(tiny("gpt2")), tmp_path)


def test_a_head_of_a_tied_model_that_was_trained_in_full(tmp_path: Path) -> None:
    """PEFT's `modules_to_save: [lm_head]`: the head is one of its own from then on, also when it is saved."""
    model = tiny("gpt2", "text-generation")
    saved(model, tmp_path / "adapters")
    tensors = load_file(tmp_path / "adapters" / WEIGHTS)
    tensors["base_model.model.lm_head.weight"] = head = torch.randn_like(model.network.embed.tokens.weight)
    save_file(tensors, tmp_path / "adapters" / WEIGHTS)
    loaded = tiny("gpt2", "text-generation")
    table = loaded.network.embed.tokens.weight.clone()
    load_adapters(*base_of(loaded), tmp_path / "adapters")
    assert torch.equal(loaded.network.head.decoder.weight, head)
    assert torch.equal(loaded.network.embed.tokens.weight, table)
    expected = loaded(IDS).logits
    loaded.merge_and_unload().save_pretrained(tmp_path / "merged")
    torch.testing.assert_close(load(tmp_path / "merged")(IDS).logits, expected, atol=1e-5, rtol=1e-5)


def test_adapters_of_an_embedding_are_named(tmp_path: Path) -> None:
    saved(tiny("gpt2"), tmp_path)
    tensors = load_file(tmp_path / WEIGHTS)
    tensors["base_model.model.wte.lora_embedding_A"] = torch.zeros(2, 99)
    save_file(tensors, tmp_path / WEIGHTS)
    with pytest.raises(UnsupportedError, match=r"adapts an embedding .* merge it in PEFT"):
        load_adapters(*base_of(tiny("gpt2")), tmp_path)


def test_links_and_a_pickled_base_are_refused(tmp_path: Path) -> None:
    saved(tiny("bert"), tmp_path / "adapters")
    config = json.loads((tmp_path / "adapters" / CONFIG).read_text())
    torch.save({}, tmp_path / "base.pt")
    pickled = {**config, "base_model_name_or_path": str(tmp_path / "base.pt")}
    (tmp_path / "adapters" / CONFIG).write_text(json.dumps(pickled))
    with pytest.raises(WeightsError, match="a pickle can run any code"):
        load(tmp_path / "adapters")
    (tmp_path / "adapters" / WEIGHTS).rename(tmp_path / "elsewhere")
    (tmp_path / "adapters" / WEIGHTS).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(WeightsError, match="is a link that leads out of the model's folder"):
        load_adapters(*base_of(tiny("bert")), tmp_path / "adapters")


def test_files_of_another_model_are_refused(tmp_path: Path) -> None:
    saved(tiny("bert"), tmp_path)
    with pytest.raises(WeightsError, match="12 tensors fit nowhere in this 'llama' model"):
        load_adapters(*base_of(tiny("llama")), tmp_path)
    tensors = load_file(tmp_path / WEIGHTS)
    half = {name: x for name, x in tensors.items() if not name.endswith("layer.0.attention.self.query.lora_B.weight")}
    save_file(half, tmp_path / WEIGHTS)
    with pytest.raises(WeightsError, match="or lack their other half"):
        load_adapters(*base_of(tiny("bert")), tmp_path)
    (tmp_path / WEIGHTS).write_bytes(b"nonsense")
    with pytest.raises(WeightsError, match=WEIGHTS.replace(".", r"\.")):
        load_adapters(*base_of(tiny("bert")), tmp_path)
    with pytest.raises(ConfigError, match=CONFIG.replace(".", r"\.")):
        load_adapters(*base_of(tiny("bert")), tmp_path / "nowhere")
    model = tiny("bert")
    with pytest.raises(ConfigError, match="belong to another model"):
        save_adapters(adapt(model.network), *base_of(tiny("bert")), tmp_path)
