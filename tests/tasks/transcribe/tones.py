"""Words of two tones, and tiny recognisers that can learn them: a Whisper of two seconds, and one of letters (CTC)."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from glassformer.model import Model
from glassformer.models import FAMILIES
from glassformer.models.whisper.foreign_names import preprocessor_config
from glassformer.ngram.kneser_ney import train_ngram
from glassformer.ngram.model import NgramModel
from glassformer.runs.config import RunConfig, parse_config
from glassformer.tasks.transcribe.recognisers import ensure_processor
from glassformer.text.train import train_tokenizer
from glassformer.training.state import seed_all

RATE_HZ = 16_000
HERTZ = {"a": 400, "b": 2_500}
WORDS = ("aa", "ab", "ba", "bb")
SPECIAL = "endoftext startoftranscript en uk translate transcribe startofprev nospeech notimestamps".split()
WHISPER = {
    **FAMILIES["whisper"].tiny,
    **{"model_type": "whisper", "num_mel_bins": 16, "max_source_positions": 100, "max_target_positions": 24},
    **{"d_model": 32, "encoder_attention_heads": 2, "decoder_attention_heads": 2, "decoder_start_token_id": 257},
    **{"pad_token_id": 256, "eos_token_id": 256, "bos_token_id": 256},
}
LETTERS = {
    **{"model_type": "wav2vec2", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2},
    **{"intermediate_size": 48, "conv_dim": [16, 32], "conv_kernel": [400, 3], "conv_stride": [160, 4]},
    **{"feat_extract_norm": "layer", "conv_bias": True, "do_stable_layer_norm": True, "num_conv_pos_embeddings": 8},
    **{"num_conv_pos_embedding_groups": 4, "mask_time_prob": 0.0, "ctc_zero_infinity": True},
    **dict.fromkeys(("hidden_dropout", "attention_dropout", "activation_dropout", "final_dropout"), 0.0),
}


def spoken(word: str, draw: np.random.Generator) -> np.ndarray:
    """A tone of 0.2 s or so for each letter, at random levels."""
    tones = []
    for letter in word:
        time = np.arange(int(draw.integers(2_800, 3_600))) / RATE_HZ
        tones += [draw.uniform(0.2, 0.4) * np.sin(2 * np.pi * HERTZ[letter] * time), np.zeros(800)]
    return np.concatenate(tones).astype(np.float32)


def write_table(folder: Path, count: int, seed: int = 0, name: str = "metadata.csv") -> Path:
    """Recordings and the table of them: file_name, text, speaker."""
    draw = np.random.default_rng(seed)
    (folder / "clips").mkdir(parents=True, exist_ok=True)
    with (folder / name).open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["file_name", "text", "speaker"])
        for i in range(count):
            word, clip = WORDS[i % len(WORDS)], f"clips/{seed}-{i}.wav"
            soundfile.write(folder / clip, spoken(word, draw), RATE_HZ)
            table.writerow([clip, word, f"speaker {i % 3}"])
    return folder / name


def whisper_folder(folder: Path, *, multilingual: bool = False) -> Path:
    """A Whisper of 256 bytes and its special tokens."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    names = [f"<|{name}|>" for name in SPECIAL] + [f"<|{i * 0.02:.2f}|>" for i in range(51)]
    engine = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    engine.add_tokens([AddedToken(name, special=True, normalized=False) for name in names])
    folder.mkdir(parents=True, exist_ok=True)
    seed_all(1)
    model = Model.from_config({**WHISPER, "vocab_size": 256 + len(names)}, task="automatic-speech-recognition")
    model.generation_config["is_multilingual"] = multilingual
    model.save_pretrained(folder)
    engine.save(str(folder / "tokenizer.json"))
    (folder / "preprocessor_config.json").write_text(json.dumps(preprocessor_config(16, 100)))
    return folder


def letters_folder(folder: Path) -> Path:
    """A recogniser of the letters of `WORDS`."""
    seed_all(1)
    tokenizer = train_tokenizer(WORDS, kind="characters", family="wav2vec2")
    config = {**LETTERS, "vocab_size": tokenizer.largest_id + 1, "pad_token_id": tokenizer.pad_token_id}
    model = Model.from_config(config, task="automatic-speech-recognition", tokenizer=tokenizer)
    ensure_processor(model)
    model.save_pretrained(folder)
    return folder


def configured(folder: Path, data: dict[str, Any], **values: Any) -> RunConfig:
    """The configuration of a short run."""
    training = {
        "learning_rate": 5e-3,
        "batch_size": 8,
        "micro_batch_tokens": 4_096,
        "save_every": 999,
        **values.pop("training", {}),
    }
    return parse_config({"task": "transcribe", "output": str(folder), "data": data, "training": training, **values})


def tokens_of(model: Model, ids: Iterable[int] = range(0, 256, 7)) -> NgramModel:
    """A model of tokens, which knows one that begins with a space."""
    space = model.tokenizer.convert_ids_to_tokens([model.tokenizer(" ", add_special_tokens=False)["input_ids"][0]])[0]
    letters = model.tokenizer.convert_ids_to_tokens(list(ids))
    return train_ngram([[space, *letters], [*letters, space], letters[::-1]], 2)
