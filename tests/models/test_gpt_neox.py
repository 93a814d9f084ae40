"""GPT-NeoX: sub-layers side by side or one after the other, each behind its norm; q, k and v of head after head."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import glassformer
from glassformer.core import Block, ParallelBlock
from glassformer.errors import ConfigError
from glassformer.model import Model
from glassformer.models import gpt_neox
from glassformer.weights.load import export_weights

TINY = gpt_neox.FAMILY.tiny


def model_of(task: str = "text-generation", **changes: Any) -> Model:
    return Model.from_config({**TINY, **changes}, task=task).eval()


def exported(model: Model) -> dict[str, torch.Tensor]:
    return export_weights(model.network, gpt_neox.FAMILY.names(model.spec, model.task), prefixed=True)


@pytest.mark.parametrize(("parallel", "kind"), [(True, ParallelBlock), (False, Block)])
def test_the_config_chooses_the_block_and_the_files_are_the_same(parallel: bool, kind: type) -> None:
    model = model_of(use_parallel_residual=parallel)
    assert all(type(block) is kind for block in model.network.blocks)
    assert exported(model).keys() == exported(model_of()).keys()


def test_the_two_norms_are_two() -> None:
    block = next(iter(model_of().network.blocks))
    assert block.ffn_norm is not None and block.ffn_norm.weight is not block.norm.weight


def test_a_quarter_of_each_head_is_turned_unless_the_config_says_otherwise() -> None:
    config = {key: value for key, value in TINY.items() if key != "rotary_pct"}
    wide = Model.from_config({**config, "hidden_size": 64}, task="text-generation")
    assert wide.spec.blocks.blocks[0].attention.rotary.width == 4
    assert model_of(rotary_pct=1.0, rotary_emb_base=50).spec.blocks.blocks[0].attention.rotary.theta == 50
    with pytest.raises(ConfigError, match=r"config.json: rotary_pct 0.2 turns 1 of the 8 numbers"):
        model_of(rotary_pct=0.2)


def test_heads_stand_one_after_the_other_in_files() -> None:
    model = model_of()
    qkv = model.network.blocks[0].attn.qkv.weight
    theirs = exported(model)["gpt_neox.layers.0.attention.query_key_value.weight"]
    assert torch.equal(theirs[:8], qkv[:8]) and torch.equal(theirs[8:16], qkv[32:40])
    assert torch.equal(theirs[24:32], qkv[8:16])


@pytest.mark.parametrize("tied", [True, False])
def test_the_head_has_a_matrix_of_its_own_unless_tied(tied: bool) -> None:
    model = model_of(tie_word_embeddings=tied)
    assert (model.network.head.decoder.weight is model.network.embed.tokens.weight) is tied
    assert ("embed_out.weight" in exported(model)) is not tied


def test_buffers_of_the_published_files_are_passed_over(tmp_path: Path) -> None:
    model = model_of()
    model.save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    for i in range(3):
        at = f"gpt_neox.layers.{i}.attention"
        tensors[f"{at}.bias"] = torch.ones(1, 1, 64, 64, dtype=torch.uint8)
        tensors[f"{at}.masked_bias"] = torch.tensor(-1e9)
        tensors[f"{at}.rotary_emb.inv_freq"] = torch.ones(2)
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    ids = torch.tensor([[5, 6, 7]])
    again = glassformer.load(tmp_path)
    assert torch.equal(again(ids).logits, model(ids).logits)
    assert not again.report.warnings
