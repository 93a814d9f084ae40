"""Small decoders of the families that GGUF files are written for, with tokenizers of both kinds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any

import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers, trainers

from glassformer import Model
from glassformer.gguf.vocabulary import SPLITS
from glassformer.text.tokenizer import Tokenizer
from tests.core.small import perturbed

TEXTS = [
    "Once upon a time there was a little girl who liked to play outside.",
    "She had 12 apples and 3,456 pears; didn't she? It's naïve — very naïve!",
    "def f(x):\n    return x ** 2\n\n\tprint(f(10))",
] * 3
SIZES = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
GPT2 = {"n_embd": 64, "n_inner": 96, "n_layer": 2, "n_head": 4, "n_positions": 64}
GEMMA = {"head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 8}
FAMILIES: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "llama": ("llama", "sentencepiece", SIZES | {"tie_word_embeddings": False}),
    "llama 3.1": ("llama", "llama-bpe", SIZES | {"rope_scaling": LLAMA3, "num_hidden_layers": 3}),
    "llama with biases": ("llama", "llama-bpe", SIZES | {"attention_bias": True, "mlp_bias": True}),
    "mistral": ("mistral", "sentencepiece", SIZES | {"sliding_window": 48}),
    "qwen2": ("qwen2", "qwen2", SIZES | {"tie_word_embeddings": True}),
    "qwen3": ("qwen3", "qwen2", SIZES | {"head_dim": 32}),
    "phi3": ("phi3", "sentencepiece", SIZES),
    "gpt2": ("gpt2", "gpt-2", GPT2),
    "gemma": ("gemma", "without prefix", SIZES | {"head_dim": 16}),
    "gemma2": ("gemma2", "without prefix", SIZES | GEMMA),
    "gemma3": ("gemma3_text", "without prefix", SIZES | GEMMA | {"num_hidden_layers": 7}),
}
"""Name → model_type, tokenizer, config. Gemma 3 has one layer without a window in six."""
TEMPLATE = "{% for m in messages %}[{{ m.content }}]{% endfor %}"


@cache
def tokenizer(kind: str) -> Tokenizer:
    """A tokenizer: "sentencepiece", "without prefix", or byte-level BPE that splits texts as a name of `SPLITS`."""
    family = "gemma" if kind == "without prefix" else "llama"
    made = _byte_level(kind) if kind in SPLITS else _sentencepiece(family)
    made.chat_template = TEMPLATE
    return made


def _sentencepiece(family: str) -> Tokenizer:
    import sentencepiece

    with TemporaryDirectory() as folder:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(TEXTS),
            model_prefix=f"{folder}/tokenizer",
            model_type="bpe",
            vocab_size=340,
            byte_fallback=True,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            add_dummy_prefix=family == "llama",
            minloglevel=2,
            **(
                {"bos_piece": "<bos>", "eos_piece": "<eos>", "pad_piece": "<pad>", "pad_id": 3}
                if family == "gemma"
                else {}
            ),
        )
        return Tokenizer.from_folder(folder, model_type=family)


def _byte_level(split: str) -> Tokenizer:
    engine = tokenizers.Tokenizer(models.BPE(ignore_merges=SPLITS[split].whole_words))
    engine.pre_tokenizer = SPLITS[split].step
    engine.decoder = decoders.ByteLevel()
    engine.train_from_iterator(
        TEXTS,
        trainers.BpeTrainer(
            vocab_size=320,
            special_tokens=["<|endoftext|>", "<|im_end|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    made = Tokenizer(engine)
    made.add_special_tokens({"eos_token": "<|endoftext|>"})
    return made


def small(name: str, **changes: Any) -> Model:
    """A model of `FAMILIES` with random weights, no bias 0 and no gain 1, and its tokenizer."""
    family, kind, config = FAMILIES[name]
    torch.manual_seed(0)
    words = tokenizer(kind)
    rows = {"vocab_size": len(words) + 5, "bos_token_id": 1, "eos_token_id": words.eos_token_id, "pad_token_id": None}
    model = Model.from_config({"model_type": family, **rows, **config, **changes}, task="text-generation").eval()
    perturbed(model.network)
    model.tokenizer = words
    return model


def logits(model: Model, ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        output = model(input_ids=torch.tensor([ids]))
    assert output.logits is not None
    return output.logits[0]
