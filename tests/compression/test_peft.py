"""Adapters go both ways between PEFT and us, with equal logits: run by `make test-clients`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer
from glassformer.compression.adapter_files import load_adapters, save_adapters
from glassformer.compression.adapters import AdapterSpec, adapt
from tests.compression.test_adapters import IDS, base_of, shaken, tiny

pytestmark = pytest.mark.clients

LAYERS = {"bert": ["query", "value"], "gpt2": ["c_attn"], "phi3": ["qkv_proj", "gate_up_proj"], "llama": ["q_proj"]}
VARIANTS: list[dict[str, Any]] = [
    {},
    {"use_rslora": True},
    {"init_lora_weights": "pissa"},
    {"init_lora_weights": "olora"},
    {"rank_pattern": {"layers.0.self_attn.q_proj": 3}, "alpha_pattern": {"layers.1.self_attn.q_proj": 7}},
]


def base(family: str, folder: Path) -> Any:
    model = tiny(family, "text-classification" if family == "bert" else "text-generation")
    model.save_pretrained(folder)
    return model


def theirs(folder: Path, task: str) -> Any:
    import transformers

    kind = "AutoModelForSequenceClassification" if task == "text-classification" else "AutoModelForCausalLM"
    return getattr(transformers, kind).from_pretrained(folder).eval()


@torch.no_grad()
def logits(model: Any) -> torch.Tensor:
    return model(input_ids=IDS).logits


@pytest.mark.parametrize("family", LAYERS)
def test_ours_in_peft(family: str, tmp_path: Path) -> None:
    from peft import PeftModel

    model = base(family, tmp_path / "base")
    shaken(adapters := adapt(model.network, AdapterSpec(rank=2, alpha=5.0, target_modules=("q", "v", "down"))))
    save_adapters(adapters, *base_of(model), tmp_path / "adapters")
    loaded = PeftModel.from_pretrained(theirs(tmp_path / "base", model.task), str(tmp_path / "adapters")).eval()
    torch.testing.assert_close(logits(loaded), logits(model), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("family", LAYERS)
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_peft_here(family: str, variant: dict[str, Any], tmp_path: Path) -> None:
    from peft import LoraConfig, PeftModel, get_peft_model

    if "rank_pattern" in variant and family != "llama":
        pytest.skip("the pattern names Llama's layers")
    model = base(family, tmp_path / "base")
    config = LoraConfig(
        r=2, lora_alpha=5, target_modules=LAYERS[family], fan_in_fan_out=family == "gpt2", **variant
    )  # fmt: skip
    if variant.get("init_lora_weights") == "olora" and family == "gpt2":
        pytest.skip("PEFT's OLoRA does not transpose GPT-2's layers, and cannot be initialised on them")
    trained = get_peft_model(theirs(tmp_path / "base", model.task), config)
    with torch.no_grad():
        for name, parameter in trained.named_parameters():
            if "lora_" in name:
                parameter.add_(0.1 * torch.randn(parameter.shape))
    trained.save_pretrained(str(tmp_path / "adapters"))
    expected = logits(trained.eval())
    load_adapters(*base_of(model), tmp_path / "adapters")
    torch.testing.assert_close(logits(model), expected, atol=1e-5, rtol=1e-4)

    # As PEFT reads its own folder, and what we write of it.
    again = PeftModel.from_pretrained(theirs(tmp_path / "base", model.task), str(tmp_path / "adapters")).eval()
    torch.testing.assert_close(logits(again), expected, atol=1e-5, rtol=1e-4)
    fresh = glassformer.load(tmp_path / "base", task=model.task)
    fresh.load_adapter(tmp_path / "adapters")
    fresh.save_adapter(tmp_path / "ours")
    back = PeftModel.from_pretrained(theirs(tmp_path / "base", model.task), str(tmp_path / "ours")).eval()
    torch.testing.assert_close(logits(back), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("family", LAYERS)
def test_several_adapters_are_those_of_peft(family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of different ranks and targets: each alone, added up, combined, taken away; and saved back for PEFT.

    PEFT draws initial weights of the combination before it draws what stays (DARE): the test draws the same for both.
    """
    from peft import LoraConfig, PeftModel, get_peft_model

    more = {"bert": "attention.output.dense", "gpt2": "c_proj", "phi3": "o_proj", "llama": "down_proj"}[family]
    task = base(family, tmp_path / "base").task
    shared = {"lora_alpha": 5, "fan_in_fan_out": family == "gpt2", "init_lora_weights": False}
    trained = get_peft_model(
        theirs(tmp_path / "base", task), LoraConfig(r=2, target_modules=LAYERS[family], **shared), "a"
    )
    trained.add_adapter("b", LoraConfig(r=3, target_modules=[*LAYERS[family], more], **shared))
    trained.add_adapter("c", LoraConfig(r=3, target_modules=[*LAYERS[family], more], **shared))
    trained.eval().save_pretrained(str(tmp_path / "adapters"))
    model = glassformer.load(tmp_path / "adapters" / "a")
    assert model.folder == tmp_path / "base" and model.task == task
    for name in ("b", "c"):
        model.load_adapter(tmp_path / "adapters" / name, name)
    both = (["default", "b"], ["a", "b"])
    combinations = [("cat", *both, [0.7, -0.4]), ("linear", ["b", "c"], ["b", "c"], [0.5, -0.3])]
    pruned = [
        (kind, ["b", "c"], ["b", "c"], [0.5, 0.3]) for kind in ("ties", "magnitude_prune", "dare_linear", "dare_ties")
    ]
    if family in ("bert", "llama"):  # elsewhere PEFT approximates a fused layer as one, we q, k and v apart
        combinations.append(("svd", *both, [0.7, 0.4]))
        combinations += [*pruned, *((f"{kind}_svd", *rest) for kind, *rest in pruned)]
    monkeypatch.setattr(torch, "bernoulli", lambda p: (torch.arange(p.numel()) * 7 % 5 < 3).view(p.shape).to(p.dtype))
    for kind, ours, names, weights in combinations:
        for side, its in ((trained, names), (model, ours)):
            side.add_weighted_adapter(its, weights, kind, combination_type=kind, density=0.6)
    for ours, names in [("default", "a"), ("b", "b"), both, *((kind, kind) for kind, *_ in combinations)]:
        trained.base_model.set_adapter(names)
        model.set_adapter(ours)
        torch.testing.assert_close(logits(model), logits(trained), atol=1e-5, rtol=1e-4)
    with model.disable_adapter(), trained.disable_adapter():
        torch.testing.assert_close(logits(model), logits(trained), atol=1e-5, rtol=1e-4)
    model.save_adapter(tmp_path / "ours", "cat")
    trained.base_model.set_adapter("cat")
    back = PeftModel.from_pretrained(theirs(tmp_path / "base", task), str(tmp_path / "ours")).eval()
    torch.testing.assert_close(logits(back), logits(trained), atol=1e-5, rtol=1e-4)
    model.delete_adapter("b")
    trained.delete_adapter("b")
    trained.base_model.set_adapter("c")
    model.set_adapter("c")
    torch.testing.assert_close(logits(model.merge_and_unload()), logits(trained), atol=1e-5, rtol=1e-4)


def test_a_head_trained_in_peft_comes_with_its_adapters(tmp_path: Path) -> None:
    """PEFT saves the new classifier of three labels next to the adapters; the base folder knows of two."""
    import transformers
    from peft import LoraConfig, PeftModel, TaskType, get_peft_model

    base("bert", tmp_path / "base")
    kind = transformers.AutoModelForSequenceClassification
    three = kind.from_pretrained(tmp_path / "base", num_labels=3, ignore_mismatched_sizes=True)
    config = LoraConfig(r=2, target_modules=["query"], task_type=TaskType.SEQ_CLS, init_lora_weights=False)
    trained = get_peft_model(three, config).eval()
    assert isinstance(trained, PeftModel)
    trained.save_pretrained(str(tmp_path / "adapters"))
    model = glassformer.load(tmp_path / "adapters")
    assert model.num_labels == 3 and not model.report.new
    torch.testing.assert_close(logits(model), logits(trained), atol=1e-5, rtol=1e-4)
