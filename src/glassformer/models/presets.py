"""Presets: configs of published models by name, without weights.

    PRESETS["gpt3-175b"].config → the same network as a folder's config.json, to be counted or trained from scratch

A preset is data: the family's own `config.json`, the paper with its sizes, and, where that paper states it, the number
of training tokens. The head is that of the published parameter count: a language-model head for decoders, the body
alone for the others.

Not included, since their paper contradicts itself (Brown et al. 2020, table 2.1):
    GPT-3 XL (1.3B)    24 heads of 128 are 3,072, the width is 2,048
    GPT-3 13B          40 heads of 128 are 5,120, the width is 5,140
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from glassformer.models.transformer import PAPER_BASE


@dataclass(frozen=True, kw_only=True, slots=True)
class Preset:
    """A published model.

    config: as in its config.json
    source: of the sizes
    training_tokens: where the paper states them
    """

    config: Mapping[str, Any]
    source: str
    training_tokens: float | None = None


def _openai_gpt(layers: int, width: int, heads: int) -> dict[str, Any]:
    return {
        "model_type": "openai-gpt", "architectures": ["OpenAIGPTLMHeadModel"], "vocab_size": 40478,
        "n_positions": 512, "n_embd": width, "n_layer": layers, "n_head": heads,
    }  # fmt: skip


def _gpt2(layers: int, width: int, heads: int, positions: int = 1024) -> dict[str, Any]:
    return {
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 50257,
        "n_positions": positions, "n_embd": width, "n_layer": layers, "n_head": heads,
    }  # fmt: skip


def _bert(layers: int, width: int, heads: int, vocabulary: int) -> dict[str, Any]:
    return {
        "model_type": "bert", "architectures": ["BertModel"], "vocab_size": vocabulary,
        "max_position_embeddings": 512, "hidden_size": width, "intermediate_size": 4 * width,
        "num_hidden_layers": layers, "num_attention_heads": heads,
    }  # fmt: skip


def _roberta(layers: int, width: int, heads: int, vocabulary: int, family: str, name: str) -> dict[str, Any]:
    return {
        **_bert(layers, width, heads, vocabulary), "model_type": family, "architectures": [name],
        "max_position_embeddings": 514, "type_vocab_size": 1, "pad_token_id": 1, "layer_norm_eps": 1e-5,
    }  # fmt: skip


def _llama(
    layers: int,
    width: int,
    heads: int,
    kv_heads: int,
    hidden: int,
    vocabulary: int,
    positions: int,
    **more: Any,
) -> dict[str, Any]:
    return {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": vocabulary,
        "max_position_embeddings": positions, "hidden_size": width, "intermediate_size": hidden,
        "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads, **more,
    }  # fmt: skip


def _modernbert(layers: int, width: int, heads: int, hidden: int) -> dict[str, Any]:
    return {
        "model_type": "modernbert", "architectures": ["ModernBertForMaskedLM"], "vocab_size": 50368,
        "max_position_embeddings": 8192, "hidden_size": width, "intermediate_size": hidden,
        "num_hidden_layers": layers, "num_attention_heads": heads,
    }  # fmt: skip


def _mixtral(**config: Any) -> dict[str, Any]:
    return _llama(
        **config, model_type="mixtral", architectures=["MixtralForCausalLM"], rope_theta=1e6,
        num_local_experts=8, num_experts_per_tok=2,
    )  # fmt: skip


def _phi(layers: int, width: int, rotary_share: float) -> dict[str, Any]:
    return {
        "model_type": "phi", "architectures": ["PhiForCausalLM"], "vocab_size": 51200,
        "max_position_embeddings": 2048, "hidden_size": width, "intermediate_size": 4 * width,
        "num_hidden_layers": layers, "num_attention_heads": 32, "partial_rotary_factor": rotary_share,
    }  # fmt: skip


def _qwen2(
    layers: int, width: int, heads: int, kv_heads: int, hidden: int, vocabulary: int, *, tied: bool
) -> dict[str, Any]:
    return _llama(
        layers, width, heads, kv_heads, hidden, vocabulary, 32_768, tie_word_embeddings=tied,
        model_type="qwen2", architectures=["Qwen2ForCausalLM"], rope_theta=1e6, rms_norm_eps=1e-6,
    )  # fmt: skip


def _bart(family: str, name: str, layers: int, width: int, heads: int, vocabulary: int, **more: Any) -> dict[str, Any]:
    sizes = {
        f"{stream}_{key}": value
        for stream in ("encoder", "decoder")
        for key, value in (("layers", layers), ("attention_heads", heads), ("ffn_dim", 4 * width))
    }
    return {
        "model_type": family, "architectures": [name], "is_encoder_decoder": True, "vocab_size": vocabulary,
        "max_position_embeddings": 1024, "d_model": width, **sizes, **more,
    }  # fmt: skip


def _t5(layers: int, width: int, heads: int, head_width: int, hidden: int) -> dict[str, Any]:
    return {
        "model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "is_encoder_decoder": True,
        "vocab_size": 32128, "d_model": width, "num_layers": layers, "num_heads": heads, "d_kv": head_width,
        "d_ff": hidden,
    }  # fmt: skip


def _whisper(layers: int, width: int, heads: int) -> dict[str, Any]:
    config = _bart("whisper", "WhisperForConditionalGeneration", layers, width, heads, 51865)
    del config["max_position_embeddings"]
    return {**config, "num_mel_bins": 80, "max_source_positions": 1500, "max_target_positions": 448}


def _vit(layers: int, width: int, heads: int, patch: int) -> dict[str, Any]:
    return {
        "model_type": "vit", "architectures": ["ViTForImageClassification"], "image_size": 224, "patch_size": patch,
        "hidden_size": width, "intermediate_size": 4 * width, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_labels": 1000,
    }  # fmt: skip


_LLAMA_31_ROPE = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}  # fmt: skip
_LLAMA_3: dict[str, Any] = {"rope_theta": 500_000.0, "rms_norm_eps": 1e-5}
_LLAMA_31: dict[str, Any] = {**_LLAMA_3, "rope_scaling": _LLAMA_31_ROPE}

_GPT1 = "Radford et al. 2018, section 4.1; vocabulary: the released checkpoint"
_GPT2 = "Radford et al. 2019, table 2; heads: the released checkpoints"
_GPT3 = "Brown et al. 2020, table 2.1 (its sparse attention, in every other layer, is counted as dense)"
_BERT = "Devlin et al. 2019, section 3; vocabulary: the released checkpoints"
_ROBERTA = "Liu et al. 2019, section 3 and table 9"
_XLMR = "Conneau et al. 2020, section 5.1 and appendix"
_LLAMA1 = "Touvron et al. 2023a, table 2; feed-forward width: the released checkpoints"
_LLAMA2 = "Touvron et al. 2023b, table 1; the other sizes: the released checkpoints"
_LLAMA3 = "Grattafiori et al. 2024, table 3; tokens and context of the first release: its model card"
_LLAMA31 = "Grattafiori et al. 2024, table 3 and section 3.2"
_MODERNBERT = "Warner et al. 2024, sections 2.1 and 2.2; widths: the released checkpoints"
_QWEN2 = "Yang et al. 2024, table 1"
_T5 = "Raffel et al. 2020, section 3.7; vocabulary: the released checkpoints"
_WHISPER = "Radford et al. 2022, table 1; vocabulary: the released multilingual checkpoints"
_VIT = "Dosovitskiy et al. 2021, table 1; images of 224 × 224, the 1,000 labels of ImageNet"

PRESETS: dict[str, Preset] = {
    "transformer-base": Preset(config=PAPER_BASE, source="Vaswani et al. 2017, table 3"),
    "transformer-big": Preset(
        config={**PAPER_BASE, "d_model": 1024, "num_heads": 16, "d_ff": 4096, "dropout": 0.3},
        source="Vaswani et al. 2017, table 3",
    ),
    "openai-gpt": Preset(config=_openai_gpt(12, 768, 12), source=_GPT1),
    "gpt2": Preset(config=_gpt2(12, 768, 12), source=_GPT2),
    "gpt2-medium": Preset(config=_gpt2(24, 1024, 16), source=_GPT2),
    "gpt2-large": Preset(config=_gpt2(36, 1280, 20), source=_GPT2),
    "gpt2-xl": Preset(config=_gpt2(48, 1600, 25), source=_GPT2),
    "gpt3-125m": Preset(config=_gpt2(12, 768, 12, 2048), source=_GPT3, training_tokens=300e9),
    "gpt3-350m": Preset(config=_gpt2(24, 1024, 16, 2048), source=_GPT3, training_tokens=300e9),
    "gpt3-760m": Preset(config=_gpt2(24, 1536, 16, 2048), source=_GPT3, training_tokens=300e9),
    "gpt3-2.7b": Preset(config=_gpt2(32, 2560, 32, 2048), source=_GPT3, training_tokens=300e9),
    "gpt3-6.7b": Preset(config=_gpt2(32, 4096, 32, 2048), source=_GPT3, training_tokens=300e9),
    "gpt3-175b": Preset(config=_gpt2(96, 12288, 96, 2048), source=_GPT3, training_tokens=300e9),
    "bert-base-uncased": Preset(config=_bert(12, 768, 12, 30522), source=_BERT),
    "bert-base-cased": Preset(config=_bert(12, 768, 12, 28996), source=_BERT),
    "bert-large-uncased": Preset(config=_bert(24, 1024, 16, 30522), source=_BERT),
    "bert-large-cased": Preset(config=_bert(24, 1024, 16, 28996), source=_BERT),
    "distilbert-base-uncased": Preset(
        config={
            "model_type": "distilbert", "architectures": ["DistilBertModel"], "vocab_size": 30522,
            "max_position_embeddings": 512, "dim": 768, "hidden_dim": 3072, "n_layers": 6, "n_heads": 12,
        },
        source="Sanh et al. 2019, section 3",
    ),
    "roberta-base": Preset(config=_roberta(12, 768, 12, 50265, "roberta", "RobertaModel"), source=_ROBERTA),
    "roberta-large": Preset(config=_roberta(24, 1024, 16, 50265, "roberta", "RobertaModel"), source=_ROBERTA),
    "xlm-roberta-base": Preset(
        config=_roberta(12, 768, 12, 250002, "xlm-roberta", "XLMRobertaModel"), source=_XLMR
    ),
    "xlm-roberta-large": Preset(
        config=_roberta(24, 1024, 16, 250002, "xlm-roberta", "XLMRobertaModel"), source=_XLMR
    ),
    "llama-7b": Preset(config=_llama(32, 4096, 32, 32, 11008, 32000, 2048), source=_LLAMA1, training_tokens=1.0e12),
    "llama-13b": Preset(config=_llama(40, 5120, 40, 40, 13824, 32000, 2048), source=_LLAMA1, training_tokens=1.0e12),
    "llama-33b": Preset(config=_llama(60, 6656, 52, 52, 17920, 32000, 2048), source=_LLAMA1, training_tokens=1.4e12),
    "llama-65b": Preset(config=_llama(80, 8192, 64, 64, 22016, 32000, 2048), source=_LLAMA1, training_tokens=1.4e12),
    "llama2-7b": Preset(config=_llama(32, 4096, 32, 32, 11008, 32000, 4096), source=_LLAMA2, training_tokens=2.0e12),
    "llama2-13b": Preset(config=_llama(40, 5120, 40, 40, 13824, 32000, 4096), source=_LLAMA2, training_tokens=2.0e12),
    "llama2-70b": Preset(config=_llama(80, 8192, 64, 8, 28672, 32000, 4096), source=_LLAMA2, training_tokens=2.0e12),
    "llama3-8b": Preset(
        config=_llama(32, 4096, 32, 8, 14336, 128256, 8192, **_LLAMA_3), source=_LLAMA3, training_tokens=15e12
    ),
    "llama3-70b": Preset(
        config=_llama(80, 8192, 64, 8, 28672, 128256, 8192, **_LLAMA_3), source=_LLAMA3, training_tokens=15e12
    ),
    "llama3.1-8b": Preset(
        config=_llama(32, 4096, 32, 8, 14336, 128256, 131_072, **_LLAMA_31), source=_LLAMA31, training_tokens=15e12
    ),
    "llama3.1-70b": Preset(
        config=_llama(80, 8192, 64, 8, 28672, 128256, 131_072, **_LLAMA_31), source=_LLAMA31, training_tokens=15e12
    ),
    "llama3.1-405b": Preset(
        config=_llama(126, 16384, 128, 8, 53248, 128256, 131_072, **_LLAMA_31), source=_LLAMA31, training_tokens=15.6e12
    ),
    "mistral-7b": Preset(
        config=_llama(
            32, 4096, 32, 8, 14336, 32000, 8192,
            model_type="mistral", architectures=["MistralForCausalLM"], sliding_window=4096, rms_norm_eps=1e-5,
        ),
        source="Jiang et al. 2023, table 1",
    ),
    "modernbert-base": Preset(config=_modernbert(22, 768, 12, 1152), source=_MODERNBERT, training_tokens=2.0e12),
    "modernbert-large": Preset(config=_modernbert(28, 1024, 16, 2624), source=_MODERNBERT, training_tokens=2.0e12),
    "nomic-embed-text": Preset(
        config={
            "model_type": "nomic_bert", "architectures": ["NomicBertModel"], "vocab_size": 30528,
            "max_position_embeddings": 2048, "hidden_size": 768, "intermediate_size": 3072,
            "num_hidden_layers": 12, "num_attention_heads": 12,
        },
        source="Nussbaum et al. 2024, section 3.1; sizes: the released checkpoint",
    ),
    "mixtral-8x7b": Preset(
        config=_mixtral(
            layers=32, width=4096, heads=32, kv_heads=8, hidden=14336, vocabulary=32000, positions=32_768
        ),
        source="Jiang et al. 2024, table 1",
    ),
    "mixtral-8x22b": Preset(
        config=_mixtral(
            layers=56, width=6144, heads=48, kv_heads=8, hidden=16384, vocabulary=32000, positions=65_536
        ),
        source="the released checkpoint (version 0.1)",
    ),
    "phi-1": Preset(config=_phi(24, 2048, 0.5), source="Gunasekar et al. 2023, section 2.3", training_tokens=50e9),
    "phi-1.5": Preset(config=_phi(24, 2048, 0.5), source="Li et al. 2023, section 2", training_tokens=150e9),
    "phi-2": Preset(config=_phi(32, 2560, 0.4), source="the released checkpoint and its card", training_tokens=1.4e12),
    "phi3-mini": Preset(
        config=_llama(
            32, 3072, 32, 32, 8192, 32064, 4096,
            model_type="phi3", architectures=["Phi3ForCausalLM"], sliding_window=2047, rms_norm_eps=1e-5,
        ),
        source="Abdin et al. 2024, section 2; window and vocabulary: the released checkpoint",
        training_tokens=3.3e12,
    ),
    "qwen2-0.5b": Preset(
        config=_qwen2(24, 896, 14, 2, 4864, 151936, tied=True), source=_QWEN2, training_tokens=12e12
    ),
    "qwen2-1.5b": Preset(
        config=_qwen2(28, 1536, 12, 2, 8960, 151936, tied=True), source=_QWEN2, training_tokens=7e12
    ),
    "qwen2-7b": Preset(
        config=_qwen2(28, 3584, 28, 4, 18944, 152064, tied=False), source=_QWEN2, training_tokens=7e12
    ),
    "qwen2-72b": Preset(
        config=_qwen2(80, 8192, 64, 8, 29568, 152064, tied=False), source=_QWEN2, training_tokens=7e12
    ),
    "bart-base": Preset(
        config=_bart("bart", "BartModel", 6, 768, 12, 50265), source="Lewis et al. 2020, section 2.1"
    ),
    "bart-large": Preset(
        config=_bart("bart", "BartModel", 12, 1024, 16, 50265), source="Lewis et al. 2020, section 2.1"
    ),
    "pegasus-large": Preset(
        config=_bart(
            "pegasus", "PegasusModel", 16, 1024, 16, 96103, activation_function="relu", scale_embedding=True
        ),
        source="Zhang et al. 2020, section 5; vocabulary: the released checkpoint",
    ),
    "t5-small": Preset(config=_t5(6, 512, 8, 64, 2048), source=_T5, training_tokens=1e12),
    "t5-base": Preset(config=_t5(12, 768, 12, 64, 3072), source=_T5, training_tokens=1e12),
    "t5-large": Preset(config=_t5(24, 1024, 16, 64, 4096), source=_T5, training_tokens=1e12),
    "t5-3b": Preset(config=_t5(24, 1024, 32, 128, 16384), source=_T5, training_tokens=1e12),
    "t5-11b": Preset(config=_t5(24, 1024, 128, 128, 65536), source=_T5, training_tokens=1e12),
    "whisper-tiny": Preset(config=_whisper(4, 384, 6), source=_WHISPER),
    "whisper-base": Preset(config=_whisper(6, 512, 8), source=_WHISPER),
    "whisper-small": Preset(config=_whisper(12, 768, 12), source=_WHISPER),
    "whisper-medium": Preset(config=_whisper(24, 1024, 16), source=_WHISPER),
    "whisper-large": Preset(config=_whisper(32, 1280, 20), source=_WHISPER),
    "vit-base-patch16": Preset(config=_vit(12, 768, 12, 16), source=_VIT),
    "vit-large-patch16": Preset(config=_vit(24, 1024, 16, 16), source=_VIT),
    "vit-huge-patch14": Preset(config=_vit(32, 1280, 16, 14), source=_VIT),
}  # fmt: skip
"""Name → preset. Vocabulary sizes are those of the checkpoints, which some papers round or count without padding."""
