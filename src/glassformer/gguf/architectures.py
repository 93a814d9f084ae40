"""Architectures of GGUF files: their metadata as a config, and their tensor names as the reference library's.

A line a key, a line a tensor; families that differ in a few lines say these.
Source of names: ggml-org/llama.cpp, gguf-py; of layouts: its conversion, which permutes the rows of Llama's q and k,
and adds 1 to Gemma's norms.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from glassformer.errors import UnsupportedError, WeightsError
from glassformer.files import safe_repr
from glassformer.gguf.header import GGUFHeader
from glassformer.gguf.weights import Named

SIZES = {
    "hidden_size": "embedding_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "intermediate_size": "feed_forward_length",
    "max_position_embeddings": "context_length",
}
OPTIONAL: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "num_key_value_heads": ("attention.head_count_kv", (int,)),
    "head_dim": ("attention.key_length", (int,)),
    "rms_norm_eps": ("attention.layer_norm_rms_epsilon", (float,)),
    "rope_theta": ("rope.freq_base", (float,)),
    "sliding_window": ("attention.sliding_window", (int,)),
    "attn_logit_softcapping": ("attn_logit_softcapping", (float,)),
    "final_logit_softcapping": ("final_logit_softcapping", (float,)),
}
NAMES = """
token_embd       model.embed_tokens
output_norm      model.norm
output           lm_head
attn_norm        input_layernorm
attn_q           self_attn.q_proj
attn_k           self_attn.k_proj
attn_v           self_attn.v_proj
attn_output      self_attn.o_proj
ffn_norm         post_attention_layernorm
ffn_gate         mlp.gate_proj
ffn_up           mlp.up_proj
ffn_down         mlp.down_proj
"""
QK_NORMS = "attn_q_norm self_attn.q_norm\nattn_k_norm self_attn.k_norm"
FOUR_NORMS = """
post_attention_norm   post_attention_layernorm
ffn_norm              pre_feedforward_layernorm
post_ffw_norm         post_feedforward_layernorm
"""
IGNORED = ("rope_freqs", "rope_factors_long", "rope_factors_short", "rotary_emb.inv_freq")


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """An architecture of llama.cpp.

    model_type: of the reference library
    names: lines that differ from `NAMES`
    config: keys that are always so
    permuted: rows of q and k are those of neighbouring pairs
    shifted: norms are stored with 1 added
    without: keys of `OPTIONAL` that this family's config does not have
    derived: keys that no file states, from those that it does
    """

    model_type: str
    class_name: str
    names: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    permuted: bool = False
    shifted: bool = False
    without: tuple[str, ...] = ()
    derived: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda config: {}


def _gemma_scale(config: Mapping[str, Any]) -> dict[str, Any]:
    """Divisor (before the root) of the scores: the head's width, but width over heads in the 27B models.

    Those are the ones with heads of 128 (Gemma 2 27B: 4,608 / 32 = 144; Gemma 3 27B: 5,376 / 32 = 168).
    """
    if config.get("head_dim") == 128:
        return {"query_pre_attn_scalar": config["hidden_size"] // config["num_attention_heads"]}
    return {"query_pre_attn_scalar": config.get("head_dim", 256)}


GEMMA = {"hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": True}
ARCHITECTURES: Mapping[str, Architecture] = {
    "llama": Architecture(model_type="llama", class_name="LlamaForCausalLM", permuted=True),
    "qwen2": Architecture(model_type="qwen2", class_name="Qwen2ForCausalLM", without=("head_dim", "sliding_window")),
    "qwen3": Architecture(
        model_type="qwen3", class_name="Qwen3ForCausalLM", names=QK_NORMS, without=("sliding_window",)
    ),
    "phi3": Architecture(
        model_type="phi3",
        class_name="Phi3ForCausalLM",
        names="attn_qkv self_attn.qkv_proj\nffn_up mlp.gate_up_proj",
        without=("head_dim",),
    ),
    "gemma": Architecture(model_type="gemma", class_name="GemmaForCausalLM", config=GEMMA, shifted=True),
    "gemma2": Architecture(
        model_type="gemma2",
        class_name="Gemma2ForCausalLM",
        names=FOUR_NORMS,
        config=GEMMA,
        shifted=True,
        derived=_gemma_scale,
    ),
    "gemma3": Architecture(
        model_type="gemma3_text",
        class_name="Gemma3ForCausalLM",
        names=FOUR_NORMS + QK_NORMS,
        config=GEMMA,
        shifted=True,
        derived=_gemma_scale,
    ),
}


def config_of(header: GGUFHeader) -> dict[str, Any]:
    """The config.json of a GGUF file.

    Raises: UnsupportedError: another architecture, or a scaling of positions. ConfigError: metadata that is missing.
    """
    family = _architecture(header)
    scaling = header.metadata.get(f"{header.architecture}.rope.scaling.type", "none")
    if scaling != "none" or "rope_freqs.weight" in header.tensors or "rope_factors_long.weight" in header.tensors:
        raise UnsupportedError(
            f"{header.path}: positions are scaled ({safe_repr(scaling)}), which is not read from GGUF files; load the "
            "model from its folder in the Hugging Face layout"
        )
    tokens = header.get("tokenizer.ggml.tokens", list)
    config = {
        "model_type": family.model_type,
        "architectures": [family.class_name],
        "vocab_size": len(tokens),
        "tie_word_embeddings": "output.weight" not in header.tensors,
        **{ours: header.get(f"{{arch}}.{theirs}", int) for ours, theirs in SIZES.items()},
    }
    for ours, (theirs, kinds) in OPTIONAL.items():
        key = f"{header.architecture}.{theirs}"
        if key in header.metadata and ours not in family.without:
            config[ours] = header.get(key, kinds)
    for token in ("bos", "eos"):
        if f"tokenizer.ggml.{token}_token_id" in header.metadata:
            config[f"{token}_token_id"] = header.get(f"tokenizer.ggml.{token}_token_id", int)
    return config | dict(family.config) | dict(family.derived(config))


def tensor_names(header: GGUFHeader, config: Mapping[str, Any]) -> dict[str, Named]:
    """How the reference library has each tensor.

    Raises: WeightsError: a tensor that the architecture does not have.
    """
    family = _architecture(header)
    lines = (line.split() for line in f"{NAMES}\n{family.names}".splitlines() if line.strip())
    names = dict(line for line in lines)
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config.get("num_key_value_heads")}
    named: dict[str, Named] = {}
    for theirs in header.tensors:
        match = re.fullmatch(r"(?:blk\.(\d+)\.)?([\w.]+?)\.(weight|bias)", theirs)
        if match and match[2] in IGNORED:
            continue
        if match is None or match[2] not in names:
            raise WeightsError(
                f"{header.path}: tensor {safe_repr(theirs)} fits nowhere in a {header.architecture!r} model"
            )
        block, stem, leaf = match.groups()
        prefix = "" if block is None else f"model.layers.{block}."
        change: Callable[[Tensor], Tensor] | None = None
        if family.permuted and stem in heads:
            change = _Unpermuted(heads[stem] or config["num_attention_heads"])
        elif family.shifted and stem.endswith("_norm"):
            change = _minus_one
        named[theirs] = Named(f"{prefix}{names[stem]}.{leaf}", change)
    return named


@dataclass(frozen=True)
class _Unpermuted:
    """Rows of q or k as halves of a head, where the file has pairs: row 2 i + j of a head is row j · E/2 + i."""

    heads: int

    def __call__(self, x: Tensor) -> Tensor:
        pairs: Tensor = x.unflatten(0, (self.heads, -1, 2))
        return pairs.transpose(1, 2).reshape(x.shape)


def _minus_one(x: Tensor) -> Tensor:
    return x - 1


def check_architecture(path: Path, name: object) -> None:
    """Raises: UnsupportedError: an architecture that is not read from GGUF files."""
    if not isinstance(name, str) or name not in ARCHITECTURES:
        raise UnsupportedError(
            f"{path}: the architecture is {safe_repr(name)}; read from GGUF files: {', '.join(ARCHITECTURES)}"
        )


def _architecture(header: GGUFHeader) -> Architecture:
    check_architecture(header.path, header.metadata.get("general.architecture"))
    return ARCHITECTURES[header.architecture]
