"""llama.cpp itself, where a package that brings it is installed (`cyllama`): ids of texts, logits, greedy tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch


class LlamaCpp:
    """A GGUF file that llama.cpp has loaded; keys and values in fp32, one thread."""

    def __init__(self, path: Path, context: int = 64) -> None:
        self.library: Any = pytest.importorskip(
            "cyllama.llama.llama_cpp", reason="llama.cpp is not installed: pip install cyllama"
        )
        self.library.disable_logging()
        parameters = self.library.LlamaModelParams()
        parameters.n_gpu_layers = 0
        # Its method of logits asks the model for a size that it does not give.
        kind = type("Model", (self.library.LlamaModel,), {"n_vocab": property(lambda own: own.get_vocab().n_vocab)})
        self.model = kind(str(path), parameters)
        options = self.library.LlamaContextParams()
        options.n_ctx, options.n_threads, options.n_threads_batch = context, 1, 1
        options.type_k = options.type_v = options.flash_attn_type = 0
        self.context = self.library.LlamaContext(self.model, options)
        self.vocabulary = self.model.get_vocab()

    def ids(self, text: str) -> list[int]:
        return list(self.vocabulary.tokenize(text, add_special=True, parse_special=True))

    def text(self, ids: list[int]) -> str:
        return str(self.vocabulary.detokenize(ids))

    def logits(self, ids: list[int]) -> torch.Tensor:
        """Of each token of a text."""
        self.context.kv_cache_clear()
        batch = self.library.LlamaBatch(n_tokens=len(ids), embd=0, n_seq_max=1)
        for position, number in enumerate(ids):
            batch.add(number, position, [0], True)
        self.context.decode(batch)
        return torch.stack([torch.tensor(self.context.get_logits_ith(i)) for i in range(len(ids))])

    def greedy(self, ids: list[int], count: int) -> list[int]:
        """The next tokens, each with the highest logit; each from the whole text, without a cache."""
        made = list(ids)
        for _ in range(count):
            made.append(int(self.logits(made)[-1].argmax()))
            if self.vocabulary.is_eog(made[-1]):
                break
        return made[len(ids) :]
