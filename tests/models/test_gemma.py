"""Gemma, Gemma 2 and Gemma 3: gains of 1 + weight, rounded scales, windows and bases by layer, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from glassformer import Model
from glassformer.core import AttentionSpec, EmbeddingSpec, LinearScaling, RMSNorm, RMSNormSpec, RotarySpec
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.models import FAMILIES, ConfigReader
from glassformer.models.gemma import GemmaEmbedding

GEMMAS = ("gemma", "gemma2", "gemma3_text")


def attentions(family: str, **changes: Any) -> list[AttentionSpec]:
    """The attention of each layer of the tiny config."""
    record = FAMILIES[family]
    spec = record.spec(ConfigReader({**record.tiny, **changes}))
    return [block.attention for block in spec.blocks.blocks]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_a_gain_of_one_plus_weight_is_taken_in_at_least_fp32_and_rounded_once(dtype: torch.dtype) -> None:
    norm = RMSNorm(RMSNormSpec(width=64, eps=1e-5, offset=1.0))
    assert (norm.weight == 0).all(), "a gain of 1 at first"
    torch.nn.init.normal_(norm.weight, std=0.3)
    norm = norm.to(dtype)
    x = (5 * torch.randn(3, 7, 64)).to(dtype)
    wide = x.double()
    exact = wide / (wide.square().mean(-1, keepdim=True) + 1e-5).sqrt() * (1 + norm.weight.double())
    assert norm(x).dtype is dtype
    close = 1e-12 if dtype is torch.float64 else 2e-6
    nearest = exact.to(dtype) if dtype in (torch.bfloat16, torch.float16) else exact
    off = (norm(x).double() - nearest.double()).abs() > close
    assert off.float().mean() < 0.002, "only where fp32 itself stands between two numbers"


@pytest.mark.parametrize(
    ("dtype", "scale"), [(torch.float32, 3072**0.5), (torch.bfloat16, 55.5), (torch.float16, 55.4375)]
)
def test_the_scale_of_embeddings_is_rounded_to_their_dtype(dtype: torch.dtype, scale: float) -> None:
    embedding = GemmaEmbedding(EmbeddingSpec(vocabulary=9, width=3072, scale=3072**0.5)).to(dtype)
    assert embedding.scale(dtype) == pytest.approx(scale, rel=1e-7)


def test_a_new_model_begins_with_gains_of_one() -> None:
    network = Model.from_config(FAMILIES["gemma3_text"].tiny).network
    norms = [module for module in network.modules() if isinstance(module, RMSNorm)]
    assert len(norms) == 3 * (4 + 2) + 1
    assert all(norm.offset == 1 and (norm.weight == 0).all() for norm in norms)


@pytest.mark.parametrize(
    ("family", "changes", "windows"),
    [
        ("gemma", {}, [None, None, None]),
        ("gemma2", {}, [4, None, 4]),
        ("gemma2", {"layer_types": ["full_attention"] * 2 + ["sliding_attention"]}, [None, None, 4]),
        ("gemma2", {"layer_types": ["full_attention"] * 3, "sliding_window": None}, [None, None, None]),
        ("gemma3_text", {}, [4, None, 4]),
        ("gemma3_text", {"sliding_window_pattern": None}, [4, 4, 4]),  # every sixth sees all
        ("gemma3_text", {"sliding_window_pattern": 1}, [None, None, None]),
    ],
)
def test_the_window_of_each_layer(family: str, changes: dict[str, Any], windows: list[int | None]) -> None:
    assert [attention.window for attention in attentions(family, **changes)] == windows


NEW = {"full_attention": {"rope_theta": 50.0}, "sliding_attention": {"rope_theta": 5.0}}


@pytest.mark.parametrize(
    ("changes", "local", "whole"),
    [
        ({}, 1e4, 1e6),
        ({"rope_theta": 50.0, "rope_local_base_freq": 5.0}, 5.0, 50.0),
        ({"rope_parameters": NEW, "rope_theta": 1.0}, 5.0, 50.0),  # the section takes precedence
        ({"rope_parameters": {}, "rope_theta": 50.0}, 1e4, 50.0),
    ],
)
def test_the_rotary_base_of_each_layer(changes: dict[str, Any], local: float, whole: float) -> None:
    rotary = [attention.rotary for attention in attentions("gemma3_text", **changes)]
    assert [r and (r.theta, r.scaling) for r in rotary] == [(local, None), (whole, None), (local, None)]


@pytest.mark.parametrize("family", ["gemma3_text", "modernbert"])
@pytest.mark.parametrize(
    ("changes", "unread"),
    [
        ({"rope_scaling": {"rope_type": "linear", "factor": 4.0, "swirl": 1}}, ["rope_scaling: swirl"]),
        ({"rope_parameters": {**NEW, "rope_theta": 7.0}}, ["rope_parameters: rope_theta"]),
        ({"rope_parameters": {"sliding_attention": {"swirl": 1}}}, ["sliding_attention: swirl"]),
        ({"rope_parameters": {"full_attention": None}, "rope_scaling": None}, []),
    ],
)
def test_every_key_of_rotary_sections_is_accounted_for_once(
    family: str, changes: dict[str, Any], unread: list[str]
) -> None:
    reader = ConfigReader({**FAMILIES[family].tiny, **changes})
    FAMILIES[family].spec(reader)
    assert [warning.partition(" = ")[0] for warning in reader.unused_key_warnings()] == [
        f"config.json: {key}" for key in unread
    ]


def test_angles_are_computed_once_for_each_base() -> None:
    model = Model.from_config(FAMILIES["gemma3_text"].tiny)
    stack = model.network.blocks
    assert {spec.theta for spec in stack.rotaries} == {1e4, 1e6}
    assert len({id(block.attn.rotary) for block in stack}) == 3


@pytest.mark.parametrize(
    ("family", "changes", "error", "says"),
    [
        (
            "gemma2",
            {"sliding_window": None},
            ConfigError,
            "sliding_window is null, but layer 0 .*layer_types",
        ),
        ("gemma2", {"attn_logit_softcapping": 0.0}, ConfigError, "attn_logit_softcapping is 0.0.*above 0"),
        ("gemma2", {"final_logit_softcapping": -1.0}, ConfigError, "final_logit_softcapping is -1.0"),
        ("gemma2", {"query_pre_attn_scalar": 0}, ConfigError, "query_pre_attn_scalar is 0.*above 0"),
        ("gemma2", {"layer_types": ["chunked_attention"] * 3}, UnsupportedError, "chunked_attention"),
        ("gemma3_text", {"attn_logit_softcapping": 50.0}, UnsupportedError, "attn_logit_softcapping = 50.0"),
        (
            "gemma3_text",
            {"use_bidirectional_attention": True},
            UnsupportedError,
            "use_bidirectional_attention",
        ),
        ("gemma3_text", {"rope_parameters": {"full_attention": 3}}, ConfigError, "full_attention is 3"),
    ],
)
def test_what_cannot_be(family: str, changes: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        attentions(family, **changes)


@pytest.mark.parametrize("family", GEMMAS)
def test_a_config_of_the_reference_is_read_whole(family: str) -> None:
    reader = ConfigReader(
        {**FAMILIES[family].tiny, "cache_implementation": "hybrid", "hidden_activation": "gelu_pytorch_tanh"}
    )
    FAMILIES[family].spec(reader)
    assert reader.unused_key_warnings() == []


LAYOUTS = {
    "older": {"model.": "language_model.model.", "lm_head.": "language_model.lm_head."},
    "newer": {"model.": "model.language_model.", "lm_head.": "lm_head."},
}


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_of_a_model_that_reads_pictures_the_text_part_is_loaded(layout: str, tied: bool, tmp_path: Path) -> None:
    text = {**FAMILIES["gemma3_text"].tiny, "tie_word_embeddings": tied}
    model = Model.from_config(text, task="text-generation").eval()
    model.save_pretrained(tmp_path)
    own = {key: text.pop(key) for key in ("tie_word_embeddings", "eos_token_id")}
    config = {
        **{"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", **own},
        **{"text_config": text, "vision_config": {"model_type": "siglip_vision_model"}},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    tensors = {"vision_tower.embeddings.patch_embedding.bias": torch.zeros(3)}
    for name, tensor in load_file(tmp_path / "model.safetensors").items():
        inside, outside = next(pair for pair in LAYOUTS[layout].items() if name.startswith(pair[0]))
        tensors[outside + name.removeprefix(inside)] = tensor
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})

    loaded, ids = Model.from_pretrained(tmp_path), torch.tensor([[5, 9, 7, 6, 8, 3]])
    assert (loaded.family.model_type, loaded.task) == ("gemma3_text", "text-generation")
    assert torch.equal(loaded(ids).logits, model(ids).logits)
    assert loaded.report.unused == ["vision_tower.embeddings.patch_embedding.bias"]
    loaded.save_pretrained(tmp_path / "text")
    saved = json.loads((tmp_path / "text" / "config.json").read_text())
    assert (saved["model_type"], saved["architectures"]) == ("gemma3_text", ["Gemma3ForCausalLM"])
    assert saved["eos_token_id"] == own["eos_token_id"] and saved["tie_word_embeddings"] is tied
    assert torch.equal(Model.from_pretrained(tmp_path / "text")(ids).logits, model(ids).logits)


def test_a_published_config_says_little() -> None:
    """That of the model with 4 billion parameters, and sizes that it leaves to the reference's defaults."""
    text = {
        **{"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text"},
        **{
            "num_hidden_layers": 34,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
            "sliding_window": 1024,
        },
    }
    model = Model.from_config(text, device="meta")
    first, sixth = (model.spec.blocks.blocks[i].attention for i in (0, 5))
    assert (first.heads, first.K, first.E, first.window, sixth.window) == (8, 4, 256, 1024, None)
    assert first.rotary == RotarySpec(width=256, theta=1e4)
    assert sixth.rotary == RotarySpec(width=256, theta=1e6, scaling=LinearScaling(factor=8.0))
    assert model.spec.embed.vocabulary == 262_208


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (
            {
                **{
                    "model_type": "gemma",
                    "hidden_size": 2048,
                    "intermediate_size": 16384,
                    "vocab_size": 256_000,
                },
                **{"num_hidden_layers": 18, "num_attention_heads": 8, "num_key_value_heads": 1},
            },
            2_506_172_416,
        ),
        (
            {
                **{
                    "model_type": "gemma2",
                    "hidden_size": 2304,
                    "intermediate_size": 9216,
                    "vocab_size": 256_000,
                },
                **{"num_hidden_layers": 26, "num_attention_heads": 8},
            },
            2_614_341_888,
        ),
        (
            {
                **{"model_type": "gemma3_text", "hidden_size": 1152, "intermediate_size": 6912},
                **{"num_attention_heads": 4, "num_key_value_heads": 1, "vocab_size": 262_144},
            },
            999_885_952,
        ),
    ],
    ids=["gemma-2b", "gemma-2-2b", "gemma-3-1b"],
)
def test_published_models_have_their_published_size(config: dict[str, Any], parameters: int) -> None:
    model = Model.from_config(config, device="meta")
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters
