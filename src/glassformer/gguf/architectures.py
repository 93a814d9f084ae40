"""Architectures of GGUF files: their metadata as a config, and their tensor names as the reference library's.

A line a key, a line a tensor; families that differ in a few lines say these. Files are read and written by these lines.
Source of names: ggml-org/llama.cpp, gguf-py; of layouts: its conversion, which permutes the rows of Llama's q and k,
and adds 1 to Gemma's norms.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from glassformer.errors import UnsupportedError, WeightsError
from glassformer.files import safe_repr
from glassformer.gguf.header import GGUFHeader
from glassformer.gguf.scaled_positions import ARCHITECTURES as SCALED
from glassformer.gguf.scaled_positions import scaling_of
from glassformer.gguf.weights import Named, TensorLayout

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
    "layer_norm_epsilon": ("attention.layer_norm_epsilon", (float,)),
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
GPT2 = """
token_embd       transformer.wte
position_embd    transformer.wpe
output_norm      transformer.ln_f
output           lm_head
attn_norm        ln_1
attn_qkv         attn.c_attn
attn_output      attn.c_proj
ffn_norm         ln_2
ffn_up           mlp.c_fc
ffn_down         mlp.c_proj
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
    names: lines that differ from those of `base`
    blocks: where the reference library has the blocks
    renamed: keys of `SIZES` that this family's config has under other names
    config: keys that are always so
    permuted: rows of q and k are those of neighbouring pairs
    shifted: norms are stored with 1 added
    transposed: matrices that the reference library stores the other way round
    without: keys of `OPTIONAL` that this family's config does not have
    biases: keys that say whether layers have biases → the tensor that tells it
    windowed: the runtime knows the sliding window of this family
    derived: keys that no file states, from those that it does
    """

    model_type: str
    class_name: str
    names: str = ""
    base: str = NAMES
    blocks: str = "model.layers"
    renamed: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    permuted: bool = False
    shifted: bool = False
    transposed: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    biases: Mapping[str, str] = field(default_factory=dict)
    windowed: bool = False
    derived: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda config: {}

    def table(self) -> dict[str, str]:
        """Stem of a tensor's name in the file → module of the reference library, within its block."""
        lines = (line.split() for line in f"{self.base}\n{self.names}".splitlines() if line.strip())
        return dict(line for line in lines)


