"""sentence-transformers: a SentenceTransformer whose vectors are a Glassformer model's.

    from glassformer.integrations.sentence_transformers import GlassformerSentenceTransformer

    KeyBERT(GlassformerSentenceTransformer("all-MiniLM-L6-v2"))

For libraries that ask for that type: KeyBERT, BERTopic, mteb and evaluators call `encode`; those that train
it, such as SetFit and the library's own trainer, call `forward`, which has gradients of the model's weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from glassformer.engine.pooling import PoolingSettings, read_pooling_settings
from glassformer.integrations import loaded
from glassformer.model import Model


class _Body(nn.Module):
    """The model as the only module: features of tokens in, vectors of texts out."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def tokenize(self, texts: list[str], **_: Any) -> dict[str, Any]:
        return dict(self.model.tokenizer(list(texts), padding=True, truncation=True, return_tensors="pt"))

    preprocess = tokenize

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Vectors with gradients, as sentence-transformers' losses take them. `input_ids` [N, T] → [N, D]"""
        mask, pooling = features["attention_mask"], self.model.pooling
        if not isinstance(pooling, PoolingSettings):
            pooling = read_pooling_settings(pooling, self.model.network.POOLING)
        inputs = {name: features[name] for name in ("input_ids", "token_type_ids") if name in features}
        states = self.model(**inputs, attention_mask=mask).last_hidden_state
        rows = zip(states, mask.bool(), strict=True)
        vectors = torch.cat([pooling.pool(row[keep][None]) for row, keep in rows])
        return {**features, "token_embeddings": states, "sentence_embedding": vectors}

    def get_sentence_embedding_dimension(self) -> int:
        return self.model.get_sentence_embedding_dimension()


class GlassformerSentenceTransformer(SentenceTransformer):
    """A model in the place of a SentenceTransformer."""

    def __init__(self, model: Model | str | Path, **options: Any) -> None:
        encoder = loaded(model, "feature-extraction", **options)
        super().__init__(modules=[_Body(encoder)], device=str(encoder.device))
        self._encoder = [encoder]  # in a list, so that it is no second submodule

    def encode(self, sentences: Any = None, *positional: Any, **options: Any) -> Any:
        """As `Model.encode`; `batch_size`, `device` and the like have no effect."""
        names = ("prompt_name", "prompt", "batch_size", "show_progress_bar")
        given = dict(zip(names, positional, strict=False)) | options
        texts = given.pop("inputs", sentences)
        for name in ("device", "pool", "chunk_size", "task", "processing_kwargs", "prompt_type", "task_metadata"):
            given.pop(name, None)
        if given.get("precision") is None:  # as evaluators say it
            given.pop("precision", None)
        return self._encoder[0].encode(texts, **given)

    def encode_query(self, sentences: Any, **options: Any) -> Any:
        return self._encoder[0].encode_query(sentences, **options)

    def encode_document(self, sentences: Any, **options: Any) -> Any:
        return self._encoder[0].encode_document(sentences, **options)

    def similarity(self, a: Any, b: Any) -> Tensor:  # a property there
        return self._encoder[0].similarity(a, b)
