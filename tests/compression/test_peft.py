"""Adapters go both ways between PEFT and us, with equal logits: run by `make test-clients`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer
from glassformer.compression.adapter_files import load_adapters, save_adapters
from glassformer.compression.adapters import AdapterSpec, adapt
from tests.compression.test_adapters import IDS, shaken, tiny

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
    save_adapters(adapters, model, tmp_path / "adapters")
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
    load_adapters(model, tmp_path / "adapters")
    torch.testing.assert_close(logits(model), expected, atol=1e-5, rtol=1e-4)

    # As PEFT reads its own folder, and what we write of it.
    again = PeftModel.from_pretrained(theirs(tmp_path / "base", model.task), str(tmp_path / "adapters")).eval()
    torch.testing.assert_close(logits(again), expected, atol=1e-5, rtol=1e-4)
    fresh = glassformer.load(tmp_path / "base", task=model.task)
    save_adapters(load_adapters(fresh, tmp_path / "adapters"), fresh, tmp_path / "ours")
    back = PeftModel.from_pretrained(theirs(tmp_path / "base", model.task), str(tmp_path / "ours")).eval()
    torch.testing.assert_close(logits(back), expected, atol=1e-5, rtol=1e-4)