def _gemma_scale(config: Mapping[str, Any]) -> dict[str, Any]:
    """Divisor (before the root) of the scores: the head's width, but width over heads in the 27B models.

    Those are the ones with heads of 128 (Gemma 2 27B: 4,608 / 32 = 144; Gemma 3 27B: 5,376 / 32 = 168).
    """
    if config.get("head_dim") == 128:
        return {"query_pre_attn_scalar": config["hidden_size"] // config["num_attention_heads"]}
    return {"query_pre_attn_scalar": config.get("head_dim", 256)}


GEMMA = {"hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": True}
ARCHITECTURES: Mapping[str, Architecture] = {
    "llama": Architecture(
        model_type="llama",
        class_name="LlamaForCausalLM",
        permuted=True,
        biases={"attention_bias": "blk.0.attn_output.bias", "mlp_bias": "blk.0.ffn_down.bias"},
    ),
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
    "gpt2": Architecture(
        model_type="gpt2",
        class_name="GPT2LMHeadModel",
        base=GPT2,
        blocks="transformer.h",
        renamed={"intermediate_size": "n_inner"},
        transposed=("attn_qkv", "attn_output", "ffn_up", "ffn_down"),
        without=("num_key_value_heads", "head_dim", "rope_theta"),
    ),
    "gemma": Architecture(model_type="gemma", class_name="GemmaForCausalLM", config=GEMMA, shifted=True),
    "gemma2": Architecture(
        model_type="gemma2",
        class_name="Gemma2ForCausalLM",
        names=FOUR_NORMS,
        config=GEMMA,
        shifted=True,
        windowed=True,
        derived=_gemma_scale,
    ),
    "gemma3": Architecture(
        model_type="gemma3_text",
        class_name="Gemma3ForCausalLM",
        names=FOUR_NORMS + QK_NORMS,
        config=GEMMA,
        shifted=True,
        windowed=True,
        derived=_gemma_scale,
    ),
}


def config_of(header: GGUFHeader, factors: Tensor | None = None) -> dict[str, Any]:
    """The config.json of a GGUF file.

    Args:
        factors: of its scaled positions
    Raises: UnsupportedError: another architecture or scaling of positions. ConfigError: metadata that is missing.
    """
    family = _architecture(header)
    scaling = header.metadata.get(f"{header.architecture}.rope.scaling.type", "none")
    if scaling != "none" or "rope_factors_long.weight" in header.tensors:
        raise _unread_scaling(header, scaling)
    tokens = header.get("tokenizer.ggml.tokens", list)
    config = {
        "model_type": family.model_type,
        "architectures": [family.class_name],
        "vocab_size": len(tokens),
        "tie_word_embeddings": "output.weight" not in header.tensors,
        **{family.renamed.get(ours, ours): header.get(f"{{arch}}.{theirs}", int) for ours, theirs in SIZES.items()},
    }
    for ours, (theirs, kinds) in OPTIONAL.items():
        key = f"{header.architecture}.{theirs}"
        if key in header.metadata and ours not in family.without:
            config[ours] = header.get(key, kinds)
    if factors is not None:
        config["rope_scaling"] = scaling_of(factors, config)
        if config["rope_scaling"] is None or header.architecture not in SCALED:
            raise _unread_scaling(header, "by factors that are not those of Llama 3.1")
    config |= {key: True for key, tensor in family.biases.items() if tensor in header.tensors}
    for token in ("bos", "eos"):
        if f"tokenizer.ggml.{token}_token_id" in header.metadata:
            config[f"{token}_token_id"] = header.get(f"tokenizer.ggml.{token}_token_id", int)
    turn = header.metadata.get("tokenizer.ggml.eot_token_id")
    if isinstance(turn, int) and turn != config.get("eos_token_id", turn):
        config["eos_token_id"] = [config["eos_token_id"], turn]  # a text ends, and so does a turn of a chat
    return config | dict(family.config) | dict(family.derived(config))


def _unread_scaling(header: GGUFHeader, scaling: object) -> UnsupportedError:
    return UnsupportedError(
        f"{header.path}: positions are scaled ({safe_repr(scaling)}), which is not read from GGUF files; load the "
        "model from its folder in the Hugging Face layout"
    )


def metadata_of(architecture: str, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of a GGUF file, the inverse of `config_of`; sizes: keys of `SIZES` and `OPTIONAL`, None = unset."""
    known = {**SIZES, **{ours: theirs for ours, (theirs, _) in OPTIONAL.items()}}
    stated = {known[ours]: value for ours, value in sizes.items() if value is not None}
    return {
        "general.architecture": architecture,
        **{f"{architecture}.{theirs}": value for theirs, value in stated.items()},
    }


def tensor_names(header: GGUFHeader, config: Mapping[str, Any]) -> dict[str, Named]:
    """How the reference library has each tensor.

    Raises: WeightsError: a tensor that the architecture does not have.
    """
    family = _architecture(header)
    names = family.table()
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
        prefix = "" if block is None else f"{family.blocks}.{block}."
        named[theirs] = Named(
            f"{prefix}{names[stem]}.{leaf}",
            _layout(family, stem, config),
            transposed=stem in family.transposed and leaf == "weight",
        )
    return named


def file_names(architecture: str, tensors: Iterable[str], config: Mapping[str, Any]) -> dict[str, tuple[str, Named]]:
    """Where a GGUF file has each tensor of the reference library: the inverse of `tensor_names`.

    Returns: name → name in the file, and how its numbers differ.
    Raises: UnsupportedError: a tensor that has no place in such a file.
    """
    family = ARCHITECTURES[architecture]
    stems = {ours: theirs for theirs, ours in family.table().items()}
    places: dict[str, tuple[str, Named]] = {}
    for name in tensors:
        match = re.fullmatch(rf"(?:{re.escape(family.blocks)}\.(\d+)\.)?([\w.]+?)\.(weight|bias)", name)
        if match is None or match[2] not in stems:
            raise UnsupportedError(
                f"tensor {safe_repr(name)} has no place in a GGUF file of architecture {architecture!r}"
            )
        block, stem, leaf = match[1], stems[match[2]], match[3]
        named = Named(name, _layout(family, stem, config), transposed=stem in family.transposed and leaf == "weight")
        places[name] = f"{stem}.{leaf}" if block is None else f"blk.{block}.{stem}.{leaf}", named
    return places


def _layout(family: Architecture, stem: str, config: Mapping[str, Any]) -> TensorLayout | None:
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config.get("num_key_value_heads")}
    if family.permuted and stem in heads:
        return _Paired(heads[stem] or config["num_attention_heads"])
    return _Shifted() if family.shifted and stem.endswith("_norm") else None


@dataclass(frozen=True)
class _Paired:
    """Rows of q or k as halves of a head, where the file has pairs: row 2 i + j of a head is row j · E/2 + i."""

    heads: int

    def read(self, x: Tensor) -> Tensor:
        pairs: Tensor = x.unflatten(0, (self.heads, -1, 2))
        return pairs.transpose(1, 2).reshape(x.shape)

    def written(self, x: Tensor) -> Tensor:
        halves: Tensor = x.unflatten(0, (self.heads, 2, -1))
        return halves.transpose(1, 2).reshape(x.shape)


class _Shifted:
    """Gains of a norm that the file has with 1 added."""

    def read(self, x: Tensor) -> Tensor:
        return x - 1

    def written(self, x: Tensor) -> Tensor:
        return x + 1


def check_architecture(path: Path, name: object) -> None:
    """Raises: UnsupportedError: an architecture that is not read from GGUF files."""
    if not isinstance(name, str) or name not in ARCHITECTURES:
        raise UnsupportedError(
            f"{path}: the architecture is {safe_repr(name)}; read from GGUF files: {', '.join(ARCHITECTURES)}"
        )


def _architecture(header: GGUFHeader) -> Architecture:
    check_architecture(header.path, header.metadata.get("general.architecture"))
    return ARCHITECTURES[header.architecture]
