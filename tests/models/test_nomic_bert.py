"""Nomic BERT: both spellings of its config, dynamic scaling, and a sentence encoder with prompts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import glassformer
from glassformer import Model
from glassformer.core import DynamicScaling
from glassformer.errors import ConfigError, GlassformerError, UnsupportedError
from glassformer.models import FAMILIES, ConfigReader
from tests.models.test_modernbert import write_sentence_encoder

FAMILY = FAMILIES["nomic_bert"]

PUBLISHED: dict[str, Any] = {
    **{"activation_function": "swiglu", "architectures": ["NomicBertModel"], "attn_pdrop": 0.0},
    **{"auto_map": {"AutoModel": "modeling_hf_nomic_bert.NomicBertModel"}, "bos_token_id": None},
    **{"causal": False, "dense_seq_output": True, "embd_pdrop": 0.0, "eos_token_id": None},
    **{"fused_bias_fc": True, "fused_dropout_add_ln": True, "initializer_range": 0.02},
    **{"layer_norm_epsilon": 1e-12, "max_trained_positions": 2048, "mlp_fc1_bias": False},
    **{"mlp_fc2_bias": False, "model_type": "nomic_bert", "n_embd": 768, "n_head": 12, "n_inner": 3072},
    **{"n_layer": 12, "n_positions": 8192, "pad_vocab_size_multiple": 64, "parallel_block": False},
    **{"parallel_block_tied_norm": False, "prenorm": False, "qkv_proj_bias": False},
    **{"reorder_and_upcast_attn": False, "resid_pdrop": 0.0, "rotary_emb_base": 1000},
    **{"rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False, "rotary_emb_scale_base": None},
    **{"rotary_scaling_factor": None, "scale_attn_by_inverse_layer_idx": False, "scale_attn_weights": True},
    **{"summary_activation": None, "summary_first_dropout": 0.0, "summary_proj_to_labels": True},
    **{"summary_type": "cls_index", "summary_use_proj": True, "torch_dtype": "float32"},
    **{"type_vocab_size": 2, "use_cache": True, "use_flash_attn": True, "use_rms_norm": False},
    **{"use_xentropy": True, "vocab_size": 30528},
}


def rotary_of(**changes: Any) -> Any:
    return FAMILY.spec(ConfigReader({**FAMILY.tiny, **changes})).blocks.blocks[0].attention.rotary


def test_the_published_config_is_the_reference_librarys_default() -> None:
    from transformers import NomicBertConfig

    old = Model.from_config(PUBLISHED, device="meta")
    new = Model.from_config(
        {**NomicBertConfig().to_dict(), "head_dim": None, "architectures": ["NomicBertModel"]}, device="meta"
    )
    assert not old.report.warnings
    assert old.spec == new.spec
    assert old.spec.blocks.blocks[0].attention.rotary.theta == 1000


def test_both_spellings_compute_the_same(tmp_path: Path) -> None:
    model = Model.from_config(FAMILY.tiny, task="feature-extraction").eval()
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    spellings = {
        **{"hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head"},
        **{"intermediate_size": "n_inner", "max_position_embeddings": "n_positions"},
    }
    old = {spellings.get(key, key): value for key, value in config.items()}
    (tmp_path / "config.json").write_text(json.dumps({**old, "activation_function": "swiglu"}))
    ids = torch.tensor([[5, 6, 7, 8]])
    again = glassformer.load(tmp_path)
    assert torch.equal(again(ids).last_hidden_state, model(ids).last_hidden_state)


def test_two_spellings_of_dynamic_scaling() -> None:
    old = rotary_of(rotary_scaling_factor=2.0, max_trained_positions=2048)
    rope = {"rope_type": "dynamic", "rope_theta": 1000.0, "factor": 2.0}
    assert old == rotary_of(rope_parameters=rope, max_position_embeddings=2048)
    assert old.scaling == DynamicScaling(factor=2.0, original_positions=2048)
    assert rotary_of(rotary_scaling_factor=None).scaling is None


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"activation_function": "gelu"}, UnsupportedError, "activation_function = 'gelu'"),
        ({"prenorm": True}, UnsupportedError, "prenorm = True"),
        ({"qkv_proj_bias": True}, UnsupportedError, "qkv_proj_bias = True"),
        ({"mlp_fc1_bias": True}, UnsupportedError, "mlp_fc1_bias = True"),
        ({"causal": True}, UnsupportedError, "causal = True"),
        ({"rotary_emb_fraction": 0.5}, UnsupportedError, "rotary_emb_fraction = 0.5"),
        ({"rotary_emb_interleaved": True}, UnsupportedError, "rotary_emb_interleaved = True"),
        ({"rotary_emb_scale_base": 512}, UnsupportedError, "rotary_emb_scale_base = 512"),
        ({"use_rms_norm": True}, UnsupportedError, "use_rms_norm = True"),
        ({"num_experts": 8}, UnsupportedError, "num_experts = 8"),
        ({"rotary_scaling_factor": "two"}, ConfigError, "rotary_scaling_factor is 'two'"),
        ({"rotary_scaling_factor": 2, "max_trained_positions": 0}, ConfigError, "max_trained_positions is 0"),
        ({"rotary_emb_base": 0}, ConfigError, "rope_theta is 0.0"),
        ({"head_dim": 3}, ConfigError, "it must be even"),
    ],
)
def test_a_wrong_config(changes: dict[str, Any], error: type[GlassformerError], says: str) -> None:
    with pytest.raises(error) as raised:
        Model.from_config({**FAMILY.tiny, **changes})
    assert says in str(raised.value)


WORDS = "search _ query document : the quick brown fox jumps over lazy dog time flies like an arrow".split()


@torch.no_grad()
def test_a_sentence_encoder_with_prompts(tmp_path: Path) -> None:
    """`search_query: ` and `search_document: ` before a text, from the folder or given; word pieces; the mean."""
    from transformers import BertTokenizerFast, NomicBertConfig, NomicBertModel

    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (tmp_path / "vocab.txt").write_text("\n".join(vocabulary))
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 8192})
    )
    torch.manual_seed(3)
    config = NomicBertConfig(**{**FAMILY.tiny, "vocab_size": len(vocabulary)})
    theirs = NomicBertModel(config).eval()
    for parameter in theirs.parameters():
        parameter.normal_(0, 0.3)
    theirs.save_pretrained(tmp_path)
    write_sentence_encoder(tmp_path, limit=8192)

    model = glassformer.load(tmp_path)
    texts = ["time flies like an arrow", "The quick brown fox", ""]
    tokenizer = BertTokenizerFast(str(tmp_path / "vocab.txt"))
    vectors = {}
    for name, prompt in ((None, ""), ("query", "search_query: "), ("document", "search_document: ")):
        vectors[name] = model.encode(texts, prompt_name=name)
        np.testing.assert_array_equal(model.encode(texts, prompt=prompt), vectors[name])
        ids = [tokenizer(prompt + text)["input_ids"] for text in texts]
        states = [theirs(torch.tensor([row])).last_hidden_state[0].mean(0) for row in ids]
        expected = nn.functional.normalize(torch.stack(states), dim=-1).numpy()
        np.testing.assert_allclose(vectors[name], expected, atol=1e-5)
    model.save_pretrained(tmp_path / "copy")
    copy = glassformer.load(tmp_path / "copy")
    np.testing.assert_array_equal(copy.encode(texts, prompt_name="query"), vectors["query"])
    assert np.abs(vectors["query"] - vectors["document"]).max() > 1e-3
    with pytest.raises(ConfigError, match="nearest: 'query'"):
        model.encode(texts, prompt_name="qery")
