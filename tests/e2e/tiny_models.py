"""Model folders small enough to make, damage and load thousands of times, one for each family."""

from __future__ import annotations

import json
import math
import wave
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
from PIL import Image
from tokenizers import models, pre_tokenizers, processors

from glassformer.model import Model
from glassformer.models import FAMILIES
from tests.senses import network_of

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
SOUND = {
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "conv_dim": [4, 6],
    "conv_kernel": [10, 3],
    "conv_stride": [20, 2],
}
ENCODER = {
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 16,
}
SMALL: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("hubert", "wav2vec2"), SOUND),
    **dict.fromkeys(("bart", "marian", "mbart", "pegasus"), PAIR),
    **dict.fromkeys(("bert", "dpr"), ENCODER),
    "big_bird": ENCODER,
    "clip": {
        "projection_dim": 6,
        "text_config": {
            "vocab_size": 20,
            "hidden_size": 8,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 12,
            "max_position_embeddings": 16,
            "eos_token_id": 2,
        },
        "vision_config": {
            "hidden_size": 12,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 8,
            "image_size": 8,
            "patch_size": 4,
        },
    },
    "clip_text_model": {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 12,
        "max_position_embeddings": 16,
    },
    "clip_vision_model": {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 12,
        "image_size": 8,
    },
    "distilbert": {"dim": 8, "n_layers": 1, "n_heads": 2, "hidden_dim": 12, "max_position_embeddings": 16},
    "gpt2": {"n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 16, "n_inner": 12},
    "imagegpt": {"n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 16, "n_inner": 12},
    "layoutlm": {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 12,
        "max_position_embeddings": 16,
        "max_2d_position_embeddings": 8,
    },
    "lxmert": {
        "hidden_size": 8,
        "num_attention_heads": 2,
        "intermediate_size": 12,
        "max_position_embeddings": 16,
        "l_layers": 1,
        "r_layers": 1,
        "x_layers": 1,
        "visual_feat_dim": 6,
    },
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
    "stablelm": {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "intermediate_size": 12,
        "partial_rotary_factor": 0.5,  # a quarter of four numbers cannot turn
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
    "t5": {
        "d_model": 8,
        "d_kv": 3,
        "d_ff": 12,
        "num_layers": 1,
        "num_decoder_layers": 1,
        "num_heads": 2,
    },
    "tapas": ENCODER,
    "transformer": {
        "d_model": 8,
        "num_heads": 2,
        "d_ff": 12,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "max_positions": 16,
    },
    "vit": {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 12,
        "image_size": 8,
    },
    "whisper": {
        **{key: value for key, value in PAIR.items() if key != "max_position_embeddings"},
        "num_mel_bins": 4,
        "max_source_positions": 6,
        "max_target_positions": 64,
    },
    "xlm": {"emb_dim": 8, "n_layers": 1, "n_heads": 2, "max_position_embeddings": 16},
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
    tiny = FAMILIES[family].tiny
    small = SMALL.get(family, SMALL["llama"] if "num_key_value_heads" in tiny else ENCODER)
    return {**tiny, "vocab_size": 20, **small, **changes}


def main_task(family: str) -> str:
    """The task that shows a family best."""
    tasks = [task for task in FAMILIES[family].tasks if task not in FAMILIES[family].requires]
    best = ("translation", "text-generation", "automatic-speech-recognition")
    return next((task for task in best if task in tasks), tasks[0])


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
    write_processor(folder, family, model.config)
    return folder


TEXTS = ("time flies like an arrow", "fruit flies")


def write_processor(folder: Path, family: str, config: Mapping[str, Any]) -> None:
    """How a family of pictures or sounds opens them, and a small one to open."""
    opens, seen = FAMILIES[family].modality, {**config, **config.get("vision_config", {})}
    if opens == "picture":
        side = seen["image_size"] if "image_size" in seen else math.isqrt(seen["n_positions"])
        described: dict[str, Any] = {
            "image_processor_type": "ViTImageProcessor",
            "size": {"height": side, "width": side},
        }
        if family == "imagegpt":
            described |= {
                "image_processor_type": "ImageGPTImageProcessor",
                "clusters": [[i / 8 - 1] * 3 for i in range(16)],
            }
        pixels = np.random.default_rng(0).integers(0, 255, (20, 30, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "picture.png")
    elif opens == "sound":
        described = {"feature_extractor_type": "Wav2Vec2FeatureExtractor", "feature_size": 1}
        if "num_mel_bins" in config:  # as many frames as the network reads, at the lowest cost
            described = {
                "feature_extractor_type": "WhisperFeatureExtractor",
                "feature_size": config["num_mel_bins"],
                "sampling_rate": 1_000 * 2 * config["max_source_positions"],
                "hop_length": 1_000,
                "chunk_length": 1,
            }
        samples = np.random.default_rng(0).integers(-9_000, 9_000, 2_400, dtype=np.int16)
        with wave.open(str(folder / "sound.wav"), "wb") as file:
            file.setparams((1, 2, 16_000, 0, "NONE", "not compressed"))
            file.writeframes(samples.tobytes())
    else:
        return
    (folder / "preprocessor_config.json").write_text(json.dumps(described))


def looked_at(folder: Path, family: str, texts: tuple[str, ...] = TEXTS) -> tuple[str, ...]:
    """What `model.inspect` takes for a family: texts, or the file of a picture or a sound, and a text with it."""
    files = {"picture": "picture.png", "sound": "sound.wav"}
    opens = FAMILIES[family].modality
    if opens is None:
        return texts
    reads = network_of(small_config(family)).READS
    beside = "decoder_input_ids" in reads or {"input_ids", "pixel_values"} <= set(reads)
    return (str(folder / files[opens]), *texts[:1] * beside)


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
