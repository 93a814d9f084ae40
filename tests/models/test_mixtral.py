"""Mixtral: unsupported training features, and the tensor names of experts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import glassformer
from glassformer import ConfigError, Model, UnsupportedError, WeightsError
from glassformer.models import FAMILIES
from glassformer.weights.names import StackedExperts

TINY = FAMILIES["mixtral"].tiny


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    torch.manual_seed(1)
    Model.from_config(TINY, task="text-generation").save_pretrained(tmp_path / "old")
    return tmp_path / "old"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"output_router_logits": True}, "output_router_logits = true adds a term to the training loss"),
        ({"router_jitter_noise": 0.1}, "router_jitter_noise = 0.1 multiplies"),
    ],
)
def test_other_training_is_refused_by_name(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(UnsupportedError, match=says):
        Model.from_config({**TINY, **changes}, task="text-generation")


def test_more_chosen_than_there_are() -> None:
    with pytest.raises(ConfigError, match="num_experts_per_tok"):
        Model.from_config({**TINY, "num_experts_per_tok": 5}, task="text-generation")


def test_no_config_asks_for_a_million_experts() -> None:
    with pytest.raises(ConfigError, match="num_local_experts is 1024; it must be a whole number from 1 to 16"):
        Model.from_config({**TINY, "num_hidden_layers": 512, "num_local_experts": 1024}, device="meta")


def test_what_a_bare_config_means() -> None:
    spec = FAMILIES["mixtral"].spec(
        glassformer.models.ConfigReader(
            {k: v for k, v in TINY.items() if not k.startswith("num_local") and k != "num_experts_per_tok"}
        )
    )
    experts = spec.blocks.blocks[0].feed_forward
    assert (experts.experts, experts.experts_per_token) == (8, 2)
    block = spec.blocks.blocks[0]
    assert block.attention.rotary.theta == 1e6 and spec.final_norm.eps == block.residual.before.eps == 1e-5
    assert spec.blocks.blocks[0].attention.window is None


def stacked(folder: Path, copy: Path, experts: int = 4) -> Path:
    """The same numbers as newer files have them."""
    old, new = load_file(folder / "model.safetensors"), {}
    for layer in range(3):
        body = f"model.layers.{layer}"
        for name, parts in (("gate_up_proj", ("w1", "w3")), ("down_proj", ("w2",))):
            rule = StackedExperts(tuple(f"{body}.block_sparse_moe.experts.{{j}}.{w}.weight" for w in parts))
            stored = [old.pop(part.format(j=j)) for j in range(4) for part in rule.theirs]
            new[f"{body}.mlp.experts.{name}"] = rule.write(stored)[:experts].clone()
        new[f"{body}.mlp.gate.weight"] = old.pop(f"{body}.block_sparse_moe.gate.weight")
    copy.mkdir()
    save_file(old | new, copy / "model.safetensors", {"format": "pt"})
    (copy / "config.json").write_bytes((folder / "config.json").read_bytes())
    return copy


def test_experts_may_be_stacked_and_are_saved_one_by_one(folder: Path, tmp_path: Path) -> None:
    old = glassformer.load(folder, strict=True)
    new = glassformer.load(stacked(folder, tmp_path / "new"), strict=True)
    for (name, ours), theirs in zip(old.named_parameters(), new.parameters(), strict=True):
        assert torch.equal(ours, theirs), name
    new.save_pretrained(tmp_path / "saved")
    before, after = (load_file(path / "model.safetensors") for path in (folder, tmp_path / "saved"))
    assert set(before) == set(after)
    assert all(before[name].numpy().tobytes() == after[name].numpy().tobytes() for name in before)


def test_too_few_stacked_experts_are_missing_by_name(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"missing: model\.layers\.0\.block_sparse_moe\.experts\.3"):
        glassformer.load(stacked(folder, tmp_path / "few", experts=3))
