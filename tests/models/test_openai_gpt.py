"""GPT (2018): post-norm alone, and a config that calls the tanh form of GELU "gelu"."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import glassformer
from glassformer.core import LayerNorm
from glassformer.errors import UnsupportedError
from glassformer.files.atomic import write_json
from glassformer.model import Model
from glassformer.models import openai_gpt
from glassformer.weights.load import export_weights
from glassformer.weights.write import write_checkpoint

TINY = openai_gpt.FAMILY.tiny


def model_of(task: str = "text-generation", **changes: Any) -> Model:
    return Model.from_config({**TINY, **changes}, task=task).eval()


def test_what_leaves_a_block_is_normed_and_nothing_else_is() -> None:
    network = model_of().network
    norms = [name for name, module in network.named_modules() if isinstance(module, LayerNorm)]
    slots = ("attn_residual.on_residual", "ffn_residual.on_residual")
    assert norms == [f"blocks.{i}.{slot}" for i in range(3) for slot in slots]


def test_gelu_is_the_one_with_tanh() -> None:
    x = torch.linspace(-4, 4, 50)
    assert torch.equal(model_of().network.blocks[0].ffn.activation(x), nn.GELU(approximate="tanh")(x))


def test_another_activation_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match=r"afn = 'gelu_new' .* supported: gelu, relu, silu, swish"):
        model_of(afn="gelu_new")


def test_the_published_files_load(tmp_path: Path) -> None:
    """A language model's config over a bare body's names, with the causal mask and the positions stored as tensors."""
    model = model_of()
    bare = export_weights(model.network, openai_gpt.FAMILY.names(model.spec, model.task), prefixed=False)
    masks = {f"h.{i}.attn.bias": torch.ones(40, 40).tril()[None, None] for i in range(3)}
    write_checkpoint(tmp_path, {**bare, **masks, "position_ids": torch.arange(40)})
    old = {
        "n_ctx": 40,
        "n_special": 0,
        "predict_special_tokens": True,
        "architectures": ["OpenAIGPTLMHeadModel"],
    }
    write_json(tmp_path / "config.json", {**TINY, **old})
    loaded = glassformer.load(tmp_path, strict=True)
    assert not loaded.report.warnings and not loaded.report.new
    ids = torch.tensor([[5, 6, 7]])
    torch.testing.assert_close(loaded(ids).logits, model(ids).logits, atol=1e-6, rtol=1e-6)
