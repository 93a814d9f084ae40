"""Model folders small enough to make, damage and load thousands of times, one for each family."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tokenizers
import torch
from tokenizers import models, pre_tokenizers, processors

from glassformer.model import Model
from glassformer.models import FAMILIES

WORDS = "[PAD] [CLS] [SEP] [UNK] time flies like an arrow fruit a banana .".split()

PAIR = {
    "d_model": 8,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 12,
    "decoder_ffn_dim": 12,
    "max_position_embeddings": 64,
}
SMALL: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("bart", "marian", "mbart", "pegasus"), PAIR),
    "bert": {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 12,
        "max_position_embeddings": 16,
    },
    "distilbert": {"dim": 8, "n_layers": 1, "n_heads": 2, "hidden_dim": 12, "max_position_embeddings": 16},
    "gpt2": {"n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 16, "n_inner": 12},
    "llama": {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "intermediate_size": 12,
    },
    "mistral": {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "intermediate_size": 12,
    },
    "mixtral": {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "intermediate_size": 12,
        "num_local_experts": 3,
    },
    "openai-gpt": {"n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 16},
    "phi": {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 12,
    },
    "phi3": {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "intermediate_size": 12,
        "partial_rotary_factor": 0.5,
    },
    "qwen2": {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "intermediate_size": 12,
    },
    "roberta": {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 12,
        "max_position_embeddings": 17,
    },
    "transformer": {
        "d_model": 8,
        "num_heads": 2,
        "d_ff": 12,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "max_positions": 16,
    },
    "xlm-roberta": {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 12,
        "max_position_embeddings": 17,
    },
}
"""Smaller still than each family's own tiny config."""


def small_config(family: str, **changes: Any) -> dict[str, Any]:
    """A config of `family` with few, short layers and a vocabulary of 20."""
    return {**FAMILIES[family].tiny, "vocab_size": 20, **SMALL.get(family, {}), **changes}


def main_task(family: str) -> str:
    """The task that shows a family best."""
    tasks = FAMILIES[family].tasks
    return next((task for task in ("text-generation", "translation") if task in tasks), tasks[0])


def make_folder(
    folder: Path, family: str, *, task: str | None = None, max_shard_bytes: int = 10**9, **changes: Any
) -> Path:
    """Write a whole model folder: config, weights (the same at every run) and a tokenizer of whole words."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Model.from_config(small_config(family, **changes), task=task or main_task(family))
    model.save_pretrained(folder, max_shard_bytes=max_shard_bytes)
    word_tokenizer(framed=family == "bert").save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"pad_token": "[PAD]"}')
    return folder


def word_tokenizer(*, framed: bool = True, words: list[str] = WORDS) -> tokenizers.Tokenizer:
    """One id a word; framed by [CLS] and [SEP] as BERT wants it."""
    engine = tokenizers.Tokenizer(
        models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]")
    )
    engine.pre_tokenizer = pre_tokenizers.Whitespace()
    if framed:
        engine.post_processor = processors.TemplateProcessing(
            single=["[CLS]", "$A", "[SEP]"], special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
        )
    engine.add_special_tokens(WORDS[:4])
    return engine
