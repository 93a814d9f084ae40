"""A tiny language model that reads and writes bytes, with chat markers, and passages for readers."""

from __future__ import annotations

import json
from pathlib import Path

import tokenizers
import torch
from tokenizers import AddedToken, decoders, models, pre_tokenizers, processors

from glassformer.model import Model
from glassformer.retrieval.passage import PassageMatch
from tests.e2e.tiny_models import small_config

SPECIAL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEXTS = (
    "The lighthouse was built in 1874 by Johan Berg.",
    "It was electrified in 1931. A ship saw the light.",
    "Apples are red. Pears are green.",
)


def passages(texts: tuple[str, ...] = TEXTS) -> list[PassageMatch]:
    return [
        PassageMatch(id=i, score=3.0 - i, file="tower.md", line=i + 1, text=text, start=0, stop=len(text))
        for i, text in enumerate(texts)
    ]


def make_writer(folder: Path, *, chat: bool = False, window: int = 1024, family: str = "llama") -> Path:
    """A language model with random weights; its tokens are bytes, and markers."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, *alphabet])}
    engine = tokenizers.Tokenizer(models.BPE(vocabulary, []))
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    engine.decoder = decoders.ByteLevel()
    engine.post_processor = processors.TemplateProcessing(single=["<s>", "$A"], special_tokens=[("<s>", 0)])
    engine.add_special_tokens(SPECIAL)
    engine.add_tokens([AddedToken("<tool>", normalized=False), AddedToken("lighthouse", normalized=False)])
    changes = {"vocab_size": len(vocabulary) + 2, "eos_token_id": 3, "bos_token_id": 0}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = small_config(family, **changes, max_position_embeddings=window)
        Model.from_config(config, task="text-generation").save_pretrained(folder)
    engine.save(str(folder / "tokenizer.json"))
    settings = {"bos_token": "<s>", "eos_token": "<|im_end|>", "tokenizer_class": "PreTrainedTokenizerFast"}
    settings |= {"chat_template": TEMPLATE} if chat else {}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder
